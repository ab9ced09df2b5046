"""`icepact store`: what a record store holds, and copying it to another one."""

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from icepact.entrypoints.cli.groups import Commands
from icepact.model.errors import BadInput

if TYPE_CHECKING:
    from icepact.entrypoints.cli.session import Session
    from icepact.model.answers import StoreStatus
    from icepact.record.copying import StoreCopy
    from icepact.record.store import RecordStore

store_app = typer.Typer(cls=Commands, help="Look at the record store, and copy it.", rich_markup_mode=None)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_ADDRESSES = "An address of a record store, such as sqlite:///icepact.db; ${NAME} in it is an environment variable."


@store_app.command()
def status(
    context: typer.Context,
    store: Annotated[str | None, typer.Argument(help=f"{_ADDRESSES} Default: the configured one.")] = None,
) -> None:
    """Show what a record store holds, and whether its settings endanger that."""
    from icepact.model.answers import StoreStatus
    from icepact.record.copying import sizes_of
    from icepact.record.open import shown_address

    session: Session = context.obj
    if store is None and session.server is not None:
        with session.renderer.working("counting"):
            _show_status(session, session.client().store_status())
        return
    opened = session.here(short=True).store if store is None else _opened(store)
    with session.renderer.working("counting"):
        sizes, concerns = sizes_of(opened), opened.concerns()
    opened.close()
    where = "configured" if store is None else shown_address(_address(store))
    _show_status(session, StoreStatus(store=where, rows=sizes, concerns=concerns))


def _show_status(session: "Session", found: "StoreStatus") -> None:
    if session.renderer.as_json:
        session.renderer.document(found.to_dict())
        return
    _show(session, ("", "rows"), [(name, f"{rows:,}") for name, rows in found.rows.items()])
    for concern in found.concerns:
        session.renderer.note(f"warning: {concern}")


@store_app.command()
def copy(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="FROM", help=_ADDRESSES)],
    target: Annotated[str, typer.Argument(metavar="TO", help="Another one, which is empty.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be copied.")] = False,
    into_existing: Annotated[
        bool, typer.Option("--into-existing", help="Add to what is there; what is known by the same name there stays.")
    ] = False,
) -> None:
    """Copy all that a record store keeps into another one, and make sure that it has arrived.

    Stop what works with the store before. A copy that was interrupted goes on when it is asked for again."""
    from icepact.record.copying import copy_store
    from icepact.record.open import shown_address

    session: Session = context.obj
    session.refuse_server("store copy")
    origin, destination = _address(source), _address(target)
    if origin == destination:
        raise BadInput("both are the same record store")
    if "memory" in (origin, destination):
        raise BadInput("a record store in memory is of one process: there is nothing to copy")
    opened, other = _opened(source), _opened(target)
    with session.renderer.working(f"copying to {shown_address(destination)}"):
        made = copy_store(opened, other, origin=origin, dry_run=dry_run, into_existing=into_existing)
    opened.close()
    other.close()
    if session.renderer.as_json:
        session.renderer.document(made.to_dict())
        return
    _show_copy(session, made, shown_address(destination))


def _show_copy(session: "Session", made: "StoreCopy", destination: str) -> None:
    rows = [(one.table, f"{one.rows:,}", f"{one.written:,}") for one in made.tables if one.rows or one.before]
    if rows:
        _show(session, ("", "rows", "copied"), rows)
    if made.copied:
        session.renderer.note(f"all of it is in {destination} now; `store: {destination}` makes icepact use that")
    else:
        session.renderer.note("nothing was copied: leave out --dry-run")


def _show(session: "Session", titles: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    from icepact.entrypoints.cli.columns import Column, plain_table

    columns = [
        Column(title=title, cells=[row[at] for row in rows], left=at == 0, rank=at) for at, title in enumerate(titles)
    ]
    session.renderer.out.print(plain_table(columns))


def _opened(address: str) -> "RecordStore":
    from icepact.record.open import open_store

    return open_store(_address(address))


def _address(given: str) -> str:
    def of_environment(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise BadInput(f"the environment variable {match[1]} is not set")
        return os.environ[match[1]]

    return _VARIABLE.sub(of_environment, given)
