"""`icepact`: the commands."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from icepact.entrypoints.cli.flags import PLANNING, hoist, with_options
from icepact.entrypoints.cli.fleet import fleet_app
from icepact.entrypoints.cli.policy import policy_app
from icepact.entrypoints.cli.render import Renderer
from icepact.entrypoints.library import Compactor
from icepact.entrypoints.outputs import file_to_write, write_file
from icepact.model.durations import parse_duration
from icepact.model.errors import BadInput, IcepactError
from icepact.model.outcome import Outcome
from icepact.model.run import NOT_WELL, Status
from icepact.model.words import counted

app = typer.Typer(
    help="Compact Apache Iceberg tables on Spark. Sizes are written like 512MB.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="Global options may stand before or after the command.",
)
app.add_typer(policy_app, name="policy")
app.add_typer(fleet_app)


@dataclass(slots=True)
class Session:
    """What the global options ask for."""

    catalog: str | None
    catalog_uri: str | None
    catalog_type: str | None
    warehouse: str | None
    config: str | None
    policy: str | None
    renderer: Renderer
    verbose: bool

    def compactor(self, *, short: bool = False) -> Compactor:
        """A compactor for this command; `short` for commands that end before Java's compiler pays off."""
        return Compactor(
            catalog=self.catalog,
            catalog_uri=self.catalog_uri,
            catalog_type=self.catalog_type,
            warehouse=self.warehouse,
            config=self.config,
            policies=self.policy,
            verbose=self.verbose,
            short=short,
        )


@app.callback()
def main(
    context: typer.Context,
    catalog: Annotated[str | None, typer.Option(help="Name of the catalog.")] = None,
    catalog_uri: Annotated[str | None, typer.Option(help="Where the catalog is.")] = None,
    catalog_type: Annotated[str | None, typer.Option(help="rest, hive, jdbc, sql, glue, hadoop, nessie.")] = None,
    warehouse: Annotated[str | None, typer.Option(help="Where its tables are.")] = None,
    config: Annotated[str | None, typer.Option(help="Configuration file; default icepact.yaml.")] = None,
    policy: Annotated[str | None, typer.Option(help="Policy file: wishes by table.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show Spark's own log.")] = False,
) -> None:
    """Compact Apache Iceberg tables on Spark."""
    context.obj = Session(
        catalog=catalog,
        catalog_uri=catalog_uri,
        catalog_type=catalog_type,
        warehouse=warehouse,
        config=config,
        policy=policy,
        renderer=Renderer(as_json=as_json),
        verbose=verbose,
    )


Table = Annotated[str | None, typer.Argument(help="Table, as in Spark SQL: db.table.", show_default=False)]
TableOption = Annotated[str | None, typer.Option("--table", help="The table, if not given as an argument.")]


def _table(argument: str | None, option: str | None) -> str:
    if argument and option and argument != option:
        raise BadInput(f"two tables are given: {argument} and {option}")
    if not (argument or option):
        raise BadInput("no table is given: write db.table")
    return argument or option or ""


@app.command()
@with_options("target_file_size", "min_file_size", "branch", "snapshot_id")
def health(
    context: typer.Context,
    given: Mapping[str, Any],
    table: Table = None,
    table_option: TableOption = None,
    html: Annotated[str | None, typer.Option(help="Write a report for people into this file.")] = None,
) -> None:
    """Show how a table is doing."""
    session: Session = context.obj
    name = _table(table, table_option)
    file = None if html is None else file_to_write(html)
    compactor = session.compactor(short=True)
    with session.renderer.working(f"looking at {name}"):
        answer = compactor.health(name, **given)
        if file is not None:
            from icepact.entrypoints.cli.report import page

            made = compactor.plan(name, **given)
            write_file(file, page(answer, made, written_at=datetime.now(UTC)))
    session.renderer.health(answer)
    if file is not None:
        session.renderer.note(f"the report is in {file}")


@app.command()
@with_options(*PLANNING)
def plan(
    context: typer.Context,
    given: Mapping[str, Any],
    table: Table = None,
    table_option: TableOption = None,
    out: Annotated[str | None, typer.Option(help="Write the plan into this file, for `icepact apply`.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", hidden=True)] = False,
    yes: Annotated[bool, typer.Option("--yes", hidden=True)] = False,
) -> None:
    """Show what would be rewritten, and why everything else is left alone."""
    del dry_run, yes  # a plan never changes anything; accepted so that a compact command can be tried as a plan
    session: Session = context.obj
    name = _table(table, table_option)
    file = None if out is None else file_to_write(out)
    compactor = session.compactor(short=True)
    with session.renderer.working(f"planning {name}"):
        answer = compactor.plan(name, **given)
    if file is not None:
        compactor.save_plan(answer, file)
    session.renderer.plan(answer)
    if file is not None:
        session.renderer.note(f"the plan is in {file}; carry it out with: icepact apply {file}")


@app.command()
def apply(
    context: typer.Context,
    file: Annotated[str | None, typer.Argument(help="A plan that `icepact plan --out` wrote.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before changing the table.")] = False,
) -> None:
    """Carry out a saved plan; groups with inputs that changed since are refused."""
    session: Session = context.obj
    renderer = session.renderer
    if file is None:
        raise BadInput("no plan is given: write icepact apply FILE, with a file that `icepact plan --out` wrote")
    compactor = session.compactor()
    saved = compactor.load_plan(file)
    if saved.plan.steps and not yes and renderer.interactive:
        renderer.plan(saved.plan)
        if not typer.confirm("Go ahead?", err=True):
            raise typer.Exit(1)
    with renderer.progress(saved.plan) as progress:
        outcome = compactor.apply(saved, progress=progress)
    renderer.outcome(outcome)
    if outcome.status is Status.SUPERSEDED:
        renderer.note(f"nothing of {file} was left to do: the table has moved on; plan again")
    _exit(outcome)


@app.command()
@with_options(*PLANNING)
def explain(
    context: typer.Context,
    given: Mapping[str, Any],
    table: Table = None,
    table_option: TableOption = None,
    learned: Annotated[bool, typer.Option("--learned", help="Show what earlier runs taught instead.")] = False,
    reset: Annotated[bool, typer.Option("--reset", help="With --learned: forget it.")] = False,
) -> None:
    """Explain a plan, or what was learned about a table."""
    from icepact.entrypoints.cli.explain import explain_learned, explain_plan

    session: Session = context.obj
    name = _table(table, table_option)
    if reset and not learned:
        raise BadInput("--reset forgets what was learned: say --learned --reset")
    compactor = session.compactor(short=True)
    if learned:
        explain_learned(compactor, session.renderer, name, given, reset=reset)
    else:
        explain_plan(compactor, session.renderer, name, given)


@app.command()
@with_options(*PLANNING)
def compact(
    context: typer.Context,
    given: Mapping[str, Any],
    table: Table = None,
    table_option: TableOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before changing the table.")] = False,
) -> None:
    """Compact a table."""
    session: Session = context.obj
    renderer = session.renderer
    name = _table(table, table_option)
    compactor = session.compactor(short=dry_run)
    if not dry_run:
        _resume_first(compactor, renderer, name, given)
    with renderer.working(f"planning {name}"):
        made = compactor.plan(name, **given)
    if dry_run:
        renderer.plan(made)
        return
    if made.policy.off is not None:
        renderer.note(made.policy.off)
    if made.steps and not yes and renderer.interactive:
        renderer.plan(made)
        if not typer.confirm("Go ahead?", err=True):
            raise typer.Exit(1)
    with renderer.progress(made) as progress:
        outcome = compactor.apply(made, progress=progress)
    renderer.outcome(outcome)
    _exit(outcome)


def _exit(outcome: Outcome) -> None:
    if outcome.status in NOT_WELL:
        raise typer.Exit(1)


def _resume_first(compactor: Compactor, renderer: Renderer, table: str, given: Mapping[str, Any]) -> None:
    """Finish what a run on this table began before it died."""
    with renderer.working(f"looking for unfinished runs on {table}"):
        resumed = compactor.resume_dead(table, **given)
    if resumed is not None:
        renderer.note(f"resumed run {resumed.run_id}: {resumed.status}")


@app.command("history", hidden=True)
@app.command()
def runs(
    context: typer.Context,
    table: Annotated[str | None, typer.Argument(help="Only this table.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many runs.")] = 20,
    open_only: Annotated[bool, typer.Option("--open", help="Only runs that have not ended.")] = False,
) -> None:
    """Show runs, newest first."""
    session: Session = context.obj
    if limit < 1:
        raise BadInput("--limit must be at least 1")
    session.renderer.runs(session.compactor().runs(table, limit=limit, open_only=open_only))


@app.command()
def costs(
    context: typer.Context,
    table: Annotated[str | None, typer.Argument(help="Only this table.")] = None,
    limit: Annotated[int, typer.Option(help="Only the newest so many runs.")] = 100,
) -> None:
    """Show what runs cost, next to what was predicted."""
    session: Session = context.obj
    if limit < 1:
        raise BadInput("--limit must be at least 1")
    session.renderer.costs(session.compactor().costs(table, limit=limit))


Run = Annotated[str, typer.Argument(help="A run, as `icepact runs` names it.", show_default=False)]
RunOption = Annotated[str | None, typer.Option("--run", help="A run, as `icepact runs` names it.", show_default=False)]


def _run(option: str | None) -> str:
    if not option:
        raise BadInput("no run is given: write --run with an id that `icepact runs` lists")
    return option


@app.command()
def resume(context: typer.Context, run_id: Run) -> None:
    """Carry on with a run whose process died."""
    session: Session = context.obj
    with session.renderer.working(f"resuming run {run_id}"):
        outcome = session.compactor().resume(run_id)
    session.renderer.outcome(outcome)
    _exit(outcome)


@app.command()
def cancel(context: typer.Context, run_id: Run) -> None:
    """Ask a run to stop."""
    session: Session = context.obj
    session.renderer.said(session.compactor().cancel(run_id))


@app.command()
def cleanup(
    context: typer.Context,
    table: Table = None,
    yes: Annotated[bool, typer.Option("--yes", help="Delete what is shown without it.")] = False,
    task_timeout: Annotated[
        str, typer.Option(help="After this time no task of a dead run writes any more, like 30m or 2h.")
    ] = "1h",
) -> None:
    """Show what dead runs left behind, and delete it with --yes."""
    session: Session = context.obj
    timeout = parse_duration(task_timeout)
    with session.renderer.working("looking for what dead runs left"):
        found = session.compactor().cleanup(table, delete=yes, task_timeout=timeout)
    session.renderer.swept(found, deleted=yes)


@app.command()
def verify(
    context: typer.Context, table: Table = None, table_option: TableOption = None, run_id: RunOption = None
) -> None:
    """Compare every row before and after the commits of a run once more."""
    session: Session = context.obj
    name, run = _table(table, table_option), _run(run_id)
    with session.renderer.working(f"reading what run {run} replaced and wrote"):
        found = session.compactor().verify(name, run)
    session.renderer.checked(found)
    if any(checked.same is False for checked in found):
        raise typer.Exit(1)


@app.command()
def rollback(
    context: typer.Context, table: Table = None, table_option: TableOption = None, run_id: RunOption = None
) -> None:
    """Go back to the snapshot before a run, if nothing else was committed since."""
    session: Session = context.obj
    name, run = _table(table, table_option), _run(run_id)
    with session.renderer.working(f"taking run {run} back"):
        snapshot = session.compactor().rollback(name, run)
    session.renderer.said(f"{name} is back at snapshot {snapshot}")


@app.command()
def forgive(context: typer.Context, table: Table = None, table_option: TableOption = None) -> None:
    """Forget what failed on a table, so that it is tried again."""
    session: Session = context.obj
    name = _table(table, table_option)
    with session.renderer.working(f"looking at {name}"):
        count = session.compactor(short=True).forgive(name)
    session.renderer.said(f"{counted(count, 'failure')} of {name} forgotten")


@app.command()
def tables(context: typer.Context) -> None:
    """List the tables of the catalog."""
    session: Session = context.obj
    with session.renderer.working("listing tables"):
        found = session.compactor(short=True).tables()
    session.renderer.tables(found)


@app.command()
def demo(context: typer.Context) -> None:
    """Make a messy table, compact it, and show the difference."""
    from icepact.entrypoints.cli.demo import run_demo

    session: Session = context.obj
    run_demo(session.compactor(), session.renderer)


@app.command()
def setup(context: typer.Context) -> None:
    """Download the Java libraries and prepare fast starts; done once."""
    from icepact.entrypoints.cli.setup import prepare

    session: Session = context.obj
    with session.renderer.working("downloading libraries and preparing fast starts (about a minute)"):
        answer = prepare()
    session.renderer.setup(answer)


def run() -> None:
    """Entry point of `icepact`."""
    sys.exit(_guarded(hoist(sys.argv[1:])))


def run_alias() -> None:
    """Entry point of `iceberg-compact`: the compact command under its other name."""
    sys.exit(_guarded(hoist(["compact", *sys.argv[1:]])))


def _guarded(words: list[str]) -> int:
    """Run the app; every expected error is one line on stderr."""
    renderer = Renderer(as_json="--json" in words)
    try:
        result = app(words or ["--help"], standalone_mode=False)
    except typer.TyperException as error:
        return renderer.error(str(error), 2)
    except IcepactError as error:
        return renderer.error(str(error), error.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        return renderer.error("interrupted", 130)
    except Exception as error:
        if {"-v", "--verbose"} & set(words):
            raise
        from icepact.iceberg.java import error_line

        return renderer.error(f"{type(error).__name__}: {error_line(error)} (run with -v to see more)", 1)
    return result if isinstance(result, int) else 0
