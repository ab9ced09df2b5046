"""A job that is carried out, as a part of the trace of whoever asked for it."""

from collections.abc import Iterator
from contextlib import contextmanager

from icepact.model.job import Job
from icepact.telemetry import trace
from icepact.telemetry.ids import about


def named(job: Job) -> str:
    """What a job does, for people."""
    return " ".join(word for word in (job.request.operation.value, job.request.table) if word)


@contextmanager
def carried_out(job: Job) -> Iterator[trace.Span]:
    """A span around an attempt at a job; all that is logged and measured meanwhile is about it."""
    request = job.request
    with (
        trace.continued(job.trace),
        about(job=job.job_id, tenant=job.tenant),
        trace.span(
            f"job {request.operation.value}",
            kind=trace.Kind.CONSUMER,
            job=job.job_id,
            tenant=job.tenant,
            table=request.table,
            attempt=job.attempts,
        ) as span,
    ):
        yield span
