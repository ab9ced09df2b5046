"""Budgets: of all groups those that bring most for their share of the limits, and what holds back the rest.

A group is taken whole or in units. A unit that does not fit is cut: as many of its files as fit and still leave fewer
files, or lose their deletes. Files of old specs are taken whole or not at all, because a part of them could leave more
files than it removes.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from icepact.economics.scans import SECONDS_PER_DELETE_FILE, SECONDS_PER_DELETE_RECORD, scan_seconds
from icepact.model.files import DataFile, DeleteFile, delete_records
from icepact.model.limits import Demand, Limit
from icepact.model.plan import LeftOut, RewriteFiles, Unit
from icepact.model.policy import JobOrder, Policy
from icepact.plan.gain import gain_of
from icepact.plan.greedy import Budget, Item, choose
from icepact.plan.pack import outputs_of

_LEEWAY = 1 + 1e-9
"""For sums of many small amounts: a plan that was within its limits still is."""


def within_budget(
    steps: Sequence[RewriteFiles], deletes: Sequence[DeleteFile], policy: Policy, limits: Sequence[Limit]
) -> tuple[list[RewriteFiles], list[LeftOut]]:
    """The groups, or parts of them, that the budget allows, in the order of jobs; and what it holds back."""
    ordered, budget = in_order(steps, policy.job_order), Budget(limits)
    if budget.allows(Demand.sum(step.demand for step in ordered)):
        return ordered, []
    groups = [_Group(step, deletes, policy) for step in ordered]
    pieces = [piece for group in groups for piece in group.pieces()]
    taken = choose(pieces, budget, lambda piece, used: piece.group.cut(piece, used, budget)).values()
    used = Demand.sum(piece.demand for piece in taken)
    units: dict[_Group, list[Unit]] = defaultdict(list)
    for piece in taken:
        units[piece.group] += piece.units
    kept = [group.part(tuple(units[group])) for group in groups if group in units]
    rests = [(group.step.partition, group.rest(units.get(group, ()))) for group in groups]
    return kept, [
        LeftOut(partition=name, files=rest.files, bytes=rest.bytes, reason=budget.reason(used + rest))
        for name, rest in rests
        if rest.files
    ]


def fit_to_budget(steps: Sequence[RewriteFiles], limits: Sequence[Limit]) -> tuple[list[RewriteFiles], dict[str, str]]:
    """The groups of an earlier plan that the limits of now allow, each whole, in their order; of the others by id,
    which limit forbids them."""
    budget = Budget([replace(limit, amount=limit.amount * _LEEWAY) for limit in limits])
    taken = choose([Item(gain=step.gain.scan_seconds, demand=step.demand) for step in steps], budget)
    used = Demand.sum(item.demand for item in taken.values())
    refused = {
        step.group_id: budget.reason(used + step.demand) for number, step in enumerate(steps) if number not in taken
    }
    return [step for step in steps if step.group_id not in refused], refused


def in_order(groups: Sequence[RewriteFiles], order: JobOrder) -> list[RewriteFiles]:
    """Groups as they are begun; ties by what they save and then by name, so that plans are stable."""

    def key(group: RewriteFiles) -> tuple[Any, ...]:
        return (
            _FIRST[order](group),
            -group.gain.scan_seconds,
            group.predicted_files - group.input_files,
            -group.delete_records,
            group.partition,
            group.units[0].files[0].path,
        )

    return sorted(groups, key=key)


_FIRST: Mapping[JobOrder, Callable[[RewriteFiles], float]] = {
    JobOrder.MOST_GAIN: lambda group: -group.gain.scan_seconds,
    JobOrder.MOST_FILES: lambda group: -group.input_files,
    JobOrder.MOST_BYTES: lambda group: -group.bytes,
    JobOrder.OLDEST: lambda group: min(file.sequence_number for file in group.files),
}
"""By what groups are put into each order; the least comes first."""


class _Group:
    """A group, and what parts of it cost and save."""

    def __init__(self, step: RewriteFiles, deletes: Sequence[DeleteFile], policy: Policy) -> None:
        self.step = step
        self._policy = policy
        self._deletes = deletes
        self._whole = step.demand
        applied = Counter(index for f in step.files for index in f.deletes if not step.carries)
        self._share_of = {index: _worth(deletes[index]) / times for index, times in applied.items()}
        """What each of its files saves of a delete that applies to so many."""
        self._worth = sum(self._value(unit.files) for unit in step.units)

    def pieces(self) -> "Iterator[_Piece]":
        """All of it, as it may be taken."""
        if self.step.regroup:
            yield self._piece(self.step.units)
        else:
            yield from (self._piece((unit,)) for unit in self.step.units)

    def cut(self, piece: "_Piece", used: Demand, budget: Budget) -> "_Piece | None":
        """As many files of a unit as fit, in the order of reading; `None` if they are not worth it."""
        if self.step.regroup:
            return None
        [unit] = piece.units
        files: list[DataFile] = []
        size = 0
        for file in unit.files:
            if budget.allows(used + self._demand(len(files) + 1, size + file.size)):
                files.append(file)
                size += file.size
        if len(files) < 2 and not any(f.deletes and not self.step.carries for f in files):
            return None
        predicted = None if unit.predicted is None else round(unit.predicted * size / max(1, unit.bytes))
        return self._piece((Unit(files=tuple(files), predicted=predicted),))

    def part(self, units: tuple[Unit, ...]) -> RewriteFiles:
        """The group with these units only; what it costs falls with its bytes and files."""
        if units == self.step.units:
            return self.step
        files = [f for u in units for f in u.files]
        outputs = sum(outputs_of(u.predicted_bytes, self._policy) for u in units)
        saved = gain_of(files, outputs, self._deletes)
        if self.step.carries:
            saved = replace(saved, delete_files=0, delete_records=0)
        return replace(
            self.step,
            units=units,
            cost=self.step.cost.part(self._share(len(files), sum(f.size for f in files))),
            gain=replace(saved, scan_seconds=round(sum(self._gain(u.files) for u in units), 6)),
            predicted_files=outputs,
            predicted_bytes=sum(u.predicted_bytes for u in units),
            delete_records=delete_records(files, self._deletes),
        )

    def rest(self, units: Sequence[Unit]) -> Demand:
        """What the group would take besides these units."""
        files, size = sum(len(u.files) for u in units), sum(u.bytes for u in units)
        return self._demand(self._whole.files - files, self._whole.bytes - size)

    def _piece(self, units: tuple[Unit, ...]) -> "_Piece":
        whole = units == self.step.units
        gain = self.step.gain.scan_seconds if whole else sum(self._gain(unit.files) for unit in units)
        demand = self._demand(sum(len(u.files) for u in units), sum(u.bytes for u in units))
        return _Piece(group=self, units=units, gain=gain, demand=demand)

    def _gain(self, files: Sequence[DataFile]) -> float:
        """A unit's share, or that of a part of one, of what the group saves."""
        return self.step.gain.scan_seconds * (self._value(files) / self._worth if self._worth else 0.0)

    def _value(self, files: Sequence[DataFile]) -> float:
        """What is saved by making one of these files, by the same measure for all parts of the group."""
        outputs = outputs_of(sum(f.size for f in files), self._policy)
        row_groups = max(0, sum(len(f.row_groups) or 1 for f in files) - outputs)
        own = scan_seconds(files=len(files) - outputs, row_groups=row_groups, delete_files=0, delete_records=0)
        return max(0.0, own + sum(self._share_of.get(index, 0.0) for f in files for index in f.deletes))

    def _demand(self, files: int, size: int) -> Demand:
        """What so many of its files and bytes take."""
        share = self._share(files, size)
        return Demand(files=files, bytes=size, seconds=self._whole.seconds * share, money=self._whole.money * share)

    def _share(self, files: int, size: int) -> float:
        """Of seconds and money: by bytes or by files, whichever is more, for each file costs something by itself."""
        return max(size / max(1, self._whole.bytes), files / max(1, self._whole.files))


def _worth(delete: DeleteFile) -> float:
    return SECONDS_PER_DELETE_FILE + delete.records * SECONDS_PER_DELETE_RECORD


@dataclass(frozen=True, kw_only=True, slots=True)
class _Piece(Item):
    """What is taken together: a unit, or a whole group of old specs. Its gain is a share of what the group saves."""

    group: _Group
    units: tuple[Unit, ...]
