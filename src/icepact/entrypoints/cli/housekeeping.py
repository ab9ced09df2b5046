"""`icepact expire` and its like: one step of housekeeping, shown, asked for, carried out."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from icepact.entrypoints.cli.asking import DELETES, MAINTAINS, REWRITES, Yes, ask
from icepact.entrypoints.cli.session import Session, exit_with, one_table
from icepact.entrypoints.outputs import file_to_write

if TYPE_CHECKING:
    from icepact.model.outcome import Outcome
    from icepact.policy.options import Options

housekeeping_app = typer.Typer(rich_markup_mode=None)

Table = Annotated[str | None, typer.Argument(help="Table, as in Spark SQL: db.table.", show_default=False)]
TableOption = Annotated[str | None, typer.Option("--table", help="The table, if not given as an argument.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop.")]
AllowYoung = Annotated[bool, typer.Option("--allow-young", help="Ages below the floor of a day are meant.")]

Out = Annotated[str | None, typer.Option("--out", help="Write the plan into this file, for `icepact apply`.")]

UseCase = Callable[..., "Outcome"]


def carry_out(
    session: Session,
    name: str,
    use_case: UseCase,
    request: "Options",
    *,
    dry_run: bool,
    yes: bool,
    out: str | None = None,
    **given: bool,
) -> None:
    """Plan a step, show it, ask if there is somebody, and carry it out. Where nobody can be asked and nobody said yes,
    it is a dry run; so it is if the plan is to be written into a file."""
    from icepact.entrypoints.cli.compacting import Compacting

    renderer = session.renderer
    file = None if out is None else file_to_write(out)
    only_shown = dry_run or file is not None or (not yes and not renderer.interactive)
    with Compacting(renderer, name, yes=yes or only_shown) as shown:
        outcome = use_case(
            name,
            request,
            dry_run=only_shown,
            progress=shown,
            on_resumed=shown.on_resumed,
            confirm=shown.show(file) if only_shown else shown.confirm,
            **given,
        )
    if not only_shown or renderer.as_json:
        renderer.outcome(outcome)
    if file is not None:
        renderer.note(f"the plan is in {file}; carry it out with: icepact apply {file}")
    elif only_shown and outcome.steps and not dry_run:
        renderer.note("nothing was changed: say --yes")
    exit_with(outcome)


@housekeeping_app.command(epilog=DELETES)
def expire(
    context: typer.Context,
    table: Table = None,
    table_option: TableOption = None,
    older_than: Annotated[
        str | None, typer.Option(metavar="TIME", help="Snapshots above this age go; as the table says, or 5d.")
    ] = None,
    retain_last: Annotated[
        str | None, typer.Option(metavar="N", help="Every branch keeps so many; as the table says, or 1.")
    ] = None,
    out: Out = None,
    allow_young: AllowYoung = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Expire old snapshots, and delete the files that only they need."""
    from icepact.policy.options import options

    session: Session = context.obj
    name = one_table(table, table_option)
    request = options({"expire_older_than": older_than, "expire_retain_last": retain_last})
    use_case = session.application(short=True).expire
    carry_out(session, name, use_case, request, dry_run=dry_run, out=out, yes=yes, allow_young=allow_young)


@housekeeping_app.command(epilog=DELETES)
def orphans(
    context: typer.Context,
    table: Table = None,
    table_option: TableOption = None,
    older_than: Annotated[str | None, typer.Option(metavar="TIME", help="Files above this age go; default 3d.")] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="FOLDER", help="A folder that is left alone; may be repeated.")
    ] = None,
    out: Out = None,
    allow_young: AllowYoung = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Delete files below a table's locations that nothing refers to."""
    from icepact.policy.options import options

    session: Session = context.obj
    name = one_table(table, table_option)
    request = options({"orphans_older_than": older_than})
    use_case = partial(session.application(short=True).orphans, exclude=exclude or ())
    carry_out(session, name, use_case, request, dry_run=dry_run, yes=yes, out=out, allow_young=allow_young)


@housekeeping_app.command(epilog=REWRITES)
def statistics(
    context: typer.Context,
    table: Table = None,
    table_option: TableOption = None,
    columns: Annotated[
        str | None, typer.Option(metavar="A,B", help="Only of these columns; of all that can have some if not given.")
    ] = None,
    stale_after: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Anew once more than this share of the rows changed; 0.1.")
    ] = None,
    out: Out = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Compute statistics of columns and partitions where they are stale."""
    from icepact.policy.options import options

    session: Session = context.obj
    name = one_table(table, table_option)
    request = options({"statistics_stale_after": stale_after})
    names = None if columns is None else [one.strip() for one in columns.split(",")]
    use_case = partial(session.application().statistics, columns=names)
    carry_out(session, name, use_case, request, dry_run=dry_run, out=out, yes=yes or not session.renderer.interactive)


@housekeeping_app.command(epilog=REWRITES)
def deletes(
    context: typer.Context,
    table: Table = None,
    table_option: TableOption = None,
    branch: Annotated[str | None, typer.Option(help="Branch whose deletes are converted; default main.")] = None,
    out: Out = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Convert deletes to vectors or positions, and merge them; no data is rewritten."""
    from icepact.policy.options import options

    session: Session = context.obj
    name = one_table(table, table_option)
    request = options({"branch": branch})
    use_case = session.application().deletes
    carry_out(session, name, use_case, request, dry_run=dry_run, out=out, yes=yes or not session.renderer.interactive)


@housekeeping_app.command(epilog=REWRITES)
def manifests(
    context: typer.Context,
    table: Table = None,
    table_option: TableOption = None,
    out: Out = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Rewrite manifests where it pays, clustered by partition."""
    from icepact.policy.options import options

    session: Session = context.obj
    name = one_table(table, table_option)
    use_case = session.application(short=True).manifests
    carry_out(
        session, name, use_case, options({}), dry_run=dry_run, out=out, yes=yes or not session.renderer.interactive
    )


@housekeeping_app.command(epilog=DELETES)
def ttl(
    context: typer.Context,
    table: Table = None,
    table_option: TableOption = None,
    column: Annotated[str | None, typer.Option(help="The column whose time tells how old data is.")] = None,
    keep: Annotated[str | None, typer.Option(metavar="TIME", help="How old data becomes, such as 90d.")] = None,
    level: Annotated[str | None, typer.Option(help="partition takes whole partitions out, file single files.")] = None,
    pattern: Annotated[
        str | None, typer.Option(help="How a text column writes times; epoch-ms or epoch-s for numbers.")
    ] = None,
    zone: Annotated[str | None, typer.Option(help="Zone of times without one; default UTC.")] = None,
    since: Annotated[str | None, typer.Option(help="Age is measured from now, or from last-commit.")] = None,
    rows: Annotated[bool, typer.Option("--rows", help="Delete old rows out of files with younger ones, too.")] = False,
    branch: Annotated[str | None, typer.Option(help="Branch that data leaves; default main.")] = None,
    out: Out = None,
    allow_young: AllowYoung = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Take data out that is older than it may become: whole files, and other rows if asked for."""
    from icepact.policy.options import options

    session: Session = context.obj
    name = one_table(table, table_option)
    given = {"column": column, "keep": keep, "level": level, "pattern": pattern, "zone": zone, "since": since}
    request = options(
        {"branch": branch, "ttl_rows": rows or None, **{f"ttl_{option}": value for option, value in given.items()}}
    )
    use_case = session.application(short=True).ttl
    carry_out(session, name, use_case, request, dry_run=dry_run, out=out, yes=yes, allow_young=allow_young)


@housekeeping_app.command(epilog=REWRITES)
def tags(
    context: typer.Context,
    table: Table = None,
    table_option: TableOption = None,
    period: Annotated[str | None, typer.Option(help="hourly, daily or monthly.")] = None,
    offset: Annotated[
        str | None, typer.Option(metavar="TIME", help="From the end of a period until its tag is due.")
    ] = None,
    max_delay: Annotated[
        str | None, typer.Option(metavar="TIME", help="How late a commit may be to get the tag; default 1h.")
    ] = None,
    pattern: Annotated[str | None, typer.Option(help="Name of tags, such as 'tag-'yyyyMMdd.")] = None,
    max_age: Annotated[
        str | None, typer.Option(metavar="TIME", help="How long a tag is kept; for ever if not given.")
    ] = None,
    zone: Annotated[str | None, typer.Option(help="Zone whose midnight ends a day; default UTC.")] = None,
    out: Out = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Make the tag that is due; a tag that there is, is never moved."""
    from icepact.policy.options import options

    session: Session = context.obj
    name = one_table(table, table_option)
    given = {"period": period, "offset": offset, "max_delay": max_delay, "pattern": pattern, "max_age": max_age}
    request = options({f"tag_{option}": value for option, value in {**given, "zone": zone}.items()})
    use_case = session.application(short=True).tags
    carry_out(session, name, use_case, request, dry_run=dry_run, out=out, yes=yes or not session.renderer.interactive)


@housekeeping_app.command(epilog=MAINTAINS)
def maintain(
    context: typer.Context,
    table: Table = None,
    table_option: TableOption = None,
    housekeeping: Annotated[
        str | None, typer.Option(metavar="A,B", help="What is done: tags, ttl, compact, manifests, statistics, ...")
    ] = None,
    max_cost: Annotated[str | None, typer.Option(help="Budget: money for all of it.")] = None,
    max_duration: Annotated[str | None, typer.Option(metavar="TIME", help="Budget: time for all of it.")] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="FOLDER", help="A folder whose orphans stay; may be repeated.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Do everything that the policy of a table names, where it is due."""
    from icepact.model.policy import OPERATIONS
    from icepact.policy.options import options

    session: Session = context.obj
    renderer, name = session.renderer, one_table(table, table_option)
    request = options({"housekeeping": housekeeping, "max_cost": max_cost, "max_duration": max_duration})
    application = session.application()
    use_case = partial(application.maintain, name, request, exclude=exclude or ())
    if not dry_run and not yes and renderer.interactive:
        with renderer.working(f"looking at what is due for {name}"):
            planned = use_case(dry_run=True)
        renderer.maintenance(planned)
        ask()
    with renderer.counting("maintaining") as bar:
        done = use_case(dry_run=dry_run, on_operation=lambda operation: bar.begin(operation, len(OPERATIONS)))
    renderer.maintenance(done)
    if not done.well:
        raise typer.Exit(1)
