"""What a table's snapshots reach, by Spark's metadata tables and the metadata file itself; and what is on disk."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from pyspark.sql import SparkSession

from tests.support.java import jvm


def local(path: str) -> str:
    """A path of the local file system, however it is spelled."""
    return urlparse(path).path if path.startswith("file:") else path


def location_of(spark: SparkSession, table: str) -> Path:
    """The folder of a table."""
    return Path(local(str(_loaded(spark, table).location())))


def reachable(spark: SparkSession, table: str) -> set[str]:
    """Every file that the table needs."""
    spark.sql(f"REFRESH TABLE {table}")
    columns = {
        "all_data_files": "file_path",
        "all_delete_files": "file_path",
        "all_manifests": "path",
        "snapshots": "manifest_list",
    }
    found = {
        local(row[0])
        for name, column in columns.items()
        for row in spark.sql(f"SELECT DISTINCT {column} FROM {table}.{name}").collect()
    }
    current = _loaded(spark, table).operations().current().metadataFileLocation()
    document = json.loads(Path(local(str(current))).read_text())
    found |= {local(str(current)), *(local(entry["metadata-file"]) for entry in document["metadata-log"])}
    for kind in ("statistics", "partition-statistics"):
        found |= {local(entry["statistics-path"]) for entry in document.get(kind, [])}
    return found


def on_disk(spark: SparkSession, table: str) -> set[str]:
    """Every file below the table's folder, checksums of the local file system aside."""
    return {str(path) for path in location_of(spark, table).rglob("*") if path.is_file() and path.suffix != ".crc"}


def _loaded(spark: SparkSession, table: str) -> Any:
    with_catalog = table if table.startswith("local.") else f"local.{table}"
    return jvm(spark).org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, with_catalog)
