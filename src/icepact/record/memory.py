"""A store that forgets when the process ends."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from icepact.model.outcome import Outcome, RunRecord


class MemoryStore:
    """Runs in a dictionary."""

    def __init__(self) -> None:
        self._runs: dict[str, RunRecord] = {}

    def begin(self, record: RunRecord) -> None:
        """Record the intent."""
        self._runs[record.run_id] = record

    def finish(self, outcome: Outcome) -> None:
        """Record how a run ended."""
        self._runs[outcome.run_id] = replace(
            self._runs[outcome.run_id],
            status=outcome.status,
            finished_at=outcome.started_at + timedelta(seconds=outcome.seconds),
            outcome=outcome.to_dict(),
        )

    def runs(self, *, catalog: str, table: str | None = None, limit: int = 100) -> Sequence[RunRecord]:
        """The newest runs first."""
        found = [r for r in self._runs.values() if r.catalog == catalog and table in (None, r.table)]
        return sorted(found, key=lambda r: (r.started_at, r.run_id), reverse=True)[:limit]
