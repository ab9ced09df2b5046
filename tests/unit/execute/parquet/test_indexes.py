"""Pages, page indexes and bloom filters: checked before anything relies on them."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from icepact.execute.parquet.input import Input, sorting_columns
from icepact.execute.parquet.layout import BLOOM_HEADER, COLUMN_INDEX, FILE_META, OFFSET_INDEX, PAGE_HEADER
from icepact.execute.parquet.thrift import I64, STRUCT, Fields, read_struct
from tests.support.parquet_bent import Raw, bent, encode, footer_of, meta_of, walk, with_footer
from tests.support.parquet_files import Settings, Stored, write

TABLE = pa.table(
    {
        "number": pa.array([5, None, 3], pa.int64()),
        "float": pa.array([1.5, -2.5, 0.0], pa.float64()),
        "list": pa.array([[1], [], None], pa.list_(pa.int32())),
    }
)
FILE = write(TABLE, Settings(store_schema=False)).data
INDEXED = write(TABLE, Settings(store_schema=False, index=True, bloom=True, page_rows=2, sorting=(0, 1))).data
STRANGE = Raw(I64, b"\x0a")

Change = Callable[[Fields], object]


def reasons(data: bytes, *, walk: bool = True) -> list[str | None]:
    """Why each chunk of the first row group is not copied."""
    file = Input(Stored(data))
    return [file.why_not_copied(0, column, walk=walk) for column in range(len(file.footer.leaves))]


def only(column: int, reason: str) -> list[str | None]:
    """One chunk is refused, the others are not."""
    return [reason if number == column else None for number in range(3)]


def test_without_anything_strange_all_is_copied() -> None:
    assert reasons(INDEXED) == reasons(INDEXED, walk=False) == [None] * 3


# -- pages -----------------------------------------------------------------------------------------------------------

PAGED = write(pa.table({"n": list(range(40))}), Settings(dictionary=False, page_rows=10, codec="none")).data


def repaged(change: Callable[[list[Fields]], object], behind: bytes = b"") -> bytes:
    """A file whose page headers were changed by hand, with a footer that fits its new sizes."""
    chunk = Input(Stored(PAGED)).footer.row_groups[0].chunks[0]
    pages = list(walk(PAGED, chunk))
    headers = [header for _, _, header in pages]
    bodies = [PAGED[at + size - header[3] : at + size] for at, size, header in pages]
    change(headers)
    data = b"".join(encode(header, PAGE_HEADER) + body for header, body in zip(headers, bodies, strict=True)) + behind
    fields = footer_of(PAGED)
    meta_of(fields)[7] = len(data)
    footer = encode(fields, FILE_META)
    return PAGED[:4] + data + footer + len(footer).to_bytes(4, "little") + PAGED[-4:]


def test_pages_that_were_only_written_anew() -> None:
    assert len(list(walk(PAGED, Input(Stored(PAGED)).footer.row_groups[0].chunks[0]))) == 4
    assert reasons(repaged(lambda headers: None)) == [None]


STRANGE_PAGES: dict[str, tuple[Callable[[list[Fields]], object], str]] = {
    "unknown": (lambda headers: headers[1].update({9: STRANGE}), "a page header has parts that icepact does not know"),
    "deep": (lambda headers: headers[3][5].update({9: STRANGE}), "a page header has parts that icepact does not know"),
    "no size": (lambda headers: headers[1].pop(3), "a page has no size"),
    "negative": (lambda headers: headers[1].update({3: -1}), "a page has no size"),
    "no full size": (lambda headers: headers[1].pop(2), "a page has no size"),
    "index page": (lambda headers: headers[1].update({1: 1, 6: {}}), "a page is of a kind that does not belong there"),
    "kind": (lambda headers: headers[0].update({1: 4}), "a page is of a kind that does not belong there"),
    "dictionary": (lambda headers: headers[1].update({1: 2}), "a page is of a kind that does not belong there"),
    "values": (lambda headers: headers[1][5].update({1: 9}), "the pages do not add up to their chunk"),
    "too long": (lambda headers: headers[3].update({3: headers[3][3] + 1}), "the pages do not add up to their chunk"),
}


@pytest.mark.parametrize("name", STRANGE_PAGES)
def test_pages_that_are_not_copied(name: str) -> None:
    change, reason = STRANGE_PAGES[name]
    assert reasons(repaged(change)) == [reason]


def test_page_headers_with_long_bounds() -> None:
    table = pa.table({"s": ["a" * 1900, "b" * 1900, "c" * 40]})
    data = write(table, Settings(dictionary=False, page_rows=1)).data
    chunk = Input(Stored(data)).footer.row_groups[0].chunks[0]
    longest = max(size - header[3] for _, size, header in walk(data, chunk))
    assert longest > 3800
    assert reasons(data) == [None]


def test_bytes_behind_the_last_page() -> None:
    assert reasons(repaged(lambda headers: None, b"\x15")) == ["a structure ends too early"]
    assert reasons(repaged(lambda headers: None, bytes(9))) == ["a page has no size"]


@pytest.mark.parametrize("by", [-1, 1])
@pytest.mark.parametrize("column", [0, 1])
def test_a_size_that_is_not_that_of_the_pages(column: int, by: int) -> None:
    """Walking sees it; without, nothing starts where the chunk ends."""
    data = bent(FILE, lambda fields: meta_of(fields, 0, column).update({7: meta_of(fields, 0, column)[7] + by}))
    assert reasons(data, walk=False) == only(column, "nothing shows where it ends")
    assert [reason is None for reason in reasons(data)] == [number != column for number in range(3)]


def test_a_chunk_without_bytes() -> None:
    data = bent(FILE, lambda fields: meta_of(fields).update({7: 0}))
    assert reasons(data, walk=False) == only(0, "nothing shows where it ends")
    assert reasons(data) == only(0, "the pages do not add up to their chunk")


# -- indexes and filters -----------------------------------------------------------------------------------------------


def replaced(number: int, blob: bytes) -> Input:
    """A file whose first chunk has another offset index (4), column index (6) or bloom filter (14)."""
    start = Input(Stored(INDEXED)).footer.start
    fields = footer_of(INDEXED)
    if number == 14:
        meta_of(fields).update({14: start, 15: len(blob)})
    else:
        fields[4][0][1][0].update({number: start, number + 1: len(blob)})
    data = with_footer(INDEXED, encode(fields, FILE_META))
    return Input(Stored(data[:start] + blob + data[start:]))


def first(number: int) -> bytes:
    """The first chunk's offset index (4), column index (6) or bloom filter (14)."""
    chunk = footer_of(INDEXED)[4][0][1][0]
    at, length = (chunk[3][14], chunk[3][15]) if number == 14 else (chunk[number], chunk[number + 1])
    return INDEXED[at : at + length]


BAD_LOCATIONS: dict[str, Change] = {
    "none": lambda fields: fields.update({1: []}),
    "one too few": lambda fields: fields[1].pop(),
    "elsewhere": lambda fields: fields[1][0].update({1: fields[1][0][1] + 1}),
    "a gap": lambda fields: fields[1][0].update({2: fields[1][0][2] - 1}),
    "rows that go back": lambda fields: fields[1][1].update({3: 0}),
    "rows beyond the group": lambda fields: fields[1][1].update({3: 3}),
    "rows that start late": lambda fields: fields[1][0].update({3: 1}),
    "no offset": lambda fields: fields[1][1].pop(1),
    "no size": lambda fields: fields[1][1].pop(2),
    "no row": lambda fields: fields[1][1].pop(3),
    "unknown": lambda fields: fields.update({9: STRANGE}),
    "unknown inside": lambda fields: fields[1][0].update({9: STRANGE}),
}


def changed(number: int, table: Any, change: Change) -> Input:
    """An index that was changed by hand."""
    fields = read_struct(first(number), table)[0]
    change(fields)
    return replaced(number, encode(fields, table))


def test_indexes_that_were_only_moved() -> None:
    file = changed(4, OFFSET_INDEX, lambda fields: None)
    assert file.pages(0, 0) == read_struct(first(4), OFFSET_INDEX)[0]
    file = changed(6, COLUMN_INDEX, lambda fields: None)
    assert file.column_index(0, 0) == first(6)
    file = replaced(14, first(14))
    assert file.bloom(file.footer.row_groups[0].chunks[0]) == first(14)


@pytest.mark.parametrize("name", BAD_LOCATIONS)
def test_page_locations_that_do_not_hold(name: str) -> None:
    file = changed(4, OFFSET_INDEX, BAD_LOCATIONS[name])
    assert file.pages(0, 0) is None
    assert file.column_index(0, 0) is None
    assert file.why_not_copied(0, 0, walk=True) is None


def test_page_locations_that_are_no_structure() -> None:
    for blob in (b"\x19", b"\xff" * 20, first(4)[:-1]):
        assert replaced(4, blob).pages(0, 0) is None
        assert replaced(6, blob).column_index(0, 0) is None


@pytest.mark.parametrize("number", [4, 6])
def test_an_index_that_claims_to_lie_among_the_row_groups(number: int) -> None:
    """It is left out, and does not make us fetch the whole file for the sake of the others."""
    stored = Stored(bent(INDEXED, lambda fields: fields[4][0][1][0].update({number: 4})))
    file = Input(stored)
    last = file.footer.row_groups[0].chunks[-1]
    assert file.column_index(0, 0) is None
    assert (file.pages(0, 0) is None) == (number == 4)
    assert file.pages(0, 1) is not None
    assert stored.fetched <= file.footer.start - last.end


@pytest.mark.parametrize("number", [4, 6])
def test_an_index_that_claims_to_reach_into_the_footer(number: int) -> None:
    """It is left out, and those of others are not."""
    file = Input(Stored(bent(INDEXED, lambda fields: fields[4][0][1][0].update({number + 1: 1 << 20}))))
    assert file.column_index(0, 0) is None
    assert file.pages(0, 1) is not None


BAD_INDEXES: dict[str, Change] = {
    "a page too few": lambda fields: fields[2].pop(),
    "no maxima": lambda fields: fields.pop(3),
    "no order": lambda fields: fields.pop(4),
    "an order that is none": lambda fields: fields.update({4: 3}),
    "nulls of fewer pages": lambda fields: fields[5].pop(),
    "NaNs of fewer pages": lambda fields: fields.update({8: [0]}),
    "unknown": lambda fields: fields.update({9: STRANGE}),
}


@pytest.mark.parametrize("name", BAD_INDEXES)
def test_column_indexes_that_do_not_hold(name: str) -> None:
    file = changed(6, COLUMN_INDEX, BAD_INDEXES[name])
    assert file.column_index(0, 0) is None
    assert file.pages(0, 0) is not None


@pytest.mark.parametrize("number", [5, 6])
def test_a_column_index_without_trusted_bounds(number: int) -> None:
    file = Input(Stored(bent(INDEXED, lambda fields: meta_of(fields)[12].pop(number))))
    assert file.column_index(0, 0) is None


BAD_BLOOMS: dict[str, Change] = {
    "another algorithm": lambda fields: fields.update({2: {2: Raw(STRUCT, b"\x00")}}),
    "another hash": lambda fields: fields.update({3: {2: Raw(STRUCT, b"\x00")}}),
    "compressed": lambda fields: fields.update({4: {2: Raw(STRUCT, b"\x00")}}),
    "no hash": lambda fields: fields.pop(3),
    "unknown": lambda fields: fields.update({5: STRANGE}),
    "no size": lambda fields: fields.pop(1),
    "half a block": lambda fields: fields.update({1: 16}),
    "negative": lambda fields: fields.update({1: -32}),
    "longer than the file": lambda fields: fields.update({1: 1 << 26}),
    "another length": lambda fields: fields.update({1: 64}),
}


@pytest.mark.parametrize("name", BAD_BLOOMS)
def test_bloom_filters_that_do_not_hold(name: str) -> None:
    fields, behind = read_struct(first(14), BLOOM_HEADER)
    BAD_BLOOMS[name](fields)
    file = replaced(14, encode(fields, BLOOM_HEADER) + first(14)[behind:])
    assert file.bloom(file.footer.row_groups[0].chunks[0]) is None


# -- sorting ----------------------------------------------------------------------------------------------------


def test_sorting_follows_its_columns() -> None:
    group = Input(Stored(INDEXED)).footer.row_groups[0]
    assert group.fields[4] == [{1: 0, 2: False, 3: False}, {1: 1, 2: True, 3: False}]
    assert sorting_columns(group, {0: 7, 1: 2, 3: 0}) == [{1: 7, 2: False, 3: False}, {1: 2, 2: True, 3: False}]
    assert sorting_columns(group, {0: 7}) is None
    assert sorting_columns(group, {}) is None
    assert sorting_columns(Input(Stored(FILE)).footer.row_groups[0], {0: 0, 1: 1}) is None


@pytest.mark.parametrize(
    "entry", [{1: 0, 2: False}, {1: 0, 3: False}, {2: True, 3: False}, {1: 0, 2: True, 3: True, 4: STRANGE}]
)
def test_sorting_that_is_not_whole_is_dropped(entry: Fields) -> None:
    group = Input(Stored(bent(FILE, lambda fields: fields[4][0].update({4: [entry]})))).footer.row_groups[0]
    assert sorting_columns(group, {0: 0}) is None
