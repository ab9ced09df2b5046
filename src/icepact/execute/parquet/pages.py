"""Pages inside a chunk: do they add up, and where do they lie once the chunk has moved?"""

from icepact.execute.parquet.errors import Damaged
from icepact.execute.parquet.footer import MAGIC, Chunk, Read
from icepact.execute.parquet.layout import (
    BLOOM_HEADER,
    DATA_PAGE,
    DATA_PAGE_V2,
    DICTIONARY_PAGE,
    OFFSET_INDEX,
    PAGE_HEADER,
)
from icepact.execute.parquet.thrift import Fields, is_known, read_struct, write_struct

_HEADER_GUESS = 256
"""Bytes read for a page header at first; statistics inside can make it longer."""
_LONGEST_HEADER = 1 << 20
_SMALLEST_PAGE = 4
_LARGEST_BLOOM = 128 << 20


def check_pages(read: Read, chunk: Chunk) -> None:
    """Walk the page headers: they must be known, hold the chunk's values and fill it to the last byte."""
    at, end = chunk.start, chunk.end
    values = 0
    while at < end:
        header, length = _header(read, at, end)
        if not is_known(header):
            raise Damaged("a page header has parts that icepact does not know")
        size = header.get(3, -1)
        if size < 0 or header.get(2, -1) < 0:
            raise Damaged("a page has no size")
        kind = header.get(1)
        if kind == DATA_PAGE:
            values += header.get(5, {}).get(1, 0)
        elif kind == DATA_PAGE_V2:
            values += header.get(8, {}).get(1, 0)
        elif kind != DICTIONARY_PAGE or at != chunk.start:
            raise Damaged("a page is of a kind that does not belong there")
        at += length + size
    if at != end or values != chunk.values:
        raise Damaged("the pages do not add up to their chunk")


def check_page(page: memoryview, rows: int) -> None:
    """Refuse what is not one data page, header and all, with so many rows of a column that is not nested."""
    header, length = _header(lambda at, size: page[at : at + size], 0, len(page))
    number = {DATA_PAGE: 5, DATA_PAGE_V2: 8}.get(header.get(1, -1))
    if not is_known(header) or number is None or length + header.get(3, -1) != len(page):
        raise Damaged("a page is not where its location says")
    described = header.get(number, {})
    if described.get(1) != rows or (header[1] == DATA_PAGE_V2 and described.get(3) != rows):
        raise Damaged("a page has not as many rows as its location says")


def _header(read: Read, at: int, end: int) -> tuple[Fields, int]:
    length = _HEADER_GUESS
    while True:
        window = read(at, min(length, end - at))
        try:
            return read_struct(window, PAGE_HEADER)
        except Damaged:
            if len(window) == end - at or length >= _LONGEST_HEADER:
                raise
            length *= 8


def offset_index(data: bytes | memoryview, chunk: Chunk, rows: int) -> Fields | None:
    """A chunk's page locations, if they are whole: known, ascending, and filling the chunk to its last byte."""
    try:
        fields, _ = read_struct(data, OFFSET_INDEX)
    except Damaged:
        return None
    locations = fields.get(1, [])
    if not is_known(fields) or not locations or locations[0].get(3) != 0:
        return None
    at, row = chunk.data_offset, -1
    for location in locations:
        if location.get(1) != at or location.get(3, -1) <= row or location.get(2, 0) < _SMALLEST_PAGE:
            return None
        at, row = at + location[2], location[3]
    return fields if at == chunk.end and row < max(rows, 1) else None


def moved_offset_index(fields: Fields, by: int) -> bytes:
    """Page locations of a chunk that now lies `by` bytes further on."""
    locations = [{**location, 1: location[1] + by} for location in fields[1]]
    return write_struct({**fields, 1: locations}, OFFSET_INDEX)


def bloom_range(read: Read, chunk: Chunk, end: int) -> tuple[int, int] | None:
    """Offset and length of a chunk's bloom filter with its header; `None` if there is none that we understand."""
    offset = chunk.bloom_offset
    if offset is None or not len(MAGIC) <= offset < end:
        return None
    try:
        header, length = read_struct(read(offset, min(64, end - offset)), BLOOM_HEADER)
    except Damaged:
        return None
    size = header.get(1, 0)
    known = is_known(header) and all(header.get(number) == {1: {}} for number in (2, 3, 4))
    whole = length + size
    fits = 32 <= size <= _LARGEST_BLOOM and size % 32 == 0 and offset + whole <= end
    if not known or not fits or chunk.meta.get(15, whole) != whole:
        return None
    return offset, whole
