"""Rows on their way into new row groups: collected until there are enough for one."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from icepact.execute.assemble.decode import Decoder, in_dictionary, named_encoding
from icepact.execute.assemble.encode import Encoder, leaf_paths
from icepact.execute.assemble.errors import NotAssembled, one_line
from icepact.execute.assemble.output import Outputs
from icepact.execute.assemble.segments import Segment
from icepact.execute.assemble.target import ROW_ID, Target
from icepact.execute.assemble.work import MOST_ROWS, Writing
from icepact.execute.parquet.assembler import Part
from icepact.execute.parquet.input import Input, Pick
from icepact.execute.parquet.joining import Joined
from icepact.execute.parquet.layout import BOOLEAN

_SHARE = 8
"""Of a task's memory, an eighth holds decoded rows; the rest is for what is being read and written."""
_DECODED = 3
"""How much larger decoded values are than encoded ones, at first guess."""


@dataclass(slots=True)
class _Held:
    """Decoded rows, and how their sources held them."""

    tables: list[pa.Table] = field(default_factory=list)
    rows: int = 0
    memory: int = 0
    compressed: float = 0.0
    in_dictionary: Counter[int] = field(default_factory=Counter)
    """By leaf of the target: values that came out of dictionaries, less those that did not."""
    encodings: dict[int, str] = field(default_factory=dict)
    joined: dict[int, list[Pick]] = field(default_factory=lambda: defaultdict(list))
    """By leaf of the target: chunks whose pages are joined instead of decoded."""


class Rows:
    """Collects decoded rows, and encodes them once they are enough for a row group."""

    def __init__(self, target: Target, writing: Writing, encoder: Encoder, outputs: Outputs) -> None:
        self._target = target
        self._writing = writing
        self._encoder = encoder
        self._outputs = outputs
        self._paths = leaf_paths(encoder.schema)
        self._limit = writing.task_memory // _SHARE
        self._largest = min(writing.row_group_rows, MOST_ROWS)
        self._width = sum(_width(field.type) for field in encoder.schema)
        self._held = _Held()
        self._known_good: set[int] = set()
        self._decoder: Decoder | None = None

    @property
    def empty(self) -> bool:
        """True if nothing waits."""
        return self._held.rows == 0

    def take(self, segment: Segment) -> None:
        """Decode a segment's surviving rows."""
        where = segment.where
        self._remember(segment)
        per_row = self._expected_size(segment) / max(1, where.rows)
        fitting = round(self._writing.row_group_bytes / max(1.0, per_row))
        most = max(1, min(self._most_rows(segment), fitting))
        for table in self._decoded(segment, most):
            at = 0
            while at < table.num_rows:
                room = max(1, round((self._writing.row_group_bytes - self._held.compressed) / max(1.0, per_row)))
                room = min(room, self._largest - self._held.rows)
                piece = table.slice(at, room)
                at += piece.num_rows
                self._hold(piece, per_row * piece.num_rows)
                if piece.num_rows == room or self._held.memory >= self._limit:
                    self.flush()
                    self._remember(segment)

    def _expected_size(self, segment: Segment) -> int:
        """Bytes that a segment takes when it is encoded, if nothing of it is deleted."""
        where = segment.where
        return where.uncompressed_size if self._writing.codec == "uncompressed" else where.size

    def _most_rows(self, segment: Segment) -> int:
        """Rows of a segment that may be decoded at once."""
        where = segment.where
        guess = max(_DECODED * where.uncompressed_size / max(1, where.rows), self._width)
        return min(int(self._limit / 2 / max(1.0, guess)), self._writing.batch_rows)

    def join(self, segments: Sequence[Segment]) -> None:
        """Make one row group of small ones, or a few if they are too much to decode at once.

        Where pages of a column can be joined, they are, and only the other columns are decoded.
        """
        columns = _worth_joining(segments)
        most = min(map(self._most_rows, segments), default=0)
        if not columns or any(segment.where.rows > min(most, self._largest) for segment in segments):
            for segment in segments:
                self.take(segment)
            return
        self.flush()
        for segment in segments:
            if self._held.memory >= self._limit or self._held.rows + segment.rows > self._largest:
                self.flush()
            self._remember(segment)
            own = columns & segment.joinable
            for table in self._decoded(segment, max(1, segment.where.rows), without=own):
                self._join(segment, table, columns, own)
        self.flush()

    def _decoded(self, segment: Segment, most: int, without: frozenset[int] = frozenset()) -> Iterator[pa.Table]:
        """The surviving rows of a segment, at most so many at once."""
        try:
            decoder = self._decoder
            if decoder is None or decoder.view is not segment.view or decoder.without != without:
                decoder = self._decoder = Decoder(segment.view, without)
            yield from decoder.rows(segment.group, segment.keep, most)
        except pa.ArrowMemoryError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise NotAssembled(f"{segment.view.file.path}: {one_line(error)}") from error

    def _join(self, segment: Segment, table: pa.Table, columns: frozenset[int], own: frozenset[int]) -> None:
        """Add what was decoded of a segment, and the pages of its own columns."""
        names = self._encoder.schema.names
        fresh = [names[n] for n in sorted(columns - own)]
        leaves = [n for n, top in enumerate(self._target.top_of_leaf) if top in columns - own]
        encoded = self._checked(self._encoder.plain(table.select(fresh)), leaves, table.num_rows) if fresh else None
        used = 0
        for number, place in enumerate(segment.view.leaf_of):
            top = self._target.top_of_leaf[number]
            if top in own:
                assert place is not None  # `View.joinable` has seen to it
                self._held.joined[number].append(Pick(segment.view.input, segment.group, place))
            elif top in columns:
                assert encoded is not None
                self._held.joined[number].append(Pick(encoded, 0, used))
                used += 1
        rest = table.drop_columns(fresh)
        self._hold(rest, segment.where.size)
        self._held.rows += segment.rows - rest.num_rows  # a table without columns has no rows

    def _hold(self, table: pa.Table, compressed: float) -> None:
        held = self._held
        held.tables.append(table)
        held.rows += table.num_rows
        held.memory += table.nbytes
        held.compressed += compressed

    def _remember(self, segment: Segment) -> None:
        """How the source holds its columns decides how the output does."""
        for number, place in enumerate(segment.view.leaf_of):
            if self._target.leaves[number].field_id == ROW_ID:  # all differ, and mostly by one
                self._held.encodings[number] = "DELTA_BINARY_PACKED"
                continue
            if place is None:
                self._held.in_dictionary[number] += 1
                continue
            chunk = segment.where.chunks[place]
            self._held.in_dictionary[number] += chunk.values if in_dictionary(chunk) else -chunk.values
            encoding = named_encoding(chunk)
            if encoding is not None and chunk.physical == self._target.leaves[number].physical:
                self._held.encodings[number] = encoding

    def flush(self) -> None:
        """Encode what waits as one row group."""
        held, self._held = self._held, _Held()
        if held.rows == 0:
            return
        parts: dict[int, Part] = {number: Joined(picks) for number, picks in held.joined.items()}
        rest = [number for number in range(len(self._target.leaves)) if number not in parts]
        if rest:
            encoded = self._encoded(held, rest)
            parts |= {number: Pick(encoded, 0, n) for n, number in enumerate(rest)}
        self._outputs.add(held.rows, [parts[number] for number in range(len(self._target.leaves))])

    def _encoded(self, held: _Held, leaves: Sequence[int]) -> Input:
        """The decoded columns as one row group; they make up these leaves of the target."""
        wanted = [n for n in leaves if self._target.leaves[n].physical != BOOLEAN]
        dictionaries = frozenset(self._paths[n] for n in wanted if held.in_dictionary[n] > 0)
        encodings = {self._paths[n]: held.encodings[n] for n in leaves if n in held.encodings}
        table = _one_table(held.tables)
        held.tables.clear()
        encoded = self._encoder.encode(table, dictionaries, encodings)
        return self._checked(encoded, leaves, held.rows)

    def _checked(self, encoded: Input, leaves: Sequence[int], rows: int) -> Input:
        """What was encoded has all rows, and means what the target says of these leaves."""
        if (encoded.footer.rows, len(encoded.footer.row_groups)) != (rows, 1):
            raise NotAssembled("rows could not be encoded as one row group")
        if not self._known_good.issuperset(leaves):
            self._encoder.check(encoded, leaves)
            self._known_good.update(leaves)
        return encoded


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


def _width(kind: pa.DataType) -> int:
    """Bytes that a decoded value takes at least."""
    if pa.types.is_nested(kind):
        return 16
    return 8 if pa.types.is_string(kind) or pa.types.is_binary(kind) else max(1, kind.bit_width // 8)
