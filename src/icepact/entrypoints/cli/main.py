"""`icepact`: the commands."""

import os
import sys
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from icepact.entrypoints.cli.asking import DELETES, REWRITES, TAKES_AWAY, Yes, ask
from icepact.entrypoints.cli.flags import PLANNING, WithOptions, hoist, properties_of, with_options
from icepact.entrypoints.cli.fleet import fleet_app
from icepact.entrypoints.cli.groups import Commands, usage
from icepact.entrypoints.cli.housekeeping import housekeeping_app
from icepact.entrypoints.cli.jobs import jobs_app
from icepact.entrypoints.cli.policy import policy_app
from icepact.entrypoints.cli.schedule import schedule_app
from icepact.entrypoints.cli.service import service_app
from icepact.entrypoints.cli.session import SERVER_VARIABLE, Session, exit_with, one_table
from icepact.entrypoints.cli.store import store_app
from icepact.entrypoints.cli.tenants import audit_app, keys_app, tenants_app
from icepact.entrypoints.outputs import file_to_write, let_stdout_be_closed, write_file
from icepact.maintain.interrupts import INTERRUPTED, begin, so_far, was_pressed
from icepact.model.errors import BadInput, IcepactError, SetupMissing
from icepact.model.formatting import plural

if TYPE_CHECKING:
    from icepact.policy.options import Options

app = typer.Typer(
    cls=Commands,
    help="Compact Apache Iceberg tables on Spark. Sizes are written like 512MB.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    epilog="Global options may stand before or after the command.",
)
app.add_typer(policy_app, name="policy")
app.add_typer(jobs_app, name="jobs")
app.add_typer(store_app, name="store")
app.add_typer(fleet_app)
app.add_typer(housekeeping_app)
app.add_typer(service_app)
app.add_typer(tenants_app, name="tenants")
app.add_typer(keys_app, name="keys")
app.add_typer(audit_app)
app.add_typer(schedule_app)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"icepact {version('icepact')}")
        raise typer.Exit


@app.callback()
def main(
    context: typer.Context,
    catalog: Annotated[str | None, typer.Option(help="Name of the catalog.")] = None,
    catalog_uri: Annotated[str | None, typer.Option(help="Where the catalog is.")] = None,
    catalog_type: Annotated[str | None, typer.Option(help="rest, hive, jdbc, sql, glue, hadoop, nessie.")] = None,
    catalog_property: Annotated[
        list[str] | None,
        typer.Option("--catalog-property", "-c", metavar="KEY=VALUE", help="A property of it; may be repeated."),
    ] = None,
    warehouse: Annotated[str | None, typer.Option(help="Where its tables are.")] = None,
    namespace: Annotated[
        str | None, typer.Option(help="Namespace of tables that are named without one; default `default`.")
    ] = None,
    config: Annotated[str | None, typer.Option(help="Configuration file; default icepact.yaml.")] = None,
    policy: Annotated[str | None, typer.Option(help="Policy file: wishes by table.")] = None,
    server: Annotated[
        str | None, typer.Option(metavar="URL", help="Ask a service instead; its key is in ICEPACT_API_KEY.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show Spark's own log.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Compact Apache Iceberg tables on Spark."""
    from icepact.entrypoints.cli.render import Renderer

    del version  # shown before this is called
    settings = {
        "catalog": catalog,
        "catalog_uri": catalog_uri,
        "catalog_type": catalog_type,
        "catalog_properties": properties_of(catalog_property or ()),
        "warehouse": warehouse,
        "namespace": namespace,
        "config": config,
        "policies": policy,
        "verbose": verbose,
    }
    asked = server or os.environ.get(SERVER_VARIABLE) or None
    context.obj = Session(renderer=Renderer(as_json=as_json), settings=settings, server=asked)


Table = Annotated[str | None, typer.Argument(help="Table, as in Spark SQL: db.table.", show_default=False)]
TableOption = Annotated[str | None, typer.Option("--table", help="The table, if not given as an argument.")]


@app.command(cls=WithOptions)
@with_options("target_file_size", "min_file_size", "branch", "snapshot_id")
def health(
    context: typer.Context,
    request: "Options",
    table: Table = None,
    table_option: TableOption = None,
    html: Annotated[str | None, typer.Option(help="Write a report for people into this file.")] = None,
) -> None:
    """Show how a table is doing."""
    session: Session = context.obj
    name = one_table(table, table_option)
    file = None if html is None else file_to_write(html)
    application = session.application(short=True)
    with session.renderer.working(f"looking at {name}"):
        answer = application.health(name, request)
        if file is not None:
            from icepact.entrypoints.cli.report import page

            made = application.plan(name, request)
            write_file(file, page(answer, made, written_at=datetime.now(UTC), where=session.where))
    session.renderer.health(answer)
    if file is not None:
        session.renderer.note(f"the report is in {file}")


@app.command(cls=WithOptions)
@with_options(*PLANNING)
def plan(
    context: typer.Context,
    request: "Options",
    table: Table = None,
    table_option: TableOption = None,
    out: Annotated[str | None, typer.Option(help="Write the plan into this file, for `icepact apply`.")] = None,
    whole: Annotated[
        bool, typer.Option("--all", help="List every group and partition, not what matters most.")
    ] = False,
    learned: Annotated[bool, typer.Option("--learned", help="Show what earlier runs taught instead.")] = False,
    reset: Annotated[bool, typer.Option("--reset", help="With --learned: forget it.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", hidden=True)] = False,
    yes: Annotated[bool, typer.Option("--yes", hidden=True)] = False,
) -> None:
    """Show what would be rewritten, and why everything else is left alone."""
    del dry_run, yes  # a plan never changes anything; accepted so that a compact command can be tried as a plan
    session: Session = context.obj
    name = one_table(table, table_option)
    if reset and not learned:
        raise BadInput("--reset forgets what was learned: say --learned --reset")
    if learned:
        _show_learned(session, name, {*request.model_fields_set, *({"out"} if out is not None else ())}, reset=reset)
        return
    file = None if out is None else file_to_write(out)
    application = session.application(short=True)
    with session.renderer.working(f"planning {name}"):
        answer = application.plan(name, request)
    if file is not None:
        from icepact.entrypoints.plan_files import save_plan

        save_plan(answer, file)
    session.renderer.plan(answer, whole=whole)
    if file is not None:
        session.renderer.note(f"the plan is in {file}; carry it out with: icepact apply {file}")


def _show_learned(session: Session, table: str, given: Collection[str], *, reset: bool) -> None:
    """What strategy `auto` learned about a table; Spark is not started. No option of a plan may be `given`."""
    if given:
        raise BadInput(f"--learned takes no options of a plan: leave out --{min(given).replace('_', '-')}")
    application = session.local("plan --learned", short=True)
    if reset:
        application.forget_lessons(table)
        session.renderer.message(f"what was learned about {table} is forgotten")
    else:
        session.renderer.lessons(table, application.learned(table))


@app.command(epilog=f"{REWRITES} {TAKES_AWAY}")
def apply(
    context: typer.Context,
    file: Annotated[str | None, typer.Argument(help="A plan that `icepact plan --out` wrote.")] = None,
    yes: Yes = False,
) -> None:
    """Carry out a saved plan: what has changed since is not done."""
    from icepact.entrypoints.plan_files import load_plan
    from icepact.model.status import Status

    session: Session = context.obj
    renderer = session.renderer
    if file is None:
        raise BadInput("no plan is given: write icepact apply FILE, with a file that `icepact plan --out` wrote")
    application = session.application()
    saved = load_plan(file)
    if saved.plan.takes_away and not yes and not renderer.interactive:
        renderer.plan(saved.plan)
        renderer.note("nothing was changed: say --yes")
        return
    if saved.plan.steps and not yes and renderer.interactive:
        renderer.plan(saved.plan)
        ask()
    with renderer.progress(saved.plan) as progress:
        outcome = application.apply(saved, progress=progress)
    renderer.outcome(outcome)
    if outcome.status is Status.SUPERSEDED:
        renderer.note(f"nothing of {file} was left to do: the table has moved on; plan again")
    exit_with(outcome)


@app.command(cls=WithOptions, epilog=REWRITES)
@with_options(*PLANNING)
def compact(
    context: typer.Context,
    request: "Options",
    table: Table = None,
    table_option: TableOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop.")] = False,
    yes: Yes = False,
) -> None:
    """Compact a table."""
    from icepact.entrypoints.cli.compacting import Compacting

    session: Session = context.obj
    renderer = session.renderer
    name = one_table(table, table_option)
    application = session.application(short=dry_run, one_table=True)
    if dry_run:
        with renderer.working(f"planning {name}"):
            made = application.plan(name, request)
        renderer.plan(made)
        return
    with Compacting(renderer, name, yes=yes) as shown:
        outcome = application.compact(name, request, progress=shown, on_resumed=shown.on_resumed, confirm=shown.confirm)
    renderer.outcome(outcome)
    exit_with(outcome)


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
    application = session.application()
    found = application.runs(table, limit=limit, open_only=open_only)
    dead = {run.run_id: why for run in found if (why := application.why_dead(run)) is not None}
    session.renderer.runs(found, dead, open_only=open_only)


@app.command()
def costs(
    context: typer.Context,
    table: Annotated[str | None, typer.Argument(help="Only this table.")] = None,
    limit: Annotated[int, typer.Option(help="Only the newest so many runs.")] = 100,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only what was done for this tenant.")] = None,
    days: Annotated[float, typer.Option("--days", help="With --tenant or --csv: runs of so many days.")] = 30.0,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV, with the tenant of each line.")] = False,
) -> None:
    """Show what runs cost, next to what was predicted."""
    session: Session = context.obj
    if limit < 1:
        raise BadInput("--limit must be at least 1")
    if tenant is not None or as_csv:
        from icepact.entrypoints.cli.tenants import show_costs

        show_costs(session, table, tenant=tenant, days=days, as_csv=as_csv)
        return
    session.renderer.costs(session.application().costs(table, limit=limit))


Run = Annotated[str, typer.Argument(help="A run, as `icepact runs` names it.", show_default=False)]
RunOption = Annotated[str | None, typer.Option("--run", help="A run, as `icepact runs` names it.", show_default=False)]


def _run(option: str | None) -> str:
    if not option:
        raise BadInput("no run is given: write --run with an id that `icepact runs` lists")
    return option


@app.command(epilog="It goes ahead without asking: the run was confirmed when it began.")
def resume(context: typer.Context, run_id: Run) -> None:
    """Carry on with a run whose process died."""
    session: Session = context.obj
    with session.renderer.working(f"resuming run {run_id}"):
        outcome = session.application().resume(run_id)
    session.renderer.outcome(outcome)
    exit_with(outcome)


@app.command()
def cancel(context: typer.Context, run_id: Run) -> None:
    """Ask a run to stop."""
    session: Session = context.obj
    session.renderer.message(session.application().cancel(run_id))


@app.command(epilog=DELETES)
def cleanup(
    context: typer.Context,
    table: Table = None,
    yes: Yes = False,
    task_timeout: Annotated[
        str, typer.Option(help="After this time no task of a dead run writes any more, like 30m or 2h.")
    ] = "1h",
) -> None:
    """Show what dead runs left behind, and delete it."""
    from icepact.policy.units import parse_duration

    session: Session = context.obj
    timeout = parse_duration(task_timeout)
    renderer, application = session.renderer, session.local("cleanup")
    with renderer.working("looking for what dead runs left"):
        found = application.clean_up(table, delete=yes, task_timeout=timeout)
    if not yes and renderer.interactive and any(not entry.left_alone for entry in found):
        renderer.cleanup(found, deleted=False)
        ask()
        yes = True
        found = application.clean_up(table, delete=True, task_timeout=timeout)
    renderer.cleanup(found, deleted=yes)
    if any(swept.failed for swept in found):
        raise typer.Exit(1)


@app.command()
def verify(
    context: typer.Context, table: Table = None, table_option: TableOption = None, run_id: RunOption = None
) -> None:
    """Compare every row before and after the commits of a run once more."""
    session: Session = context.obj
    name, run = one_table(table, table_option), _run(run_id)
    with session.renderer.working(f"reading what run {run} replaced and wrote"):
        found = session.local("verify").verify(name, run)
    session.renderer.verify(found)
    if any(checked.same is False for checked in found):
        raise typer.Exit(1)


@app.command(epilog=DELETES)
def rollback(
    context: typer.Context,
    table: Table = None,
    table_option: TableOption = None,
    run_id: RunOption = None,
    yes: Yes = False,
) -> None:
    """Go back to the snapshot before a run, if nothing else was committed since."""
    session: Session = context.obj
    name, run = one_table(table, table_option), _run(run_id)
    if not yes and not session.renderer.interactive:
        raise BadInput("rollback takes back what a run committed: say --yes")
    if not yes:
        ask(f"Take run {run} on {name} back?")
    with session.renderer.working(f"taking run {run} back"):
        snapshot = session.local("rollback").roll_back(name, run)
    session.renderer.message(f"{name} is back at snapshot {snapshot}")


@app.command()
def unblock(context: typer.Context, table: Table = None, table_option: TableOption = None) -> None:
    """Forget what failed on a table, so that it is tried again."""
    session: Session = context.obj
    name = one_table(table, table_option)
    with session.renderer.working(f"looking at {name}"):
        count = session.application(short=True).unblock(name)
    session.renderer.message(f"{plural(count, 'failure')} of {name} forgotten")


@app.command()
def tables(context: typer.Context) -> None:
    """List the tables of the catalog."""
    session: Session = context.obj
    with session.renderer.working("listing tables"):
        application = session.application(short=True)
        found = application.tables()
    session.renderer.tables(found, application.absent)


@app.command()
def openapi(context: typer.Context) -> None:
    """Print the OpenAPI document of the service, for Postman, Bruno and their like."""
    try:
        from icepact.entrypoints.api.application import openapi_document
    except ImportError:
        raise SetupMissing("the service needs more packages: pip install 'icepact[service]'") from None
    session: Session = context.obj
    session.renderer.document(openapi_document())


@app.command()
def demo(context: typer.Context) -> None:
    """Make a messy table, compact it, and show the difference."""
    from icepact.entrypoints.cli.demo import run_demo

    session: Session = context.obj
    run_demo(session.local("demo"), session.renderer)


@app.command()
def setup(context: typer.Context) -> None:
    """Download the Java libraries and prepare fast starts; done once."""
    from icepact.entrypoints.cli.setup import prepare

    session: Session = context.obj
    with session.renderer.working("downloading libraries and preparing fast starts (about a minute)"):
        answer = prepare()
    session.renderer.setup(answer)


def run(arguments: Sequence[str]) -> int:
    """Carry out one command; returns its exit code."""
    let_stdout_be_closed()
    return _guarded(hoist(arguments))


def _guarded(words: list[str]) -> int:
    """Run the app; every error is one line on stderr."""
    begin()
    message, code = _carried_out(words, verbose=bool({"-v", "--verbose"} & set(words)))
    if was_pressed():  # whatever that broke: what counts is what became of the run
        message, code = f"interrupted: {so_far()}", INTERRUPTED
    if message:
        from icepact.entrypoints.cli.render import Renderer

        return Renderer(as_json="--json" in words).error(message, code)
    return code


def _carried_out(words: list[str], *, verbose: bool) -> tuple[str, int]:
    """What is to be said of an error, empty if there was none, and the exit code."""
    try:
        result = app(words or ["--help"], standalone_mode=False)
    except typer.TyperException as error:
        return usage(error), 2
    except IcepactError as error:
        if verbose and error.__context__ is not None:
            _show(error.__context__)
        return str(error), exit_code(error)
    except (typer.Abort, KeyboardInterrupt):
        return "interrupted", INTERRUPTED
    except Exception as error:
        from icepact.iceberg.java.bridge import describe_error

        if verbose:
            _show(error)
        return f"{describe_error(error)}{'' if verbose else ' (run with -v to see more)'}", 1
    return "", result if isinstance(result, int) else 0


def exit_code(error: IcepactError) -> int:
    """2 if the request was refused at the door, 1 if something went wrong later."""
    return 2 if isinstance(error, BadInput) else 1


def _show(error: BaseException) -> None:
    from icepact.iceberg.java.bridge import traceback_text

    print(traceback_text(error), file=sys.stderr, end="")
