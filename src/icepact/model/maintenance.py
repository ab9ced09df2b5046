"""Maintenance of a table: everything that its policy wants done, in one report."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import computed_field

from icepact.model.documents import Document, Moment
from icepact.model.formatting import format_money, format_seconds, format_size
from icepact.model.outcome import Outcome
from icepact.model.status import NOT_WELL, Status


@dataclass(frozen=True, kw_only=True, slots=True)
class OperationResult(Document):
    """What became of one operation."""

    operation: str
    outcome: Outcome | None = None
    """`None` if it was not begun, or could not be."""
    explained: Sequence[str] = ()
    """Of a dry run: what would be done, in words."""
    reason: str = ""
    """Why it was not begun, or what went wrong; empty if its outcome tells all."""
    failed: bool = False

    @property
    def well(self) -> bool:
        """False if a person should look at it."""
        return not self.failed and (self.outcome is None or self.outcome.status not in NOT_WELL)

    def lines(self, currency: str) -> list[str]:
        """In words."""
        if self.outcome is None:
            return [f"{self.operation}: {'failed: ' if self.failed else ''}{self.reason}"]
        o = self.outcome
        said = [*self.explained] if o.dry_run else [line for step in o.steps for line in step.lines()]
        if o.groups:
            said.append(f"{o.files_before:,} -> {o.files_after:,} data files")
        why = o.error or o.reason
        money = f", {format_money(o.money, currency)}" if o.money else ""
        first = f"{self.operation}: {o.status}{f': {why}' if why else ''} ({format_seconds(o.seconds)}{money})"
        return [first, *(f"  {line.removeprefix('  ')}" for line in said)]


@dataclass(frozen=True, kw_only=True, slots=True)
class MaintenanceOutcome(Document):
    """What one round of maintenance did to a table."""

    table: str
    started_at: Moment
    seconds: float
    operations: Sequence[OperationResult]
    """In the order in which they were done."""
    currency: str = ""
    dry_run: bool = False

    @computed_field
    @property
    def bytes_freed(self) -> int:
        """Bytes of files that were deleted, as far as they are known."""
        steps = (step for one in self.operations if one.outcome for step in one.outcome.steps)
        return sum(getattr(step, "bytes_freed", 0) for step in steps)

    @computed_field
    @property
    def money(self) -> float:
        """What all of it cost, in the currency of the prices."""
        return round(sum(one.outcome.money for one in self.operations if one.outcome), 9)

    @computed_field
    @property
    def well(self) -> bool:
        """False if a person should look at one of the operations."""
        return all(one.well for one in self.operations)

    @property
    def did_something(self) -> bool:
        """Whether an operation changed the table, or would in a dry run."""
        nothing = (Status.NOTHING_TO_DO, Status.SUPERSEDED)
        return any(one.outcome is not None and one.outcome.status not in nothing for one in self.operations)

    def lines(self) -> list[str]:
        """In words."""
        would = "would free" if self.dry_run else "freed"
        total = f"{would} {format_size(self.bytes_freed)} in {format_seconds(self.seconds)}"
        money = f", {format_money(self.money, self.currency)}" if self.money else ""
        lines = [line for one in self.operations for line in one.lines(self.currency)]
        return [f"{self.table}: {total}{money}", *lines]
