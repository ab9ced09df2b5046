"""`icepact serve` and `icepact worker`: the service's processes."""

from typing import Annotated

import typer

from icepact.entrypoints.cli.session import Session
from icepact.model.errors import SetupMissing

service_app = typer.Typer(rich_markup_mode=None)

_MISSING = "the service needs more packages: pip install 'icepact[service]'"


@service_app.command(epilog="Settings are in the section `service` of the configuration; flags go over them.")
def serve(
    context: typer.Context,
    host: Annotated[str | None, typer.Option(help="The address that it listens on; default 127.0.0.1.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Its port; default 8080, and 0 for a free one.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=0, max=64, help="Workers that it starts on this machine; default 1.")
    ] = None,
) -> None:
    """Serve the API, with workers that carry out its jobs."""
    session: Session = context.obj
    session.refuse_server("serve")
    try:
        from icepact.entrypoints.api.application import make_server
        from icepact.entrypoints.service.serve import Serving
    except ImportError:
        raise SetupMissing(_MISSING) from None
    serving = Serving(session.service_settings, make_server, host=host, port=port, workers=workers)
    catalog = serving.service.catalog.name
    session.renderer.note(f"{serving.url} serves the catalog {catalog} with {serving.workers} workers; Ctrl-C ends it")
    serving.run()


@service_app.command(epilog="Settings are in the section `service` of the configuration.")
def worker(
    context: typer.Context,
    workers: Annotated[
        int | None, typer.Option(min=1, max=64, help="So many at once on this machine; default 1.")
    ] = None,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Serve metrics at this port of 127.0.0.1; 0 for a free one.")
    ] = None,
) -> None:
    """Carry out jobs that an API on this or another machine has put into the record store."""
    session: Session = context.obj
    session.refuse_server("worker")
    try:
        from icepact.entrypoints.service.work import Working
    except ImportError:
        raise SetupMissing(_MISSING) from None
    working = Working(session.service_settings, workers=workers, metrics_port=metrics_port)
    catalog = working.service.catalog.name
    session.renderer.note(f"{working.workers} workers for jobs on the catalog {catalog}; Ctrl-C ends them")
    if working.metrics is not None:
        host = working.service.config.telemetry.metrics_host
        session.renderer.note(f"their metrics are at http://{host}:{working.metrics.port}/metrics")
    working.run()
