"""One file made of column chunks from other files.

Row groups that are copied, row groups that were encoded just now and single chunks that were made up (a
column the source lacks, row ids) all look alike here: each column of a row group is a chunk of some input.
Bytes are moved in as few pieces as possible, and one footer is written for all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from icepact.execute.parquet.footer import MAGIC, Chunk, Footer, RowGroup, footer_bytes
from icepact.execute.parquet.input import ByteSource, FileInMemory, MemorySource, Pick, Range
from icepact.execute.parquet.joining import JoinedChunk
from icepact.execute.parquet.layout import PAGE_ENCODING
from icepact.execute.parquet.new_chunk import NewChunk
from icepact.execute.parquet.pages import moved_offset_index
from icepact.execute.parquet.schema import Leaf, leaves, tree
from icepact.execute.parquet.thrift import Fields
from icepact.execute.parquet.trust import without_disputed

_MOST_ORDINALS = 32767
_BYTES_PER_CHUNK = 100
_BYTES_PER_PAGE = 10


class ByteSink(Protocol):
    """A new file with two verbs: append bytes, and copy a range of a source."""

    @property
    def position(self) -> int:
        """Bytes so far."""

    @property
    def copies_server_side(self) -> bool:
        """True if large ranges are copied by the store itself, so that small appends between them hurt."""

    def append(self, data: bytes | memoryview) -> None:
        """Add bytes."""

    def copy(self, source: Any, offset: int, length: int) -> None:
        """Add a range of a source, of the kind that the sink's own storage opens."""


ChunkToWrite: TypeAlias = Pick | JoinedChunk | NewChunk
"""A column chunk of the next row group."""


@dataclass(slots=True)
class _OutputChunk:
    """A chunk of the output, with all that must be remembered of it once its input is closed."""

    chunk: Chunk
    statistics: Fields
    pages: Fields | None
    index: bytes | None
    """Statistics per page."""
    bloom: bytes | memoryview | None = None
    """A bloom filter that is still to be written."""
    bloom_start: int | None = None
    copied: Sequence[tuple[int, Range]] = ()
    """Ranges that were copied, each with its offset in the chunk."""
    waiting: bytes | None = None
    """Its bytes, while they wait to be written behind the row groups."""
    start: int = -1


@dataclass(slots=True)
class _OutputGroup:
    """A row group of the output."""

    rows: int
    chunks: list[_OutputChunk]
    sorting: list[Fields] | None


class Copy(NamedTuple):
    """Bytes that were copied from a file."""

    origin: Range
    at: int
    """Offset in the output."""


class AssembledFile(NamedTuple):
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
        sink: ByteSink,
        schema: Sequence[Fields],
        *,
        created_by: str,
        key_values: Mapping[str, str],
        most_waiting: int = 64 * 1024**2,
    ) -> None:
        """`most_waiting` bytes of chunks stay in memory until the end, where the store copies by itself."""
        self._sink = sink
        self._schema = list(schema)
        self.leaves: list[Leaf] = leaves(tree(self._schema))
        self._created_by = created_by
        self._key_values = key_values
        self._groups: list[_OutputGroup] = []
        self._pending: tuple[ByteSource, int, int] | None = None
        self._room_to_wait = most_waiting
        self.copied_bytes = 0
        self.appended_bytes = 0

    def size_with(self, more: int) -> int:
        """About how large the file becomes with a further row group of so many bytes, footer and indexes included."""
        described = sum(_metadata_size(output) for group in self._groups[-1:] for output in group.chunks)
        return self.copied_bytes + self.appended_bytes + more + described * (len(self._groups) + 1)

    @property
    def rows(self) -> int:
        """Rows so far."""
        return sum(group.rows for group in self._groups)

    def add(self, rows: int, parts: Sequence[ChunkToWrite], sorting: list[Fields] | None = None) -> None:
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
        chunks = [_OutputChunk(p.chunk, p.statistics, p.pages, p.page_statistics, p.bloom) for p in parts]
        group = _OutputGroup(rows=rows, chunks=chunks, sorting=sorting)
        for output, part in zip(group.chunks, parts, strict=True):
            ranges = part.ranges
            self._count(output, ranges)
            if later and _in_memory(part):
                output.waiting = b"".join(piece.source.read(piece.start, piece.size) for piece in ranges)
                self._room_to_wait -= len(output.waiting)
            else:
                self._write_chunk(output, ranges)
        self._groups.append(group)
        if not self._sink.copies_server_side:
            self._flush()
            self._write_blooms(group)

    def _may_wait(self, parts: Sequence[ChunkToWrite]) -> bool:
        """True if chunks in memory go behind the last row group, where the store copies the rest by itself.

        Readers tell which split a row group belongs to by its first chunk plus half its size: so the first
        chunk never waits, and what waits is never more than half.
        """
        if not self._sink.copies_server_side or _in_memory(parts[0]):
            return False
        waits = sum(part.chunk.size for part in parts if _in_memory(part))
        return waits <= self._room_to_wait and 2 * waits < sum(part.chunk.size for part in parts)

    # -- bytes ----------------------------------------------------------------------------------------

    def _write_chunk(self, output: _OutputChunk, ranges: Sequence[Range]) -> None:
        output.start = self._write_range(ranges[0])
        for further in ranges[1:]:
            self._write_range(further)

    def _count(self, output: _OutputChunk, ranges: Sequence[Range]) -> None:
        within = 0
        copied: list[tuple[int, Range]] = []
        for piece in ranges:
            if isinstance(piece.source, MemorySource) and not isinstance(piece.source, FileInMemory):
                self.appended_bytes += piece.size
            else:
                self.copied_bytes += piece.size
                copied.append((within, piece))
            within += piece.size
        output.copied = copied

    def _write_range(self, piece: Range) -> int:
        """Append or copy a range; returns its offset in the output. Ranges that follow each other become one copy."""
        source, start, size = piece.source, piece.start, piece.size
        if isinstance(source, MemorySource):
            self._flush()
            self._begin()
            at = self._sink.position
            for part in source.parts(start, size):
                self._sink.append(part)
            if self._sink.position != at + size:
                raise AssertionError("a chunk is not as long as it says")
            return at
        pending = self._pending
        if pending is not None and pending[0] is source and pending[1] + pending[2] == start:
            self._pending = source, pending[1], pending[2] + size
            return self._sink.position + pending[2]
        self._flush()
        first = self._begin(source, start)
        self._pending = source, first, start + size - first
        return self._sink.position + start - first

    def _begin(self, source: ByteSource | None = None, start: int = 0) -> int:
        """The magic at the beginning: where the first copy follows its own file's magic, it comes along."""
        if self._sink.position > 0:
            return start
        if self._sink.copies_server_side and source is not None and start == len(MAGIC) and source.read(0, 4) == MAGIC:
            return 0
        self._sink.append(MAGIC)
        return start

    def _flush(self) -> None:
        if self._pending is not None:
            source, start, length = self._pending
            self._pending = None
            self._sink.copy(source, start, length)

    def _write_blooms(self, group: _OutputGroup) -> None:
        for output in group.chunks:
            if output.bloom is not None:
                output.bloom_start = self._sink.position
                self._sink.append(output.bloom)
                output.bloom = None

    # -- the end ----------------------------------------------------------------------------------------

    def finish(self) -> AssembledFile:
        """Write what comes behind the row groups; the sink is left for the caller to close."""
        self._flush()
        self._begin()
        for group in self._groups:
            for output in group.chunks:
                if output.waiting is not None:
                    self._write_chunk(output, [Range(MemorySource(output.waiting), 0, len(output.waiting))])
                    output.waiting = None
        for group in self._groups:
            self._write_blooms(group)
        described = [[_column(p, leaf) for p, leaf in zip(g.chunks, self.leaves, strict=True)] for g in self._groups]
        self._append_indexes(described)
        row_groups = [self._row_group(number, group, described[number]) for number, group in enumerate(self._groups)]
        fields: Fields = {
            1: 2,
            2: self._schema,
            3: self.rows,
            4: row_groups,
            5: [{1: key.encode(), 2: value.encode()} for key, value in self._key_values.items()],
            6: self._created_by.encode(),
            7: [{1: {}}] * len(self.leaves),
        }
        start = self._sink.position
        self._sink.append(footer_bytes(fields))
        footer = Footer(fields, self._sink.position, start)
        _check_splits(footer.row_groups)
        return AssembledFile(footer, self.copied_bytes, self.appended_bytes, self._copies())

    def _copies(self) -> list[Copy]:
        chunks = [output for group in self._groups for output in group.chunks]
        copies = [Copy(piece, output.start + within) for output in chunks for within, piece in output.copied]
        return sorted(copies, key=lambda copy: copy.at)

    def _append_indexes(self, described: list[list[Fields]]) -> None:
        """All statistics per page, then all page locations."""
        for group, columns in zip(self._groups, described, strict=True):
            for output, column in zip(group.chunks, columns, strict=True):
                if output.index is not None:
                    column |= {6: self._sink.position, 7: len(output.index)}
                    self._sink.append(output.index)
        for group, columns in zip(self._groups, described, strict=True):
            for output, column in zip(group.chunks, columns, strict=True):
                if output.pages is not None:
                    moved = moved_offset_index(output.pages, output.start - output.chunk.start)
                    column |= {4: self._sink.position, 5: len(moved)}
                    self._sink.append(moved)

    def _row_group(self, number: int, group: _OutputGroup, columns: list[Fields]) -> Fields:
        fields: Fields = {
            1: columns,
            2: sum(output.chunk.uncompressed_size for output in group.chunks),
            3: group.rows,
            5: group.chunks[0].start if group.chunks else self._sink.position,
            6: sum(output.chunk.size for output in group.chunks),
        }
        if group.sorting:
            fields[4] = group.sorting
        if number <= _MOST_ORDINALS:
            fields[7] = number
        return fields


def _in_memory(part: ChunkToWrite) -> bool:
    return all(isinstance(piece.source, MemorySource) for piece in part.ranges)


def _metadata_size(output: _OutputChunk) -> int:
    """About how many bytes describe a chunk: in the footer, and in the page indexes."""
    statistics = sum(len(output.statistics.get(number, b"")) for number in (5, 6))
    pages = 0 if output.pages is None else _BYTES_PER_PAGE * len(output.pages[1])
    return _BYTES_PER_CHUNK + statistics + pages + len(output.index or b"")


def _column(output: _OutputChunk, leaf: Leaf) -> Fields:
    """The description of a chunk at its new offset, under its new name."""
    chunk = output.chunk
    by = output.start - chunk.start
    meta: Fields = {number: chunk.meta[number] for number in (1, 2, 4, 5, 6, 7, 16) if number in chunk.meta}
    counted = chunk.meta.get(13, [])
    if counted and all(len(entry) == len(PAGE_ENCODING) for entry in counted):
        meta[13] = counted
    meta |= {3: list(leaf.path), 9: chunk.data_offset + by}
    if chunk.dictionary_offset is not None:
        meta[11] = chunk.dictionary_offset + by
    if statistics := without_disputed(leaf, output.statistics):
        meta[12] = statistics
    if output.bloom_start is not None:
        meta[14] = output.bloom_start
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
