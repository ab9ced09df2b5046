"""Rows on their way into new row groups: collected until there are enough for one."""

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from icepact.execute.assemble.decode import Decoder
from icepact.execute.assemble.forms import Forms
from icepact.execute.assemble.lanes import Encoding, Lanes
from icepact.execute.assemble.memory import most_decoded, row_size
from icepact.execute.assemble.messages import MOST_ROWS, WriteSettings
from icepact.execute.assemble.output import Outputs
from icepact.execute.assemble.row_map import SourceRows
from icepact.execute.assemble.segments import Segment
from icepact.execute.parquet.assembler import ChunkToWrite
from icepact.execute.parquet.input import Pick
from icepact.execute.parquet.joining import JoinedChunk

_AHEAD = 2
"""Decoded rows that are being encoded, in row groups of the largest size, beside the one that rows are gathered for."""


@dataclass(slots=True)
class _PendingRows:
    """Decoded rows of the next row group, and how their sources encoded them."""

    forms: Forms
    tables: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    memory: int = 0
    compressed: float = 0.0
    joined: dict[int, list[Pick]] = field(default_factory=lambda: defaultdict(list))
    """By leaf of the target: chunks whose pages are joined instead of decoded."""
    sources: list[SourceRows] = field(default_factory=list)
    """Where the rows come from, in their order."""


class _UnderWay(NamedTuple):
    """A row group that is being encoded."""

    rows: int
    sources: Sequence[SourceRows]
    joined: Mapping[int, JoinedChunk]
    encoding: Encoding | None


class RowBuffer:
    """Collects decoded rows, and encodes them once they are enough for a row group."""

    def __init__(self, writing: WriteSettings, lanes: Lanes, outputs: Outputs) -> None:
        self._target = lanes.encoder.target
        self._writing = writing
        self._encoder = lanes.encoder
        self._lanes = lanes
        self._outputs = outputs
        self._limit = most_decoded(writing)
        self._largest = min(writing.row_group_rows, MOST_ROWS)
        self._pending = _PendingRows(Forms(lanes.encoder))
        self._under_way: deque[_UnderWay] = deque()
        self._decoder: Decoder | None = None

    @property
    def empty(self) -> bool:
        """True if nothing waits."""
        return self._pending.rows == 0

    def take(self, segment: Segment) -> None:
        """Decode a segment's surviving rows."""
        row_group = segment.row_group
        self._pending.forms.remember(segment.view, segment.group)
        per_row = self._expected_size(segment) / max(1, row_group.rows)
        fitting = round(self._writing.row_group_bytes / max(1.0, per_row))
        most = max(1, min(self._most_rows(segment), fitting))
        taken = 0
        for table in self._decoded(segment, most):
            at = 0
            while at < table.num_rows:
                room = max(1, round((self._writing.row_group_bytes - self._pending.compressed) / max(1.0, per_row)))
                room = min(room, self._largest - self._pending.rows)
                piece = table.slice(at, room)
                at += piece.num_rows
                self._append(piece, per_row * piece.num_rows, segment.sources(taken, piece.num_rows))
                taken += piece.num_rows
                if piece.num_rows == room or self._pending.memory >= self._limit:
                    self.flush()
                    self._pending.forms.remember(segment.view, segment.group)

    def _expected_size(self, segment: Segment) -> int:
        """Bytes that a segment takes when it is encoded, if nothing of it is deleted."""
        row_group = segment.row_group
        return row_group.uncompressed_size if self._writing.codec == "uncompressed" else row_group.size

    def _most_rows(self, segment: Segment) -> int:
        """Rows of a segment that may be decoded at once."""
        guess = row_size(segment.view, segment.group, self._encoder.schema)
        return min(int(self._limit / 2 / max(1.0, guess)), self._writing.batch_rows)

    def join(self, segments: Sequence[Segment]) -> None:
        """Make one row group of small ones, or a few if they are too much to decode at once.

        Where pages of a column can be joined, they are, and only the other columns are decoded.
        """
        columns = _worth_joining(segments)
        most = min(map(self._most_rows, segments), default=0)
        if not columns or any(segment.row_group.rows > min(most, self._largest) for segment in segments):
            for segment in segments:
                self.take(segment)
            return
        self.flush()
        for segment in segments:
            if self._pending.memory >= self._limit or self._pending.rows + segment.rows > self._largest:
                self.flush()
            self._pending.forms.remember(segment.view, segment.group)
            own = columns & segment.joinable
            for table in self._decoded(segment, max(1, segment.row_group.rows), without=own):
                self._join(segment, table, columns, own)
        self.flush()

    def _decoded(self, segment: Segment, most: int, without: frozenset[int] = frozenset()) -> Iterator[pa.Table]:
        """The surviving rows of a segment, at most so many at once."""
        decoder = self._decoder
        if decoder is None or decoder.view is not segment.view or decoder.without != without:
            decoder = self._decoder = Decoder(segment.view, without)
        return decoder.rows(segment.group, segment.keep, most)

    def _join(self, segment: Segment, table: pa.Table, columns: frozenset[int], own: frozenset[int]) -> None:
        """Add what was decoded of a segment, and the pages of its own columns."""
        names = self._encoder.schema.names
        fresh = [names[n] for n in sorted(columns - own)]
        leaves = [n for n, top in enumerate(self._target.top_of_leaf) if top in columns - own]
        encoded = self._encoder.plain(table.select(fresh)) if fresh else None
        if encoded is not None:
            self._encoder.check(encoded, leaves, table.num_rows)
        used = 0
        for number, index in enumerate(segment.view.leaf_of):
            top = self._target.top_of_leaf[number]
            if top in own:
                assert index is not None  # `InputView.joinable` has seen to it
                self._pending.joined[number].append(Pick(segment.view.input, segment.group, index))
            elif top in columns:
                assert encoded is not None
                self._pending.joined[number].append(Pick(encoded, 0, used))
                used += 1
        rest = table.drop_columns(fresh)
        self._append(rest, segment.row_group.size, segment.sources())
        self._pending.rows += segment.rows - rest.num_rows  # a table without columns has no rows

    def _append(self, table: pa.Table, compressed: float, sources: SourceRows) -> None:
        pending = self._pending
        pending.sources.append(sources)
        pending.tables.append(table)
        pending.rows += table.num_rows
        pending.memory += table.nbytes
        pending.compressed += compressed

    def flush(self) -> None:
        """Encode what waits as one row group. It is written in its turn, at the latest by `finish`."""
        pending, self._pending = self._pending, _PendingRows(Forms(self._encoder))
        if pending.rows == 0:
            return
        joined = {number: JoinedChunk(picks) for number, picks in pending.joined.items()}
        rest = [number for number in range(len(self._target.leaves)) if number not in joined]
        table = _one_table(pending.tables) if rest else None
        pending.tables.clear()
        encoding = None if table is None else self._lanes.begin(table, pending.forms, rest)
        del table  # its columns are let go of one after the other, as they are encoded
        self._under_way.append(_UnderWay(pending.rows, pending.sources, joined, encoding))
        # pages that are joined belong to files that are closed next
        self._write(leaving=0 if joined or self._lanes.count == 1 else self._lanes.count)

    def finish(self) -> None:
        """Encode what waits, and write all that is under way."""
        self.flush()
        self._write(leaving=0)

    def _write(self, *, leaving: int) -> None:
        """Write row groups in order, until so many are left under way at most; then wait until so much of them is
        encoded that memory allows more."""
        while len(self._under_way) > leaving:
            done = self._under_way.popleft()
            parts: dict[int, ChunkToWrite] = {**done.joined}
            if done.encoding is not None:
                parts |= self._lanes.chunks(done.encoding)
            chunks = [parts[number] for number in range(len(self._target.leaves))]
            self._outputs.add(done.rows, chunks, done.sources)
        self._lanes.wait([one.encoding for one in self._under_way if one.encoding], _AHEAD * self._limit)


def _worth_joining(segments: Sequence[Segment]) -> frozenset[int]:
    """Numbers of top-level columns whose pages can be joined for most of the rows."""
    rows: Counter[int] = Counter()
    for segment in segments:
        for number in segment.joinable:
            rows[number] += segment.rows
    half = sum(segment.rows for segment in segments) / 2
    return frozenset(number for number, count in rows.items() if count > half)


def _one_table(tables: list[pa.Table]) -> pa.Table:
    """One table; a column that is a dictionary in some and plain in others becomes plain."""
    schemas = [table.schema for table in tables]
    mixed = {n for n in range(len(schemas[0])) if any(s.field(n).type != schemas[0].field(n).type for s in schemas)}
    if mixed:
        tables = [_plain(table, mixed) for table in tables]
    return pa.concat_tables(tables)


def _plain(table: pa.Table, columns: set[int]) -> pa.Table:
    for number in columns:
        kind = table.schema.field(number).type
        if pa.types.is_dictionary(kind):
            plain = table.column(number).cast(kind.value_type)
            table = table.set_column(number, table.column_names[number], plain)
    return table
