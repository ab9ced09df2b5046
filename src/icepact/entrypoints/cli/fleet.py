"""`icepact fleet` and `icepact fleet run`: all tables of a catalog, ranked and compacted within one budget."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from icepact.entrypoints.cli.asking import REWRITES, Yes, ask
from icepact.model.errors import BadInput
from icepact.policy.patterns import parse_pattern

if TYPE_CHECKING:
    from icepact.entrypoints.cli.session import Session
    from icepact.model.fleet import Visit
    from icepact.policy.options import Options

SHOWN_TABLES = 20
fleet_app = typer.Typer(rich_markup_mode=None)

Glob = Annotated[str | None, typer.Argument(help="Only these tables, like db.* or *.events.", show_default=False)]
MaxCost = Annotated[str | None, typer.Option(help="Budget: money for all tables together.", show_default=False)]
MaxBytes = Annotated[str | None, typer.Option(help="Budget: input bytes of all tables together.", show_default=False)]
MaxFiles = Annotated[str | None, typer.Option(help="Budget: input files of all tables together.", show_default=False)]


def _checked(pattern: str | None, **budget: str | None) -> "Options":
    """The budget; bad input is refused before Spark is started."""
    from icepact.policy.options import options

    if pattern is not None:
        parse_pattern(pattern)
    return options(budget)


@fleet_app.command(epilog="`icepact fleet run` compacts them.")
def fleet(
    context: typer.Context,
    pattern: Glob = None,
    by: Annotated[str, typer.Option(help="What comes first: worth, health, debt, gain or price.")] = "worth",
    limit: Annotated[
        int | None, typer.Option(help="Show at most so many tables; 20, or all with --json.", show_default=False)
    ] = None,
    max_cost: MaxCost = None,
    max_bytes: MaxBytes = None,
    max_files: MaxFiles = None,
) -> None:
    """Rank the tables of the catalog by what compacting them brings and costs."""
    from icepact.model.fleet import rank_by

    session: Session = context.obj
    renderer = session.renderer
    if limit is not None and limit < 1:
        raise BadInput("--limit must be at least 1")
    order = rank_by(by)
    budget = _checked(pattern, max_cost=max_cost, max_bytes=max_bytes, max_files=max_files)
    application = session.application()
    with renderer.counting("looking at tables") as bar:
        found = application.fleet(pattern, budget, by=order, on_table=bar.begin)
    renderer.fleet(found, limit or (len(found.tables) if renderer.as_json else SHOWN_TABLES))


@fleet_app.command("fleet run", epilog=REWRITES)
def fleet_run(
    context: typer.Context,
    pattern: Glob = None,
    max_cost: MaxCost = None,
    max_bytes: MaxBytes = None,
    max_files: MaxFiles = None,
    maintain: Annotated[
        bool, typer.Option("--maintain", help="Do all else that the policies name, too, as `icepact maintain`.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done and stop.")] = False,
    yes: Yes = False,
) -> None:
    """Compact every table that the policies mean, once; --policy names the file."""
    from icepact.model.fleet import VisitStatus

    session: Session = context.obj
    renderer = session.renderer
    budget = _checked(pattern, max_cost=max_cost, max_bytes=max_bytes, max_files=max_files)
    application = session.application()
    if not application.has_policies:
        raise BadInput("no policy file is given: write icepact fleet run --policy FILE")
    with renderer.counting("looking at tables") as bar:
        found = application.fleet(pattern, budget, on_table=bar.begin)
    for warning in found.warnings:
        renderer.note(f"warning: {warning}")
    if found.chosen and not dry_run and not yes and renderer.interactive:
        renderer.fleet(replace(found, warnings=()), len(found.tables))
        ask()
    with renderer.counting("compacting") as bar:

        def on_table(name: str) -> None:
            bar.begin(name, len(found.tables))

        def on_visit(visit: "Visit") -> None:
            bar.hide()
            renderer.visit(visit)

        done = application.fleet_run(found, dry_run=dry_run, maintain=maintain, on_table=on_table, on_visit=on_visit)
    renderer.round(done)
    if done.count(VisitStatus.FAILED):
        raise typer.Exit(1)
