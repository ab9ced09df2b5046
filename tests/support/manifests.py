"""What manifests say of the live files of a table, beside what Iceberg itself reads from their footers."""

import json
from typing import Any

from pyspark.sql import SparkSession

from tests.support.java import jvm
from tests.support.messy import load

_METRICS = ("column-sizes", "value-counts", "null-value-counts", "lower-bounds", "upper-bounds")


def described(spark: SparkSession, table: str) -> dict[str, dict[str, Any]]:
    """The live data files as the manifests describe them, by path; metrics by field id."""
    java = load(spark, f"local.{table}")
    files = java.newScan().includeColumnStats().planFiles().iterator()
    found = {}
    while files.hasNext():
        file = files.next().file()
        found[file.location()] = _document(spark, file, java.specs()[file.specId()])
    return found


def from_footer(spark: SparkSession, table: str, path: str) -> dict[str, Any]:
    """A file as Iceberg would describe it from its footer."""
    iceberg = jvm(spark).org.apache.iceberg
    java = load(spark, f"local.{table}")
    stored = java.io().newInputFile(path)
    spec = iceberg.PartitionSpec.unpartitioned()
    hadoop = jvm(spark).org.apache.hadoop
    parquet = iceberg.shaded.org.apache.parquet.hadoop
    place = parquet.util.HadoopInputFile.fromPath(hadoop.fs.Path(path), hadoop.conf.Configuration())
    reader = parquet.ParquetFileReader.open(place)
    offsets = iceberg.parquet.ParquetUtil.getSplitOffsets(reader.getFooter())
    reader.close()
    metrics = iceberg.parquet.ParquetUtil.fileMetrics(stored, iceberg.MetricsConfig.forTable(java))
    file = iceberg.DataFiles.builder(spec).withInputFile(stored).withFormat("parquet").withMetrics(metrics)
    return _document(spark, file.withSplitOffsets(offsets).build(), spec)


def _document(spark: SparkSession, file: Any, spec: Any) -> dict[str, Any]:
    told = json.loads(str(jvm(spark).org.apache.iceberg.ContentFileParser.toJson(file, spec)))
    kept = {key: told[key] for key in ("record-count", "file-size-in-bytes", "split-offsets") if key in told}
    for key in _METRICS:
        values = told.get(key, {"keys": [], "values": []})
        kept[key] = dict(zip(values["keys"], values["values"], strict=True))
    return kept


def manifests_agree(spark: SparkSession, table: str) -> None:
    """Every file is described as Iceberg would describe it."""
    for path, told in described(spark, table).items():
        theirs = from_footer(spark, table, path)
        ours, all_starts = told.pop("split-offsets"), theirs.pop("split-offsets")
        assert ours[0] == all_starts[0], path
        assert set(ours) <= set(all_starts), "not every row group is a place to begin, but every place is a row group"
        assert told == theirs, path
