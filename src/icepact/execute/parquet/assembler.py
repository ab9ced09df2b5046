"""One file made of column chunks from other files.

Row groups that are copied, row groups that were encoded just now and single chunks that were made up (a
column the source lacks, row ids) all look alike here: each column of a row group is a chunk of some input.
Bytes are moved in as few pieces as possible, and one footer is written for all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from icepact.execute.parquet.footer import MAGIC, Chunk, Footer, RowGroup, footer_bytes
from icepact.execute.parquet.input import HeldFile, Memory, Range, Source
from icepact.execute.parquet.layout import PAGE_ENCODING
from icepact.execute.parquet.pages import moved_offset_index
from icepact.execute.parquet.schema import Leaf, leaves, tree
from icepact.execute.parquet.thrift import Fields
from icepact.execute.parquet.trust import without_disputed

_MOST_ORDINALS = 32767
_BYTES_PER_CHUNK = 100
_BYTES_PER_PAGE = 10


class Sink(Protocol):
    """A new file with two verbs: append bytes, and copy a range of a source."""

    @property
    def position(self) -> int:
        """Bytes so far."""
        ...

    @property
    def splices(self) -> bool:
        """True if large ranges are copied by the store itself, so that small appends between them hurt."""
        ...

    def append(self, data: bytes | memoryview) -> None:
        """Add bytes."""
        ...

    def copy(self, source: Any, offset: int, length: int) -> None:
        """Add a range of a source, of the kind that the sink's own storage opens."""
        ...


class Part(Protocol):
    """One column of a row group: `Pick` or `Joined`."""

    @property
    def rows(self) -> int:
        """Rows it has values for."""
        ...

    @property
    def chunk(self) -> Chunk:
        """Its description."""
        ...

    @property
    def ranges(self) -> list[Range]:
        """Its bytes, in order."""
        ...

    @property
    def statistics(self) -> Fields:
        """What may be said of its values."""
        ...

    @property
    def pages(self) -> Fields | None:
        """Page locations, in the terms of its description."""
        ...

    @property
    def page_statistics(self) -> bytes | None:
        """Statistics per page."""
        ...

    @property
    def bloom(self) -> bytes | memoryview | None:
        """Its bloom filter with its header."""
        ...


@dataclass(slots=True)
class _Placed:
    """A chunk on its way to its place, with all that must be remembered of it once its input is closed."""

    chunk: Chunk
    statistics: Fields
    pages: Fields | None
    index: bytes | None
    """Statistics per page."""
    bloom: bytes | memoryview | None = None
    """A bloom filter that is still to be written."""
    bloom_start: int | None = None
    copied: Sequence[tuple[int, Range]] = ()
    """What of it was copied, and from where in the chunk on."""
    waiting: bytes | None = None
    """Its bytes, while they wait to be written behind the row groups."""
    start: int = -1


@dataclass(slots=True)
class _Group:
    """A row group of the output."""

    rows: int
    placed: list[_Placed]
    sorting: list[Fields] | None


class Copy(NamedTuple):
    """Bytes that were copied from a file, and where they are now."""

    found: Range
    at: int


class Assembled(NamedTuple):
    """The finished file: its footer, and the bytes that were copied or appended as chunks."""

    footer: Footer
    copied_bytes: int
    appended_bytes: int
    copies: Sequence[Copy]
    """In the order in which they lie in the file."""


class Assembler:
    """Collects row groups into one file."""

    def __init__(
        self,
        sink: Sink,
        schema: Sequence[Fields],
        *,
        created_by: str,
        key_values: Mapping[str, str],
        most_waiting: int = 64 * 1024**2,
    ) -> None:
        """`most_waiting` bytes of chunks are held until the end, where the store copies by itself."""
        self._sink = sink
        self._schema = list(schema)
        self.leaves: list[Leaf] = leaves(tree(self._schema))
        self._created_by = created_by
        self._key_values = key_values
        self._groups: list[_Group] = []
        self._run: tuple[Source, int, int] | None = None
        self._room_to_wait = most_waiting
        self.copied_bytes = 0
        self.appended_bytes = 0

    def size_with(self, more: int) -> int:
        """About how large the file becomes with a further row group of so many bytes, footer and indexes included."""
        described = sum(_described(placed) for group in self._groups[-1:] for placed in group.placed)
        return self.copied_bytes + self.appended_bytes + more + described * (len(self._groups) + 1)

    @property
    def rows(self) -> int:
        """Rows so far."""
        return sum(group.rows for group in self._groups)

    def add(self, rows: int, parts: Sequence[Part], sorting: list[Fields] | None = None) -> None:
        """Add a row group: one part for each column, in the order of the schema.

        An empty one adds nothing: not every reader can bear a row group without rows.
        """
        if len(parts) != len(self.leaves):
            raise ValueError(f"{len(parts)} chunks for {len(self.leaves)} columns")
        for part, leaf in zip(parts, self.leaves, strict=True):
            if part.rows != rows or part.chunk.physical != leaf.physical:
                raise ValueError(f"a chunk does not fit {rows} rows of {leaf.path}")
        if rows == 0:
            return
        later = self._may_wait(parts)
        group = _Group(rows=rows, placed=[_taken(part) for part in parts], sorting=sorting)
        for placed, part in zip(group.placed, parts, strict=True):
            ranges = part.ranges
            self._count(placed, ranges)
            if later and _in_memory(part):
                placed.waiting = b"".join(found.source.read(found.start, found.size) for found in ranges)
                self._room_to_wait -= len(placed.waiting)
            else:
                self._place(placed, ranges)
        self._groups.append(group)
        if not self._sink.splices:
            self._flush()
            self._place_blooms(group)

    def _may_wait(self, parts: Sequence[Part]) -> bool:
        """True if chunks in memory go behind the last row group, where the store copies the rest by itself.

        Readers tell which split a row group belongs to by its first chunk plus half its size: so the first
        chunk never waits, and what waits is never more than half.
        """
        if not self._sink.splices or _in_memory(parts[0]):
            return False
        waits = sum(part.chunk.size for part in parts if _in_memory(part))
        return waits <= self._room_to_wait and 2 * waits < sum(part.chunk.size for part in parts)

    # -- bytes ----------------------------------------------------------------------------------------

    def _place(self, placed: _Placed, ranges: Sequence[Range]) -> None:
        placed.start = self._put(ranges[0])
        for further in ranges[1:]:
            self._put(further)

    def _count(self, placed: _Placed, ranges: Sequence[Range]) -> None:
        within = 0
        copied: list[tuple[int, Range]] = []
        for found in ranges:
            if isinstance(found.source, Memory) and not isinstance(found.source, HeldFile):
                self.appended_bytes += found.size
            else:
                self.copied_bytes += found.size
                copied.append((within, found))
            within += found.size
        placed.copied = copied

    def _put(self, found: Range) -> int:
        """Where the bytes lie in the output, or will lie once the run is copied that they are part of."""
        source, start, size = found.source, found.start, found.size
        if isinstance(source, Memory):
            self._flush()
            self._begin()
            at = self._sink.position
            self._sink.append(source.read(start, size))
            if self._sink.position != at + size:
                raise AssertionError("a chunk is not as long as it says")
            return at
        run = self._run
        if run is not None and run[0] is source and run[1] + run[2] == start:
            self._run = source, run[1], run[2] + size
            return self._sink.position + run[2]
        self._flush()
        first = self._begin(source, start)
        self._run = source, first, start + size - first
        return self._sink.position + start - first

    def _begin(self, source: Source | None = None, start: int = 0) -> int:
        """The magic at the beginning: where the first copy follows its own file's magic, it comes along."""
        if self._sink.position > 0:
            return start
        if self._sink.splices and source is not None and start == len(MAGIC) and source.read(0, 4) == MAGIC:
            return 0
        self._sink.append(MAGIC)
        return start

    def _flush(self) -> None:
        if self._run is not None:
            source, start, length = self._run
            self._run = None
            self._sink.copy(source, start, length)

    def _place_blooms(self, group: _Group) -> None:
        for placed in group.placed:
            if placed.bloom is not None:
                placed.bloom_start = self._sink.position
                self._sink.append(placed.bloom)
                placed.bloom = None

    # -- the end ----------------------------------------------------------------------------------------

    def finish(self) -> Assembled:
        """Write what comes behind the row groups; the sink is left for the caller to close."""
        self._flush()
        self._begin()
        for group in self._groups:
            for placed in group.placed:
                if placed.waiting is not None:
                    self._place(placed, [Range(Memory(placed.waiting), 0, len(placed.waiting))])
                    placed.waiting = None
        for group in self._groups:
            self._place_blooms(group)
        described = [[_column(p, leaf) for p, leaf in zip(g.placed, self.leaves, strict=True)] for g in self._groups]
        self._append_indexes(described)
        row_groups = [self._row_group(number, group, described[number]) for number, group in enumerate(self._groups)]
        ending = footer_bytes(
            schema=self._schema,
            rows=self.rows,
            row_groups=row_groups,
            key_values=self._key_values,
            created_by=self._created_by,
            columns=len(self.leaves),
        )
        start = self._sink.position
        self._sink.append(ending)
        fields: Fields = {2: self._schema, 3: self.rows, 4: row_groups, 7: [{1: {}}] * len(self.leaves)}
        fields[6] = self._created_by.encode()
        footer = Footer(fields, self._sink.position, start)
        _check_splits(footer.row_groups)
        return Assembled(footer, self.copied_bytes, self.appended_bytes, self._copies())

    def _copies(self) -> list[Copy]:
        chunks = [placed for group in self._groups for placed in group.placed]
        found = [Copy(found, placed.start + within) for placed in chunks for within, found in placed.copied]
        return sorted(found, key=lambda copy: copy.at)

    def _append_indexes(self, described: list[list[Fields]]) -> None:
        """All statistics per page, then all page locations."""
        for group, columns in zip(self._groups, described, strict=True):
            for placed, column in zip(group.placed, columns, strict=True):
                if placed.index is not None:
                    column |= {6: self._sink.position, 7: len(placed.index)}
                    self._sink.append(placed.index)
        for group, columns in zip(self._groups, described, strict=True):
            for placed, column in zip(group.placed, columns, strict=True):
                if placed.pages is not None:
                    moved = moved_offset_index(placed.pages, placed.start - placed.chunk.start)
                    column |= {4: self._sink.position, 5: len(moved)}
                    self._sink.append(moved)

    def _row_group(self, number: int, group: _Group, columns: list[Fields]) -> Fields:
        fields: Fields = {
            1: columns,
            2: sum(placed.chunk.uncompressed_size for placed in group.placed),
            3: group.rows,
            5: group.placed[0].start if group.placed else self._sink.position,
            6: sum(placed.chunk.size for placed in group.placed),
        }
        if group.sorting:
            fields[4] = group.sorting
        if number <= _MOST_ORDINALS:
            fields[7] = number
        return fields


def _in_memory(part: Part) -> bool:
    return all(isinstance(found.source, Memory) for found in part.ranges)


def _described(placed: _Placed) -> int:
    """About how many bytes tell of a chunk: in the footer, and in the page indexes."""
    statistics = sum(len(placed.statistics.get(number, b"")) for number in (5, 6))
    pages = 0 if placed.pages is None else _BYTES_PER_PAGE * len(placed.pages[1])
    return _BYTES_PER_CHUNK + statistics + pages + len(placed.index or b"")


def _taken(part: Part) -> _Placed:
    return _Placed(
        chunk=part.chunk, statistics=part.statistics, pages=part.pages, index=part.page_statistics, bloom=part.bloom
    )


def _column(placed: _Placed, leaf: Leaf) -> Fields:
    """The description of a chunk in its new place, under its new name."""
    chunk = placed.chunk
    by = placed.start - chunk.start
    meta: Fields = {number: chunk.meta[number] for number in (1, 2, 4, 5, 6, 7, 16) if number in chunk.meta}
    counted = chunk.meta.get(13, [])
    if counted and all(len(entry) == len(PAGE_ENCODING) for entry in counted):
        meta[13] = counted
    meta |= {3: list(leaf.path), 9: chunk.data_offset + by}
    if chunk.dictionary_offset is not None:
        meta[11] = chunk.dictionary_offset + by
    if statistics := without_disputed(leaf, placed.statistics):
        meta[12] = statistics
    if placed.bloom_start is not None:
        meta[14] = placed.bloom_start
        if 15 in chunk.meta:
            meta[15] = chunk.meta[15]
    return {2: 0, 3: meta}


def _check_splits(groups: Sequence[RowGroup]) -> None:
    """Every reader must find each row group in one split: starts ascend, and middles lie before the next start."""
    starts = [group.chunks[0].start for group in groups if group.chunks]
    middles = [start + group.size // 2 for start, group in zip(starts, groups, strict=False)]
    for middle, start in zip(middles, starts[1:], strict=False):
        if start <= middle:
            raise AssertionError("a row group would be found in the wrong split")
