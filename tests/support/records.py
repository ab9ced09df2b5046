"""Runs and outcomes as a store sees them."""

from datetime import UTC, datetime
from typing import Any

from icepact.model.effort import Effort
from icepact.model.outcome import GroupOutcome, Outcome
from icepact.model.run import RunRecord
from icepact.model.status import Status

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def run_record(run_id: str, **given: Any) -> RunRecord:
    """A run that has begun."""
    facts: dict[str, Any] = {
        "catalog": "local",
        "table": "db.events",
        "branch": "main",
        "status": Status.RUNNING,
        "started_at": NOON,
        "finished_at": None,
        "outcome": None,
        **given,
    }
    return RunRecord(run_id=run_id, **facts)


def run_outcome(run_id: str, **given: Any) -> Outcome:
    """How it ended: one group committed, ninety seconds later."""
    group = GroupOutcome(
        group_id="g0001",
        partition="day=d1",
        committed=True,
        reason="",
        method="spark",
        input_files=6,
        output_files=1,
        rows_in=60,
        rows_out=50,
        bytes_in=600,
        bytes_out=400,
        effort=Effort(seconds=1.5),
    )
    facts: dict[str, Any] = {
        "table": "db.events",
        "branch": "main",
        "status": Status.COMMITTED,
        "snapshot_id": 101,
        "started_at": NOON,
        "seconds": 90.0,
        "files_before": 6,
        "files_after": 1,
        "rows_before": 60,
        "rows_after": 50,
        "rows_deleted": 10,
        "bytes_before": 600,
        "bytes_after": 400,
        "delete_files_removed": 2,
        "proof": "footers",
        "methods": {"spark": 1},
        "groups": (group,),
        **given,
    }
    return Outcome(run_id=run_id, **facts)
