"""`icepact schedule`: when tables are next, and what is expected of their writers; without Spark."""

from typing import Annotated

import typer

from icepact.entrypoints.cli.session import Session

schedule_app = typer.Typer(rich_markup_mode=None)


@schedule_app.command()
def schedule(
    context: typer.Context,
    table: Annotated[str | None, typer.Argument(help="Table, as in Spark SQL: db.table.", show_default=False)] = None,
) -> None:
    """Show when a table is next, why, and what is expected of its writers; or the schedules of all tables."""
    session: Session = context.obj
    if session.server is not None:
        client = session.client()
        if table is not None:
            session.renderer.schedule(client.schedule(table))
        else:
            session.renderer.schedules(list(client.schedules()))
        return
    from icepact.entrypoints.serving import build_service, fleet_of
    from icepact.schedule.overview import view_of, views

    service = build_service(session.service_settings)
    fleet, catalog = fleet_of(service), service.catalog.recorded_as
    if table is not None:
        name = service.jobs.name(table)
        session.renderer.schedule(view_of(service.store, fleet, catalog, name, now=service.clock()))
    else:
        session.renderer.schedules(list(views(service.store, fleet, catalog, now=service.clock())))
