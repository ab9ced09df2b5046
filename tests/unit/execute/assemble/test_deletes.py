"""Deletes in the kernel: which rows go, and that nothing of them stays."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepact.execute.parquet.thrift import Fields
from tests.support.kernel import COPY, LAST_UPDATED, ROW_ID, Kernel, column, given, output, rows_of, stored, struct
from tests.support.parquet_bent import bent, footer_of, meta_of

BLOOM = {"ndv": 10, "fpp": 0.001}

# -- partition values in keys -----------------------------------------------------------------------

ID, P = stored(1, "id", pa.int64()), stored(2, "p", pa.string())


@pytest.fixture
def partitioned(tmp_path: Path) -> Kernel:
    """A table partitioned by p as it is."""
    return Kernel(
        folder=tmp_path, schema=struct(column(1, "id", "long"), column(2, "p", "string")), identity=(2,), writing=COPY
    )


@pytest.mark.parametrize("options", [{}, {"bloom_filter_options": {"p": BLOOM}}], ids=["statistics", "bloom"])
@pytest.mark.parametrize(
    ("keys", "left"),
    [
        ({ID: [1], P: ["x"]}, [0, 2]),
        ({ID: [1], P: ["stale"]}, [0, 1, 2]),
        ({P: ["x"]}, []),
        ({P: ["stale"]}, [0, 1, 2]),
    ],
    ids=["both", "both stale", "alone", "alone stale"],
)
def test_the_partition_decides(
    partitioned: Kernel, keys: Mapping[pa.Field, list[Any]], left: list[int], options: Mapping[str, Any]
) -> None:
    """Files that were added as they are may hold another value in the column, and readers never look at it."""
    path = partitioned.file("f", rows_of({ID: [0, 1, 2], P: ["stale"] * 3}), **options)
    delete = partitioned.equality_delete("d", rows_of(keys))
    report = partitioned.run(given(path, deletes=[delete], partition=("x",)))
    assert (report.refused, report.failed, report.rows_deleted) == (None, None, 3 - len(left))
    found = [i for o in report.outputs for i in pq.read_table(o.path)["id"].to_pylist()]
    assert found == left


def test_the_partition_decides_where_the_file_lacks_the_column(partitioned: Kernel) -> None:
    path = partitioned.file("f", rows_of({ID: [0, 1, 2]}))
    delete = partitioned.equality_delete("d", rows_of({ID: [1, 2], P: ["x", "y"]}))
    found = partitioned.rewritten(given(path, deletes=[delete], partition=("x",)))
    assert found.to_pylist() == [{"id": 0, "p": "x"}, {"id": 2, "p": "x"}]


# -- bloom filters ----------------------------------------------------------------------------------


def emptied(path: Path) -> Path:
    """The file with a bloom filter that denies everything: who asks it loses deletes."""
    data = bytearray(path.read_bytes())
    meta = meta_of(footer_of(bytes(data)))
    end = meta[14] + meta[15]
    bits = meta[15] // 32 * 32  # the header in front of them is shorter than a block
    data[end - bits : end] = bytes(bits)
    path.write_bytes(data)
    return path


def test_a_filter_is_asked(tmp_path: Path) -> None:
    """Or the tests below would tell nothing."""
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "k", "long")), writing=COPY)
    key = stored(1, "k", pa.int64())
    path = kernel.file("f", rows_of({key: [1, 2, 3]}), write_statistics=False, bloom_filter_options={"k": BLOOM})
    delete = kernel.equality_delete("d", rows_of({key: [2]}))
    assert kernel.rewritten(given(path, deletes=[delete]))["k"].to_pylist() == [1, 3]
    assert kernel.rewritten(given(emptied(path), deletes=[delete]))["k"].to_pylist() == [1, 2, 3]


@pytest.mark.parametrize("keys", [[2], [2, 5_000_000_000]], ids=["fits", "does not fit"])
def test_the_filter_of_a_promoted_column_is_not_asked(tmp_path: Path, keys: list[int]) -> None:
    """A long has another hash than the int that the file holds, and may be none at all."""
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "k", "long")), writing=COPY)
    rows = rows_of({stored(1, "k", pa.int32()): [1, 2, 3]})
    path = emptied(kernel.file("f", rows, write_statistics=False, bloom_filter_options={"k": BLOOM}))
    delete = kernel.equality_delete("d", rows_of({stored(1, "k", pa.int64()): keys}))
    assert kernel.rewritten(given(path, deletes=[delete]))["k"].to_pylist() == [1, 3]


def as_bytes(kernel: Kernel, values: list[Decimal], *, bounds: bool = False) -> Path:
    """Decimals as some writers hold them: the fewest bytes of the unscaled value; bounds are those of the bytes."""
    unscaled = [int(value.scaleb(2)) for value in values]
    raw = [n.to_bytes((n.bit_length() + 8) // 8, "big", signed=True) for n in unscaled]
    rows = rows_of({stored(1, "k", pa.binary()): raw})
    path = kernel.file("f", rows, write_statistics=bounds, bloom_filter_options={"k": BLOOM})

    def annotate(fields: Fields) -> None:
        element = fields[2][1]
        fields[2][1] = dict(sorted({**element, 6: 5, 7: 2, 8: 9}.items()))

    path.write_bytes(bent(path.read_bytes(), annotate))
    return path


def test_bounds_of_decimals_of_any_length_are_not_believed(tmp_path: Path) -> None:
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "k", "decimal(9, 2)")), writing=COPY)
    path = as_bytes(kernel, [Decimal("0.01"), Decimal("7.25"), Decimal("0.05")], bounds=True)
    statistics = meta_of(footer_of(path.read_bytes()))[12]
    assert (statistics[6], statistics[5]) == (b"\x01", b"\x05")
    delete = kernel.equality_delete("d", rows_of({stored(1, "k", pa.decimal128(9, 2)): [Decimal("7.25")]}))
    assert kernel.rewritten(given(path, deletes=[delete]))["k"].to_pylist() == [Decimal("0.01"), Decimal("0.05")]


def as_numbers(kernel: Kernel, values: list[Decimal]) -> Path:
    """Decimals as Iceberg's own writers hold them."""
    rows = rows_of({stored(1, "k", pa.decimal128(9, 2)): values})
    options = {"k": BLOOM}
    return kernel.file("f", rows, write_statistics=False, bloom_filter_options=options, store_decimal_as_integer=True)


@pytest.mark.parametrize("written", [as_bytes, as_numbers], ids=["bytes", "numbers"])
def test_the_filter_of_decimals_is_not_asked(tmp_path: Path, written: Callable[[Kernel, list[Decimal]], Path]) -> None:
    """The same decimal has as many forms as there are writers, each with a hash of its own."""
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "k", "decimal(9, 2)")), writing=COPY)
    values = [Decimal("0.05"), Decimal("-3.00"), Decimal("7.25")]
    path = emptied(written(kernel, values))
    assert pq.read_table(path)["k"].to_pylist() == values
    key = stored(1, "k", pa.decimal128(9, 2))
    delete = kernel.equality_delete("d", rows_of({key: [Decimal("0.05"), Decimal("-3.00")]}))
    assert kernel.rewritten(given(path, deletes=[delete]))["k"].to_pylist() == [Decimal("7.25")]


# -- nothing stays ----------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [1024**3, 4000], ids=["at once", "in slices"])
def test_a_deleted_value_is_in_no_dictionary(tmp_path: Path, memory: int) -> None:
    """Nor in statistics or anywhere else; what stays is still in dictionaries."""
    writing = {"codec": "uncompressed", "level": None, "task_memory": memory}
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "s", "string")), writing=writing)
    words = ["keep one", "keep two", None, "erase me"] * 100
    path = kernel.file("f", rows_of({stored(1, "s", pa.string()): words}), compression="none")
    assert b"erase me" in path.read_bytes()
    gone = [n for n, word in enumerate(words) if word == "erase me"]
    report = kernel.run(given(path, deletes=[kernel.position_delete("d", path, gone)]))
    assert (report.refused, report.failed, report.rows_deleted) == (None, None, 100)
    data = output(report).read_bytes()
    assert b"erase me" not in data
    assert pq.read_table(output(report))["s"].to_pylist() == ["keep one", "keep two", None] * 100
    described = pq.read_metadata(output(report))
    groups = [described.row_group(n).column(0) for n in range(described.num_row_groups)]
    assert all(chunk.has_dictionary_page for chunk in groups)
    assert data.count(b"keep one") >= len(groups)  # dictionaries are where values are


# -- slices -----------------------------------------------------------------------------------------


def test_slices_keep_row_lineage(tmp_path: Path) -> None:
    """A row group is decoded a few rows at a time: each slice has its part of the mask, and its own positions."""
    schema = struct(column(1, "id", "long"), column(2, "s", "string"))
    kernel = Kernel(folder=tmp_path, schema=schema, lineage=True, writing={"task_memory": 8000})
    ids, s = stored(1, "id", pa.int64()), stored(2, "s", pa.string())
    row_id, updated = stored(ROW_ID, "_row_id", pa.int64()), stored(LAST_UPDATED, "_updated", pa.int64())
    fresh = kernel.file("f", rows_of({ids: range(1000), s: [f"v{n % 7}" for n in range(1000)]}), row_group_size=400)
    held = [None if n % 3 else 90_000 + n for n in range(500)]
    numbers = [None if n % 3 else 4 for n in range(500)]
    moved = kernel.file(
        "g", rows_of({ids: range(1000, 1500), s: ["w"] * 500, row_id: held, updated: numbers}), row_group_size=400
    )
    gone = [n for n in range(1000) if n % 10 == 3 or 380 <= n < 430]
    report = kernel.run(
        given(fresh, deletes=[kernel.position_delete("d", fresh, gone)], first_row_id=5000, sequence_number=8),
        given(moved, deletes=[kernel.position_delete("e", moved, [0, 499])], first_row_id=7000, sequence_number=9),
    )
    assert (report.refused, report.failed, report.rows_deleted) == (None, None, len(gone) + 2)
    described = pq.read_metadata(output(report))
    assert described.num_row_groups >= 20  # slices, far smaller than the five row groups of the inputs
    expected = [(n, f"v{n % 7}", 5000 + n, 8) for n in range(1000) if n not in set(gone)]
    expected += [
        (1000 + n, "w", 7000 + n if n % 3 else 90_000 + n, 9 if n % 3 else 4) for n in range(500) if n not in (0, 499)
    ]
    assert [tuple(row.values()) for row in pq.read_table(output(report)).to_pylist()] == expected
