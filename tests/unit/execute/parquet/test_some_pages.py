"""Pages that are decoded without the others of their chunk."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from icepact.execute.parquet import some_pages
from icepact.execute.parquet.errors import Damaged
from icepact.execute.parquet.input import Input
from icepact.execute.parquet.layout import PAGE_HEADER
from icepact.execute.parquet.pages import check_page
from icepact.execute.parquet.some_pages import PagedChunk, paged_chunk
from icepact.execute.parquet.thrift import I64, Fields
from tests.support.parquet_bent import Raw, bent, encode, meta_of, walk
from tests.support.parquet_files import Settings, Stored, write

NUMBERS = [None if n == 7 else n for n in range(40)]
TABLE = pa.table({"n": pa.array(NUMBERS, pa.int64()), "l": pa.array([[n] for n in range(40)], pa.list_(pa.int32()))})
STRANGE = Raw(I64, b"\x0a")


def file_of(*, dictionary: bool = False, version: str = "1.0") -> bytes:
    """Ten pages of four rows."""
    settings = Settings(store_schema=False, index=True, dictionary=dictionary, page_rows=4, page_version=version)
    return write(TABLE, settings).data


def paged(data: bytes) -> PagedChunk:
    """The first column."""
    chunk = paged_chunk(Input(Stored(data)), 0, 0)
    assert chunk is not None
    return chunk


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("pages", [[0], [9], [1, 2, 5], list(range(10))])
def test_pages_have_their_rows(dictionary: bool, version: str, pages: list[int]) -> None:
    expected = [number for page in pages for number in NUMBERS[4 * page : 4 * page + 4]]
    assert paged(file_of(dictionary=dictionary, version=version)).decode(pages).to_pylist() == expected


def test_pages_that_follow_each_other_are_one_range() -> None:
    chunk = paged(file_of())
    sizes = [location[2] for location in chunk.locations]
    at = [location[1] for location in chunk.locations]
    assert chunk.ranges([1, 2, 3, 8]) == [(at[1], sum(sizes[1:4])), (at[8], sizes[8])]
    chunk = paged(file_of(dictionary=True))
    start = chunk.chunk.start
    assert chunk.ranges([0, 5]) == [(start, sum(chunk.locations[0][n] for n in (1, 2)) - start), chunk.ranges([5])[1]]


BENT: dict[str, Callable[[Fields], object]] = {
    "an old writer": lambda fields: fields.update({6: b"parquet-mr version 1.7.0"}),
    "an unknown codec": lambda fields: meta_of(fields).update({4: 5}),
    "an unknown part": lambda fields: meta_of(fields).update({99: STRANGE}),
    "fewer values": lambda fields: meta_of(fields).update({5: 39}),
    "no locations": lambda fields: fields[4][0][1][0].pop(4),
}


@pytest.mark.parametrize("name", BENT)
def test_what_is_read_as_a_whole(name: str) -> None:
    assert paged_chunk(Input(Stored(bent(file_of(), BENT[name]))), 0, 0) is None


def test_lists_are_read_as_a_whole() -> None:
    """A page may begin in the middle of a row."""
    file = Input(Stored(file_of()))
    assert file.pages(0, 1) is not None
    assert paged_chunk(file, 0, 1) is None


PAGES: dict[str, tuple[str, Callable[[Fields], object]]] = {
    "more values": ("1.0", lambda header: header[5].update({1: 5})),
    "more values in version 2": ("2.0", lambda header: header[8].update({1: 5})),
    "more rows in version 2": ("2.0", lambda header: header[8].update({3: 5})),
    "longer": ("1.0", lambda header: header.update({3: header[3] + 1})),
    "shorter": ("1.0", lambda header: header.update({3: header[3] - 1})),
    "no size": ("1.0", lambda header: header.pop(3)),
    "a dictionary": ("1.0", lambda header: header.update({1: 2})),
    "unknown": ("1.0", lambda header: header.update({9: STRANGE})),
}


@pytest.mark.parametrize("name", PAGES)
def test_pages_that_are_not_what_their_location_says(name: str) -> None:
    version, change = PAGES[name]
    data = file_of(version=version)
    at, size, header = next(walk(data, paged(data).chunk))
    body = data[at + size - header[3] : at + size]
    check_page(memoryview(encode(header, PAGE_HEADER) + body), 4)
    change(header)
    with pytest.raises(Damaged):
        check_page(memoryview(encode(header, PAGE_HEADER) + body), 4)


def test_fewer_rows_than_pages_were_said_to_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their headers say."""
    monkeypatch.setattr(some_pages, "check_page", lambda *_: None)
    chunk = paged(file_of())
    locations: list[dict[int, Any]] = [dict(location) for location in chunk.locations]
    locations[3][3] += 1
    with pytest.raises(Damaged, match="not as many rows"):
        PagedChunk(chunk.file, 0, 0, locations).decode([2])
