"""What every record store does. One behaviour suite in the tests runs over all of them."""

from collections.abc import Sequence
from typing import Protocol

from icepact.model.outcome import Outcome, RunRecord


class RecordStore(Protocol):
    """Remembers runs."""

    def begin(self, record: RunRecord) -> None:
        """Record the intent, before the first byte is written."""
        ...

    def finish(self, outcome: Outcome) -> None:
        """Record how a run ended."""
        ...

    def runs(self, *, catalog: str, table: str | None = None, limit: int = 100) -> Sequence[RunRecord]:
        """The newest runs on a catalog, or on one of its tables; newest first."""
        ...
