"""Values as stores keep them: rows whose columns are texts, numbers, moments, and JSON of what is inside."""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from icepact.model.documents import from_json, to_json
from icepact.model.errors import StoreUnusable
from icepact.model.job import Job, JobProgress, JobRequest, JobStatus, Operation
from icepact.model.outcome import Outcome
from icepact.model.run import Attempt, CommittedBatch, Lease, Owner, RunRecord
from icepact.model.status import Status

SAME_IN_RUNS = ("run_id", "catalog", "branch", "started_at", "uuid", "epoch", "folder")
"""Fields of a run that are columns as they are, from its first moment on."""
SAME_IN_JOBS = (
    *("job_id", "catalog", "tenant", "priority", "submitted_at", "due_at", "deadline", "most_failures", "attempts"),
    *("failures", "started_at", "finished_at", "token", "expires_at", "run_id", "error", "error_type"),
    *("idempotency_key", "fingerprint", "trace"),
)
"""Fields of a job that are columns as they are."""
_log = logging.getLogger("icepact")


def known(kind: type[Any], document: Mapping[str, Any]) -> Any:
    """A value from a document, without fields that a newer version may have added to it."""
    return kind(**{name: document[name] for name in kind.__slots__ if name in document})


def owner_document(owner: Owner | None) -> str | None:
    """An owner as a column has it."""
    return None if owner is None else json.dumps(asdict(owner))


def owner_of(document: str | None) -> Owner | None:
    """An owner from its column."""
    return known(Owner, json.loads(document)) if document else None


# -- runs -----------------------------------------------------------------------------------------


def run_columns(record: RunRecord) -> dict[str, Any]:
    """A run that begins, as a row."""
    return {
        **{name: getattr(record, name) for name in SAME_IN_RUNS},
        "table_name": record.table,
        "status": record.status.value,
        "owner": owner_document(record.owner),
    }


def run_of(row: Mapping[Any, Any]) -> RunRecord:
    """A run from its row."""
    return RunRecord(
        **{name: row[name] for name in (*SAME_IN_RUNS, "finished_at", "swept_at")},
        table=row["table_name"],
        status=Status(row["status"]),
        outcome=_outcome(row),
        owner=owner_of(row["owner"]),
        attempts=attempts_of(row),
        landed=landed_of(row["landed"]),
        cancel_asked=bool(row["cancel_asked"]),
    )


def attempts_document(attempts: Sequence[Attempt]) -> str | None:
    """Attempts as a column has them."""
    return json.dumps([asdict(attempt) for attempt in attempts], default=_stamp) if attempts else None


def _stamp(value: object) -> str:
    assert isinstance(value, datetime)
    return value.astimezone(UTC).isoformat()


def attempts_of(row: Mapping[Any, Any]) -> tuple[Attempt, ...]:
    """All attempts of a run. Older versions recorded one at most, not in a list, and made by the owner."""
    document = json.loads(row["attempt"]) if row["attempt"] else []
    if isinstance(document, list):
        return tuple(map(_attempt, document))
    ended = row["status"] == Status.UNKNOWN.value
    return (replace(_attempt(document), maker=owner_of(row["owner"]), ended=ended),)


def _attempt(document: Mapping[str, Any]) -> Attempt:
    values = dict(document)
    for name in ("started_at", "until"):
        if values.get(name):
            values[name] = datetime.fromisoformat(values[name])
    if values.get("maker"):
        values["maker"] = known(Owner, values["maker"])
    attempt: Attempt = known(Attempt, values)
    return attempt


def landed_document(landed: Sequence[CommittedBatch]) -> str:
    """Commits as a column has them."""
    return json.dumps([asdict(one) for one in landed])


def landed_of(document: str) -> tuple[CommittedBatch, ...]:
    """Commits from their column."""
    return tuple(known(CommittedBatch, batch) for batch in json.loads(document))


def _outcome(row: Mapping[Any, Any]) -> Outcome | None:
    """The outcome of a run; `None` if there is none, or if it is of a later version that this one cannot read."""
    if not row.get("outcome"):
        return None
    try:
        return Outcome.from_json(row["outcome"])
    except ValueError:
        _log.warning("the outcome of run %s cannot be read: a later version may have written it", row["run_id"])
        return None


def lease_of(row: Mapping[Any, Any]) -> Lease:
    """A lease that is held, from its row."""
    owner = owner_of(row["owner"])
    assert owner is not None
    return Lease(**{**{name: row[name] for name in Lease.__slots__}, "owner": owner})


# -- jobs -----------------------------------------------------------------------------------------


def job_columns(job: Job) -> dict[str, Any]:
    """A job as a row."""
    return {
        **{name: getattr(job, name) for name in SAME_IN_JOBS},
        "table_name": job.request.table,
        "holds_table": job.request.holds_table,
        "operation": job.request.operation.value,
        "request": to_json(job.request).decode(),
        "status": job.status.value,
        "worker": owner_document(job.worker),
        "cancel_asked": job.cancel_asked,
        "progress": to_json(job.progress).decode(),
        "result": None if job.result is None else json.dumps(job.result),
    }


KNOWN_OPERATIONS = frozenset(operation.value for operation in Operation)
"""A later version may have others: their jobs are left to its workers."""
COMPACTING = frozenset(operation.value for operation in Operation if operation.may_compact)


def job_of(row: Mapping[Any, Any]) -> Job:
    """A job from its row; without its result if the row has none. StoreUnusable if a later version has written it."""
    try:
        return _job_of(row, row.get("result"))
    except ValueError:
        job_id = row["job_id"]
        raise StoreUnusable(f"job {job_id} cannot be read: a later version of icepact has written it") from None


def jobs_of(rows: Iterable[Mapping[Any, Any]]) -> list[Job]:
    """Jobs from their rows, without those that a later version has written."""
    found = []
    for row in rows:
        try:
            found.append(job_of(row))
        except StoreUnusable as error:
            _log.warning("%s", error)
    return found


def _job_of(row: Mapping[Any, Any], result: Any) -> Job:
    return Job(
        **{name: row[name] for name in SAME_IN_JOBS},
        request=from_json(JobRequest, row["request"]),
        status=JobStatus(row["status"]),
        worker=owner_of(row["worker"]),
        cancel_asked=bool(row["cancel_asked"]),
        progress=from_json(JobProgress, row["progress"]),
        result=None if result is None else json.loads(result),
    )
