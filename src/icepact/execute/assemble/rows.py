"""Rows on their way into new row groups: collected until there are enough for one."""

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa

from icepact.execute.assemble.decode import Decoder, in_dictionary, named_encoding
from icepact.execute.assemble.encode import Encoder, leaf_paths
from icepact.execute.assemble.errors import NotAssembled
from icepact.execute.assemble.output import Outputs
from icepact.execute.assemble.segments import Segment
from icepact.execute.assemble.target import Target
from icepact.execute.assemble.work import Writing
from icepact.execute.parquet.assembler import Pick
from icepact.execute.parquet.layout import BOOLEAN

_SHARE = 8
"""Of a task's memory, an eighth holds decoded rows; the rest is for what is being read and written."""
_MOST_ROWS = 32 * 1024**2
"""Of a row group: the writer cuts larger ones in two by itself."""
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


class Rows:
    """Collects decoded rows, and encodes them once they are enough for a row group."""

    def __init__(self, target: Target, writing: Writing, encoder: Encoder, outputs: Outputs) -> None:
        self._target = target
        self._writing = writing
        self._encoder = encoder
        self._outputs = outputs
        self._paths = leaf_paths(encoder.schema)
        self._width = sum(_width(field.type) for field in encoder.schema)
        self._held = _Held()
        self._checked = False

    @property
    def empty(self) -> bool:
        """True if nothing waits."""
        return self._held.rows == 0

    def take(self, segment: Segment, decoder: Decoder) -> None:
        """Decode a segment's surviving rows."""
        where = segment.where
        self._remember(segment)
        per_row = where.size / max(1, where.rows)
        limit = self._writing.task_memory // _SHARE
        guess = max(_DECODED * where.uncompressed_size / max(1, where.rows), self._width)
        most = max(1, min(int(limit / 2 / max(1.0, guess)), round(self._writing.row_group_bytes / max(1.0, per_row))))
        for table in decoder.rows(segment.group, segment.keep, most):
            at = 0
            while at < table.num_rows:
                room = max(1, round((self._writing.row_group_bytes - self._held.compressed) / max(1.0, per_row)))
                room = min(room, _MOST_ROWS - self._held.rows)
                piece = table.slice(at, room)
                at += piece.num_rows
                self._hold(piece, per_row * piece.num_rows)
                if piece.num_rows == room or self._held.memory >= limit:
                    self.flush()
                    self._remember(segment)

    def _hold(self, table: pa.Table, compressed: float) -> None:
        held = self._held
        held.tables.append(table)
        held.rows += table.num_rows
        held.memory += table.nbytes
        held.compressed += compressed

    def _remember(self, segment: Segment) -> None:
        """How the source holds its columns decides how the output does."""
        for number, place in enumerate(segment.view.leaf_of):
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
        wanted = [n for n, leaf in enumerate(self._target.leaves) if leaf.physical != BOOLEAN]
        dictionaries = frozenset(self._paths[n] for n in wanted if held.in_dictionary[n] > 0)
        encodings = {self._paths[n]: e for n, e in held.encodings.items() if self._paths[n] not in dictionaries}
        encoded = self._encoder.encode(_joined(held.tables), dictionaries, encodings)
        held.tables.clear()
        if (encoded.footer.rows, len(encoded.footer.row_groups)) != (held.rows, 1):
            raise NotAssembled("rows could not be encoded as one row group")
        if not self._checked:
            self._encoder.check(encoded)
            self._checked = True
        group = encoded.footer.row_groups[0]
        self._outputs.add(group.rows, [Pick(encoded, 0, n) for n in range(len(group.chunks))])
        del encoded
        pa.default_memory_pool().release_unused()  # or the peak would be that of all phases together


def _joined(tables: list[pa.Table]) -> pa.Table:
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
