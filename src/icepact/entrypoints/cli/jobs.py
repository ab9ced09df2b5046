"""`icepact jobs`: jobs in the queue of a service, here or elsewhere."""

from typing import TYPE_CHECKING, Annotated

import typer

from icepact.entrypoints.cli.groups import Commands
from icepact.entrypoints.cli.session import Session
from icepact.model.errors import BadInput

if TYPE_CHECKING:
    from icepact.entrypoints.cli.queue import Queue

jobs_app = typer.Typer(cls=Commands, help="Look at jobs of the service, and stop them.", rich_markup_mode=None)

JobId = Annotated[str, typer.Argument(metavar="JOB", help="A job, as `icepact jobs list` names it.")]


def _queue(session: Session) -> "Queue":
    from icepact.entrypoints.cli.queue import queue_of

    return queue_of(session)


@jobs_app.command("list")
def list_jobs(
    context: typer.Context,
    table: Annotated[str | None, typer.Argument(help="Only on this table.")] = None,
    limit: Annotated[int, typer.Option(help="At most so many jobs.")] = 20,
    open_only: Annotated[bool, typer.Option("--open", help="Only jobs that have not ended.")] = False,
) -> None:
    """List jobs, newest first."""
    session: Session = context.obj
    if limit < 1:
        raise BadInput("--limit must be at least 1")
    session.renderer.jobs(_queue(session).list(table, limit=limit, open_only=open_only))


@jobs_app.command()
def show(context: typer.Context, job_id: JobId) -> None:
    """Show a job, how far it is, and what came of it."""
    session: Session = context.obj
    session.renderer.job(_queue(session).get(job_id))


@jobs_app.command()
def cancel(context: typer.Context, job_id: JobId) -> None:
    """Cancel a job that waits, or ask its worker to stop."""
    session: Session = context.obj
    session.renderer.job(_queue(session).cancel(job_id))


@jobs_app.command()
def resume(context: typer.Context, job_id: JobId) -> None:
    """Put a job that failed or was cancelled back into the queue."""
    session: Session = context.obj
    session.renderer.job(_queue(session).resume(job_id))
