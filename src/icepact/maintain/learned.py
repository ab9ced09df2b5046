"""What earlier runs taught, from the record store alone."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from icepact.model.lessons import Lessons
from icepact.plan.learning import learn
from icepact.record.store import RecordStore

_OWN_RUNS = 200
_ALL_RUNS = 200


def lessons_of(store: RecordStore, catalog: str, table: str, now: datetime) -> Lessons:
    """What the newest runs on a table, and on the other tables of its catalog, teach about it."""
    runs = [
        *store.runs(catalog=catalog, table=table, limit=_OWN_RUNS),
        *store.runs(catalog=catalog, limit=_ALL_RUNS),
    ]
    outcomes: dict[str, Mapping[str, Any]] = {
        run.run_id: {**run.outcome, "table": run.table, "started_at": run.started_at.isoformat()}
        for run in runs
        if run.outcome
    }
    return learn(outcomes.values(), table, now=now, since=store.lessons_since(catalog, table))
