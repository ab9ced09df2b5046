"""What we say of a file in its manifest is what Iceberg itself reads from its footer, or safely less."""

import copy
import datetime
import decimal
import json
import math
import struct
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyspark.sql import SparkSession

from icepact.execute.assemble.metrics import MetricsColumn, MetricsMode, file_metrics, metrics_columns
from icepact.execute.parquet.assembler import Assembler
from icepact.execute.parquet.footer import Footer, footer_bytes, read_footer
from icepact.execute.parquet.input import ByteSource, Input, MemorySource, Pick
from icepact.execute.parquet.layout import BYTE_ARRAY
from icepact.execute.parquet.thrift import Fields
from tests.support.java import jvm
from tests.support.messy import load, scan_tasks
from tests.support.tables import create, create_typed

MODES: list[dict[str, str]] = [
    {},
    *({"write.metadata.metrics.default": mode} for mode in ("none", "counts", "truncate(3)", "truncate(1)", "full")),
    {"write.metadata.metrics.max-inferred-column-defaults": "7"},
    {
        "write.metadata.metrics.default": "counts",
        "write.metadata.metrics.column.text": "truncate(3)",
        "write.metadata.metrics.column.blob": "full",
        "write.metadata.metrics.column.wide": "none",
        "write.metadata.metrics.column.place.city": "truncate(2)",
        "write.metadata.metrics.column.tags.element": "none",
        "write.metadata.metrics.column.prices.value": "full",
    },
]
TEXTS = {
    "plain": ["b" * 40, "a" * 40],
    "exact": ["a" * 16, "b" * 16],
    "empty": ["", ""],
    "accents": ["é" * 20, "ü" * 20],
    "pairs": ["𝄞" * 20, "𝄟" * 16 + "a"],
    "pair_at_16": ["a" * 15 + "𝄞b", "b" * 15 + "\U0001ffffb"],
    "pair_at_3": ["aa𝄞b", "ab\U0010fffeb"],
    "before_surrogates": ["\ud7ff" * 20, "\ud7fe" * 20],
    "highest": ["\U0010ffff" * 17, "\U0010ffff" * 18],
    "highest_behind": ["a" + "\U0010ffff" * 20, "b" + "\U0010ffff" * 20],
    "null_character": ["\0" * 17, "\0\x7f" * 9],
    "bmp_or_not": ["\uffff", "𝄞"],
}
BLOBS = {
    "low": [b"\0" * 20, b"\0" * 17],
    "edge": [b"\xff" * 16, b"\x7f" * 16],
    "highest": [b"\xff" * 17, b"\xff" * 30],
    "highest_behind": [b"\x80" + b"\xff" * 20, b"\x7f" + b"\xff" * 20],
    "signs": [b"\x7f" * 20, b"\x80" * 20],
}


def primitive(name: str, kind: str, field_id: int = 1) -> dict[str, Any]:
    """A field in Iceberg's JSON."""
    return {"id": field_id, "name": name, "required": False, "type": kind}


TYPES: list[tuple[str, Any]] = [
    ("flag", "boolean"),
    ("small", "int"),
    ("big", "long"),
    ("real", "float"),
    ("wide", "double"),
    ("zero", "float"),
    ("nan", "double"),
    ("day", "date"),
    ("moment", "timestamp"),
    ("instant", "timestamptz"),
    ("text", "string"),
    ("blob", "binary"),
    ("key", "uuid"),
    ("code", "fixed[4]"),
    ("d9", "decimal(9, 2)"),
    ("d18", "decimal(18, 3)"),
    ("d38", "decimal(38, 10)"),
    ("nothing", "string"),
    *((f"text_{name}", "string") for name in TEXTS),
    *((f"blob_{name}", "binary") for name in BLOBS),
    (
        "place",
        {
            "type": "struct",
            "fields": [
                primitive("city", "string", 101),
                {
                    "id": 102,
                    "name": "spot",
                    "required": False,
                    "type": {"type": "struct", "fields": [primitive("lat", "double", 103)]},
                },
            ],
        },
    ),
    ("tags", {"type": "list", "element-id": 104, "element-required": False, "element": "string"}),
    (
        "prices",
        {"type": "map", "key-id": 105, "key": "string", "value-id": 106, "value-required": False, "value": "int"},
    ),
    (
        "stops",
        {
            "type": "list",
            "element-id": 107,
            "element-required": False,
            "element": {"type": "struct", "fields": [primitive("at", "timestamptz", 108)]},
        },
    ),
]


def row(n: int) -> dict[str, Any]:
    """A row of all types; every seventh has nulls only."""
    if n % 7 == 3:
        return {name: None for name, _ in TYPES}
    sign = -1 if n % 2 else 1
    return {
        "flag": n % 2 == 0,
        "small": sign * n * 1000,
        "big": sign * n * 10**12,
        "real": sign * n / 3,
        "wide": sign * n * 1e200,
        "zero": 0.0 * sign,
        "nan": math.nan if n % 3 else float(n),
        "day": datetime.date(1969, 12, 1) + datetime.timedelta(days=n),
        "moment": datetime.datetime(1969, 12, 31, 23) + datetime.timedelta(seconds=n, microseconds=n),  # noqa: DTZ001
        "instant": datetime.datetime(1969, 12, 31, 23, tzinfo=datetime.UTC) + datetime.timedelta(hours=n),
        "text": f"{n % 10}äö𝄞" * 8,
        "blob": bytes([n % 256]) * 20,
        "key": uuid.UUID(int=(n * 2**120 + n) % 2**128),
        "code": bytes([n % 256, 1, 2, 255]),
        "d9": decimal.Decimal(sign * n * 127).scaleb(-2),
        "d18": decimal.Decimal(sign * n * 10**12 - 1).scaleb(-3),
        "d38": decimal.Decimal(sign * n * 2**90).scaleb(-10),
        "nothing": None,
        **{f"text_{name}": texts[n % 2] for name, texts in TEXTS.items()},
        **{f"blob_{name}": blobs[n % 2] for name, blobs in BLOBS.items()},
        "place": {"city": f"city {n:020d}", "spot": None if n % 5 else {"lat": n / 7}},
        "tags": [f"tag {n}", None] if n % 4 else [],
        "prices": {"a": n, "b": None} if n % 4 else None,
        "stops": [{"at": None}, None],
    }


# -- both sides -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Judge:
    """Iceberg's own reading of a file beside ours."""

    spark: SparkSession
    schema: str
    """Iceberg's JSON."""

    @property
    def iceberg(self) -> Any:
        return jvm(self.spark).org.apache.iceberg

    def config(self, properties: Mapping[str, str]) -> Any:
        schema = self.iceberg.SchemaParser.fromJson(self.schema)
        return getattr(self.iceberg.MetricsConfig, "from")(dict(properties), schema, None)

    def icebergs(self, path: str, properties: Mapping[str, str]) -> dict[str, Any]:
        """As a data file's JSON, NaN counts aside."""
        iceberg = self.iceberg
        parquet = iceberg.shaded.org.apache.parquet.hadoop
        hadoop = jvm(self.spark).org.apache.hadoop
        location = parquet.util.HadoopInputFile.fromPath(hadoop.fs.Path(path), hadoop.conf.Configuration())
        reader = parquet.ParquetFileReader.open(location)
        offsets = iceberg.parquet.ParquetUtil.getSplitOffsets(reader.getFooter())
        reader.close()
        stored = iceberg.Files.localInput(path)
        spec = iceberg.PartitionSpec.unpartitioned()
        described = (
            iceberg.DataFiles.builder(spec)
            .withInputFile(stored)
            .withFormat("parquet")
            .withMetrics(iceberg.parquet.ParquetUtil.fileMetrics(stored, self.config(properties)))
            .withSplitOffsets(offsets)
            .build()
        )
        return metrics_of(json.loads(iceberg.ContentFileParser.toJson(described, spec)))

    def columns(self, properties: Mapping[str, str]) -> dict[int, MetricsColumn]:
        config = self.config(properties)
        return metrics_columns(json.loads(self.schema), lambda name: MetricsMode.of(config.columnMode(name).toString()))

    def ours(self, path: str, properties: Mapping[str, str]) -> dict[str, Any]:
        return metrics_of(dict(file_metrics(footer_of(Path(path)), self.columns(properties)).to_json()))

    def agree(
        self, path: Path | str, modes: Sequence[Mapping[str, str]] = MODES, silent: Collection[int] = ()
    ) -> dict[str, Any]:
        """Both say the same in every mode, but we no bounds of some columns; returns what Iceberg says in the first."""
        said = []
        for properties in modes:
            theirs = self.icebergs(str(path), properties)
            less = {key: _without(theirs[key], silent if key.endswith("-bounds") else ()) for key in theirs}
            assert self.ours(str(path), properties) == less, properties
            said.append(theirs)
        return said[0]


def _without(told: Any, ids: Collection[int]) -> Any:
    return {i: value for i, value in told.items() if i not in ids} if ids else told


def metrics_of(document: dict[str, Any]) -> dict[str, Any]:
    """The metrics in a data file's JSON by field id."""
    told = {key: document[key] for key in document if key.endswith(("-sizes", "-counts", "-bounds", "-offsets"))}
    told.pop("nan-value-counts", None)
    return {
        key: value if isinstance(value, list) else dict(zip(value["keys"], value["values"], strict=True))
        for key, value in told.items()
    }


def footer_of(path: Path) -> Footer:
    data = path.read_bytes()
    return read_footer(lambda offset, length: data[offset : offset + length], len(data))


def schema_json(fields: Sequence[tuple[str, Any]]) -> str:
    listed = [{"id": n, "name": name, "required": False, "type": kind} for n, (name, kind) in enumerate(fields, 1)]
    return json.dumps({"type": "struct", "schema-id": 0, "fields": listed})


def arrow_schema(schema: str) -> pa.Schema:
    return schema_to_pyarrow(Schema.model_validate_json(schema), include_field_ids=True)


def write(path: Path, schema: str, rows: list[dict[str, Any]], **options: Any) -> Path:
    """A file written by pyarrow with Iceberg's ids."""
    pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema(schema)), path, **options)
    return path


def altered(path: Path, change: Callable[[list[Fields], list[Fields]], None]) -> Path:
    """The same file with schema elements and row groups of its footer changed."""
    data, footer = path.read_bytes(), footer_of(path)
    schema, groups = copy.deepcopy(footer.fields[2]), copy.deepcopy(footer.fields[4])
    change(schema, groups)
    orders: list[Fields] = [{1: {}}] * len(footer.leaves)
    fields = {1: 2, 2: schema, 3: footer.rows, 4: groups, 5: [], 6: footer.created_by.encode(), 7: orders}
    path.write_bytes(data[: footer.start] + footer_bytes(fields))
    return path


# -- equal ----------------------------------------------------------------------------------------

BOUNDED = [n for n, (name, kind) in enumerate(TYPES, 1) if isinstance(kind, str) and name != "nothing"]
LAT, CITY = 103, 101
ID = {name: n for n, (name, _) in enumerate(TYPES, 1)}
FRACTIONS = {LAT, *(n for n, (_, kind) in enumerate(TYPES, 1) if kind in ("float", "double"))}


def spark_files(spark: SparkSession, table: str) -> list[str]:
    """Paths of a table's files, without their scheme."""
    return [task.file().location().removeprefix("file:") for task in scan_tasks(load(spark, f"local.{table}"))]


def schema_of(spark: SparkSession, table: str) -> str:
    return str(jvm(spark).org.apache.iceberg.SchemaParser.toJson(load(spark, f"local.{table}").schema()))


def test_files_that_spark_wrote(spark: SparkSession, namespace: str) -> None:
    """Several row groups; every one has a NaN among its doubles, so that parquet-java knows no bounds of them.

    Of uuids with and without the first bit Iceberg believes bounds between which it finds nothing; we have none.
    """
    small_groups = {
        "write.parquet.row-group-size-bytes": "1",
        "write.parquet.row-group-check-min-record-count": "50",
        "write.parquet.row-group-check-max-record-count": "50",
    }
    table = create_typed(spark, namespace, "t", TYPES, properties=small_groups)
    rows = [{**given, "key": given["key"] and str(given["key"])} for given in map(row, range(160))]
    kinds = spark.table(table).schema
    frame = spark.createDataFrame([tuple(r[name] for name, _ in TYPES) for r in rows], kinds)
    frame.coalesce(1).writeTo(table).append()
    (path,) = spark_files(spark, table)
    schema = schema_of(spark, table)
    said = Judge(spark, schema).agree(path, silent={ID["key"]})
    assert len(said["split-offsets"]) == 4
    city, lat = (field["id"] for field in flat(json.loads(schema)) if field["name"] in ("city", "lat"))
    assert sorted(said["lower-bounds"]) == sorted({*BOUNDED, city, lat} - {ID["nan"]})
    assert (said["value-counts"][ID["nan"]], said["null-value-counts"][ID["nan"]]) == (160, 23)


def flat(kind: Any) -> Iterator[dict[str, Any]]:
    """Fields of structs at any depth."""
    for field in kind["fields"]:
        yield field
        if isinstance(field["type"], dict) and field["type"]["type"] == "struct":
            yield from flat(field["type"])


@pytest.mark.parametrize(
    ("options", "unbounded"),
    [
        ({"row_group_size": 30}, set()),
        ({"compression": "zstd", "write_page_index": True, "data_page_version": "2.0"}, set()),
        ({"row_group_size": 50, "use_dictionary": False, "store_decimal_as_integer": True}, set()),
        ({"use_deprecated_int96_timestamps": True}, {ID["moment"], ID["instant"]}),
        ({"write_statistics": ["text", "small", "place.city"]}, {*BOUNDED, LAT} - {ID["text"], ID["small"]}),
        ({"write_statistics": False}, {*BOUNDED, LAT, CITY}),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, dict) else "",
)
def test_files_that_pyarrow_wrote(
    spark: SparkSession, tmp_path: Path, options: dict[str, Any], unbounded: set[int]
) -> None:
    """Unlike parquet-java, it leaves NaN out of its statistics: Iceberg believes bounds of fractions, we do not."""
    schema = schema_json(TYPES)
    path = write(tmp_path / "a.parquet", schema, [row(n) for n in range(100)], **options)
    said = Judge(spark, schema).agree(path, silent=FRACTIONS)
    assert sorted(said["lower-bounds"]) == sorted({*BOUNDED, LAT, CITY} - unbounded)
    assert sorted(said["column-sizes"]) == sorted({*BOUNDED, ID["nothing"], 101, *range(103, 107), 108})
    assert set(said["lower-bounds"]) - set(said["upper-bounds"]) == {ID["text_highest"], ID["blob_highest"]} - unbounded
    assert set(said["value-counts"]) == {*BOUNDED, ID["nothing"], LAT, CITY} - unbounded - (
        set() if "use_deprecated_int96_timestamps" in options or not unbounded else {ID["nothing"]}
    )
    if not unbounded:
        zero = ID["zero"]
        assert (said["lower-bounds"][zero], said["upper-bounds"][zero]) == ("00000080", "00000000")


def test_types_that_spark_does_not_know(spark: SparkSession, tmp_path: Path) -> None:
    schema = schema_json([("a", "time"), ("b", "timestamp_ns"), ("c", "timestamptz_ns")])
    rows = [{"a": datetime.time(0, 0, n), "b": n * 10**9 + 1, "c": -n} for n in range(20)]
    path = write(tmp_path / "a.parquet", schema, rows, row_group_size=7)
    assert Judge(spark, schema).agree(path)["lower-bounds"] == {1: "00" * 8, 2: "01" + "00" * 7, 3: "ED" + "FF" * 7}


def test_files_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    """One without a row group, one with an empty one."""
    schema = schema_json(TYPES)
    judge = Judge(spark, schema)
    with pq.ParquetWriter(tmp_path / "none.parquet", arrow_schema(schema)):
        pass
    with pq.ParquetWriter(tmp_path / "empty.parquet", arrow_schema(schema)) as writer:
        writer.write_table(arrow_schema(schema).empty_table())
    for name, groups, counts in (("none", 0, {0}), ("empty", 1, set())):  # pyarrow has no statistics of nothing
        assert len(footer_of(tmp_path / f"{name}.parquet").row_groups) == groups
        said = judge.agree(tmp_path / f"{name}.parquet")
        assert set(said["value-counts"].values()) == counts
        assert said["lower-bounds"] == {}


def test_files_older_than_a_promotion(spark: SparkSession, tmp_path: Path) -> None:
    """Bounds keep the width they had; readers widen them."""
    before = schema_json([("a", "int"), ("b", "float"), ("c", "decimal(9, 2)")])
    after = schema_json([("a", "long"), ("b", "double"), ("c", "decimal(18, 2)")])
    rows = [{"a": n, "b": n / 2, "c": decimal.Decimal(n).scaleb(-2)} for n in range(-200, 200)]
    path = write(tmp_path / "a.parquet", before, rows, row_group_size=90)

    def change(_: list[Fields], groups: list[Fields]) -> None:
        for group in groups:
            group[1][1][3][12][9] = 0  # no NaN

    said = Judge(spark, after).agree(altered(path, change))
    assert said["lower-bounds"] == {1: "38FFFFFF", 2: "0000C8C2", 3: "FF38"}


def test_decimals_in_bytes_of_any_length(spark: SparkSession, tmp_path: Path) -> None:
    """As some writers do; only the footer is read, so only the footer says so here."""
    schema = schema_json([("a", "decimal(20, 2)")])
    path = write(tmp_path / "a.parquet", schema, [{"a": decimal.Decimal(n)} for n in range(-9, 9)], row_group_size=5)

    def change(elements: list[Fields], groups: list[Fields]) -> None:
        elements[1] = {number: value for number, value in elements[1].items() if number != 2} | {1: BYTE_ARRAY}
        for group in groups:
            group[1][0][3] |= {1: BYTE_ARRAY}

    said = Judge(spark, schema).agree(altered(path, change))
    assert (said["lower-bounds"], said["upper-bounds"]) == ({1: "FC7C"}, {1: "0320"})


def test_names_are_those_of_the_table(spark: SparkSession, tmp_path: Path) -> None:
    """Names inside lists and maps, and modes for them."""
    schema = schema_json([("a", TYPES[-1][1]), ("b", TYPES[-2][1])])
    path = write(tmp_path / "a.parquet", schema, [{"a": [{"at": None}], "b": {"x": 1}}])
    prefix = "write.metadata.metrics.column."
    for hidden, left in (("a.element.at", {105, 106}), ("b.key", {108, 106}), ("b.value", {108, 105})):
        said = Judge(spark, schema).agree(path, [{f"{prefix}{hidden}": "none"}])
        assert set(said["column-sizes"]) == left


def test_row_lineage(spark: SparkSession, tmp_path: Path) -> None:
    """Iceberg describes these columns in the table's default mode, and so do we."""
    lineage = [primitive("_row_id", "long", 2147483540), primitive("_last_updated_sequence_number", "long", 2147483539)]
    schema = schema_json([("id", "long")])
    document = json.loads(schema)
    whole = json.dumps({**document, "fields": [*document["fields"], *lineage]})
    names = ("id", "_row_id", "_last_updated_sequence_number")
    rows = [dict(zip(names, (n, n + 100, n % 2 or None), strict=True)) for n in range(50)]
    path = write(tmp_path / "a.parquet", whole, rows, row_group_size=20)
    said = Judge(spark, schema).agree(path)
    assert said["upper-bounds"][2147483540] == (149).to_bytes(8, "little").hex().upper()
    assert said["null-value-counts"] == {1: 0, 2147483540: 0, 2147483539: 25}


class ListSink:
    """A new file in memory."""

    copies_server_side = False

    def __init__(self) -> None:
        self.data = bytearray()

    @property
    def position(self) -> int:
        return len(self.data)

    def append(self, data: bytes | memoryview) -> None:
        self.data += data

    def copy(self, source: ByteSource, offset: int, length: int) -> None:
        self.data += source.read(offset, length)


def test_assembled_files(spark: SparkSession, tmp_path: Path) -> None:
    """What is said of a file that was put together is said from the footer it was given, without reading it again."""
    schema = schema_json(TYPES)
    inputs = []
    for number, rows in enumerate((range(40), range(200, 300))):
        path = write(tmp_path / f"{number}.parquet", schema, [row(n) for n in rows], row_group_size=30)
        inputs.append(Input(MemorySource(path.read_bytes())))
    sink = ListSink()
    assembler = Assembler(sink, inputs[0].footer.fields[2], created_by="icepact version 1.0", key_values={})
    for given in inputs:
        for number, group in enumerate(given.footer.row_groups):
            picks = [Pick(given, number, column) for column in range(len(group.chunks))]
            assembler.add(group.rows, picks)
    footer = assembler.finish().footer
    path = tmp_path / "whole.parquet"
    path.write_bytes(sink.data)
    judge = Judge(spark, schema)
    said = judge.agree(path, silent={ID["key"]})
    assert len(said["split-offsets"]) == 6
    assert sorted(said["lower-bounds"]) == sorted({*BOUNDED, CITY} - FRACTIONS)
    assert metrics_of(dict(file_metrics(footer, judge.columns({})).to_json())) == judge.ours(str(path), {})


@pytest.mark.parametrize("kept", [{}, {3: 0}, {6: b"\0\0\0\0"}, {3: 0, 5: b"\0\0\0\0"}])
def test_half_of_the_statistics(spark: SparkSession, tmp_path: Path, kept: Fields) -> None:
    """A lone bound is none; and with neither both bounds nor a count, nothing is known of the column."""
    schema = schema_json([("a", "int"), ("b", "int")])
    path = write(tmp_path / "a.parquet", schema, [{"a": n, "b": n} for n in range(20)])

    def change(_: list[Fields], groups: list[Fields]) -> None:
        groups[0][1][0][3][12] = kept

    said = Judge(spark, schema).agree(altered(path, change))
    assert (1 in said["value-counts"], 1 in said["lower-bounds"]) == (3 in kept, False)


# -- less -----------------------------------------------------------------------------------------


def differs(judge: Judge, path: Path, *keys: str) -> dict[str, Any]:
    """Iceberg says something of column 1 under these keys that we do not; returns what Iceberg says."""
    theirs, ours = judge.icebergs(str(path), {}), judge.ours(str(path), {})
    assert {key for key in theirs if theirs[key] != ours[key]} == set(keys)
    for key in keys:
        assert ours[key] == {field_id: value for field_id, value in theirs[key].items() if field_id != 1}
        assert 1 in theirs[key]
    return {key: theirs[key][1] for key in keys}


def test_row_group_without_a_count_of_nulls(spark: SparkSession, tmp_path: Path) -> None:
    """A missing count is not zero. Without one, a `DELETE` takes bounds for those of every row, and so nulls along."""
    schema = schema_json([("a", "int"), ("b", "int")])
    rows = [{"a": n if n % 3 else None, "b": n} for n in range(20)]
    path = write(tmp_path / "a.parquet", schema, rows, row_group_size=10)

    def change(_: list[Fields], groups: list[Fields]) -> None:
        del groups[0][1][0][3][12][3]

    judge = Judge(spark, schema)
    wrong = differs(judge, altered(path, change), "lower-bounds", "upper-bounds")
    assert wrong["upper-bounds"] == "13000000"
    said = judge.ours(str(path), {})
    assert (said["value-counts"], said["null-value-counts"]) == ({1: 20, 2: 20}, {2: 0})


def test_values_too_long_for_statistics(spark: SparkSession, tmp_path: Path) -> None:
    """pyarrow counts the nulls of such a row group all the same, and Iceberg takes the other's bounds for all."""
    schema = schema_json([("a", "string"), ("b", "string")])
    rows = [{"a": "k", "b": "k"}, {"a": "z" * 9000, "b": "l"}]
    path = write(tmp_path / "a.parquet", schema, rows, row_group_size=1)
    wrong = differs(Judge(spark, schema), path, "lower-bounds", "upper-bounds")
    assert bytes.fromhex(wrong["upper-bounds"]) == b"k"


def test_nan_in_one_row_group(spark: SparkSession, namespace: str) -> None:
    """Beside a NaN, parquet-java knows no bounds, and Iceberg takes the other row group's for all."""
    properties = {
        "write.parquet.row-group-size-bytes": "1",
        "write.parquet.row-group-check-min-record-count": "10",
        "write.parquet.row-group-check-max-record-count": "10",
    }
    table = create(spark, f"{namespace}.t", "a double, b double", properties=properties)
    numbers = "IF(id = 15, double('NaN'), double(id))"
    spark.range(0, 20, 1, 1).selectExpr(f"{numbers} AS a", "double(id) AS b").writeTo(table).append()
    (path,) = spark_files(spark, table)
    assert len(footer_of(Path(path)).row_groups) == 2
    wrong = differs(Judge(spark, schema_of(spark, table)), Path(path), "lower-bounds", "upper-bounds")
    assert struct.unpack("<d", bytes.fromhex(wrong["upper-bounds"])) == (9.0,)


def test_bounds_cut_inside_a_character(spark: SparkSession, tmp_path: Path) -> None:
    """Iceberg replaces the half character by one that sorts above all values."""
    schema = schema_json([("a", "string"), ("b", "string")])
    path = write(tmp_path / "a.parquet", schema, [{"a": "aé€", "b": "x"}])

    def change(_: list[Fields], groups: list[Fields]) -> None:
        groups[0][1][0][3][12] |= {6: "aé€".encode()[:-1], 5: b"b"}

    wrong = differs(Judge(spark, schema), altered(path, change), "lower-bounds", "upper-bounds")
    assert bytes.fromhex(wrong["lower-bounds"]).decode() > "aé€"


def test_time_in_another_unit(spark: SparkSession, tmp_path: Path) -> None:
    """Iceberg takes milliseconds for microseconds."""
    schema = schema_json([("a", "timestamp"), ("b", "timestamp")])
    moment = datetime.datetime(2026, 1, 1)  # noqa: DTZ001
    path = write(tmp_path / "a.parquet", schema, [{"a": moment, "b": moment}])

    def change(elements: list[Fields], _: list[Fields]) -> None:
        elements[1] |= {10: {8: {1: False, 2: {1: {}}}}}
        elements[1].pop(6, None)

    differs(Judge(spark, schema), altered(path, change), "lower-bounds", "upper-bounds")


def test_deprecated_bounds(spark: SparkSession, tmp_path: Path) -> None:
    """Which order they follow depends on who wrote them: the assembler leaves them out, and so do we."""
    schema = schema_json([("a", "int"), ("b", "int")])
    path = write(tmp_path / "a.parquet", schema, [{"a": n, "b": n} for n in range(20)])

    def change(_: list[Fields], groups: list[Fields]) -> None:
        told = groups[0][1][0][3][12]
        groups[0][1][0][3][12] = {1: told[5], 2: told[6], 3: told[3]}

    differs(Judge(spark, schema), altered(path, change), "lower-bounds", "upper-bounds")
