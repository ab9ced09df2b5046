"""How outputs are cut and written: sizes, codecs, pages and dictionaries, as the policy and the table say."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.execute.assemble.messages import UnitWork
from icepact.execute.parquet.input import Input, MemorySource
from icepact.execute.parquet.layout import PLAIN, RLE_DICTIONARY
from icepact.execute.rewriters import assemble as assemble_rewriter
from icepact.execute.rewriters.job import packed as packed_evenly
from tests.support.oracle import data_files
from tests.support.tables import create
from tests.support.ways import footer, maybe, rewritten

KB = 1024
UNCOMPRESSED = {"write.parquet.compression-codec": "uncompressed"}


def append(spark: SparkSession, table: str, rows: int, *, files: int, text: str = "") -> None:
    """Rows of a kilobyte that hardly compress, or of another text."""
    noise = "array_join(transform(sequence(1, 16), n -> sha2(string(id * 100 + n), 256)), '')"
    columns = f"{maybe('id')} AS id", f"{maybe(text or noise)} AS text"
    spark.range(0, rows, 1, files).selectExpr(*columns).writeTo(table).append()


def table_of(spark: SparkSession, namespace: str, properties: Mapping[str, str] | None = None) -> str:
    return create(spark, f"{namespace}.t", "id bigint, text string", properties=properties)


def group_sizes(path: str) -> list[int]:
    """Bytes of the row groups of a file."""
    return [group.size for group in footer(path).row_groups]


def codecs(paths: list[str]) -> set[str]:
    """Codecs of all chunks of files."""
    stored = [pq.ParquetFile(path).metadata for path in paths]
    return {
        one.row_group(group).column(column).compression
        for one in stored
        for group in range(one.num_row_groups)
        for column in range(one.num_columns)
    }


# -- sizes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["option", "property"])
def test_row_group_size(compactor: Compactor, spark: SparkSession, namespace: str, given: str) -> None:
    """Twenty row groups of 20 kB become some of the wanted size; the last may be smaller."""
    wanted = 100 * KB
    table = table_of(spark, namespace, UNCOMPRESSED)
    append(spark, table, 400, files=20)
    told: dict[str, Any] = {"row_group_size": wanted}
    if given == "property":
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.parquet.row-group-size-bytes' = '{wanted}')")
        told = {"row_group_size": None}

    rewritten(compactor, table, "encode", copied=0, **told)

    [path] = data_files(spark, table)
    sizes = group_sizes(path)
    assert len(sizes) in (4, 5)
    assert all(0.9 * wanted <= size <= 1.1 * wanted for size in sizes[:-1])
    assert sum(group.rows for group in footer(path).row_groups) == 400


def test_encoding_outgrows_the_largest_size(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Inputs that are small because they are compressed become more outputs than one, none above the maximum."""
    table = table_of(spark, namespace)
    append(spark, table, 400, files=10)
    assert 200 * KB < sum(Path(path).stat().st_size for path in data_files(spark, table)) < 300 * KB
    limits = {"target_file_size": 300 * KB, "max_file_size": 310 * KB, "row_group_size": 20 * KB}

    asked: dict[str, Any] = {"codec": "uncompressed", "recode": True, **limits}
    outcome = rewritten(compactor, table, "encode", copied=0, settles=False, **asked)

    sizes = [Path(path).stat().st_size for path in data_files(spark, table)]
    assert outcome.files_after == len(sizes) == 2  # of 400 kB
    assert max(sizes) <= 310 * KB
    assert compactor.plan(table, **asked).rewrites == ()


# -- codecs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "lz4", "uncompressed"])
def test_codec(compactor: Compactor, spark: SparkSession, namespace: str, codec: str) -> None:
    """The option is above the table's property, and recode brings row groups of another codec along."""
    own = "snappy" if codec == "zstd" else "zstd"
    table = table_of(spark, namespace, {"write.parquet.compression-codec": own})
    append(spark, table, 20, files=5)
    assert codecs(data_files(spark, table)) == {own.upper()}
    if codec == "gzip":
        rewritten(compactor, table, "copy", codec=codec, copied=5, encoded=0)
        assert codecs(data_files(spark, table)) == {"ZSTD"}
        append(spark, table, 20, files=5)
    rewritten(compactor, table, "copy", codec=codec, recode=True, copied=0, encoded=1)
    assert codecs(data_files(spark, table)) == {codec.upper()}


def test_codec_of_the_table(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Inputs have another; and its level is that of the table unless the option says otherwise."""
    table = table_of(spark, namespace, UNCOMPRESSED)
    append(spark, table, 500, files=5, text="repeat(md5(string(id % 50)), 1 + int(id % 7))")
    sizes = {}
    for name, level, option in (("low", "1", None), ("high", "19", None), ("asked", "1", 19)):
        spark.sql(
            f"ALTER TABLE {table} SET TBLPROPERTIES ('write.parquet.compression-codec' = 'zstd',"
            f" 'write.parquet.compression-level' = '{level}')"
        )
        spark.sql(f"ALTER TABLE {table} CREATE BRANCH {name}")
        outcome = compactor.compact(table, method="assemble", branch=name, compression_level=option)
        assert (outcome.effort.copied_bytes, dict(outcome.methods)) == (0, {"assemble": 1})
        [path] = data_files(spark, table, branch=name)
        assert codecs([path]) == {"ZSTD"}
        sizes[name] = outcome.effort.encoded_bytes
    assert sizes["high"] < sizes["low"]
    assert sizes["asked"] == sizes["high"]


@pytest.mark.parametrize("way", ["encode", "spark"])
def test_codec_by_any_method(compactor: Compactor, spark: SparkSession, namespace: str, way: str) -> None:
    """An option that one method knows and the other ignores would be no option."""
    table = table_of(spark, namespace)
    append(spark, table, 20, files=5)
    rewritten(compactor, table, way, codec="gzip")
    assert codecs(data_files(spark, table)) == {"GZIP"}


# -- pages and dictionaries -------------------------------------------------------------------------


def pages(path: str, column: int) -> list[int]:
    """First rows of the pages of a column in the first row group."""
    stored = Input(MemorySource(Path(path).read_bytes()))
    found = stored.pages(0, column)
    assert found is not None
    return [location[3] for location in found[1]]


def test_pages(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """By rows, and by bytes."""
    table = table_of(spark, namespace, {**UNCOMPRESSED, "write.parquet.page-row-limit": "100"})
    append(spark, table, 400, files=5)
    rewritten(compactor, table, "encode", copied=0, encoded=1)
    [path] = data_files(spark, table)
    assert [pages(path, column) for column in (0, 1)] == [[0, 100, 200, 300]] * 2
    spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES ('write.parquet.page-row-limit')")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.parquet.page-size-bytes' = '{64 * KB}')")
    append(spark, table, 400, files=5)
    rewritten(compactor, table, "encode", copied=0, encoded=1)
    [path] = data_files(spark, table)
    assert pages(path, 0) == [0]
    assert max(after - before for before, after in pairwise([*pages(path, 1), 800])) <= 128  # twice as much as wanted


def test_dictionaries(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """One that is larger than the table allows is not written, and one that is not is."""
    encodings = {}
    for name, limit in (("small", "1000"), ("large", "100000")):
        table = create(spark, f"{namespace}.{name}", "id bigint, text string")
        append(spark, table, 500, files=5, text="concat(md5(string(id % 50)), 'x')")
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.parquet.dict-size-bytes' = '{limit}')")
        rewritten(compactor, table, "encode", copied=0, encoded=1)
        [path] = data_files(spark, table)
        encodings[name] = footer(path).row_groups[0].chunks[1].data_encodings
    assert encodings == {"small": {PLAIN}, "large": {RLE_DICTIONARY}}


# -- lanes ------------------------------------------------------------------------------------------


def test_a_single_unit_uses_the_cores_that_would_be_idle(
    compactor: Compactor, spark: SparkSession, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless somebody asked for fewer. Large enough for several row groups, each of several shares."""
    lanes: list[int] = []

    def packed(works: Sequence[UnitWork], most: int) -> list[list[UnitWork]]:
        lanes.extend(work.lanes for work in works)
        return packed_evenly(works, most)

    monkeypatch.setattr(assemble_rewriter, "packed", packed)
    table = table_of(spark, namespace)
    limits: list[dict[str, Any]] = [{}, {"parallelism": 1}]
    for options in limits:
        append(spark, table, 4000, files=4)
        rewritten(compactor, table, "encode", min_input_files=2, **options)
    assert lanes == [min(spark.sparkContext.defaultParallelism, 4), 1]
