"""The circuit breaker of jobs: a table on which one job after the other fails is left alone for growing times.

Runs that fail are counted with the table's other failures; here are jobs that may not have come as far as a run.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from icepact.record.store import DocumentStore

_KIND = "pause"
FAILURES = 3
"""After so many in a row a table is paused."""
_FIRST = timedelta(minutes=5)
_LONGEST = timedelta(hours=6)


@dataclass(frozen=True, kw_only=True, slots=True)
class Pause:
    """A table that is left alone."""

    until: datetime
    message: str
    """Why, in one line."""


def pause_of(store: DocumentStore, catalog: str, table: str, now: datetime) -> Pause | None:
    """The pause of a table; `None` if it is not left alone now."""
    found = store.document(_KIND, _key(catalog, table))
    if found is None or found.body["failures"] < FAILURES:
        return None
    failures = int(found.body["failures"])
    until = datetime.fromisoformat(found.body["last_at"]) + pause_after(failures)
    if now >= until:
        return None
    message = (
        f"{failures} jobs on {table} failed one after the other, the last: {found.body['error']}; paused until "
        f"{until:%Y-%m-%d %H:%M} UTC, or until `icepact unblock {table}`"
    )
    return Pause(until=until, message=message)


def pause_after(failures: int) -> timedelta:
    """How long a table is left alone after so many failures."""
    doubled: int = 1 << min(failures - FAILURES, 10)
    return min(_FIRST * doubled, _LONGEST)


def job_failed(store: DocumentStore, catalog: str, table: str, error: str, now: datetime) -> None:
    """Count one more failure."""
    found = store.document(_KIND, _key(catalog, table))
    failures = 1 + (int(found.body["failures"]) if found else 0)
    body = {"failures": failures, "error": error, "last_at": now.isoformat()}
    store.put_document(_KIND, _key(catalog, table), body)


def forget_pause(store: DocumentStore, catalog: str, table: str) -> bool:
    """Forget failures of jobs on a table; false if there were none."""
    return store.remove_document(_KIND, _key(catalog, table))


def _key(catalog: str, table: str) -> str:
    return f"{catalog}/{table}"
