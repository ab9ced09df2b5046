"""Damaged and hostile files: refused as damaged, or still read in a valid way; never anything else."""

import io
import tracemalloc
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from icepact.execute.parquet.assembler import Assembler
from icepact.execute.parquet.errors import Damaged
from icepact.execute.parquet.footer import MAGIC
from icepact.execute.parquet.input import Input, Pick, sorting_columns
from icepact.execute.parquet.layout import FILE_META
from icepact.execute.parquet.schema import same_values
from icepact.execute.parquet.thrift import LIST, STRUCT, Fields
from icepact.execute.parquet.trust import trusted_statistics
from tests.support.parquet_bent import Raw, bent, encode, footer_of, meta_of, meta_path, updating, varint, with_footer
from tests.support.parquet_files import PartsSink, Settings, Stored, write
from tests.support.parquet_judges import fills_the_file

TABLE = pa.table(
    {
        "number": pa.array([1, None, 3, 4, 5, 6], pa.int64()),
        "text": ["", "b", None, "d", "e", "f"],
        "list": pa.array([[1.5], [], None, [2.5, None], [0.0], [-0.0]], pa.list_(pa.float64())),
    }
)
FILE = write(TABLE, Settings(index=True, bloom=True, group_rows=3, page_rows=2, sorting=(0,), store_schema=False)).data
PLAIN = write(TABLE, Settings(group_rows=3, store_schema=False)).data
FOOTER = Input(Stored(FILE)).footer


def use(data: bytes) -> None:
    """Do all that can be done with a file; what is accepted must make a file that others can read."""
    file = Input(Stored(data))
    footer = file.footer
    assert isinstance(footer.created_by + str(footer.key_values), str)
    groups = []
    for number, group in enumerate(footer.row_groups):
        for column, chunk in enumerate(group.chunks):
            trusted_statistics(footer, column, chunk)
            file.why_not_copied(number, column, walk=False)
            file.pages(number, column)
            file.column_index(number, column)
            file.bloom(chunk)
        if all(file.why_not_copied(number, column, walk=True) is None for column in range(len(group.chunks))):
            groups.append(number)
    leaves = list(zip(footer.leaves, FOOTER.leaves, strict=False))
    if file.why_nothing_copied is None and len(leaves) == 3 and all(same_values(one, other) for one, other in leaves):
        _assemble(file, groups)


def _assemble(file: Input, groups: list[int]) -> None:
    sink = PartsSink()
    assembler = Assembler(sink, FOOTER.fields[2], created_by="icepact", key_values={})
    for number in groups:
        group = file.footer.row_groups[number]
        picks = [Pick(file, number, column) for column in range(3)]
        assembler.add(group.rows, picks, sorting_columns(group, {n: n for n in range(3)}))
    assembler.finish()
    assert pq.read_metadata(io.BytesIO(sink.data)).num_rows == assembler.rows
    fills_the_file(sink.data)


def use_or_refuse(data: bytes) -> None:
    """Nothing but `Damaged` may be raised."""
    try:
        use(data)
    except Damaged:
        return


def test_the_undamaged_files_are_used() -> None:
    use(FILE)
    use(PLAIN)


# -- short files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", range(13))
def test_too_few_bytes(size: int) -> None:
    for data in (bytes(size), (MAGIC * 4)[:size], FILE[:size], FILE[len(FILE) - size :]):
        with pytest.raises(Damaged):
            Input(Stored(data))


@given(st.binary(max_size=40))
@example(MAGIC + bytes(4) + MAGIC)
@example(MAGIC + b"\x01\x00\x00\x00" + MAGIC)
def test_any_few_bytes(data: bytes) -> None:
    for file in (data, MAGIC + data + MAGIC, MAGIC + data + len(data).to_bytes(4, "little") + MAGIC):
        use_or_refuse(file)


def test_cut_off_anywhere() -> None:
    for length in range(len(FILE)):
        with pytest.raises(Damaged):
            Input(Stored(FILE[:length]))


def test_a_footer_cut_off_anywhere() -> None:
    body = FILE[FOOTER.start : -8]
    for length in range(len(body)):
        with pytest.raises(Damaged):
            Input(Stored(with_footer(FILE, body[:length])))


def test_a_beginning_cut_off_anywhere() -> None:
    for length in range(1, len(FILE)):
        use_or_refuse(FILE[length:])


def test_an_encrypted_footer() -> None:
    with pytest.raises(Damaged, match="encrypted"):
        Input(Stored(FILE[:-4] + b"PARE"))


@pytest.mark.parametrize("length", [0, 1, len(FILE) - 11, len(FILE) - 8, len(FILE), 2**31, 2**32 - 1])
def test_a_footer_of_a_wrong_length(length: int) -> None:
    with pytest.raises(Damaged):
        Input(Stored(FILE[:-8] + length.to_bytes(4, "little") + MAGIC))


# -- bytes that are wrong ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", [FILE, PLAIN])
def test_every_byte_of_the_footer_is_wrong_once(file: bytes) -> None:
    for place in range(Input(Stored(file)).footer.start, len(file)):
        wrong = file[place] ^ (1 << place % 8)
        use_or_refuse(file[:place] + bytes([wrong]) + file[place + 1 :])


@given(st.sampled_from([FILE, PLAIN]), st.data())
def test_some_bytes_are_wrong(file: bytes, data: st.DataObject) -> None:
    start = data.draw(st.sampled_from([0, Input(Stored(file)).footer.start]))
    changed = bytearray(file)
    for place, value in data.draw(
        st.lists(st.tuples(st.integers(start, len(file) - 1), st.integers(0, 255)), max_size=4)
    ):
        changed[place] = value
    use_or_refuse(bytes(changed))


@given(st.data())
def test_a_footer_with_other_figures(data: st.DataObject) -> None:
    """One number anywhere in a footer is another one."""
    places: list[tuple[Any, Any]] = []

    def collect(value: Any) -> None:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(inner, (dict, list)):
                collect(inner)
            elif isinstance(inner, int) and not isinstance(inner, bool):
                places.append((value, key))

    def change(fields: Fields) -> None:
        collect(fields)
        holder, key = data.draw(st.sampled_from(places))
        numbers = [-1, 0, 1, holder[key] - 1, holder[key] + 1, 2**31 - 1, -(2**31), len(FILE), 2**62, -(2**63)]
        holder[key] = data.draw(st.sampled_from(numbers))

    use_or_refuse(bent(FILE, change))


@given(st.data())
def test_a_footer_without_something(data: st.DataObject) -> None:
    """Fields anywhere in a footer are missing, those that must be there included."""
    places: list[tuple[dict[int, Any], int]] = []

    def collect(value: Any) -> None:
        for inner in value.values() if isinstance(value, dict) else value:
            if isinstance(inner, (dict, list)):
                collect(inner)
        if isinstance(value, dict):
            places.extend((value, key) for key in value)

    def change(fields: Fields) -> None:
        collect(fields)
        for holder, key in data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=2)):
            holder.pop(key, None)

    use_or_refuse(bent(FILE, change))


# -- figures that do not add up ------------------------------------------------------------------------------------


def _schema(elements: list[Fields]) -> Callable[[Fields], object]:
    return lambda fields: fields.update({2: elements})


def _leaf(**more: Any) -> Fields:
    return {1: 2, 3: 1, 4: b"a"} | {int(key[1:]): value for key, value in more.items()}


DAMAGES: dict[str, Callable[[Fields], object]] = {
    "no schema": lambda fields: fields.pop(2),
    "an empty schema": _schema([]),
    "a schema of a root": _schema([{4: b"root"}]),
    "a root with too many children": lambda fields: fields[2][0].update({5: 4}),
    "a root with too few children": lambda fields: fields[2][0].update({5: 2}),
    "a root with fewer children than none": lambda fields: fields[2][0].update({5: -1}),
    "a leaf with children": lambda fields: fields[2][1].update({5: 1}),
    "a leaf without a type": lambda fields: fields[2][1].pop(1),
    "a leaf with fewer children than none": lambda fields: fields[2][1].update({5: -1}),
    "a group with a type": lambda fields: fields[2][3].update({1: 2}),
    "a group without children": lambda fields: fields[2][3].pop(5),
    "a group that says it is empty": lambda fields: fields[2][3].update({5: 0}),
    "columns that no row group has": _schema([{4: b"root", 5: 4}, _leaf(), _leaf(), _leaf(), _leaf()]),
    "no rows": lambda fields: fields.pop(3),
    "a row too many": lambda fields: fields.update({3: 7}),
    "a row too few": lambda fields: fields.update({3: 5}),
    "fewer rows than none": lambda fields: fields[4][0].update({3: -3}),
    "rows that add up with a negative": lambda fields: (fields[4][0].update({3: -3}), fields[4][1].update({3: 9})),
    "no row groups": lambda fields: fields.pop(4),
    "a row group without rows": lambda fields: fields[4][0].pop(3),
    "a row group without chunks": lambda fields: fields[4][0].pop(1),
    "a chunk too few": lambda fields: fields[4][0][1].pop(),
    "a chunk too many": lambda fields: fields[4][0][1].append(fields[4][0][1][0]),
    "a chunk without metadata": lambda fields: fields[4][0][1][1].pop(3),
    "a chunk without a size": lambda fields: meta_of(fields).pop(7),
    "a chunk without an offset": lambda fields: (meta_of(fields).pop(9), meta_of(fields).pop(11)),
    "a chunk without values": lambda fields: meta_of(fields).pop(5),
    "a negative size": lambda fields: meta_of(fields).update({7: -1}),
    "a negative offset": lambda fields: meta_of(fields).update({9: -100}),
    "a negative dictionary": lambda fields: meta_of(fields).update({11: -4}),
    "fewer values than none": lambda fields: meta_of(fields).update({5: -1}),
    "a chunk in the magic": lambda fields: meta_of(fields).update({11: 3}),
    "a chunk that runs into the footer": lambda fields: meta_of(fields).update({7: FOOTER.start - 3}),
    "a chunk behind the file": lambda fields: meta_of(fields).update({9: len(FILE), 11: len(FILE)}),
    "a chunk at the end of the world": lambda fields: meta_of(fields).update({9: 2**63 - 1, 11: 2**63 - 1}),
    "a chunk as large as the world": lambda fields: meta_of(fields).update({7: 2**63 - 1}),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_what_does_not_add_up(name: str) -> None:
    with pytest.raises(Damaged):
        Input(Stored(bent(FILE, DAMAGES[name])))


@pytest.mark.parametrize("levels", [99, 101, 20_000])
def test_schemas_inside_each_other(levels: int) -> None:
    elements = [*({4: b"g", 5: 1} for _ in range(levels)), _leaf()]
    data = bent(FILE, lambda fields: fields.update({2: elements, 3: 0, 4: []}))
    if levels < 100:
        assert [len(leaf.path) for leaf in Input(Stored(data)).footer.leaves] == [levels]
    else:
        with pytest.raises(Damaged, match="the schema does not add up"):
            Input(Stored(data))


def test_chunks_that_overlap_are_not_copied() -> None:
    first = Input(Stored(PLAIN)).footer.row_groups[0].chunks[0]
    moved = {"later": 5, "earlier": -5}
    for by in moved.values():
        elsewhere = updating(meta_path(0, 1), {9: first.end + 40 + by, 11: first.end + by})
        file = Input(Stored(bent(PLAIN, elsewhere)))
        assert file.why_not_copied(0, 1, walk=True) is not None
        assert file.why_not_copied(0, 1, walk=False) is not None


def test_filters_and_indexes_outside_the_file_are_left_out() -> None:
    for offset in (-(2**63), -1, 0, 3, len(FILE) - 9, len(FILE), 2**63 - 1):
        file = Input(Stored(bent(FILE, updating(meta_path(), {14: offset}))))
        assert file.bloom(file.footer.row_groups[0].chunks[0]) is None
        for number in (4, 6):
            file = Input(Stored(bent(FILE, updating((4, 0, 1, 0), {number: offset}))))
            assert file.column_index(0, 0) is None
            assert (file.pages(0, 0) is None) == (number == 4)


# -- more than there is -------------------------------------------------------------------------------------------

BULK = 20_000


def _list_of(number: int, count: int, element: bytes, wire: int = STRUCT) -> bytes:
    return encode({number: Raw(LIST, bytes([0xF0 | wire]) + varint(count) + element * count)}, FILE_META)


HOSTILE = {
    "schema elements": _list_of(2, BULK, b"\x00"),
    "row groups": _list_of(4, BULK, b"\x00"),
    "row groups of no rows": encode({2: [{4: b"", 5: 0}], 3: 0}, FILE_META)[:-1]
    + b"\x19\xfc"
    + varint(BULK)
    + b"\x36\x00\x00" * BULK
    + b"\x00",
    "key values": _list_of(5, BULK, b"\x00"),
    "column orders": _list_of(7, BULK, b"\x00"),
    "unknown structures": _list_of(99, BULK, b"\x00"),
    "unknown lists": _list_of(99, BULK, b"\x03", LIST),
    "columns": encode({2: [{4: b"root", 5: BULK}, *([{1: 0, 4: b""}] * BULK)], 3: 0}, FILE_META),
    "a list that claims to be longer": encode({2: Raw(LIST, b"\xfc" + varint(2**31 - 1) + bytes(BULK))}, FILE_META),
    "a text that claims to be longer": encode({6: Raw(8, varint(2**31 - 1) + bytes(BULK))}, FILE_META),
    "lists in lists": b"\x99" + b"\x19" * BULK,
    "structures in structures": b"\x9c" + b"\x1c" * BULK,
}
MULTIPLE = 150
"""A dictionary in Python takes that many times the bytes of an empty structure."""


@pytest.mark.parametrize("name", HOSTILE)
def test_memory_is_a_multiple_of_the_file(name: str) -> None:
    data = MAGIC + HOSTILE[name] + len(HOSTILE[name]).to_bytes(4, "little") + MAGIC
    tracemalloc.start()
    try:
        use_or_refuse(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MULTIPLE * len(data)


def test_a_walk_reads_no_more_than_a_multiple_of_the_chunk() -> None:
    chunk = Input(Stored(PLAIN)).footer.row_groups[0].chunks[0]
    empty = encode({1: 0, 2: 0, 3: 0}, {1: (5, None), 2: (5, None), 3: (5, None)})
    size = 7 * 3000
    pages = MAGIC + empty * 3000
    assert len(pages) == 4 + size
    fields = footer_of(PLAIN)
    fields[4] = fields[4][:1]
    fields[3] = 3
    for column in fields[4][0][1]:
        column[3] |= {7: size, 9: 4, 11: 4}
    footer = encode(fields, FILE_META)
    stored = Stored(pages + footer + len(footer).to_bytes(4, "little") + MAGIC)
    file = Input(stored)
    assert file.why_not_copied(0, 0, walk=True) == "the pages do not add up to their chunk"
    assert stored.fetched <= 256 * 3000
    assert chunk.values == 3
