"""Many tables at once: what is known of each, their ranking, and what one round over them did."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import PlainSerializer, computed_field

from icepact.model.decision import TableDecisions
from icepact.model.documents import HIDDEN, Document, Flat, key
from icepact.model.errors import BadInput
from icepact.model.limits import Demand, Limit
from icepact.model.maintenance import MaintenanceOutcome
from icepact.model.outcome import Outcome
from icepact.model.plan import Plan
from icepact.model.policy import Policy


class RankBy(StrEnum):
    """What comes first in a ranking."""

    WORTH = "worth"
    """What brings most for its price."""
    HEALTH = "health"
    """The lowest score."""
    DEBT = "debt"
    """The most small files and delete records."""
    GAIN = "gain"
    """What saves a scan most."""
    PRICE = "price"
    """What costs least, of that which has anything to do."""


def rank_by(name: str) -> RankBy:
    """A ranking by its name, or one line that says which there are."""
    try:
        return RankBy(name)
    except ValueError:
        raise BadInput(f"by: unknown ranking {name!r}; there is: {', '.join(RankBy)}") from None


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSummary(Document):
    """One table, in a few numbers."""

    table: str
    score: float
    """0 to 100."""
    data_files: int
    bytes: int
    small_files: int
    delete_records: int
    input_files: int = 0
    """Files that would be rewritten."""
    input_bytes: int = 0
    gain_seconds: float = 0.0
    """What one scan takes less afterwards, on one core."""
    seconds: float = 0.0
    """Of work, on one core."""
    money: float = 0.0
    doubt: str = ""
    """What of it is not worth it, though its strategy asks for it; empty if that is nothing."""
    off: str | None = None
    """Why the table is left alone, if it is."""

    @property
    def debt(self) -> int:
        """Small files and delete records."""
        return self.small_files + self.delete_records

    @property
    def demand(self) -> Demand:
        """What it takes of a budget."""
        return Demand(files=self.input_files, bytes=self.input_bytes, seconds=self.seconds, money=self.money)


def summary_of(decisions: TableDecisions, policy: Policy, *, doubt: str = "") -> TableSummary:
    """Summary of the decisions about a table, and what there is to say against them."""
    facts, chosen = decisions.health.facts, decisions.chosen
    return TableSummary(
        table=decisions.health.table,
        score=decisions.health.score.value,
        data_files=facts.data_files,
        bytes=facts.bytes,
        small_files=facts.small_files,
        delete_records=facts.all_delete_records,
        input_files=sum(decision.files for decision in chosen),
        input_bytes=sum(decision.bytes for decision in chosen),
        gain_seconds=decisions.gain_seconds,
        seconds=decisions.seconds,
        money=decisions.money,
        doubt=doubt,
        off=policy.off,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class RankedTable(Document):
    """A table with its rank, and whether it is chosen."""

    rank: int
    """From 1 on."""
    summary: Annotated[TableSummary, Flat()]
    chosen: bool
    reason: str
    """Why it is chosen, or why not."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InspectionError(Document):
    """A table that could not be inspected."""

    table: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Fleet(Document):
    """The tables of a catalog, ranked."""

    tables: Sequence[RankedTable]
    failed: Sequence[InspectionError] = ()
    budget: tuple[Limit, ...] = ()
    """For all of them together."""
    currency: str = ""
    """Of the prices."""
    warnings: Sequence[str] = ()

    @property
    def chosen(self) -> Sequence[TableSummary]:
        """What is worth doing within the budget, in the order of the ranking."""
        return [entry.summary for entry in self.tables if entry.chosen]

    @computed_field
    @property
    def total(self) -> Mapping[str, int | float]:
        """What is chosen together, of how many tables."""
        chosen = self.chosen
        return {
            "tables": len(self.tables) + len(self.failed),
            "chosen": len(chosen),
            "input_files": sum(s.input_files for s in chosen),
            "input_bytes": sum(s.input_bytes for s in chosen),
            "gain_seconds": round(sum(s.gain_seconds for s in chosen), 6),
            "seconds": round(sum(s.seconds for s in chosen), 3),
            "money": round(sum(s.money for s in chosen), 9),
        }


class VisitStatus(StrEnum):
    """What became of a table in a round."""

    DONE = "done"
    """A run ended well; how, its outcome tells."""
    PLANNED = "planned"
    """In a dry run: what would be done."""
    NOTHING = "nothing-to-do"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Visit(Document):
    """One table in a round."""

    table: str
    ended: VisitStatus
    reason: str = ""
    """Why it was skipped, or what went wrong."""
    resumed: Annotated[Outcome | None, PlainSerializer(lambda run: run and run.run_id, return_type=str | None)] = None
    """The run that was carried on with first."""
    plan: Annotated[Plan | None, HIDDEN] = None
    """What was to be done."""
    outcome: Outcome | None = None
    maintenance: MaintenanceOutcome | None = None
    """What housekeeping did besides; `None` if it was not asked for, or not come to."""

    @computed_field(alias="plan")
    @property
    def shown_plan(self) -> dict[str, Any] | None:
        """The plan's document, in a dry run."""
        return self.plan.to_dict() if self.plan and self.ended is VisitStatus.PLANNED else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Round(Document):
    """One round over the fleet."""

    visits: Annotated[Sequence[Visit], key("tables")]
    dry_run: bool
    warnings: Sequence[str] = ()

    def count(self, ended: VisitStatus) -> int:
        """How many tables ended like this."""
        return sum(visit.ended is ended for visit in self.visits)

    @computed_field
    @property
    def total(self) -> Mapping[str, int]:
        """How many tables ended in each way."""
        return {ended.value: self.count(ended) for ended in VisitStatus}
