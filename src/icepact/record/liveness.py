"""Whether anybody works on a run; known without Spark, since the commands that list runs do without it."""

from datetime import datetime

from icepact.model.run import RunRecord
from icepact.model.status import Status
from icepact.record.process import is_gone
from icepact.record.store import LeaseStore, RunsAndLeases


def dead(record: RunRecord, store: LeaseStore, now: datetime | None = None) -> str | None:
    """Why nobody works on an open run any more; `None` if somebody may."""
    if record.status is Status.UNKNOWN:
        return "it ended without knowing whether its last commit landed"
    if record.owner is not None and is_gone(record.owner):
        return f"{record.owner} is gone"
    lease = store.lease(record.uuid)
    if lease is None or lease.run_id != record.run_id:
        return f"{record.owner or 'nobody'} does not hold the table any more"
    if (now or store.now()) >= lease.expires_at:
        return f"{record.owner} was last heard of at {lease.expires_at:%Y-%m-%d %H:%M:%S} UTC"
    return None


def resumable_run(store: RunsAndLeases, catalog: str, table: str) -> RunRecord | None:
    """The newest run on a table that died and can be carried on with; the clean-up ends those that were cancelled."""
    for record in store.runs(catalog=catalog, table=table, open_only=True):
        if record.status is Status.FENCED or record.cancel_asked:
            continue
        if dead(record, store) and store.plan(record.run_id):
            return record
    return None
