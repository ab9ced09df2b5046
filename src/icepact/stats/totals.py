"""Totals over the files of a snapshot, by partition or by groups of partitions."""

from collections.abc import Callable
from functools import cached_property

import numpy as np

from icepact.model.files import DeleteKind
from icepact.stats.manifest import NEVER, Flags, Ints
from icepact.stats.table import FileStats


class PartitionTotals:
    """Totals over groups of partitions: each partition by itself, unless it is said which belong together."""

    def __init__(self, stats: FileStats, group: Ints | None = None) -> None:
        self.stats = stats
        self._group = np.arange(len(stats.partitions)) if group is None else group
        """Of each partition: its group."""
        self.groups = int(self._group.max()) + 1 if len(self._group) else 0
        self.of_file = self._group[stats.partition]
        """Of each data file: its group."""

    @cached_property
    def _files(self) -> tuple[Ints, Ints]:
        """All data files by group, and where each group begins."""
        order = np.argsort(self.of_file, kind="stable")
        return order, np.searchsorted(self.of_file[order], np.arange(self.groups + 1))

    def files(self, group: int) -> Ints:
        """The data files of a group, as indexes into the columns of `stats`."""
        order, begin = self._files
        return order[begin[group] : begin[group + 1]]

    def sums(self, values: Ints | None = None, *, where: Flags | None = None) -> Ints:
        """Of each group: how many data files it has, or the sum of a column over them."""
        group = self.of_file if where is None else self.of_file[where]
        if values is None:
            return np.bincount(group, minlength=self.groups).astype(np.int64)
        sums = np.zeros(self.groups, np.int64)
        np.add.at(sums, group, values if where is None else values[where])  # exact, as floating-point weights are not
        return sums

    @cached_property
    def oldest(self) -> Ints:
        """Of each group: the smallest sequence number of its data files."""
        return self.oldest_of(np.ones(len(self.of_file), np.bool_))

    def oldest_of(self, some: Flags) -> Ints:
        """Of each group: the smallest sequence number of some of its data files, `NEVER` if it has none of them."""
        oldest = np.full(self.groups, NEVER)
        np.minimum.at(oldest, self.of_file[some], self.stats.number[some])
        return oldest

    def newest_of(self, numbers: Ints) -> Ints:
        """Of each group: the largest of these numbers of its data files."""
        newest = np.zeros(self.groups, np.int64)
        np.maximum.at(newest, self.of_file, numbers)
        return newest

    @cached_property
    def newest(self) -> Ints:
        """Of each group: the largest sequence number of its data files."""
        return self.newest_of(self.stats.number)

    @cached_property
    def last(self) -> Ints:
        """Of each group: the largest sequence number of its data files and of the deletes that apply to it."""
        deletes = self.stats.deletes
        last = self.newest.copy()
        local = deletes.partition >= 0
        np.maximum.at(last, self._group[deletes.partition[local]], deletes.number[local])
        anywhere = deletes.number[deletes.everywhere & deletes.applied]
        if len(anywhere):
            last = np.where(self.oldest < anywhere.max(), np.maximum(last, anywhere.max()), last)
        return last

    def deletes(self, kind: DeleteKind, *, records: bool = False) -> Ints:
        """Of each group: how many deletes of a kind apply to it, or how many records they have. Each counts once."""
        deletes = self.stats.deletes
        worth = deletes.records if records else np.ones(len(deletes), np.int64)
        return self._over_deletes(deletes.of(kind), worth)

    def _over_deletes(self, some: Flags, worth: Ints) -> Ints:
        deletes = self.stats.deletes
        sums = np.zeros(self.groups, np.int64)
        local = some & (deletes.partition >= 0)
        np.add.at(sums, self._group[deletes.partition[local]], worth[local])
        anywhere = some & deletes.everywhere & deletes.applied
        if anywhere.any():  # those that are newer than the group's oldest file
            order = np.argsort(deletes.number[anywhere], kind="stable")
            numbers, values = deletes.number[anywhere][order], worth[anywhere][order]
            after = np.concatenate([np.cumsum(values[::-1])[::-1], [0]])
            sums += after[np.searchsorted(numbers, self.oldest, side="right")]
        return sums

    @property
    def dangling(self) -> Ints:
        """Of each group: how many delete files it has that apply to nothing."""
        return np.bincount(self._group[self.stats.deletes.idle_in], minlength=self.groups).astype(np.int64)

    def unseen(self, seen: Callable[[Ints], Flags]) -> Flags:
        """Of each group: whether any of its data files, or of the deletes that apply to it, has a sequence number that
        is not among those seen."""
        deletes = self.stats.deletes
        files = self.sums(where=~seen(self.stats.number)) > 0
        return files | (self._over_deletes(~seen(deletes.number), np.ones(len(deletes), np.int64)) > 0)
