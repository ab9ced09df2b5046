"""Delete files of a snapshot, and which data files they apply to, by the rules of the format."""

from functools import cached_property
from typing import TYPE_CHECKING
from weakref import proxy

import numpy as np

from icepact.model.files import DeleteKind
from icepact.stats.manifest import KINDS, NEVER, Flags, Ints

if TYPE_CHECKING:
    from icepact.stats.table import FileStats


class DeleteIndex:
    """Index of the delete files in file statistics, as long as there are those.

    A delete applies to a partition if it can apply to one of its files, by the rules of the format: a deletion vector
    or a delete bound to a file applies to that file; others to the files of their partition that are old enough,
    equality deletes of an unpartitioned spec to those of every partition.
    """

    def __init__(self, stats: "FileStats") -> None:
        # which hold this index: in a circle, both would wait for the garbage collector with a hundred bytes a file
        self._stats: FileStats = proxy(stats)
        column = stats.column
        self.kind = column("kind", deletes=True)
        self.records = column("rows", deletes=True)
        self.number = column("number", deletes=True)
        self._key = column("key", deletes=True)
        self._own_partition = stats.partition_column(deletes=True)
        """Of each delete: the partition that it is in, which may be another one than that which it applies to."""
        spec = [np.full(len(s), s.spec_id, np.int64) for s in stats.stats_by_manifest.values() if s.deletes]
        self._spec = np.concatenate(spec) if spec else np.zeros(0, np.int64)
        self._equality = self.kind == KINDS.index(DeleteKind.EQUALITY)
        unpartitioned = [number for number, spec in stats.pin.specs.items() if spec.unpartitioned]
        self.everywhere = self._equality & np.isin(self._spec, unpartitioned)
        """Of each delete: whether it may apply to files of every partition."""
        self._bound = ~self._equality & (self._key != 0)

    def __len__(self) -> int:
        return len(self.kind)

    @cached_property
    def _files(self) -> Ints:
        """Of each delete that is bound to a file: that data file's index; -1 if it is not live or too new."""
        stats = self._stats
        bound_to = np.full(len(self), -1, np.int64)
        if not len(stats.key) or not self._bound.any():
            return bound_to
        order = np.argsort(stats.key, kind="stable")
        at = np.searchsorted(stats.key[order], self._key[self._bound])
        files = order[np.minimum(at, len(order) - 1)]
        fits = stats.key[files] == self._key[self._bound]
        fits &= stats.number[files] <= self.number[self._bound]
        bound_to[self._bound] = np.where(fits, files, -1)
        return bound_to

    @cached_property
    def applied(self) -> Flags:
        """Of each delete: whether it applies to any live file. Those that do not are dangling."""
        stats = self._stats
        if not len(stats.size):
            return np.zeros(len(self), np.bool_)
        here = self._own_partition >= 0
        oldest = np.where(here, stats.oldest[np.maximum(self._own_partition, 0)], NEVER)
        oldest = np.where(self.everywhere, stats.number.min(), oldest)
        reaches = np.where(self._equality, oldest < self.number, oldest <= self.number)
        return np.where(self._bound, self._files >= 0, reaches)

    @cached_property
    def idle_in(self) -> Ints:
        """Partitions of dangling delete files, each as often as it has one; vectors go with their data files."""
        idle = ~self.applied & ~self.of(DeleteKind.DV) & (self._own_partition >= 0)
        return self._own_partition[idle]

    def of(self, kind: DeleteKind) -> Flags:
        """Of each delete: whether it is of this kind."""
        mine: Flags = self.kind == KINDS.index(kind)
        return mine

    @cached_property
    def keys(self) -> Ints:
        """Of each delete: its records if they are keys, else 0."""
        return np.where(self._equality, self.records, 0)

    @cached_property
    def partition(self) -> Ints:
        """Of each delete: the partition that it applies to; -1 for those that apply to none, or everywhere."""
        stats = self._stats
        bound = stats.partition[np.maximum(self._files, 0)] if len(stats.partition) else np.zeros(len(self), np.int64)
        reached = np.where(self._bound, bound, self._own_partition)
        return np.where(self.applied & ~self.everywhere, reached, -1)

    @cached_property
    def _by_partition(self) -> tuple[Ints, Ints]:
        """Deletes by the partition that they apply to, and where each partition begins."""
        order = np.argsort(self.partition, kind="stable")
        return order, np.searchsorted(self.partition[order], np.arange(len(self._stats.partitions) + 1))

    def applied_to(self, files: Ints) -> Ints:
        """The deletes that apply to any of some data files."""
        if not len(files) or not len(self):
            return np.zeros(0, np.int64)
        stats, partitions = self._stats, self._stats.partition[files]
        if (partitions == partitions[0]).all():
            local = [self._applied_in(int(partitions[0]), files)]
        else:
            local = [self._applied_in(at, files[partitions == at]) for at in np.unique(partitions).tolist()]
        everywhere = self._far_reaching
        return np.concatenate([everywhere[self.number[everywhere] > stats.number[files].min()], *local])

    def _applied_in(self, partition: int, files: Ints) -> Ints:
        """The deletes of one partition that apply to any of these of its files."""
        stats, (order, begin) = self._stats, self._by_partition
        some = order[begin[partition] : begin[partition + 1]]
        if not len(some) or len(files) == stats.counts[partition]:
            return some
        oldest = stats.number[files].min()
        reaches = np.where(self._equality[some], oldest < self.number[some], oldest <= self.number[some])
        return some[np.where(self._bound[some], np.isin(self._files[some], files), reaches)]

    @cached_property
    def _far_reaching(self) -> Ints:
        """The deletes that may apply to files of every partition, and apply to some."""
        return np.flatnonzero(self.everywhere & self.applied)

    @cached_property
    def touched(self) -> Flags:
        """Of each data file: whether any delete applies to it."""
        loose = ~self._bound & ~self._equality
        touched = self._by_equality | (self._newest(loose) >= self._stats.number)
        touched[self._files[self._files >= 0]] = True
        return touched

    @cached_property
    def single(self) -> Flags:
        """Of each data file: whether one delete applies to it that is bound to it, and no other."""
        if not len(self):
            return np.zeros(len(self._stats.size), np.bool_)
        bound = self._files[self._files >= 0]
        loose = ~self._bound & ~self._equality
        once = np.bincount(bound, minlength=len(self._stats.size)) == 1
        alone: Flags = once & ~self._by_equality & (self._newest(loose) < self._stats.number)
        return alone

    @cached_property
    def hits(self) -> Ints:
        """Of each data file: row groups that deletes may touch. Each deleted position counts as if it were in another
        one, and keys may match in any."""
        hits = np.zeros(len(self._stats.size), np.int64)
        if not len(self):
            return hits
        bound, vector = self._files >= 0, self.of(DeleteKind.DV)
        plain = np.ones(len(hits), np.bool_)
        plain[self._files[bound & vector]] = False  # a vector says all there is to say about positions
        np.add.at(hits, self._files[bound & vector], self.records[bound & vector])
        bound &= ~vector
        np.add.at(hits, self._files[bound], self.records[bound] * plain[self._files[bound]])
        hits += np.where(plain, self._loose_records, 0)
        return np.where(self._by_equality, self._stats.row_groups, np.minimum(hits, self._stats.row_groups))

    @cached_property
    def _by_equality(self) -> Flags:
        """Of each data file: whether an equality delete applies to it."""
        reached: Flags = self._newest(self._equality & ~self.everywhere) > self._stats.number
        if self.everywhere.any():
            reached |= self.number[self.everywhere].max() > self._stats.number
        return reached

    def _newest(self, some: Flags) -> Ints:
        """Of each data file: the largest sequence number of some deletes of its partition; -1 if there are none."""
        some = some & (self._own_partition >= 0)
        newest = np.full(len(self._stats.partitions), -1, np.int64)
        np.maximum.at(newest, self._own_partition[some], self.number[some])
        return newest[self._stats.partition]

    @property
    def _loose_records(self) -> Ints:
        """Of each data file: records of the position deletes of its partition that are bound to no file and apply."""
        stats, some = self._stats, ~self._bound & ~self._equality & (self._own_partition >= 0)
        if not some.any():
            return np.zeros(len(stats.size), np.int64)
        room = int(max(self.number.max(), stats.number.max(initial=0))) + 1
        order = np.lexsort((self.number[some], self._own_partition[some]))
        keys, until = (self._own_partition[some] * room + self.number[some])[order], self.records[some][order].cumsum()
        total = np.concatenate([[0], until])
        first = np.searchsorted(keys, stats.partition * room + stats.number)
        records: Ints = total[np.searchsorted(keys, (stats.partition + 1) * room)] - total[first]
        return records
