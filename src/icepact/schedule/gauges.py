"""What the record store says of the service right now, as gauges: the queue, the health of tables, and how their last
compactions went."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from icepact.model.masking import masked
from icepact.model.outcome import Outcome
from icepact.model.run import RunRecord
from icepact.model.status import Status
from icepact.record.store import RecordStore
from icepact.schedule.answers import KnownHealth, known_healths, known_tables
from icepact.telemetry.metrics import OTHER, Reading

_TABLES_EVERY = timedelta(seconds=60)
"""The queue is looked at whenever somebody asks, tables only so often."""
_RUNS_AT_FIRST = 300
_RUNS_COMPARED = 10
"""Of one table: how far predictions were off is told of these."""
_OVERLAP = timedelta(minutes=2)
"""Runs are asked for from a little before the last time: clocks of those who write them differ."""
_PAGE = 200
_WELL = (Status.COMMITTED, Status.PARTLY_COMMITTED)
_PUT_TOGETHER: Mapping[str, Callable[[Sequence[float]], float]] = {
    "last_compaction_timestamp_seconds": max,
    "small_files": sum,
    "health_score": min,
    "estimate_error_ratio": max,
    "compaction_recommended": sum,
}
"""By metric: how values of tables beyond the bound are made into one."""


@dataclass(slots=True)
class _Table:
    """What is known about one table."""

    heard_at: datetime
    """When the newest of its compactions ended."""
    compacted_at: datetime | None = None
    compared: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Seconds of work that were predicted, and those that it took, by run."""

    def heard(self, outcome: Outcome, ended_at: datetime) -> None:
        """A compaction has ended."""
        self.heard_at = max(self.heard_at, ended_at)
        if outcome.status in _WELL and (self.compacted_at is None or ended_at > self.compacted_at):
            self.compacted_at = ended_at
        if outcome.predicted_seconds.likely and outcome.effort.seconds:
            self.compared[outcome.run_id] = (outcome.predicted_seconds.likely, outcome.effort.seconds)
            for run_id in sorted(self.compared)[:-_RUNS_COMPARED]:
                del self.compared[run_id]

    @property
    def estimate_error(self) -> float | None:
        """By how much predictions were off, over what the work took; `None` if there is nothing to compare."""
        if not self.compared:
            return None
        off = sum(abs(predicted - actual) for predicted, actual in self.compared.values())
        return off / sum(actual for _, actual in self.compared.values())


class StoreGauges:
    """Reads the gauges of one catalog, whenever it is called. Tables beyond the first `tables` are put together."""

    def __init__(self, store: RecordStore, catalog: str, *, tables: int = 200) -> None:
        """`catalog` is its name in the record store."""
        self._store = store
        self._catalog = catalog
        self._most = tables
        self._known: dict[str, _Table] = {}
        self._heard_until: datetime | None = None
        self._of_tables: Sequence[Reading] = ()
        self._read_at: datetime | None = None

    def __call__(self) -> Sequence[Reading]:
        """All of them."""
        now = self._store.now()
        if self._read_at is None or not timedelta(0) <= now - self._read_at < _TABLES_EVERY:
            self._of_tables = list(self._tables(now))
            self._read_at = now
        return [*self._queue(now), *self._of_tables]

    def _queue(self, now: datetime) -> Iterator[Reading]:
        for size in self._store.queue_sizes(self._catalog):
            waits = 0.0 if size.first_due_at is None else max((now - size.first_due_at).total_seconds(), 0.0)
            values = {
                "queue_depth": size.queued,
                "pending_compactions": size.queued_compactions,
                "active_compactions": size.running_compactions,
                "queue_oldest_seconds": waits,
            }
            for name, value in values.items():
                yield Reading(name=name, labels={"catalog": masked(self._catalog), "tenant": size.tenant}, value=value)

    def _tables(self, now: datetime) -> Iterator[Reading]:
        """Of each table, or of several together."""
        self._hear_of_runs(now)
        values: dict[str, dict[str, float]] = {}
        heard = {table: known.heard_at for table, known in self._known.items()}
        for table, known_health in self._healths():
            health = known_health.health
            heard[table] = max(known_health.taken_at, heard.get(table, known_health.taken_at))
            recommended = float(health.get("mergeable_files", 0) > 0)
            values[table] = {
                "small_files": float(health["small_files"]),
                "health_score": float(health["score"]),
                "compaction_recommended": recommended,
            }
        for table, known in self._known.items():
            mine = values.setdefault(table, {})
            if known.compacted_at is not None:
                mine["last_compaction_timestamp_seconds"] = known.compacted_at.timestamp()
            if known.estimate_error is not None:
                mine["estimate_error_ratio"] = known.estimate_error
        there = known_tables(self._store, self._catalog)
        if there is not None:  # what was heard of since they were listed is there, too
            listed, listed_at = frozenset(there[0]), there[1]
            for table in [table for table in values if table not in listed and heard[table] <= listed_at]:
                del values[table]
                self._known.pop(table, None)
        names = sorted(values)
        for table in names[: self._most]:
            yield from (self._reading(name, table, value) for name, value in values[table].items())
        rest = [values[table] for table in names[self._most :]]
        for name, put_together in _PUT_TOGETHER.items():
            found = [one[name] for one in rest if name in one]
            if found:
                yield self._reading(name, OTHER, put_together(found))

    def _reading(self, name: str, table: str, value: float) -> Reading:
        return Reading(name=name, labels={"catalog": masked(self._catalog), "table": table}, value=value)

    def _healths(self) -> Iterator[tuple[str, KnownHealth]]:
        after = ""
        while True:
            page = known_healths(self._store, self._catalog, after=after, limit=_PAGE)
            yield from page.items()
            if len(page) < _PAGE:
                return
            after = list(page)[-1]

    def _hear_of_runs(self, now: datetime) -> None:
        """Go on from where we were."""
        for record in self._runs():
            if record.outcome is not None and record.outcome.operation == "compact":
                ended_at = record.finished_at or record.started_at
                self._known.setdefault(record.table, _Table(heard_at=ended_at)).heard(record.outcome, ended_at)
        self._heard_until = now

    def _runs(self) -> Sequence[RunRecord]:
        if self._heard_until is None:
            return self._store.runs(catalog=self._catalog, limit=_RUNS_AT_FIRST, worked_only=True)
        return self._store.recent(catalog=self._catalog, since=self._heard_until - _OVERLAP)
