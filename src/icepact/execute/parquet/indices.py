"""Indices of numbers in their dictionaries: pyarrow gives those of texts alone, so the numbers are told to be texts.

Data pages in a dictionary say nothing of the type. A file in memory gets them as they are, with a dictionary whose
texts are the places of the numbers: texts that are alike would be put together, whatever indices say.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from icepact.execute.parquet.errors import Damaged
from icepact.execute.parquet.footer import MAGIC, Chunk, Footer, footer_bytes
from icepact.execute.parquet.input import ByteSource
from icepact.execute.parquet.layout import (
    BYTE_ARRAY,
    CODECS,
    DICTIONARIES,
    DICTIONARY_PAGE,
    INT32,
    INT64,
    PAGE_HEADER,
    PLAIN,
    PLAIN_DICTIONARY,
)
from icepact.execute.parquet.thrift import Fields, is_known, read_struct, write_struct

_WIDTHS = {INT32: 4, INT64: 8}
_CODEC_NAMES = {number: name for name, number in CODECS.items()}
_ROWS_PER_BYTE = 8
"""A dictionary is small if it takes at most one compressed byte for so many rows."""
_ANNOTATIONS = (6, 7, 8, 10)
"""Fields of a schema's element that say what its values mean."""


def may_read_indices(chunk: Chunk) -> bool:
    """True if a chunk of a column that is not nested has nothing but indices in a small dictionary of numbers."""
    encodings = chunk.data_encodings or frozenset()
    return (
        chunk.physical in _WIDTHS
        and chunk.dictionary_offset is not None
        and (chunk.data_offset - chunk.dictionary_offset) * _ROWS_PER_BYTE <= chunk.values
        and chunk.codec in _CODEC_NAMES
        and bool(encodings)
        and encodings <= DICTIONARIES
    )


class IndexFile:
    """A file in memory with columns of a row group that are in dictionaries, read as indices."""

    def __init__(self, source: ByteSource, footer: Footer, group: int, kinds: Mapping[int, pa.DataType]) -> None:
        """`kinds` are the types of the columns by leaf; `may_read_indices` of the chunk of each."""
        row_group = footer.row_groups[group]
        self._kinds = list(kinds.values())
        self._numbers: list[pa.Buffer] = []
        pieces: list[bytes | memoryview] = [MAGIC]
        at = len(MAGIC)
        described: list[Fields] = []
        for leaf in kinds:
            chunk = row_group.chunks[leaf]
            data = source.read(chunk.start, chunk.size)
            body, count = _dictionary(data[: chunk.data_offset - chunk.start], chunk)
            self._numbers.append(pa.py_buffer(body))
            dictionary = _of_numbers(count, chunk)
            pages = data[chunk.data_offset - chunk.start :]
            pieces += [dictionary, pages]
            size = len(dictionary) + len(pages)
            described.append(_described(chunk, len(described), at, len(dictionary), size))
            at += size
        elements: list[Fields] = [{4: b"table", 5: len(kinds)}]
        elements += [
            {1: BYTE_ARRAY, 3: footer.leaves[leaf].levels[0][0], 4: _name(n).encode()} for n, leaf in enumerate(kinds)
        ]
        groups = [{1: described, 2: at, 3: row_group.rows}]
        pieces.append(footer_bytes({1: 2, 2: elements, 3: row_group.rows, 4: groups}))
        names = [_name(n) for n in range(len(kinds))]
        self._file = pq.ParquetFile(pa.BufferReader(b"".join(pieces)), read_dictionary=names, pre_buffer=False)

    def columns(self) -> list[pa.ChunkedArray]:
        """All rows."""
        numbers = list(range(len(self._kinds)))
        return self._as_numbers(self._file.reader.read_row_groups([0], numbers, use_threads=pa.cpu_count() > 1).columns)

    def steps(self, rows: int) -> Iterator[list[pa.ChunkedArray]]:
        """So many rows at a time."""
        return map(self._as_numbers, in_steps(self._file, 0, range(len(self._kinds)), rows))

    def _as_numbers(self, columns: Sequence[pa.ChunkedArray]) -> list[pa.ChunkedArray]:
        return [_as_numbers(*each) for each in zip(columns, self._numbers, self._kinds, strict=True)]


def in_steps(file: pq.ParquetFile, group: int, leaves: Iterable[int], rows: int) -> Iterator[list[pa.ChunkedArray]]:
    """Columns of a row group, so many rows at a time; the last step may have fewer."""
    waiting: list[pa.RecordBatch] = []
    missing = rows
    for batch in file.reader.iter_batches(rows, [group], list(leaves), use_threads=pa.cpu_count() > 1):
        rest = batch
        while rest.num_rows >= missing:  # where a column begins a new array, pyarrow ends a batch before its time
            yield pa.Table.from_batches([*waiting, rest.slice(0, missing)]).columns
            rest, waiting, missing = rest.slice(missing), [], rows
        if rest.num_rows:
            waiting.append(rest)
            missing -= rest.num_rows
    if waiting:
        yield pa.Table.from_batches(waiting).columns


def _name(number: int) -> str:
    return f"c{number}"


def _dictionary(page: Any, chunk: Chunk) -> tuple[bytes, int]:
    """The numbers of a dictionary page, and how many there are."""
    header, length = read_struct(page, PAGE_HEADER)
    described = header.get(7, {})
    if header.get(1) != DICTIONARY_PAGE or described.get(2) not in (PLAIN, PLAIN_DICTIONARY):
        raise Damaged("a chunk does not begin with its dictionary")
    body = bytes(page[length:])
    count = described.get(1, -1)
    size = count * _WIDTHS[chunk.physical]
    if (header.get(2), header.get(3)) != (size, len(body)) or size < 0:
        raise Damaged("a dictionary has not as many numbers as it says")
    codec = _CODEC_NAMES[chunk.codec]
    return body if codec == "uncompressed" else _decompressed(body, codec, size), count


def _decompressed(body: bytes, codec: str, size: int) -> bytes:
    """Exactly so many bytes. pyarrow does not say how many came out, and behind them is whatever memory held:
    they must not fit into less."""
    if size == 0:
        return b""
    try:
        pa.Codec(codec).decompress(body, decompressed_size=size - 1)
    except (pa.ArrowException, OSError):
        return bytes(pa.Codec(codec).decompress(body, decompressed_size=size, asbytes=True))
    raise Damaged("a dictionary has not as many numbers as it says")


def _of_numbers(count: int, chunk: Chunk) -> bytes:
    """A dictionary page of as many texts: the place of each, in four bytes."""
    texts = np.empty((count, 2), dtype="<u4")
    texts[:, 0] = texts.itemsize
    texts[:, 1] = np.arange(count)
    body, codec = texts.tobytes(), _CODEC_NAMES[chunk.codec]
    packed = body if codec == "uncompressed" else pa.Codec(codec).compress(body, asbytes=True)
    header: Fields = {1: DICTIONARY_PAGE, 2: len(body), 3: len(packed), 7: {1: count, 2: PLAIN}}
    return write_struct(header, PAGE_HEADER) + packed


def _described(chunk: Chunk, number: int, at: int, dictionary: int, size: int) -> Fields:
    meta = {
        1: BYTE_ARRAY,
        2: chunk.encodings,
        3: [_name(number).encode()],
        4: chunk.codec,
        5: chunk.values,
        6: chunk.uncompressed_size + 4 * dictionary,
        7: size,
        9: at + dictionary,
        11: at,
    }
    return {2: 0, 3: meta}


def _as_numbers(column: pa.ChunkedArray, numbers: pa.Buffer, kind: pa.DataType) -> pa.ChunkedArray:
    dictionary = pa.Array.from_buffers(kind, 8 * numbers.size // kind.bit_width, [None, numbers])
    parts = [pa.DictionaryArray.from_arrays(part.indices, dictionary, safe=False) for part in column.chunks]
    return pa.chunked_array(parts, type=pa.dictionary(pa.int32(), kind))


def numbers_as_stored(footer: Footer, columns: Iterable[int]) -> pq.FileMetaData | None:
    """The footer with these leaves as the numbers that are stored, whatever they mean: decimals are read as what they
    are then. `None` if something in it is not known, so that it cannot be written again."""
    if not is_known(footer.fields):
        return None
    numbers = iter(range(len(footer.leaves)))
    wanted = set(columns)
    elements: list[Fields] = []
    for element in footer.fields[2]:
        bare = 1 in element and next(numbers) in wanted
        elements.append({n: value for n, value in element.items() if not (bare and n in _ANNOTATIONS)})
    return pq.read_metadata(pa.BufferReader(MAGIC + footer_bytes({**footer.fields, 2: elements})))
