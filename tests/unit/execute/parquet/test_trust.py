"""What may not be copied is refused with a reason, and what may not be believed is left out."""

import io
import math
import struct
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepact.execute.parquet.input import Input
from icepact.execute.parquet.schema import Leaf, same_values
from icepact.execute.parquet.thrift import I32, I64, STRUCT, Fields
from icepact.execute.parquet.trust import trusted_statistics
from tests.support.parquet_bent import Raw, bent, footer_of, meta_of, updating
from tests.support.parquet_files import Settings, Stored, write

TABLE = pa.table(
    {
        "number": pa.array([5, None, 3], pa.int64()),
        "float": pa.array([1.5, -2.5, 0.0], pa.float64()),
        "list": pa.array([[1], [], None], pa.list_(pa.int32())),
        "struct": pa.array([{"x": "a"}, {"x": None}, None], pa.struct([pa.field("x", pa.string())])),
    }
)
FILE = write(TABLE, Settings(store_schema=False)).data
STRANGE = Raw(I64, b"\x0a")
NOBODY_KNOWS = "it has parts that icepact does not know"

Change = Callable[[Fields], object]


def reasons(data: bytes, *, walk: bool = True) -> list[str | None]:
    """Why each chunk of the first row group is not copied."""
    file = Input(Stored(data))
    return [file.why_not_copied(0, column, walk=walk) for column in range(len(file.footer.leaves))]


def only(column: int, reason: str) -> list[str | None]:
    """One chunk is refused, the others are not."""
    return [reason if number == column else None for number in range(4)]


def test_without_anything_strange_all_is_copied() -> None:
    for data in (FILE, bent(FILE, lambda fields: None)):
        assert reasons(data, walk=True) == reasons(data, walk=False) == [None] * 4
        assert Input(Stored(data)).why_nothing_copied is None


# -- what is not known ------------------------------------------------------------------------------------------

STRANGE_CHUNKS: dict[str, Change] = {
    "chunk": lambda fields: fields[4][0][1][1].update({99: STRANGE}),
    "encrypted chunk": lambda fields: fields[4][0][1][1].update({8: Raw(STRUCT, b"\x00")}),
    "metadata": lambda fields: meta_of(fields, 0, 1).update({99: STRANGE}),
    "geospatial statistics": lambda fields: meta_of(fields, 0, 1).update({17: Raw(STRUCT, b"\x00")}),
    "statistics": lambda fields: meta_of(fields, 0, 1)[12].update({10: STRANGE}),
    "sizes": lambda fields: meta_of(fields, 0, 1)[16].update({4: STRANGE}),
    "page encodings": lambda fields: meta_of(fields, 0, 1)[13][0].update({4: STRANGE}),
    "key values": lambda fields: meta_of(fields, 0, 1).update({8: [{1: b"k", 3: STRANGE}]}),
    "another type than ever": lambda fields: meta_of(fields, 0, 1).update({10: Raw(I32, b"\x02")}),
    "element": lambda fields: fields[2][2].update({11: STRANGE}),
    "a type that is none": lambda fields: (fields[2][2].update({1: 8}), meta_of(fields, 0, 1).update({1: 8})),
    "a repetition that is none": lambda fields: fields[2][2].update({3: 3}),
    "an old annotation": lambda fields: fields[2][2].update({6: 99}),
    "an annotation that is none": lambda fields: fields[2][2].update({10: {}}),
    "two annotations": lambda fields: fields[2][2].update({10: {1: {}, 4: {}}}),
    **{f"annotation {n}": updating((2, 2), {10: {n: Raw(STRUCT, b"\x00")}}) for n in (9, 16, 17, 18)},
}


@pytest.mark.parametrize("name", STRANGE_CHUNKS)
def test_a_chunk_with_something_unknown(name: str) -> None:
    data = bent(FILE, STRANGE_CHUNKS[name])
    assert reasons(data) == reasons(data, walk=False) == only(1, NOBODY_KNOWS)


def test_a_group_with_something_unknown_spoils_what_is_inside() -> None:
    """A variant is a group of two plain columns with an annotation above them."""
    for strange in ({10: {16: Raw(STRUCT, b"\x00")}}, {11: STRANGE}, {6: 99}, {3: 5}):
        assert reasons(bent(FILE, updating((2, 6), strange))) == only(3, NOBODY_KNOWS)


def test_a_row_group_or_a_root_with_something_unknown_spoils_all_of_it() -> None:
    assert reasons(bent(FILE, lambda fields: fields[4][0].update({8: STRANGE}))) == [NOBODY_KNOWS] * 4
    assert reasons(bent(FILE, lambda fields: fields[2][0].update({11: STRANGE}))) == [NOBODY_KNOWS] * 4


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields.update({99: STRANGE}),
        lambda fields: fields.update({8: Raw(STRUCT, b"\x00")}),  # encrypted columns
        lambda fields: fields[7].__setitem__(1, {2: Raw(STRUCT, b"\x00")}),  # IEEE 754 total order
        lambda fields: fields[7].__setitem__(1, {1: {1: STRANGE}}),
    ],
)
def test_a_file_with_something_unknown(change: Change) -> None:
    reason = Input(Stored(bent(FILE, change))).why_nothing_copied
    assert reason == "its footer has parts that icepact does not know"


# -- what is known, and not copied ---------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Change, str]] = {
    "LZO": (lambda fields: meta_of(fields, 0, 1).update({4: 3}), "its codec 3 is not known"),
    "the old LZ4": (lambda fields: meta_of(fields, 0, 1).update({4: 5}), "its codec 5 is not known"),
    "codec": (lambda fields: meta_of(fields, 0, 1).update({4: 77}), "its codec 77 is not known"),
    "encoding": (lambda fields: meta_of(fields, 0, 1)[2].append(10), "its encoding is not known"),
    "no encodings": (lambda fields: meta_of(fields, 0, 1).pop(2), "its description is not whole"),
    "no size": (lambda fields: meta_of(fields, 0, 1).pop(6), "its description is not whole"),
    "negative size": (lambda fields: meta_of(fields, 0, 1).update({6: -1}), "its description is not whole"),
    "elsewhere": (lambda fields: fields[4][0][1][1].update({1: b"other.parquet"}), "it lies in another file"),
    "values": (lambda fields: meta_of(fields, 0, 1).update({5: 2}), "its values are not as many as the rows"),
    "type": (lambda fields: meta_of(fields, 0, 1).update({1: 2}), "its type is not that of its schema"),
    "name": (lambda fields: meta_of(fields, 0, 1).update({3: [b"x"]}), "its description is that of another column"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_chunk_that_is_not_copied(name: str) -> None:
    change, reason = REFUSED[name]
    data = bent(FILE, change)
    assert reasons(data) == reasons(data, walk=False) == only(1, reason)


def test_lists_have_more_values_than_rows() -> None:
    data = bent(FILE, lambda fields: meta_of(fields, 0, 2).update({5: 7}))
    assert reasons(data, walk=False) == [None] * 4
    assert reasons(data) == only(2, "the pages do not add up to their chunk")


def test_int96() -> None:
    out = io.BytesIO()
    table = pa.table({"t": pa.array([1, 2], pa.timestamp("ns"))})
    pq.write_table(table, out, use_deprecated_int96_timestamps=True)
    assert reasons(out.getvalue()) == ["it holds INT96"]
    file = Input(Stored(out.getvalue()))
    assert trusted_statistics(file.footer, 0, file.footer.row_groups[0].chunks[0]).keys() <= {3}


@pytest.mark.parametrize(
    ("writer", "reason"),
    [
        ("", "nobody knows who wrote it"),
        (" ", "nobody knows who wrote it"),
        ("parquet-mr", "written by parquet-mr of no known version"),
        ("parquet-mr (build abc)", "written by parquet-mr of no known version"),
        ("parquet-mr version (build abc)", "written by parquet-mr of no known version"),
        ("parquet-mr version " + "1" * 5000, None),
        ("parquet-mr version 1.8.1 (build 4aba4da)", "written by parquet-mr 1.8.1"),
        ("parquet-mr version 1.9", "written by parquet-mr 1.9"),
        ("parquet-mr version 1.10.0", None),
        ("parquet-mr version 1.10.0-SNAPSHOT (build x)", None),
        ("parquet-mr version 1.15.2 (build abc)", None),
        ("parquet-mr version 2", None),
        ("parquet-cpp version 1.5.1-SNAPSHOT", "written by parquet-cpp 1.5.1"),
        ("parquet-cpp-arrow version 5.0.0", "written by parquet-cpp-arrow 5.0.0"),
        ("parquet-cpp-arrow version 6.0.0", None),
        ("DuckDB version v1.2.0 (build 5f5512b827)", None),
        ("Polars", None),
        ("parquet-rs version 50.0.0", None),
    ],
)
def test_writers(writer: str, reason: str | None) -> None:
    file = Input(Stored(bent(FILE, lambda fields: fields.update({6: writer.encode()}))))
    assert file.why_nothing_copied == reason
    kept = trusted_statistics(file.footer, 0, file.footer.row_groups[0].chunks[0])
    assert (kept == {}) == (reason is not None)


def test_a_file_that_names_no_writer() -> None:
    file = Input(Stored(bent(FILE, lambda fields: fields.pop(6))))
    assert file.why_nothing_copied == "nobody knows who wrote it"


# -- statistics --------------------------------------------------------------------------------------------------

NUMBERS = {3: 1, 5: struct.pack("<q", 5), 6: struct.pack("<q", 3), 7: True, 8: True}


def kept(change: Change, column: int = 0) -> Fields:
    """What is left of a column's statistics."""
    footer = Input(Stored(bent(FILE, change))).footer
    return trusted_statistics(footer, column, footer.row_groups[0].chunks[column])


def told(statistics: Fields, column: int = 0) -> Change:
    """Statistics of a column are others."""
    return lambda fields: meta_of(fields, 0, column).update({12: statistics})


def test_good_statistics_are_kept_and_deprecated_ones_dropped() -> None:
    assert kept(lambda fields: None) == NUMBERS
    assert {1, 2} <= meta_of(footer_of(FILE))[12].keys()
    assert kept(told({1: bytes(8), 2: bytes(8), 3: 1, 4: 2})) == {3: 1}


@pytest.mark.parametrize("raw", [b"", bytes(7), bytes(9), bytes(4)])
def test_bounds_of_another_length_are_dropped(raw: bytes) -> None:
    assert kept(told({5: raw, 6: bytes(8), 7: True, 8: False})) == {6: bytes(8), 8: False}
    assert kept(told({5: bytes(8), 6: raw, 7: True, 8: False})) == {5: bytes(8), 7: True}
    assert kept(told({5: raw, 6: bytes(8), 8: False, 9: 0}, 1), 1) == {6: bytes(8), 8: False, 9: 0}
    assert kept(written_by(JAVA, told({5: raw, 6: bytes(8)}, 1)), 1) == {}


# -- NaN ---------------------------------------------------------------------------------------------------------

JAVA = "parquet-mr version 1.17.1 (build x)"
LOW, HIGH, NAN = (struct.pack("<d", number) for number in (1.0, 2.0, math.nan))
NEGATIVE_NAN = b"\x01" + bytes(5) + b"\xf0\xff"


def written_by(name: str, change: Change) -> Change:
    """Another writer."""
    return lambda fields: (change(fields), fields.update({6: name.encode()}))


@pytest.mark.parametrize(
    ("writer", "shows"),
    [
        (JAVA, True),
        ("parquet-mr version 1.10.0", True),
        ("parquet-mr version 1.19.0-SNAPSHOT (build x)", True),
        ("parquet-mr-trino version 479 (build n/a)", True),
        ("parquet-mr-trino version 480-e.5", False),
        ("parquet-mr-trino", False),
        ("parquet-cpp-arrow version 26.0.1", False),
        ("parquet-rs version 50.0.0", False),
        ("Polars", False),
        ("icepact version 0.1.0", False),
    ],
)
def test_bounds_of_fractions_are_kept_if_their_writer_would_show_nan(writer: str, shows: bool) -> None:
    """A copy says that there is none: who copies it again need not know who wrote it."""
    statistics = {3: 0, 5: HIGH, 6: LOW}
    assert kept(written_by(writer, told(statistics, 1)), 1) == ({**statistics, 9: 0} if shows else {3: 0})


@pytest.mark.parametrize("writer", [JAVA, "icepact version 0.1.0", "parquet-cpp-arrow version 26.0.1"])
def test_bounds_of_fractions_are_kept_if_nan_was_counted(writer: str) -> None:
    statistics = {3: 0, 5: HIGH, 6: LOW, 7: True, 8: True}
    assert kept(written_by(writer, told({**statistics, 9: 0}, 1)), 1) == {**statistics, 9: 0}
    assert kept(written_by(writer, told({**statistics, 9: 1}, 1)), 1) == {3: 0, 9: 1}


@pytest.mark.parametrize("nan", [NAN, NEGATIVE_NAN])
def test_nan_is_no_bound_and_leaves_no_other(nan: bytes) -> None:
    for statistics in ({5: nan, 6: LOW}, {5: HIGH, 6: nan}, {5: nan, 6: nan}):
        assert kept(written_by(JAVA, told({3: 0, **statistics}, 1)), 1) == {3: 0}
        assert kept(told({3: 0, 9: 0, **statistics}, 1), 1) == {3: 0}  # it says that there is no NaN, and shows one
        assert kept(told({3: 0, 9: 1, **statistics}, 1), 1) == {3: 0, 9: 1}


def test_a_column_of_nulls_holds_no_nan() -> None:
    assert kept(told({3: 3}, 1), 1) == {3: 3, 9: 0}


def test_a_column_of_nulls_has_no_bounds() -> None:
    """Where it does, they were counted more than once, and there may be NaN."""
    assert kept(told({3: 3, 5: HIGH, 6: LOW}, 1), 1) == {}
    assert kept(told({3: 3, 5: NUMBERS[5], 6: NUMBERS[6]})) == {5: NUMBERS[5], 6: NUMBERS[6]}
    assert kept(told({3: 2}, 1), 1) == {3: 2}


def test_nan_is_no_bound_of_short_floats() -> None:
    table = pa.table({"half": pa.array([1.5], pa.float16()), "single": pa.array([1.5], pa.float32())})
    for column, form in ((0, "<e"), (1, "<f")):
        nan, one = struct.pack(form, math.nan), struct.pack(form, 1.0)
        for statistics, expected in (({5: nan, 6: one}, {}), ({5: one, 6: one}, {5: one, 6: one, 9: 0})):
            data = bent(write(table).data, written_by(JAVA, told(statistics, column)))
            footer = Input(Stored(data)).footer
            assert trusted_statistics(footer, column, footer.row_groups[0].chunks[column]) == expected


def test_pages_of_fractions_have_statistics_if_the_chunk_has() -> None:
    """An index by page leaves NaN out in the same way."""
    data = write(TABLE, Settings(store_schema=False, index=True)).data
    counted = bent(data, lambda fields: meta_of(fields, 0, 1)[12].update({9: 0}))
    assert Input(Stored(data)).column_index(0, 1) is None
    assert Input(Stored(counted)).column_index(0, 1) is not None


def test_counts_that_cannot_be_are_dropped() -> None:
    for count in (-1, 4, 2**62):
        assert 3 not in kept(told({**NUMBERS, 3: count}))
        assert 9 not in kept(told({9: count}, 1), 1)
    assert kept(told({3: 1, 9: 2}, 1), 1) == {3: 1, 9: 2}
    assert kept(told({3: 3, 9: 2})) == {3: 3}  # integers are never NaN


def test_long_bounds_are_dropped() -> None:
    assert kept(told({5: b"x" * 4097, 6: b"x" * 4096}, 3), 3) == {6: b"x" * 4096}


def test_bounds_without_an_order_are_dropped() -> None:
    assert kept(lambda fields: fields.pop(7)) == {3: 1}
    assert kept(lambda fields: fields[7].__setitem__(0, {})) == {3: 1}
    assert kept(lambda fields: fields[7].__setitem__(0, {2: Raw(STRUCT, b"\x00")})) == {3: 1}
    assert kept(lambda fields: fields.update({7: fields[7][:2]}), 3) == {3: 2}
    assert kept(lambda fields: fields.update({7: fields[7][:2]}), 0) == NUMBERS


@pytest.mark.parametrize("strange", [{6: 21}, {10: {11: {}}}, {6: 99}, {10: {17: Raw(STRUCT, b"\x00")}}])
def test_bounds_of_types_without_an_order_are_dropped(strange: Fields) -> None:
    assert kept(lambda fields: fields[2][1].update(strange)) == {3: 1}


def test_statistics_with_something_unknown_are_dropped() -> None:
    assert kept(lambda fields: meta_of(fields)[12].update({10: STRANGE})) == {}


# -- the same values ---------------------------------------------------------------------------------------------


def leaf(kind: pa.DataType, *, nullable: bool = True, field_id: int = 1, bend: Change | None = None) -> Leaf:
    """The first leaf of a column of a type."""
    field = pa.field("a", kind, nullable=nullable, metadata={"PARQUET:field_id": str(field_id)})
    data = write(pa.schema([field]).empty_table()).data
    return Input(Stored(bent(data, bend) if bend else data)).footer.leaves[0]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (leaf(pa.int32()), leaf(pa.int64())),
        (leaf(pa.int32()), leaf(pa.uint32())),
        (leaf(pa.int32()), leaf(pa.date32())),
        (leaf(pa.string()), leaf(pa.binary())),
        (leaf(pa.binary(3)), leaf(pa.binary(4))),
        (leaf(pa.decimal128(5, 2)), leaf(pa.decimal128(6, 2))),
        (leaf(pa.decimal128(5, 2)), leaf(pa.decimal128(5, 1))),
        (leaf(pa.timestamp("us")), leaf(pa.timestamp("ms"))),
        (leaf(pa.timestamp("us")), leaf(pa.timestamp("us", "UTC"))),
        (leaf(pa.int32()), leaf(pa.int32(), nullable=False)),
        (leaf(pa.int32()), leaf(pa.int32(), field_id=2)),
        (leaf(pa.list_(pa.int32())), leaf(pa.list_(pa.field("element", pa.int32(), nullable=False)))),
        (leaf(pa.list_(pa.int32())), leaf(pa.int32())),
        (leaf(pa.list_(pa.int32())), leaf(pa.list_(pa.int32()), bend=lambda fields: fields[2][3].update({9: 5}))),
        (leaf(pa.int32()), leaf(pa.int32(), bend=lambda fields: fields[2][1].update({99: STRANGE}))),
    ],
)
def test_other_values(one: Leaf, other: Leaf) -> None:
    assert not same_values(one, other)
    assert not same_values(other, one)
    assert same_values(one, one)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (pa.int32(), lambda fields: fields[2][1].update({6: 17, 10: {10: {1: 32, 2: True}}})),
        (pa.string(), lambda fields: fields[2][1].pop(10)),
        (pa.string(), lambda fields: fields[2][1].pop(6)),
        (pa.decimal128(9, 2), lambda fields: fields[2][1].pop(10)),
        (pa.timestamp("us", "UTC"), lambda fields: fields[2][1].pop(10)),
        (pa.date32(), lambda fields: fields[2][1].pop(10)),
        (pa.uint16(), lambda fields: fields[2][1].pop(10)),
        (pa.int32(), lambda fields: fields[2][1].update({4: b"another name"})),
        (pa.list_(pa.int32()), lambda fields: fields[2][2].update({4: b"bag", 9: 77})),
    ],
)
def test_the_same_values_in_other_words(kind: pa.DataType, change: Change) -> None:
    assert same_values(leaf(kind), leaf(kind, bend=change))
