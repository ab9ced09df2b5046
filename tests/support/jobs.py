"""Jobs as a store sees them."""

from typing import Any

from icepact.model.job import Job, JobRequest, Operation
from icepact.model.run import Owner
from tests.support.records import NOON

US = Owner(host="here", pid=1, born=2, boot="b")
THEM = Owner(host="there", pid=3, born=4, boot="c")


def job_request(operation: Operation = Operation.COMPACT, table: str | None = "db.events", **given: Any) -> JobRequest:
    """What is asked for."""
    return JobRequest(operation=operation, table=table, **given)


def make_job(job_id: str, request: JobRequest | None = None, **given: Any) -> Job:
    """A job that was submitted at noon."""
    asked = request or job_request()
    facts: dict[str, Any] = {
        "catalog": "local",
        "submitted_at": NOON,
        "due_at": NOON,
        "fingerprint": asked.fingerprint(),
        **given,
    }
    return Job(job_id=job_id, request=asked, **facts)
