"""What runs cost, next to what was predicted."""

from dataclasses import dataclass

from icepact.model.documents import Document
from icepact.model.effort import Additive


@dataclass(frozen=True, kw_only=True, slots=True)
class Amounts(Additive):
    """Amounts of one kind, predicted or measured."""

    files: int = 0
    """Outputs."""
    bytes: int = 0
    """Of outputs."""
    seconds: float = 0.0
    """Of work on one core."""
    money: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class PredictionErrors:
    """By how much the predictions of a run were off, next to what was measured: medians; `None` if no run tells."""

    files: float | None
    bytes: float | None
    seconds: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs(Document):
    """Costs of one method, or of one kind of housekeeping, on one table."""

    table: str
    method: str
    """Of rewrites; or the kind of step of housekeeping."""
    runs: int
    predicted: Amounts
    actual: Amounts
    """Groups that were written and not committed included: they were paid for."""
    error: PredictionErrors
    coverage: float | None
    """Share of the runs whose seconds were within the predicted interval; `None` if no run tells."""
    input_bytes: int
    money_per_tb: float | None
    """Money per TB of inputs; `None` if no run tells its money."""
    currency: str
