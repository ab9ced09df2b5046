"""One column in another form does not force the others to be decoded: its chunks are encoded, theirs are copied."""

import math
import shutil
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepact.execute.assemble.decode import Decoder
from icepact.execute.assemble.messages import UnitReport
from icepact.execute.parquet.input import Input, MemorySource, Pick
from tests.support.kernel import (
    COPY,
    LAST_UPDATED,
    ROW_ID,
    Kernel,
    column,
    given,
    list_of,
    output,
    rows_of,
    stored,
    struct,
)
from tests.support.parquet_judges import fills_the_file, same_chunk, splits_hold, statistics_hold

ROWS, GROUP = 1000, 250
NAME, TAGS = stored(1, "name", pa.string()), stored(2, "tags", pa.list_(stored(3, "element", pa.int32())))
NUMBERS = range(ROWS)
PAGES: Mapping[str, Any] = {
    "row_group_size": GROUP,
    "write_page_index": True,
    "compression": "zstd",
    "max_rows_per_page": 100,
    "write_batch_size": 50,
    "bloom_filter_options": {"name": True},
    "sorting_columns": [pq.SortingColumn(1)],
    "store_decimal_as_integer": True,
}
V = stored(9, "v", pa.int64())


class Case(NamedTuple):
    """A column that some file holds in another form than the output."""

    wanted: Any
    """Its type in the table."""
    held: pa.Field
    """As the file holds it."""
    values: Sequence[Any]
    other: pa.Field | None = V
    """As another input holds it; null if that one lacks it."""
    expected: Sequence[Any] | None = None
    """Null if the values stay what they are."""


INNER, OLD_INNER = struct(column(11, "a", "long"), column(12, "b", "string")), pa.struct([stored(11, "a", pa.int32())])
NEW_INNER = pa.struct([stored(11, "a", pa.int64()), stored(12, "b", pa.string())])
CENTS = [Decimal(n).scaleb(-2) for n in NUMBERS]
CASES = {
    "required, missing there": Case("long", stored(9, "v", pa.int64(), required=True), NUMBERS, None),
    "required, optional there": Case("long", stored(9, "v", pa.int64(), required=True), NUMBERS),
    "required text, missing there": Case(
        "string", stored(9, "v", pa.string(), required=True), [f"w{n % 7}" for n in NUMBERS], None
    ),
    "int": Case("long", stored(9, "v", pa.int32()), [None if n % 3 == 0 else -n for n in NUMBERS]),
    "float": Case("double", stored(9, "v", pa.float32()), [n / 4 for n in NUMBERS], stored(9, "v", pa.float64())),
    "float with NaN": Case(
        "double",
        stored(9, "v", pa.float32()),
        [math.nan if n == 5 else -0.0 for n in NUMBERS],
        stored(9, "v", pa.float64()),
    ),
    "short decimal": Case(
        "decimal(18, 2)", stored(9, "v", pa.decimal128(9, 2)), CENTS, stored(9, "v", pa.decimal128(18, 2))
    ),
    "long decimal": Case(
        "decimal(38, 2)", stored(9, "v", pa.decimal128(20, 2)), CENTS, stored(9, "v", pa.decimal128(38, 2))
    ),
    "inside a struct": Case(
        INNER,
        stored(9, "v", OLD_INNER),
        [None if n % 5 == 0 else {"a": n} for n in NUMBERS],
        stored(9, "v", NEW_INNER),
        [None if n % 5 == 0 else {"a": n, "b": None} for n in NUMBERS],
    ),
    "inside a list": Case(
        list_of(10, "long"),
        stored(9, "v", pa.list_(stored(10, "element", pa.int32()))),
        [None if n % 4 == 0 else [n, None, -n][: n % 4] for n in NUMBERS],
        stored(9, "v", pa.list_(stored(10, "element", pa.int64()))),
    ),
}


def kernel_of(folder: Path, case: Case, **more: Any) -> Kernel:
    """The changed column between two others."""
    schema = struct(column(1, "name", "string"), column(9, "v", case.wanted), column(2, "tags", list_of(3, "int")))
    return Kernel(folder=folder, schema=schema, **{"writing": COPY, **more})


def written(kernel: Kernel, name: str, held: pa.Field | None, values: Sequence[Any], **options: Any) -> Path:
    """A file of four row groups, the changed column last."""
    tags = [None if n % 9 == 0 else [n, None] for n in NUMBERS]
    columns: dict[pa.Field, Sequence[Any]] = {NAME: [f"name {n}" for n in NUMBERS], TAGS: tags}
    return kernel.file(name, rows_of(columns if held is None else {**columns, held: values}), **{**PAGES, **options})


def copied_as_they_were(report: UnitReport, path: Path, groups: Mapping[int, int], *, names: set[bytes]) -> None:
    """Columns of row groups, by where they are in the output, are those of the input, byte by byte."""
    data = output(report).read_bytes()
    source, found = Input(MemorySource(path.read_bytes())), Input(MemorySource(data)).footer
    for here, there in groups.items():
        for leaf, chunk in zip(found.leaves, found.row_groups[here].chunks, strict=True):
            if leaf.path[0] in names:
                place = [mine.path for mine in source.footer.leaves].index(leaf.path)
                same_chunk(data, chunk, Pick(source, there, place))


def judged(report: UnitReport) -> bytes:
    """A whole file whose statistics hold; returns its bytes."""
    assert (report.refused, report.failed) == (None, None)
    data = output(report).read_bytes()
    fills_the_file(data)
    splits_hold(Input(MemorySource(data)).footer)
    statistics_hold(data)
    return data


# -- forms --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_only_the_chunks_in_another_form_are_encoded(tmp_path: Path, case: Case) -> None:
    kernel = kernel_of(tmp_path, case)
    changed = written(kernel, "f", case.held, case.values)
    other = written(kernel, "g", case.other, [None] * ROWS)
    report = kernel.run(changed, other)
    data = judged(report)
    found = pq.read_table(pa.BufferReader(data))
    expected = case.values if case.expected is None else case.expected
    assert repr(found["v"].to_pylist()) == repr([*expected, *[None] * ROWS])
    assert found["name"].to_pylist() == [f"name {n}" for n in NUMBERS] * 2
    copied_as_they_were(report, changed, {n: n for n in range(4)}, names={b"name", b"tags"})
    in_form = {b"name", b"tags"} if case.other is None else {b"name", b"tags", b"v"}
    copied_as_they_were(report, other, {4 + n: n for n in range(4)}, names=in_form)
    footer = Input(MemorySource(data)).footer
    assert [group.rows for group in footer.row_groups] == [GROUP] * 8
    assert [group.fields[4][0][1] for group in footer.row_groups] == [len(footer.leaves) - 1] * 8
    fresh = [
        (leaf, chunk)
        for number, group in enumerate(footer.row_groups)
        for leaf, chunk in zip(footer.leaves, group.chunks, strict=True)
        if leaf.path[0] == b"v" and (number < 4 or case.other is None)
    ]
    assert report.effort.encoded_bytes == sum(chunk.size for _, chunk in fresh)
    assert all(chunk.offset_index is not None for leaf, chunk in fresh if not leaf.repeated)


def test_dictionaries_and_bloom_filters_of_encoded_chunks(tmp_path: Path) -> None:
    """What was held in a dictionary is so again, and the table's wish for a filter is followed."""
    case = CASES["required text, missing there"]
    kernel = kernel_of(tmp_path, case, writing={**COPY, "blooms": {9: (0.01, None)}})
    files = written(kernel, "f", case.held, case.values), written(kernel, "g", None, ())
    footer = Input(MemorySource(judged(kernel.run(*files)))).footer
    chunks = [group.chunks[1] for group in footer.row_groups[:4]]
    assert all(chunk.dictionary_offset is not None and chunk.bloom_offset is not None for chunk in chunks)


# -- what else goes on ----------------------------------------------------------------------------------


def test_row_groups_with_deleted_rows_are_decoded_and_no_others(tmp_path: Path) -> None:
    """Three ways in one file: left out, decoded because of a delete, and copied but for one column."""
    case = CASES["int"]
    kernel = kernel_of(tmp_path, case)
    path = written(kernel, "f", case.held, case.values)
    gone = [260, *range(500, 750)]
    report = kernel.run(given(path, deletes=[kernel.position_delete("d", path, gone)]))
    found = pq.read_table(pa.BufferReader(judged(report)))
    left = [n for n in NUMBERS if n not in set(gone)]
    assert found["v"].to_pylist() == [case.values[n] for n in left]
    assert found["name"].to_pylist() == [f"name {n}" for n in left]
    copied_as_they_were(report, path, {0: 0, 2: 3}, names={b"name", b"tags"})
    names = [leaf.path[0] for leaf in Input(MemorySource(path.read_bytes())).footer.leaves]
    groups = Input(MemorySource(path.read_bytes())).footer.row_groups
    assert report.effort.copied_bytes == sum(
        groups[n].chunks[names.index(c)].size for n in (0, 3) for c in (b"name", b"tags")
    )


@pytest.mark.parametrize("own", [False, True], ids=["made up", "the file's own"])
def test_row_lineage_beside_an_encoded_column(tmp_path: Path, own: bool) -> None:
    case = CASES["int"]
    kernel = kernel_of(tmp_path, case, lineage=True)
    ids = [n + 5000 if n % 2 else None for n in NUMBERS]
    columns: dict[pa.Field, Sequence[Any]] = {NAME: [f"n{n}" for n in NUMBERS], case.held: case.values}
    if own:
        columns |= {stored(ROW_ID, "_row_id", pa.int64()): ids, stored(LAST_UPDATED, "_u", pa.int64()): [3] * ROWS}
    path = kernel.file("f", rows_of(columns), row_group_size=GROUP, compression="zstd")
    report = kernel.run(given(path, first_row_id=100, sequence_number=9))
    found = pq.read_table(pa.BufferReader(judged(report)))
    assert found["v"].to_pylist() == list(case.values)
    resolved = [ids[n] or 100 + n for n in NUMBERS] if own else [100 + n for n in NUMBERS]
    assert found["_row_id"].to_pylist() == resolved
    assert found["_last_updated_sequence_number"].to_pylist() == [3 if own else 9] * ROWS
    copied_as_they_were(report, path, {n: n for n in range(4)}, names={b"name"})


def test_chunks_of_another_codec_are_recoded_by_themselves(tmp_path: Path) -> None:
    kernel = kernel_of(tmp_path, CASES["int"]._replace(wanted="int"), writing={**COPY, "recode": True})
    path = written(kernel, "f", CASES["int"].held, CASES["int"].values, compression={"name": "zstd", "v": "snappy"})
    report = kernel.run(path)
    described = pq.read_metadata(pa.BufferReader(judged(report)))
    assert {described.row_group(n).column(c).compression for n in range(4) for c in range(3)} == {"ZSTD"}
    copied_as_they_were(report, path, {n: n for n in range(4)}, names={b"name"})


def test_a_small_row_group_without_a_neighbour(tmp_path: Path) -> None:
    """It is not made larger by being decoded; with a neighbour it is, and pages are joined where they can be."""
    case = CASES["int"]
    kernel = kernel_of(tmp_path, case, writing={"fewest_page_rows": 1})
    path = kernel.file(
        "f",
        rows_of({NAME: [f"n{n}" for n in NUMBERS], case.held: case.values}),
        compression="zstd",
        **{"use_dictionary": False, "write_page_index": True},
    )
    alone = kernel.run(path)
    copied_as_they_were(alone, path, {0: 0}, names={b"name"})
    joined = kernel.run(path, Path(shutil.copy(path, tmp_path / "again.parquet")))
    assert Input(MemorySource(judged(joined))).footer.row_groups[0].rows == 2 * ROWS
    assert joined.effort.copied_bytes == 2 * alone.effort.copied_bytes > 0
    assert pq.read_table(output(joined))["v"].to_pylist() == [*case.values] * 2


def test_where_nothing_can_be_copied_rows_are_gathered(tmp_path: Path) -> None:
    """Row groups are not kept for the sake of columns that are all encoded."""
    kernel = Kernel(folder=tmp_path, schema=struct(column(9, "v", "long")), writing=COPY)
    path = kernel.file("f", rows_of({CASES["int"].held: CASES["int"].values}), row_group_size=GROUP)
    report = kernel.run(path)
    assert report.effort.copied_bytes == 0
    assert [group.rows for group in Input(MemorySource(judged(report))).footer.row_groups] == [ROWS]


# -- memory -------------------------------------------------------------------------------------------


def test_few_columns_are_decoded_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as memory allows; if one is too large by itself, the row group is decoded in slices."""
    count, rows = 6, 40_000
    schema = struct(column(1, "name", "string"), *(column(10 + n, f"v{n}", "long") for n in range(count)))
    held = {stored(10 + n, f"v{n}", pa.int32()): list(range(n, n + rows)) for n in range(count)}
    table = rows_of({NAME: [f"name {n}" for n in range(rows)], **held})
    decoded: list[int] = []
    projected = Decoder._projected

    def counted(self: Decoder, *given: Any) -> pa.Table:
        decoded.append(len(self._fields))
        return projected(self, *given)

    monkeypatch.setattr(Decoder, "_projected", counted)
    ways: dict[int, tuple[list[int], bool]] = {}
    for megabytes in (1024, 8, 1):
        decoded.clear()
        writing = {**COPY, "task_memory": megabytes * 1024**2}
        kernel = Kernel(folder=tmp_path, schema=schema, writing=writing)
        report = kernel.run(kernel.file(f"f{megabytes}", table, compression="zstd"))
        found = pq.read_table(pa.BufferReader(judged(report)))
        assert [found[f"v{n}"].to_pylist() == list(range(n, n + rows)) for n in range(count)] == [True] * count
        ways[megabytes] = list(decoded), report.effort.copied_bytes > 0
    assert ways[1024] == ([count], True)
    assert ways[8][1]
    assert sum(ways[8][0]) == count
    assert max(ways[8][0]) < count
    assert (set(ways[1][0]), ways[1][1]) == ({count + 1}, False)
