"""Many tables at once: what is known of each, their ranking, and what one round over them did."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from icepact.model.budget import Limit
from icepact.model.decision import Judgement
from icepact.model.errors import BadInput
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
class TableSummary:
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

    def to_dict(self) -> dict[str, Any]:
        """The table as it is printed with `--json`."""
        return {name: getattr(self, name) for name in self.__slots__}


def summary_of(judgement: Judgement, policy: Policy, *, doubt: str = "") -> TableSummary:
    """A judgement in a few numbers, and what there is to say against it."""
    facts, chosen = judgement.health.facts, judgement.chosen
    return TableSummary(
        table=judgement.health.table,
        score=judgement.health.score.value,
        data_files=facts.data_files,
        bytes=facts.bytes,
        small_files=facts.small_files,
        delete_records=facts.all_delete_records,
        input_files=sum(decision.files for decision in chosen),
        input_bytes=sum(decision.bytes for decision in chosen),
        gain_seconds=judgement.gain_seconds,
        seconds=judgement.seconds,
        money=judgement.money,
        doubt=doubt,
        off=policy.off,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranked:
    """A table in its place."""

    rank: int
    """From 1 on."""
    summary: TableSummary
    chosen: bool
    reason: str
    """Why it is chosen, or why not."""

    def to_dict(self) -> dict[str, Any]:
        """The entry as it is printed with `--json`."""
        return {"rank": self.rank, "chosen": self.chosen, "reason": self.reason, **self.summary.to_dict()}


@dataclass(frozen=True, kw_only=True, slots=True)
class NotLooked:
    """A table that could not be looked at."""

    table: str
    reason: str

    def to_dict(self) -> dict[str, str]:
        """The entry as it is printed with `--json`."""
        return {"table": self.table, "reason": self.reason}


@dataclass(frozen=True, kw_only=True, slots=True)
class Fleet:
    """The tables of a catalog, ranked."""

    tables: Sequence[Ranked]
    failed: Sequence[NotLooked] = ()
    budget: tuple[Limit, ...] = ()
    """For all of them together."""
    currency: str = ""
    """Of the prices."""
    warnings: Sequence[str] = ()

    @property
    def chosen(self) -> Sequence[TableSummary]:
        """What is worth doing within the budget, in the order of the ranking."""
        return [entry.summary for entry in self.tables if entry.chosen]

    def to_dict(self) -> dict[str, Any]:
        """The document that `icepact fleet --json` prints."""
        chosen = self.chosen
        return {
            "tables": [entry.to_dict() for entry in self.tables],
            "failed": [entry.to_dict() for entry in self.failed],
            "budget": [limit.to_dict() for limit in self.budget],
            "total": {
                "tables": len(self.tables) + len(self.failed),
                "chosen": len(chosen),
                "input_files": sum(s.input_files for s in chosen),
                "input_bytes": sum(s.input_bytes for s in chosen),
                "gain_seconds": round(sum(s.gain_seconds for s in chosen), 6),
                "seconds": round(sum(s.seconds for s in chosen), 3),
                "money": round(sum(s.money for s in chosen), 6),
            },
            "currency": self.currency,
            "warnings": list(self.warnings),
        }


class Ended(StrEnum):
    """What became of a table in a round."""

    DONE = "done"
    """A run ended well; how, its outcome tells."""
    PLANNED = "planned"
    """In a dry run: what would be done."""
    NOTHING = "nothing-to-do"
    SKIPPED = "skipped"
    FAILED = "failed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Visit:
    """One table in a round."""

    table: str
    ended: Ended
    reason: str = ""
    """Why it was skipped, or what went wrong."""
    resumed: Outcome | None = None
    """The run that was carried on with first."""
    plan: Plan | None = None
    """What was to be done."""
    outcome: Outcome | None = None

    def to_dict(self) -> dict[str, Any]:
        """The entry as it is printed with `--json`."""
        return {
            "table": self.table,
            "ended": self.ended.value,
            "reason": self.reason,
            "resumed": None if self.resumed is None else self.resumed.run_id,
            "plan": self.plan.to_dict() if self.plan and self.ended is Ended.PLANNED else None,
            "outcome": None if self.outcome is None else self.outcome.to_dict(),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Round:
    """One round over the fleet."""

    visits: Sequence[Visit]
    dry_run: bool
    warnings: Sequence[str] = ()

    def counted(self, ended: Ended) -> int:
        """How many tables ended like this."""
        return sum(visit.ended is ended for visit in self.visits)

    def to_dict(self) -> dict[str, Any]:
        """The document that `icepact run --json` prints."""
        return {
            "dry_run": self.dry_run,
            "tables": [visit.to_dict() for visit in self.visits],
            "total": {ended.value: self.counted(ended) for ended in Ended},
            "warnings": list(self.warnings),
        }
