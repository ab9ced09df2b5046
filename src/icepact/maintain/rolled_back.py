"""Runs whose commits somebody else has rolled back: recognised, recorded, and done anew by the next plan."""

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from icepact.commit.reconcile import rolled_back
from icepact.iceberg.java.bridge import error_line
from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import IcepactError
from icepact.model.plan import Plan
from icepact.model.run import RunRecord
from icepact.model.status import Status
from icepact.record.process import this_process
from icepact.record.store import RecordStore

_log = logging.getLogger("icepact")
_COMMITTED = (Status.COMMITTED, Status.PARTLY_COMMITTED)


def with_rolled_back(
    table: IcebergTable, store: RecordStore, records: Sequence[RunRecord], branch: str
) -> list[RunRecord]:
    """The same runs, newest first; those of which a commit on the branch was rolled back are recorded as such from now
    on. The table is judged as it was last read."""
    ours = [r for r in records if r.status in _COMMITTED and r.landed and (r.uuid, r.branch) == (table.uuid, branch)]
    if not ours or not table.has_branch(branch) or table.head_id(branch) == ours[0].landed[-1].snapshot_id:
        return list(records)
    ancestry = table.ancestry(branch)
    gone = [r for r in ours if any(rolled_back(table, landed, ancestry) for landed in r.landed)]
    marked = {record.run_id: _marked(store, record) for record in gone}
    return [marked.get(record.run_id, record) for record in records]


def _marked(store: RecordStore, record: RunRecord) -> RunRecord:
    """The run as it is once that is on record; a store that cannot be written to does not change what is true."""
    _log.warning("run %s on %s was rolled back by somebody else", record.run_id, record.table)
    try:
        mark_rolled_back(store, record)
        return store.run(record.run_id) or replace(record, status=Status.ROLLED_BACK)
    except IcepactError as error:
        _log.warning("that run %s was rolled back could not be recorded: %s", record.run_id, error_line(error))
        return replace(record, status=Status.ROLLED_BACK)


def mark_rolled_back(store: RecordStore, record: RunRecord) -> None:
    """Record that a run was rolled back. Its partition groups do not count as compacted any more: they are due as
    before it."""
    store.take(record, this_process(), to=Status.ROLLED_BACK)
    with suppress(ValueError):  # the plan is not kept any more, or of another version
        plan = Plan.from_json(store.plan(record.run_id))
        store.forget_compacted(record.uuid, record.branch, {step.last_compacted_key for step in plan.rewrites})
