"""The census of a table: every live file as numbers in columns, without its path.

A sheet holds the files of one manifest. Manifests never change, so that sheets can be kept: a table that gained a
manifest costs one sheet. Whatever is decided about partitions is decided from the census; paths are looked up only for
the partitions that are chosen.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from icepact.model.histogram import Histogram
from icepact.model.table import DataFile, DeleteFile, DeleteKind, Key, Partition, Pinned, TableState

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
KINDS = tuple(DeleteKind)
"""In the order of their numbers in sheets."""
FORMATS = ("parquet", "orc", "avro")
"""Of data files, in the order of their numbers in sheets."""
COLUMNS = ("place", "size", "rows", "number", "row_groups", "key", "kind", "low", "high", "tail")
"""Of a sheet, in this order."""
_FORMAT = 3
NEVER = int(np.iinfo(np.int64).max)
"""A sequence number that no file has."""
_ALWAYS = int(np.iinfo(np.int64).min)


@dataclass(frozen=True, kw_only=True, eq=False)
class Sheet:
    """The live files of one manifest, in its order: columns of equal length."""

    spec_id: int
    deletes: bool
    """True for delete files."""
    partitions: tuple[Partition, ...]
    place: Ints
    """Of each file: its partition, as an index."""
    size: Ints
    """Bytes; of the blob for a deletion vector."""
    rows: Ints
    """Records."""
    number: Ints
    """Data sequence number; 0 on format version 1."""
    row_groups: Ints
    """Places where readers may begin, at least 1."""
    key: Ints
    """Hash of the file's path; for delete files, of the data file that it is bound to, and 0 if it is to none."""
    kind: Ints
    """Of delete files: an index into `KINDS`; of data files: one into `FORMATS`."""
    low: Ints
    """Smallest value of the first sort column, as a number of the same order; 0 if there is none."""
    high: Ints
    """Its largest value."""
    tail: Ints
    """Bytes from the last place where readers may begin to the end, which is often fewer than the others have; the
    size of a file that has but one."""
    sorted_by: int = 0
    """Field id of that column; 0 if the table has no sort order."""

    def __len__(self) -> int:
        return len(self.size)

    @cached_property
    def index(self) -> Mapping[Partition, int]:
        """Partitions by what they are."""
        return {partition: at for at, partition in enumerate(self.partitions)}

    @cached_property
    def sizes(self) -> Histogram:
        """Of the files."""
        return Histogram.of(self.size)

    def only(self, wanted: Collection[Key]) -> "Sheet | None":
        """The files of some partitions; null if there are none."""
        if len(wanted) < len(self.partitions):
            taken = sorted(self.index[p] for spec, p in wanted if spec == self.spec_id and p in self.index)
        else:
            taken = [at for at, partition in enumerate(self.partitions) if (self.spec_id, partition) in wanted]
        if len(taken) == len(self.partitions):
            return self
        if not taken:
            return None
        numbers = np.full(len(self.partitions), -1)
        numbers[taken] = np.arange(len(taken))
        place = numbers[self.place]
        mask = place >= 0
        columns = {name: getattr(self, name)[mask] for name in COLUMNS if name != "place"}
        return replace(self, partitions=tuple(self.partitions[at] for at in taken), place=place[mask], **columns)

    def to_bytes(self) -> bytes:
        """The sheet as it is kept."""
        columns = [_narrow(getattr(self, name)) for name in COLUMNS]
        head = {
            "format": _FORMAT,
            "spec_id": self.spec_id,
            "deletes": self.deletes,
            "sorted_by": self.sorted_by,
            "partitions": self.partitions,
            "widths": [column.itemsize for column in columns],
        }
        told = json.dumps(head).encode()
        body = b"".join(column.tobytes() for column in columns)
        return len(told).to_bytes(4, "little") + len(body).to_bytes(8, "little") + told + body

    @staticmethod
    def from_bytes(document: bytes) -> "Sheet | None":
        """A sheet as it was; null if it is of another format, or broken: then it is made anew."""
        try:
            begin = 12 + int.from_bytes(document[:4], "little")
            body = int.from_bytes(document[4:12], "little")
            head = json.loads(document[12:begin])
            widths = head["widths"]
            if head["format"] != _FORMAT or len(document) != begin + body or len(widths) != len(COLUMNS):
                return None
            files, rest = divmod(body, sum(widths))
            if rest:
                return None
            columns = {}
            for name, width in zip(COLUMNS, widths, strict=True):
                columns[name] = np.frombuffer(document, f"<i{width}", files, begin).astype(np.int64)
                begin += width * files
            if files and not 0 <= columns["place"].min() <= columns["place"].max() < len(head["partitions"]):
                return None
            return Sheet(
                spec_id=head["spec_id"],
                deletes=head["deletes"],
                sorted_by=head["sorted_by"],
                partitions=tuple(tuple(values) for values in head["partitions"]),
                **columns,
            )
        except (ValueError, LookupError, TypeError, ArithmeticError):
            return None


def _narrow(column: Ints) -> npt.NDArray[np.signedinteger[Any]]:
    """The same numbers in as few bytes as they need."""
    low, high = (int(column.min()), int(column.max())) if len(column) else (0, 0)
    width = next(width for width in (1, 2, 4, 8) if -(2 ** (8 * width - 1)) <= low and high < 2 ** (8 * width - 1))
    return column.astype(f"<i{width}")


def order_of(key: Key) -> tuple[int, list[tuple[bool, str]]]:
    """Where a partition stands among others."""
    return key[0], [(value is not None, str(value)) for value in key[1]]


@dataclass(frozen=True, kw_only=True)
class Census:
    """All live files of one snapshot."""

    pin: Pinned
    sheets: Mapping[str, Sheet]
    """By the path of the manifest."""

    def only(self, wanted: Collection[Key]) -> "Census":
        """The census of some partitions. Deletes that apply everywhere stay."""
        everywhere = {spec_id for spec_id, spec in self.pin.specs.items() if spec.unpartitioned}
        parts = {
            path: sheet if sheet.deletes and sheet.spec_id in everywhere else sheet.only(wanted)
            for path, sheet in self.sheets.items()
        }
        if all(parts[path] is sheet for path, sheet in self.sheets.items()):
            return self
        return Census(pin=self.pin, sheets={path: part for path, part in parts.items() if part is not None})

    @cached_property
    def places(self) -> list[Key]:
        """Partitions with data files, by spec, in a fixed order."""
        found = {(s.spec_id, p) for s in self.sheets.values() if not s.deletes for p in _live(s)}
        return sorted(found, key=order_of)

    @cached_property
    def _index(self) -> dict[Key, int]:
        return {place: at for at, place in enumerate(self.places)}

    def _column(self, name: str, *, deletes: bool) -> Ints:
        columns = [getattr(s, name) for s in self.sheets.values() if s.deletes is deletes]
        return np.concatenate(columns) if columns else np.zeros(0, np.int64)

    def _places_of(self, *, deletes: bool) -> Ints:
        """Of each file: an index into `places`; -1 for deletes of partitions that no data file is in."""
        columns = []
        for sheet in self.sheets.values():
            if sheet.deletes is deletes:
                table = [self._index.get((sheet.spec_id, p), -1) for p in sheet.partitions]
                columns.append(np.array(table or [0], np.int64)[sheet.place])
        return np.concatenate(columns) if columns else np.zeros(0, np.int64)

    # -- data files -------------------------------------------------------------------------------

    @cached_property
    def place(self) -> Ints:
        """Of each data file: an index into `places`."""
        return self._places_of(deletes=False)

    @cached_property
    def size(self) -> Ints:
        """Bytes of each data file."""
        return self._column("size", deletes=False)

    @cached_property
    def rows(self) -> Ints:
        """Records of each data file, deleted ones included."""
        return self._column("rows", deletes=False)

    @cached_property
    def number(self) -> Ints:
        """Data sequence number of each data file."""
        return self._column("number", deletes=False)

    @cached_property
    def row_groups(self) -> Ints:
        """Places where readers may begin, of each data file."""
        return self._column("row_groups", deletes=False)

    @cached_property
    def tail(self) -> Ints:
        """Bytes of each data file's last row group."""
        return self._column("tail", deletes=False)

    @cached_property
    def format(self) -> Ints:
        """Format of each data file, as an index into `FORMATS`."""
        return self._column("kind", deletes=False)

    @cached_property
    def low(self) -> Ints:
        """Smallest sort key of each data file."""
        return self._column("low", deletes=False)

    @cached_property
    def high(self) -> Ints:
        """Largest sort key of each data file."""
        return self._column("high", deletes=False)

    @cached_property
    def bounded(self) -> Flags:
        """Of each data file: whether its smallest and largest sort keys are known; false if the table is not sorted."""
        key = self.pin.sort_key
        told = [np.full(len(s), s.sorted_by == key != 0) for s in self.sheets.values() if not s.deletes]
        known: Flags = np.concatenate(told) if told else np.zeros(0, np.bool_)
        return known & (self.low <= self.high) & ((self.low > _ALWAYS) | (self.high < NEVER))

    @cached_property
    def _key(self) -> Ints:
        return self._column("key", deletes=False)

    @cached_property
    def broken(self) -> Flags:
        """Of each place: whether one of its data files is listed more than once."""
        _, first, often = np.unique(self._key, return_index=True, return_counts=True)
        found = np.zeros(len(self.places), np.bool_)
        if len(first) < len(self._key):
            found[self.place[np.isin(self._key, self._key[first[often > 1]])]] = True
        return found

    @cached_property
    def counts(self) -> Ints:
        """Of each place: how many data files it has."""
        return np.bincount(self.place, minlength=len(self.places))

    @cached_property
    def oldest(self) -> Ints:
        """Of each place: the smallest sequence number of its data files."""
        found = np.full(len(self.places), NEVER)
        np.minimum.at(found, self.place, self.number)
        return found

    # -- deletes ----------------------------------------------------------------------------------

    @cached_property
    def deletes(self) -> "Deletes":
        """All delete files, and where they apply."""
        return Deletes(self)


class Deletes:
    """The delete files of a census.

    A delete applies to a place if it can apply to one of its files, by the rules of the format: a deletion vector or a
    delete bound to a file applies to that file; others to the files of their partition that are old enough, equality
    deletes of an unpartitioned spec to those of every partition.
    """

    def __init__(self, census: Census) -> None:
        self._census = census
        column = census._column
        self.kind = column("kind", deletes=True)
        self.records = column("rows", deletes=True)
        self.number = column("number", deletes=True)
        self._key = column("key", deletes=True)
        self._place = census._places_of(deletes=True)
        spec = [np.full(len(s), s.spec_id, np.int64) for s in census.sheets.values() if s.deletes]
        self._spec = np.concatenate(spec) if spec else np.zeros(0, np.int64)
        self._equality = self.kind == KINDS.index(DeleteKind.EQUALITY)
        unpartitioned = [number for number, spec in census.pin.specs.items() if spec.unpartitioned]
        self.everywhere = self._equality & np.isin(self._spec, unpartitioned)
        """Of each delete: whether it may apply to files of every partition."""
        self._bound = ~self._equality & (self._key != 0)

    def __len__(self) -> int:
        return len(self.kind)

    @cached_property
    def _files(self) -> Ints:
        """Of each delete that is bound to a file: that data file's index; -1 if it is not live or too new."""
        census = self._census
        found = np.full(len(self), -1, np.int64)
        if not len(census._key) or not self._bound.any():
            return found
        order = np.argsort(census._key, kind="stable")
        at = np.searchsorted(census._key[order], self._key[self._bound])
        files = order[np.minimum(at, len(order) - 1)]
        fits = census._key[files] == self._key[self._bound]
        fits &= census.number[files] <= self.number[self._bound]
        found[self._bound] = np.where(fits, files, -1)
        return found

    @cached_property
    def applied(self) -> Flags:
        """Of each delete: whether it applies to any live file. Those that do not are dangling."""
        census = self._census
        if not len(census.size):
            return np.zeros(len(self), np.bool_)
        here = self._place >= 0
        oldest = np.where(here, census.oldest[np.maximum(self._place, 0)], NEVER)
        oldest = np.where(self.everywhere, census.number.min(), oldest)
        reaches = np.where(self._equality, oldest < self.number, oldest <= self.number)
        return np.where(self._bound, self._files >= 0, reaches)

    @cached_property
    def idle_in(self) -> Ints:
        """The places of dangling delete files, each as often as it has one; vectors go with their data files."""
        idle = ~self.applied & ~self.of(DeleteKind.DV) & (self._place >= 0)
        return self._place[idle]

    def of(self, kind: DeleteKind) -> Flags:
        """Of each delete: whether it is of this kind."""
        mine: Flags = self.kind == KINDS.index(kind)
        return mine

    @cached_property
    def place(self) -> Ints:
        """Of each delete: the place that it applies to; -1 for those that apply to none, or everywhere."""
        census = self._census
        bound = census.place[np.maximum(self._files, 0)] if len(census.place) else np.zeros(len(self), np.int64)
        place = np.where(self._bound, bound, self._place)
        return np.where(self.applied & ~self.everywhere, place, -1)

    @cached_property
    def _by_place(self) -> tuple[Ints, Ints]:
        """Deletes by the place that they apply to, and where each place begins."""
        order = np.argsort(self.place, kind="stable")
        return order, np.searchsorted(self.place[order], np.arange(len(self._census.places) + 1))

    def applied_to(self, files: Ints) -> Ints:
        """The deletes that apply to any of some data files."""
        if not len(files) or not len(self):
            return np.zeros(0, np.int64)
        census, places = self._census, self._census.place[files]
        if (places == places[0]).all():
            found = [self._applied_in(int(places[0]), files)]
        else:
            found = [self._applied_in(place, files[places == place]) for place in np.unique(places).tolist()]
        everywhere = self._far_reaching
        return np.concatenate([everywhere[self.number[everywhere] > census.number[files].min()], *found])

    def _applied_in(self, place: int, files: Ints) -> Ints:
        """The deletes of one place that apply to any of these of its files."""
        census, (order, begin) = self._census, self._by_place
        some = order[begin[place] : begin[place + 1]]
        if not len(some) or len(files) == census.counts[place]:
            return some
        oldest = census.number[files].min()
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
        found = self._by_equality | (self._newest(loose) >= self._census.number)
        found[self._files[self._files >= 0]] = True
        return found

    @cached_property
    def hits(self) -> Ints:
        """Of each data file: row groups that deletes may touch. Each deleted position counts as if it were in another
        one, and keys may match in any."""
        found = np.zeros(len(self._census.size), np.int64)
        if not len(self):
            return found
        bound, vector = self._files >= 0, self.of(DeleteKind.DV)
        plain = np.ones(len(found), np.bool_)
        plain[self._files[bound & vector]] = False  # a vector says all there is to say about positions
        np.add.at(found, self._files[bound & vector], self.records[bound & vector])
        bound &= ~vector
        np.add.at(found, self._files[bound], self.records[bound] * plain[self._files[bound]])
        found += np.where(plain, self._loose_records, 0)
        return np.where(self._by_equality, self._census.row_groups, np.minimum(found, self._census.row_groups))

    @cached_property
    def _by_equality(self) -> Flags:
        """Of each data file: whether an equality delete applies to it."""
        found: Flags = self._newest(self._equality & ~self.everywhere) > self._census.number
        if self.everywhere.any():
            found |= self.number[self.everywhere].max() > self._census.number
        return found

    def _newest(self, some: Flags) -> Ints:
        """Of each data file: the largest sequence number of some deletes of its partition; -1 if there are none."""
        some = some & (self._place >= 0)
        newest = np.full(len(self._census.places), -1, np.int64)
        np.maximum.at(newest, self._place[some], self.number[some])
        return newest[self._census.place]

    @property
    def _loose_records(self) -> Ints:
        """Of each data file: records of the position deletes of its partition that are bound to no file and apply."""
        census, some = self._census, ~self._bound & ~self._equality & (self._place >= 0)
        if not some.any():
            return np.zeros(len(census.size), np.int64)
        room = int(max(self.number.max(), census.number.max(initial=0))) + 1
        order = np.lexsort((self.number[some], self._place[some]))
        keys, until = (self._place[some] * room + self.number[some])[order], self.records[some][order].cumsum()
        total = np.concatenate([[0], until])
        first = np.searchsorted(keys, census.place * room + census.number)
        found: Ints = total[np.searchsorted(keys, (census.place + 1) * room)] - total[first]
        return found


def census_of(state: TableState) -> Census:
    """The census of a table whose files have been looked up already, such as those that a row filter selects."""
    data: dict[int, list[DataFile]] = {}
    for file in state.files:
        data.setdefault(file.spec_id, []).append(file)
    deletes: dict[int, list[DeleteFile]] = {}
    for delete in state.deletes:
        deletes.setdefault(delete.spec_id, []).append(delete)
    return Census(
        pin=state,
        sheets={
            **{f"data {spec_id}": _data_sheet(spec_id, files) for spec_id, files in sorted(data.items())},
            **{f"deletes {spec_id}": _delete_sheet(spec_id, files) for spec_id, files in sorted(deletes.items())},
        },
    )


def _data_sheet(spec_id: int, files: Sequence[DataFile]) -> Sheet:
    partitions = {partition: at for at, partition in enumerate({f.partition: None for f in files})}
    return Sheet(
        spec_id=spec_id,
        deletes=False,
        partitions=tuple(partitions),
        place=_ints(partitions[f.partition] for f in files),
        size=_ints(f.size for f in files),
        rows=_ints(f.rows for f in files),
        number=_ints(f.sequence_number for f in files),
        row_groups=_ints(len(f.row_groups) or 1 for f in files),
        key=_ints(_hash(f.path) for f in files),
        kind=_ints(FORMATS.index(f.format) for f in files),
        low=np.zeros(len(files), np.int64),
        high=np.zeros(len(files), np.int64),
        tail=_ints(map(tail_of, files)),
    )


def _delete_sheet(spec_id: int, files: Sequence[DeleteFile]) -> Sheet:
    partitions = {partition: at for at, partition in enumerate({f.partition: None for f in files})}
    return Sheet(
        spec_id=spec_id,
        deletes=True,
        partitions=tuple(partitions),
        place=_ints(partitions[f.partition] for f in files),
        size=_ints(f.size for f in files),
        rows=_ints(f.records for f in files),
        number=_ints(f.sequence_number for f in files),
        row_groups=np.ones(len(files), np.int64),
        key=_ints(_hash(f.referenced) if f.referenced is not None else 0 for f in files),
        kind=_ints(KINDS.index(f.kind) for f in files),
        low=np.zeros(len(files), np.int64),
        high=np.zeros(len(files), np.int64),
        tail=_ints(f.size for f in files),
    )


def tail_of(file: DataFile) -> int:
    """Bytes of the last row group of a data file, as far as the manifest tells."""
    return file.size - file.row_groups[-1] if file.row_groups else file.size


def _live(sheet: Sheet) -> Iterable[Partition]:
    """Partitions that files of the sheet are in; of one that was cut down, others are still named."""
    return (sheet.partitions[at] for at in np.unique(sheet.place).tolist())


def _ints(values: Iterable[int]) -> Ints:
    return np.fromiter(values, np.int64)


def _hash(path: str) -> int:
    """Never 0, which stands for no path."""
    return int.from_bytes(blake2b(path.encode(), digest_size=8).digest(), "little", signed=True) or 1
