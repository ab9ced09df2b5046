"""Whether a rewrite is worth its price: the guard against work that makes things worse.

Three questions, in this order:

- Would scans be slower, because fewer tasks are left than readers have cores?
- Is the price higher than what scans save until the horizon?
- Is it better to wait? As long as files keep coming, the output will be rewritten together with them. Waiting until as
  many have come again spares that, and perhaps a rewrite that is lost to the writers; scans pay for it meanwhile. The
  sum of both is least where scans pay twice what is spared.
"""

import math
from dataclasses import dataclass

from icepact.economics.lessons import ExpectedGain
from icepact.economics.scans import SECONDS_PER_FILE
from icepact.economics.speeds import READS_PER_FILE
from icepact.economics.valuation import Valuation
from icepact.model.cost import Cost
from icepact.model.formatting import format_money, format_seconds
from icepact.model.policy import MethodOption, Policy
from icepact.plan.candidate import Candidate, features_of

SCAN_BYTES_PER_SECOND = 100 * 1024**2
"""What a reader decodes on one core."""
SPLIT = 128 * 1024**2
"""Bytes of one task of a scan; readers split larger files at row groups."""
COPIED_AGAIN = 0.2
"""Work for an output that is rewritten once more, over that for its inputs: most of its row groups are copied then."""
OPEN_COST = 4 * 1024**2
"""Bytes that readers count for a small file when they put several into one task."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Profitability:
    """Answer to whether a candidate is worth its price."""

    worth: bool
    reason: str
    """Why not; empty if it is."""
    saving: float = 0.0
    """Money that scans save."""
    price: float = 0.0
    """Money that the work is expected to cost."""

    @property
    def net(self) -> float:
        """What is left of the saving."""
        return self.saving - self.price


def profitability(candidate: Candidate, valuation: Valuation, policy: Policy) -> Profitability:
    """Whether the work of a candidate is worth doing now."""
    horizon = policy.horizon / 3600
    features = features_of(candidate, valuation.now, horizon)
    expected = valuation.lessons.expect(features, candidate.partition_group.name)
    price = price_of(candidate.cost, valuation)
    a_scan = saved_seconds(candidate, expected) * valuation.money_per_scan_second
    a_scan += saved_reads(candidate, expected) * valuation.money_per_read
    an_hour = a_scan * policy.scans_per_day / 24
    saving = an_hour * horizon * (1 - expected.conflict)
    hours = min(horizon, features["lasting_hours"] * expected.lasting)
    spared = _again(candidate, valuation, policy, expected) + price * expected.conflict / (1 - expected.conflict)
    reason = _slower(candidate, policy)
    if not reason and (saving < price or saving == price > 0):  # where nothing costs anything, whatever is faster pays
        saved, cost = format_money(saving, valuation.currency), format_money(price, valuation.currency)
        reason = (
            f"not worth it: scans would save {saved} in {format_seconds(policy.horizon)}, "
            f"and it costs {cost}{_why(expected)}"
        )
    if not reason and hours < horizon and an_hour * hours < 2 * spared:
        kept, paid = format_money(spared, valuation.currency), format_money(an_hour * hours, valuation.currency)
        reason = (
            f"worth more later: as many files will have come again in about {format_seconds(3600 * hours)}, "
            f"and waiting spares {kept}, while scans pay {paid}{_why(expected, features['files_per_hour'])}"
        )
    return Profitability(worth=not reason, reason=reason, saving=saving, price=price)


def saved_seconds(candidate: Candidate, expected: ExpectedGain) -> float:
    """What one scan of these files takes less."""
    denser = candidate.cost.encoded_bytes * (1 - expected.compression) / SCAN_BYTES_PER_SECOND
    return candidate.gain.scan_seconds * expected.files + denser


def saved_reads(candidate: Candidate, expected: ExpectedGain) -> float:
    """Requests that one scan of these files makes fewer."""
    return READS_PER_FILE * (candidate.gain.files + candidate.gain.delete_files) * expected.files


def price_of(cost: Cost, valuation: Valuation) -> float:
    """What work costs: the money that is predicted, or its seconds at a start price."""
    return cost.money.likely or cost.seconds.likely * valuation.money_per_work_second


def _again(candidate: Candidate, valuation: Valuation, policy: Policy, expected: ExpectedGain) -> float:
    """What it costs to rewrite the output once more with files that come later; nothing if it is large enough."""
    if candidate.bytes * expected.compression >= candidate.outputs * policy.min_file_size:
        return 0.0
    price = price_of(candidate.cost, valuation)
    work = candidate.cost.seconds.likely * valuation.money_per_work_second
    return price if policy.method is MethodOption.SPARK else price - work * (1 - COPIED_AGAIN)


def scan_tasks(files: int, size: int) -> int:
    """Tasks that readers make of some files: as many as splits, where a tiny file counts as a small one."""
    return max(1, math.ceil(max(size, files * OPEN_COST) / SPLIT))


def _slower(candidate: Candidate, policy: Policy) -> str:
    """Why scans would be slower; empty if they would not.

    Only small tables can lose: merging takes tasks away where tiny files are many, and only while fewer tasks than
    cores are left does that outweigh the files that need not be opened.
    """
    cores = policy.reader_parallelism
    reading = candidate.bytes / SCAN_BYTES_PER_SECOND
    before = candidate.other_tasks + scan_tasks(candidate.files, candidate.bytes)
    after = candidate.other_tasks + max(candidate.outputs, math.ceil(candidate.bytes / SPLIT))
    if after >= min(cores, before):
        return ""
    left = reading + candidate.outputs * SECONDS_PER_FILE
    now = left + candidate.gain.scan_seconds
    if left / min(cores, after) <= now / min(cores, before):
        return ""
    return (
        f"scans would be slower: {after} instead of {before} tasks for {cores} cores, "
        f"{format_seconds(left / min(cores, after))} instead of {format_seconds(now / min(cores, before))}"
    )


def _why(expected: ExpectedGain, files_per_hour: float = 0.0) -> str:
    """What is known about the writers, and what lessons have to say."""
    reasons = [_rate(files_per_hour)] if files_per_hour else []
    if expected.lasting < 0.8:
        reasons.append("earlier gains were used up sooner than predicted")
    if expected.conflict >= 0.1:
        reasons.append(f"{expected.conflict:.0%} of such rewrites are lost to other commits")
    if expected.compression >= 1.05:
        reasons.append(f"rewriting makes rows {expected.compression - 1:.0%} larger")
    return f" ({'; '.join(reasons)})" if reasons else ""


def _rate(files_per_hour: float) -> str:
    if files_per_hour >= 1:
        return f"about {files_per_hour:,.0f} files an hour arrive"
    return f"about {files_per_hour * 24:,.1f} files a day arrive"
