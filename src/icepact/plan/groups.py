"""File groups: which files of a partition group are rewritten together, by which method, at what gain and price.

One arithmetic for whoever asks: `decide` with what manifests count, `make_plan` with the files themselves.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple

import numpy as np

from icepact.economics.key_join import join_cost
from icepact.economics.speeds import Rates, Workload
from icepact.economics.valuation import Valuation
from icepact.model.cost import NO_COST, Cost, Gain
from icepact.model.files import is_odd
from icepact.model.health import PartitionGroup
from icepact.model.methods import METHODS
from icepact.model.policy import DeletesOption, Policy
from icepact.model.prices import Prices
from icepact.model.snapshot import PinnedSnapshot
from icepact.plan.candidate import Candidate
from icepact.plan.carrying import APPLIED, DeletesChoice, burden, may_carry, weighed, why_applied
from icepact.plan.file_columns import FileColumns, copied_bytes
from icepact.plan.gain import make_gain
from icepact.plan.methods import MethodChoice, cheapest, why_not_assembled
from icepact.plan.pack import outputs_of, pack_sizes, trusted_ratio
from icepact.plan.strategies.selection import FileSelector, Selection
from icepact.stats.manifest import FORMATS, Ints


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """Files that are replaced together, as indexes into the columns."""

    units: Sequence[Sequence[int]]
    """Files that become one output each."""
    merged: Sequence[int | None]
    """Of each unit: bytes of its output, if the table has taught that they are not as many as those of its inputs."""
    predicted: int
    """Bytes of all outputs, deleted rows included."""
    files: int
    bytes: int
    """Of the inputs."""
    outputs: int
    chosen: MethodChoice
    gain: Gain
    deletes: DeletesChoice = APPLIED


class _Batch(NamedTuple):
    """Units that are replaced together."""

    units: Sequence[Sequence[int]]
    files: Ints
    """Of all units, one after the other."""
    predicted: Sequence[int]
    """Bytes of each unit's output."""
    lone: bool = False
    """True if each unit is one file, which would be rewritten for its deletes alone."""


class Grouping:
    """How files of one table are grouped, by one policy and what is known about methods and prices."""

    def __init__(self, pin: PinnedSnapshot, policy: Policy, rates: Rates, prices: Prices, valuation: Valuation) -> None:
        self._pin = pin
        self._policy = policy
        self._rates = rates
        self._prices = prices
        self._valuation = valuation
        self._own = list(pin.own_sequence_numbers)
        self._learned = any(known.ratio != 1.0 for known in rates.methods.values())
        self._against = {regroup: why_not_assembled(pin, regroup=regroup) for regroup in (False, True)}

    def groups(self, partition_group: PartitionGroup, selection: Selection, files: FileColumns) -> list[Group]:
        """Groups that leave fewer files or remove delete records, of the files that a selection means."""
        meant = selection.which.mask(files.size, threshold=self._policy.min_file_size, touched=files.touched)
        taken = np.flatnonzero(meant)
        if not len(taken):
            return []
        copied = copied_bytes(files, self._policy)
        ratio, merged = self._merged(partition_group, files, taken, copied)
        for_idle = selection.which is FileSelector.SMALLEST_ONE  # made for deletes that apply to nothing
        idle = partition_group.dangling if for_idle else 0
        enough = self._policy.rewrite_all or for_idle  # even if neither fewer files nor fewer deletes come of it
        staying = files.deletes_of(files.origin[~meant]) if files.touched.any() else None
        groups: list[Group] = []
        why = why_applied(partition_group, selection, self._policy)
        alike = why is not None or not may_carry(self._policy)
        everything = selection.which is FileSelector.ALL
        for batch in self._batches(
            partition_group, files, taken, merged, ratio, enough=enough, alike=alike or enough, everything=everything
        ):
            inside, predicted = batch.files, sum(batch.predicted)
            outputs = sum(outputs_of(size, self._policy) for size in batch.predicted)
            if partition_group.target_partitions:
                outputs = max(partition_group.target_partitions, math.ceil(predicted / self._policy.target_file_size))
            if outputs >= len(inside) and not files.touched[inside].any() and not enough:
                continue
            chosen = self._chosen(partition_group, files, inside, copied, units=len(batch.units), outputs=outputs)
            deletes = APPLIED if why is None or not files.touched[inside].any() else DeletesChoice(reason=why)
            if not alike:
                both = self._with_deletes(partition_group, files, batch, chosen, outputs=outputs)
                if both is None or (both[1].carries and outputs >= len(inside) and not enough):
                    continue
                chosen, deletes = both
            removed = np.zeros(0, np.int64)
            if staying is not None:
                removed = files.deletes_of(files.origin[inside])
                removed = np.setdiff1d(removed, staying) if len(staying) else removed
                staying = np.concatenate([staying, removed])  # of groups that share a delete, one gets its gain
            groups.append(
                Group(
                    units=batch.units,
                    merged=batch.predicted if ratio != 1.0 else [None] * len(batch.units),
                    predicted=predicted,
                    files=len(inside),
                    bytes=int(files.size[inside].sum()),
                    outputs=outputs,
                    chosen=chosen,
                    gain=_gain(
                        files, inside, removed, outputs=outputs, idle=idle, added=_touched(files, batch.units, deletes)
                    ),
                    deletes=deletes,
                )
            )
        return groups

    def _batches(
        self,
        partition_group: PartitionGroup,
        files: FileColumns,
        taken: Ints,
        merged: Ints,
        ratio: float,
        *,
        enough: bool,
        alike: bool,
        everything: bool,
    ) -> Iterator[_Batch]:
        """The units of each group. Unless all are `alike`, files that would be rewritten for their deletes alone are in
        groups of their own: those that merge with nothing, and large ones, unless `everything` is meant."""
        if partition_group.target_partitions:
            # cut only where a group may not be larger: every further group leaves one more small file in each partition
            by_age = taken[np.argsort(files.number[taken], kind="stable")]
            for some in _cut(files.size[by_age].tolist(), [1] * len(by_age), self._policy):
                yield _Batch([by_age[some].tolist()], by_age[some], [int(merged[by_age[some]].sum())])
            return
        if alike:
            units = self._packed(files, taken, merged, ratio)
            units = [unit for unit in units if enough or len(unit) > 1 or files.touched[unit[0]]]
            yield from self._cut(files, merged, units, ratio)
            return
        for_deletes = files.touched[taken] & (files.size[taken] >= self._policy.min_file_size) & (not everything)
        units = self._packed(files, taken[~for_deletes], merged, ratio)
        lone = [unit for unit in units if len(unit) == 1 and files.touched[unit[0]]]
        lone += [[file] for file in taken[for_deletes].tolist()]
        yield from self._cut(files, merged, [unit for unit in units if len(unit) > 1], ratio)
        yield from (batch._replace(lone=True) for batch in self._cut(files, merged, lone, ratio))

    def _packed(self, files: FileColumns, taken: Ints, merged: Ints, ratio: float) -> list[list[int]]:
        """Units of some files."""
        order = taken if ratio == 1.0 else taken[np.argsort(-merged[taken], kind="stable")]
        packed = pack_sizes(merged[order].tolist(), self._policy, ratio)
        if len(order) < len(files) or ratio != 1.0:
            file_at = order.tolist().__getitem__
            packed = [list(map(file_at, unit)) for unit in packed]
        return packed

    def _cut(self, files: FileColumns, merged: Ints, units: Sequence[Sequence[int]], ratio: float) -> Iterator[_Batch]:
        """Units in groups that are not too large."""
        if not units:
            return
        flat, lengths = np.fromiter(chain.from_iterable(units), np.int64), list(map(len, units))
        begins = np.concatenate([[0], np.cumsum(lengths)])
        sizes = np.add.reduceat(files.size[flat], begins[:-1]).tolist()
        predicted = sizes if ratio == 1.0 else np.add.reduceat(merged[flat], begins[:-1]).tolist()
        for some in _cut(sizes, lengths, self._policy):
            yield _Batch(units[some], flat[begins[some.start] : begins[some.stop]], predicted[some])

    def _merged(
        self, partition_group: PartitionGroup, files: FileColumns, taken: Ints, copied: Ints
    ) -> tuple[float, Ints]:
        """How far files shrink at most, and bytes of each one's share of an output, by the method that is likely to
        rewrite them. What a run of ours wrote does not shrink once more."""
        if not self._learned:
            return 1.0, files.size
        method = self._chosen(partition_group, files, taken, copied, units=1).method
        ratio = trusted_ratio(self._rates.methods[method].ratio, self._policy)
        if ratio == 1.0:
            return 1.0, files.size
        kept = copied if METHODS[method].copies else np.zeros_like(copied)
        shrunk = kept + np.ceil((files.size - kept) * ratio).astype(np.int64)
        return ratio, np.where(np.isin(files.number, self._own), files.size, shrunk)

    def _chosen(
        self,
        partition_group: PartitionGroup,
        files: FileColumns,
        some: Ints,
        copied: Ints,
        *,
        units: int,
        outputs: int | None = None,
    ) -> MethodChoice:
        """How some files are rewritten best, and what that costs."""
        size, kept = int(files.size[some].sum()), int(copied[some].sum())
        choice = cheapest(
            self._pin,
            self._policy,
            self._rates,
            self._prices,
            against=self._against[partition_group.target_partitions > 0] or _odd(partition_group, files.format[some]),
            workload=Workload(units=units, files=len(some), copied=kept, encoded=size - kept),
            outputs=outputs,
        )
        if not METHODS[choice.method].needs_workers or not files.keys.any() or not files.touched[some].any():
            return choice
        keys = int(files.keys[files.deletes_of(files.origin[some])].sum())
        join = join_cost(self._prices, keys=keys, size=size, task_memory=self._policy.task_memory)
        return choice if join is None else replace(choice, cost=choice.cost + join)

    def _with_deletes(
        self, partition_group: PartitionGroup, files: FileColumns, batch: _Batch, applied: MethodChoice, *, outputs: int
    ) -> tuple[MethodChoice, DeletesChoice] | None:
        """How a group is rewritten whose deletes may be carried; `None` if it is better left as it is."""
        policy, inside = self._policy, batch.files
        if not files.touched[inside].any():
            return applied, APPLIED
        whole = copied_bytes(files, policy, carried=True)
        carried = self._chosen(partition_group, files, inside, whole, units=len(batch.units), outputs=outputs)
        if not METHODS[carried.method].copies:
            return applied, DeletesChoice(reason=f"method {applied.method} leaves deleted rows out")
        if policy.deletes is DeletesOption.CARRY:
            return None if batch.lone else (carried, DeletesChoice(carries=True, reason="as asked"))
        mine = files.deletes_of(files.origin[inside])
        deletes = len(mine) if batch.lone else _touched(files, batch.units)
        records = int(files.records[mine].sum())
        choice = weighed(
            policy,
            self._valuation,
            applied=applied.cost,
            carried=NO_COST if batch.lone else carried.cost,
            seconds=burden(partition_group.facts, deletes=deletes, records=records),
            deletes=deletes,
            records=records,
        )
        if not choice.carries:
            return applied, choice
        return None if batch.lone else (carried, choice)


def candidate_of(partition_group: PartitionGroup, selection: Selection, groups: Sequence[Group]) -> Candidate:
    """All groups of a partition group together."""
    return Candidate(
        partition_group=partition_group,
        selection=selection,
        files=sum(group.files for group in groups),
        bytes=sum(group.bytes for group in groups),
        outputs=sum(group.outputs for group in groups),
        gain=Gain.sum(group.gain for group in groups),
        cost=Cost.sum(group.chosen.cost for group in groups),
    )


def _touched(files: FileColumns, units: Sequence[Sequence[int]], deletes: DeletesChoice | None = None) -> int:
    """Units with files that deletes apply to; none if their deletes are not carried."""
    if deletes is not None and not deletes.carries:
        return 0
    return sum(bool(files.touched[list(unit)].any()) for unit in units)


def _gain(files: FileColumns, inside: Ints, removed: Ints, *, outputs: int, idle: int, added: int) -> Gain:
    """What is saved; as many deletes as are `added` are carried, with all their records."""
    return make_gain(
        files=len(inside) - outputs,
        row_groups=max(0, int(files.row_groups[inside].sum()) - outputs),
        delete_files=max(0, len(removed) - added),
        delete_records=0 if added else int(files.records[removed].sum()),
        idle=idle,
    )


def _odd(partition_group: PartitionGroup, formats: Ints) -> str | None:
    """Why files of a partition group cannot be assembled; `None` if they can."""
    if formats.any():
        return f"some files are {sorted(FORMATS[at] for at in np.unique(formats[formats > 0]).tolist())[0]}"
    if any(is_odd(value) for _, partition in partition_group.keys for value in partition):
        return "a partition value is NaN, infinite or minus zero"
    return None


def _cut(sizes: Sequence[int], files: Sequence[int], policy: Policy) -> Iterator[slice]:
    """Units of so many bytes and files, cut into groups where one may not be larger."""
    begin = size = count = 0
    for at, (more, number) in enumerate(zip(sizes, files, strict=True)):
        if at > begin and (size + more > policy.max_group_size or count + number > policy.max_group_files):
            yield slice(begin, at)
            begin, size, count = at, 0, 0
        size += more
        count += number
    if begin < len(sizes):
        yield slice(begin, len(sizes))
