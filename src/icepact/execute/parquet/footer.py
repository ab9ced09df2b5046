"""A file's footer: read with every field in sight, written anew."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from icepact.execute.parquet.errors import Damaged
from icepact.execute.parquet.layout import FILE_META
from icepact.execute.parquet.schema import Leaf, Node, leaves, tree
from icepact.execute.parquet.thrift import UNKNOWN, Fields, is_known, read_struct, write_struct

MAGIC = b"PAR1"
_ENCRYPTED = b"PARE"
_ENDING = 8
"""Bytes behind the footer: its length, and the magic."""

Read = Callable[[int, int], bytes | memoryview]
"""Bytes of a file by offset and length."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One column chunk, as its footer describes it."""

    fields: Fields
    """All of the description; see `layout.COLUMN_CHUNK`."""

    @property
    def meta(self) -> Fields:
        """The column's metadata; see `layout.COLUMN_META`."""
        meta: Fields = self.fields.get(3, {})
        return meta

    @property
    def physical(self) -> int:
        """Number of the physical type."""
        return int(self.meta.get(1, -1))

    @property
    def encodings(self) -> list[int]:
        """Numbers of the encodings in use, levels included."""
        return list(self.meta.get(2, ()))

    @property
    def data_encodings(self) -> frozenset[int] | None:
        """Encodings of the data pages; `None` if the writer did not count them."""
        counted = self.meta.get(13)
        if not counted:
            return None
        return frozenset(entry.get(2, -1) for entry in counted if entry.get(1) in (0, 3) and entry.get(3, 0))

    @property
    def codec(self) -> int:
        """Number of the codec."""
        return int(self.meta.get(4, -1))

    @property
    def values(self) -> int:
        """Values, nulls included."""
        return int(self.meta.get(5, -1))

    @property
    def size(self) -> int:
        """Bytes in the file, page headers included."""
        return int(self.meta.get(7, -1))

    @property
    def uncompressed_size(self) -> int:
        """Encoded bytes before compression, page headers included."""
        return int(self.meta.get(6, 0))

    @property
    def data_offset(self) -> int:
        """Where the first data page starts."""
        return int(self.meta.get(9, -1))

    @property
    def dictionary_offset(self) -> int | None:
        """Where the dictionary page starts; some writers say 0 if there is none."""
        offset = self.meta.get(11)
        return offset if offset and offset < self.data_offset else None

    @property
    def start(self) -> int:
        """Where the chunk starts."""
        return self.data_offset if self.dictionary_offset is None else self.dictionary_offset

    @property
    def end(self) -> int:
        """Where the chunk ends."""
        return self.start + self.size

    @property
    def statistics(self) -> Fields:
        """Statistics as written; see `layout.STATISTICS`."""
        statistics: Fields = self.meta.get(12, {})
        return statistics

    @property
    def offset_index(self) -> tuple[int, int] | None:
        """Offset and length of the page locations."""
        return _range(self.fields, 4, 5)

    @property
    def column_index(self) -> tuple[int, int] | None:
        """Offset and length of the statistics per page."""
        return _range(self.fields, 6, 7)

    @property
    def bloom_offset(self) -> int | None:
        """Where the bloom filter starts."""
        return self.meta.get(14) or None


def _range(fields: Fields, offset: int, length: int) -> tuple[int, int] | None:
    if fields.get(offset, 0) > 0 and fields.get(length, 0) > 0:
        return fields[offset], fields[length]
    return None


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group, as its footer describes it."""

    fields: Fields
    chunks: tuple[Chunk, ...]
    first_row: int
    """Position in the file of its first row."""

    @property
    def rows(self) -> int:
        """Rows in the group."""
        return int(self.fields.get(3, -1))

    @property
    def size(self) -> int:
        """Bytes of all chunks."""
        return sum(chunk.size for chunk in self.chunks)

    @property
    def uncompressed_size(self) -> int:
        """Encoded bytes of all chunks before compression."""
        return sum(chunk.uncompressed_size for chunk in self.chunks)


@dataclass(frozen=True)
class Footer:
    """The metadata of a file, as its writer left it."""

    fields: Fields
    file_size: int
    start: int
    """Where the footer starts: everything else lies before."""

    @cached_property
    def schema(self) -> Node:
        """The schema as a tree."""
        return tree(self.fields.get(2, []))

    @cached_property
    def leaves(self) -> list[Leaf]:
        """The columns with values, in the order of a row group's chunks."""
        return leaves(self.schema)

    @cached_property
    def row_groups(self) -> tuple[RowGroup, ...]:
        """All row groups, checked to lie within the file."""
        groups = []
        first_row = 0
        columns = len(self.leaves)
        for fields in self.fields.get(4, []):
            group = RowGroup(fields, tuple(Chunk(c) for c in fields.get(1, [])), first_row)
            _check(group, columns, self.start)
            first_row += group.rows
            groups.append(group)
        if first_row != self.rows:
            raise Damaged("the row groups do not add up to the file's rows")
        return tuple(groups)

    @property
    def rows(self) -> int:
        """Rows in the file."""
        return int(self.fields.get(3, -1))

    @property
    def created_by(self) -> str:
        """Who wrote the file."""
        written: bytes = self.fields.get(6, b"")
        return written.decode("utf-8", "replace")

    @property
    def key_values(self) -> dict[bytes, bytes]:
        """Metadata that writers left under keys of their own."""
        return {entry.get(1, b""): entry.get(2, b"") for entry in self.fields.get(5, [])}

    @property
    def known(self) -> bool:
        """True if nothing at the level of the whole file is unknown to us."""
        return UNKNOWN not in self.fields and is_known(self.fields.get(7, []))

    def ordered(self, leaf: int) -> bool:
        """True if the file says that this column's statistics follow the order of its type."""
        orders = self.fields.get(7, [])
        return leaf < len(orders) and orders[leaf] == {1: {}}


def _check(group: RowGroup, columns: int, end: int) -> None:
    if group.rows < 0 or len(group.chunks) != columns:
        raise Damaged("a row group does not fit its schema")
    for chunk in group.chunks:
        if group.rows == 0 and chunk.values == 0:  # writers say where it would lie, or 0
            continue
        if chunk.size < 0 or chunk.start < len(MAGIC) or chunk.end > end or chunk.values < 0:
            raise Damaged("a column chunk lies outside the file")


def read_footer(read: Read, size: int, tail: bytes | memoryview = b"") -> Footer:
    """The footer of a file of this size; `tail` is what is already known of its end."""
    if size < len(MAGIC) + _ENDING:
        raise Damaged(f"{size} bytes are too few for a Parquet file")
    ending = bytes(tail[-_ENDING:]) if len(tail) >= _ENDING else bytes(read(size - _ENDING, _ENDING))
    if ending[4:] == _ENCRYPTED:
        raise Damaged("the footer is encrypted")
    if ending[4:] != MAGIC:
        raise Damaged("the file does not end as a Parquet file does")
    length = int.from_bytes(ending[:4], "little")
    start = size - _ENDING - length
    if start < len(MAGIC):
        raise Damaged("the footer is longer than the file")
    if len(tail) >= length + _ENDING:
        body = bytes(tail[len(tail) - length - _ENDING : len(tail) - _ENDING])
    else:
        body = bytes(read(start, length))
    fields, _ = read_struct(body, FILE_META)
    footer = Footer(fields, size, start)
    _ = footer.row_groups  # a footer that does not add up is refused here, not later
    return footer


def footer_bytes(fields: Fields) -> bytes:
    """A footer with its length and the magic: what ends a file."""
    body = write_struct(fields, FILE_META)
    return body + len(body).to_bytes(4, "little") + MAGIC
