"""What becomes of the deletes of a group: applied, or carried into its outputs as they are; and why.

Carried rows are copied with their row groups, where applied ones would have them encoded anew. Readers pay for that at
every scan: for the rows, and for the deletes. What they pay until the horizon is weighed against the price of encoding.
"""

from dataclasses import dataclass

from icepact.economics.scans import scan_seconds
from icepact.economics.valuation import Valuation
from icepact.model.cost import Cost
from icepact.model.formatting import format_duration, format_money, plural
from icepact.model.health import Facts, PartitionGroup
from icepact.model.policy import DeletesOption, Policy, Tier
from icepact.plan.profit import SCAN_BYTES_PER_SECOND, price_of
from icepact.plan.strategies.selection import Selection


@dataclass(frozen=True, kw_only=True, slots=True)
class DeletesChoice:
    """Whether the deletes of a group are carried, and why; no reason where nobody asked."""

    carries: bool = False
    reason: str = ""


APPLIED = DeletesChoice()


def may_carry(policy: Policy) -> bool:
    """Whether deletes may stay where they are."""
    return policy.deletes is not DeletesOption.APPLY and not policy.erase


def fragments(facts: Facts, policy: Policy) -> int:
    """Delete files that a rewrite is due for. One that belongs to a single large file is what a rewrite that carries
    deletes leaves."""
    return facts.all_delete_files - (facts.single_deletes if may_carry(policy) else 0)


def fragment_ratio(facts: Facts, policy: Policy) -> float:
    """These over data files."""
    return fragments(facts, policy) / facts.data_files if facts.data_files else 0.0


def why_applied(partition_group: PartitionGroup, selection: Selection, policy: Policy) -> str | None:
    """Why deletes of a partition group are applied, whatever that costs; `None` if it is to be weighed, or if it is as
    ever."""
    facts = partition_group.facts
    if policy.erase:
        return "deleted values are to be erased"
    if policy.deletes is not DeletesOption.AUTO:
        return None
    if selection.which.tier is Tier.FULL:
        return "everything is rewritten"
    if facts.delete_ratio > policy.max_delete_ratio:
        return f"{plural(facts.all_delete_records, 'delete record')} on {plural(facts.rows, 'row')} are too many"
    return None


def burden(facts: Facts, *, deletes: int, records: int) -> float:
    """Seconds of one core that a scan takes longer for deletes, and for the rows that they delete."""
    dead = records * facts.bytes / max(1, facts.rows)
    own = scan_seconds(files=0, row_groups=0, delete_files=deletes, delete_records=records)
    return own + dead / SCAN_BYTES_PER_SECOND


def weighed(
    policy: Policy, valuation: Valuation, *, applied: Cost, carried: Cost, seconds: float, deletes: int, records: int
) -> DeletesChoice:
    """Carry if it costs more to leave deleted rows out than readers pay for them until the horizon.

    `seconds` is what one scan takes longer if they stay, with so many deletes of so many records.
    """
    extra = price_of(applied, valuation) - price_of(carried, valuation)
    a_scan = seconds * valuation.money_per_scan_second + deletes * valuation.money_per_read
    paid = a_scan * policy.scans_per_day * policy.horizon / (24 * 3600)
    carries = extra > paid
    price, worth = format_money(extra, valuation.currency), format_money(paid, valuation.currency)
    return DeletesChoice(
        carries=carries,
        reason=f"leaving out what {plural(records, 'delete record')} may delete costs {price}, and "
        f"{'only ' if carries else ''}{worth} of scans are saved by it in {format_duration(policy.horizon)}",
    )
