"""`icepact policy`: what a policy file says, and what holds for a table."""

from typing import TYPE_CHECKING, Annotated

import typer

from icepact.entrypoints.cli.groups import Commands
from icepact.model.errors import BadInput

if TYPE_CHECKING:
    from icepact.entrypoints.cli.session import Session

policy_app = typer.Typer(
    cls=Commands, help="Check policy files, and show what holds for a table.", rich_markup_mode=None
)


@policy_app.command()
def check(
    context: typer.Context,
    file: Annotated[str | None, typer.Argument(help="A policy file.", show_default=False)] = None,
    tables: Annotated[
        bool, typer.Option("--tables", help="Ask the catalog too, and warn of rules that match no table.")
    ] = False,
) -> None:
    """Check a policy file; Spark is started only to look at the tables."""
    from icepact.entrypoints.wiring import read_policies

    session: Session = context.obj
    path = file or session.settings["policies"]
    if path is None:
        raise BadInput("no policy file is given: write icepact policy check FILE")
    policies = read_policies(path)
    if tables:
        with session.renderer.working("listing tables"):
            idle = session.local("policy check --tables", short=True, policies=path).unmatched()
    else:
        idle = ()
    session.renderer.policies(policies, idle)


@policy_app.command()
def show(
    context: typer.Context,
    table: Annotated[str | None, typer.Argument(help="Table, as in Spark SQL: db.table.", show_default=False)] = None,
) -> None:
    """Show what holds for a table, and where each value came from."""
    from icepact.policy.options import Options

    session: Session = context.obj
    if table is None:
        raise BadInput("no table is given: write db.table")
    with session.renderer.working(f"looking at {table}"):
        application = session.application(short=True)
        answer = application.policy(table, Options())
    session.renderer.table_policy(table, answer.to_dict(), application.prices.currency)
