"""Budgets: of all groups those that bring the most within every limit, and what holds back the rest.

A group is taken whole or in units. A unit that does not fit is cut: as many of its files as fit and still leave fewer
files, or lose their deletes. Files of old specs are taken whole or not at all, because a part of them could leave more
files than it removes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

from icepact.model.budget import Limit, Resource
from icepact.model.plan import LeftOut, RewriteFiles, Unit
from icepact.model.policy import JobOrder, Policy
from icepact.model.table import DataFile, DeleteFile, delete_records
from icepact.plan.gain import SECONDS_PER_DELETE_FILE, SECONDS_PER_DELETE_RECORD, gain_of, scan_seconds
from icepact.plan.knapsack import Weights, best_choice, fits, plus
from icepact.plan.packing import outputs_of


def within_budget(
    groups: Sequence[RewriteFiles], deletes: Sequence[DeleteFile], policy: Policy, limits: Sequence[Limit]
) -> tuple[list[RewriteFiles], list[LeftOut]]:
    """The groups, or parts of them, that the budget allows, in the order of jobs; and what it holds back."""
    ordered = in_order(groups, policy.job_order)
    if all(sum(taken(step, limit.resource) for step in ordered) <= limit.amount for limit in limits):
        return ordered, []
    return _Budget(ordered, deletes, policy, limits).spend()


def taken(step: RewriteFiles, resource: Resource) -> float:
    """What a group takes of a resource."""
    match resource:
        case Resource.FILES:
            return step.input_files
        case Resource.BYTES:
            return step.bytes
        case Resource.SECONDS:
            return step.cost.seconds
        case Resource.MONEY:
            return step.cost.money
        case _:
            assert_never(resource)


def in_order(groups: Sequence[RewriteFiles], order: JobOrder) -> list[RewriteFiles]:
    """Groups as they are begun; ties by what they save and then by name, so that plans are stable."""
    first: Callable[[RewriteFiles], float]
    match order:
        case JobOrder.MOST_GAIN:
            first = _by_gain
        case JobOrder.MOST_FILES:
            first = _by_files
        case JobOrder.MOST_BYTES:
            first = _by_bytes
        case JobOrder.OLDEST:
            first = _by_age
        case _:
            assert_never(order)

    def key(group: RewriteFiles) -> tuple[Any, ...]:
        saved = group.predicted_files - group.input_files
        return (
            first(group),
            _by_gain(group),
            saved,
            -group.delete_records,
            group.partition,
            group.units[0].files[0].path,
        )

    return sorted(groups, key=key)


def _by_gain(group: RewriteFiles) -> float:
    return -group.gain.scan_seconds


def _by_files(group: RewriteFiles) -> float:
    return -group.input_files


def _by_bytes(group: RewriteFiles) -> float:
    return -group.bytes


def _by_age(group: RewriteFiles) -> float:
    return min(file.sequence_number for file in group.files)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Piece:
    """What is taken together: a unit, or a whole group of old specs."""

    group: int
    """Its number."""
    units: tuple[Unit, ...]
    gain: float
    """Its share of what the group saves."""
    weight: Weights


class _Group:
    """A group, and what parts of it cost and save."""

    def __init__(
        self, step: RewriteFiles, deletes: Sequence[DeleteFile], policy: Policy, resources: Sequence[Resource]
    ) -> None:
        self.step = step
        self._policy = policy
        self._deletes = deletes
        self._bytes = max(1, step.bytes)
        self.files = step.input_files
        applied = Counter(index for f in step.files for index in f.deletes)
        self._share_of = {index: _worth(deletes[index]) / times for index, times in applied.items()}
        """What each of its files saves of a delete that applies to so many."""
        self._worth = sum(self._value(unit.files) for unit in step.units)
        self._whole = tuple(taken(step, resource) for resource in resources)
        self._files_at = next((i for i, resource in enumerate(resources) if resource is Resource.FILES), None)
        self._bytes_at = next((i for i, resource in enumerate(resources) if resource is Resource.BYTES), None)

    def _value(self, files: Sequence[DataFile]) -> float:
        """What is saved by making one of these files, by the same measure for all parts of the group."""
        outputs = outputs_of(sum(f.size for f in files), self._policy)
        row_groups = max(0, sum(len(f.row_groups) or 1 for f in files) - outputs)
        own = scan_seconds(files=len(files) - outputs, row_groups=row_groups, delete_files=0, delete_records=0)
        return max(0.0, own + sum(self._share_of[index] for f in files for index in f.deletes))

    def gain(self, files: Sequence[DataFile]) -> float:
        """A unit's share, or that of a part of one, of what the group saves."""
        return self.step.gain.scan_seconds * (self._value(files) / self._worth if self._worth else 0.0)

    def weight(self, files: int, size: int) -> Weights:
        """What so many of its files and bytes take of each resource."""
        share = self._share(files, size)
        return tuple(
            files if i == self._files_at else size if i == self._bytes_at else whole * share
            for i, whole in enumerate(self._whole)
        )

    def _share(self, files: int, size: int) -> float:
        """Of seconds and money: by bytes or by files, whichever is more, for each file costs something by itself."""
        return max(size / self._bytes, files / max(1, self.files))

    def piece(self, number: int, units: tuple[Unit, ...]) -> _Piece:
        """Units that are taken together."""
        whole = units == self.step.units
        gain = self.step.gain.scan_seconds if whole else sum(self.gain(unit.files) for unit in units)
        weight = self.weight(sum(len(u.files) for u in units), sum(u.bytes for u in units))
        return _Piece(group=number, units=units, gain=gain, weight=weight)

    def cut(self, number: int, unit: Unit, used: Weights, amounts: Weights) -> _Piece | None:
        """As many files of a unit as fit, in the order of reading; null if they are not worth it."""
        files: list[DataFile] = []
        size = 0
        for file in unit.files:
            if fits(plus(used, self.weight(len(files) + 1, size + file.size)), amounts):
                files.append(file)
                size += file.size
        if len(files) < 2 and not any(f.deletes for f in files):
            return None
        predicted = None if unit.predicted is None else round(unit.predicted * size / max(1, unit.bytes))
        return self.piece(number, (Unit(files=tuple(files), predicted=predicted),))

    def shrunk(self, units: tuple[Unit, ...]) -> RewriteFiles:
        """The group with these units only; what it costs falls with its bytes and files."""
        if units == self.step.units:
            return self.step
        step = self.step
        files = [f for u in units for f in u.files]
        size = sum(f.size for f in files)
        outputs = sum(outputs_of(u.predicted_bytes, self._policy) for u in units)
        share = self._share(len(files), size)
        saved = gain_of(files, outputs, self._deletes)
        return replace(
            step,
            units=units,
            cost=step.cost.part(share),
            gain=replace(saved, scan_seconds=round(sum(self.gain(u.files) for u in units), 6)),
            predicted_files=outputs,
            predicted_bytes=sum(u.predicted_bytes for u in units),
            delete_records=delete_records(files, self._deletes),
        )


def _worth(delete: DeleteFile) -> float:
    return SECONDS_PER_DELETE_FILE + delete.records * SECONDS_PER_DELETE_RECORD


class _Taken:
    """What is chosen so far."""

    def __init__(self, pieces: Sequence[_Piece | None], resources: int) -> None:
        self.pieces = list(pieces)
        """By the number of the piece; null for what is left out, and a smaller one for what was cut."""
        self.used: Weights = (0.0,) * resources
        for piece in pieces:
            if piece is not None:
                self.used = plus(self.used, piece.weight)

    @property
    def gain(self) -> float:
        """Of all pieces."""
        return sum(piece.gain for piece in self.pieces if piece is not None)

    def take(self, number: int, piece: _Piece) -> None:
        """One more."""
        self.pieces[number] = piece
        self.used = plus(self.used, piece.weight)


class _Budget:
    """Groups and the limits they must keep to."""

    def __init__(
        self, groups: Sequence[RewriteFiles], deletes: Sequence[DeleteFile], policy: Policy, limits: Sequence[Limit]
    ) -> None:
        self._limits = limits
        self._resources = tuple(dict.fromkeys(limit.resource for limit in limits))
        self._amounts = tuple(min(li.amount for li in limits if li.resource is r) for r in self._resources)
        """What is left of each resource: the least that any limit says."""
        self._groups = [_Group(step, deletes, policy, self._resources) for step in groups]
        self._pieces: list[_Piece] = []
        for number, group in enumerate(self._groups):
            together: Iterable[tuple[Unit, ...]] = (
                [group.step.units] if group.step.regroup else [(unit,) for unit in group.step.units]
            )
            self._pieces += (group.piece(number, units) for units in together)

    def spend(self) -> tuple[list[RewriteFiles], list[LeftOut]]:
        """The better of two choices: the best of whole pieces, with what still fits after it; or piece by piece by
        gain for what they take, each cut to what is left."""
        order = self._by_density()
        gains, weights = [piece.gain for piece in self._pieces], [piece.weight for piece in self._pieces]
        whole = set(best_choice(gains, weights, self._amounts))
        first = self._taken(piece if i in whole else None for i, piece in enumerate(self._pieces))
        self._fill(first, order, cut=False)
        self._fill(first, order, cut=True)
        second = self._taken(None for _ in self._pieces)
        self._fill(second, order, cut=True)
        return self._told(second if second.gain > first.gain * (1 + 1e-9) else first)

    def _taken(self, pieces: Iterable[_Piece | None]) -> _Taken:
        return _Taken(list(pieces), len(self._resources))

    def _by_density(self) -> list[int]:
        def density(piece: _Piece) -> float:
            share = sum(w / a if a > 0 else w for w, a in zip(piece.weight, self._amounts, strict=True))
            return piece.gain / share if share else float("inf")

        return sorted(range(len(self._pieces)), key=lambda i: -density(self._pieces[i]))

    def _fill(self, taken: _Taken, order: Sequence[int], *, cut: bool) -> None:
        for number in order:
            piece = self._pieces[number]
            if taken.pieces[number] is not None:
                continue
            if fits(plus(taken.used, piece.weight), self._amounts):
                taken.take(number, piece)
            elif cut and not self._groups[piece.group].step.regroup:
                part = self._groups[piece.group].cut(piece.group, piece.units[0], taken.used, self._amounts)
                if part is not None:
                    taken.take(number, part)

    def _told(self, taken: _Taken) -> tuple[list[RewriteFiles], list[LeftOut]]:
        units: list[tuple[Unit, ...]] = [() for _ in self._groups]
        for piece in taken.pieces:
            if piece is not None:
                units[piece.group] += piece.units
        kept: list[RewriteFiles] = []
        left_out: list[LeftOut] = []
        for group, some in zip(self._groups, units, strict=True):
            files, size = sum(len(u.files) for u in some), sum(u.bytes for u in some)
            if some:
                kept.append(group.shrunk(some))
            if files < group.files:
                rest, missing = group.step.bytes - size, group.files - files
                reason = self._reason(plus(taken.used, group.weight(missing, rest)))
                left_out.append(LeftOut(partition=group.step.partition, files=missing, bytes=rest, reason=reason))
        return kept, left_out

    def _reason(self, wanted: Weights) -> str:
        """The limits that do not allow so much."""
        names = [li.name for li in self._limits if wanted[self._resources.index(li.resource)] > li.amount]
        return f"over the budget ({', '.join(names or [li.name for li in self._limits])})"
