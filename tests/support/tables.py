"""Creating the tables that compaction is tried on, with what Spark's own SQL cannot write."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from tests.support.java import java_array, jvm

MESSY = {
    "write.distribution-mode": "none",  # every task writes its own file into every partition
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
}


def create(
    spark: SparkSession,
    table: str,
    columns: str,
    partitions: str = "",
    *,
    version: int = 2,
    properties: Mapping[str, str] | None = None,
) -> str:
    """A table whose writers leave a mess, made by Spark; `partitions` is what stands in PARTITIONED BY."""
    wishes = {**MESSY, "format-version": str(version), **(properties or {})}
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in wishes.items())
    clause = f"PARTITIONED BY ({partitions})" if partitions else ""
    spark.sql(f"CREATE TABLE {table} ({columns}) USING iceberg {clause} TBLPROPERTIES ({listed})")
    return table


def create_typed(
    spark: SparkSession,
    namespace: str,
    name: str,
    fields: Sequence[tuple[str, Any]],
    *,
    version: int = 2,
    properties: Mapping[str, str] | None = None,
) -> str:
    """An unpartitioned table with Iceberg's own types, given as in Iceberg's JSON; made by the Java catalog."""
    iceberg = jvm(spark).org.apache.iceberg
    document = {
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {"id": number, "name": field, "required": False, "type": kind}
            for number, (field, kind) in enumerate(fields, start=1)
        ],
    }
    levels = java_array(spark, jvm(spark).java.lang.String, [namespace])
    iceberg.spark.Spark3Util.loadIcebergCatalog(spark._jsparkSession, "local").createTable(
        iceberg.catalog.TableIdentifier.of(iceberg.catalog.Namespace.of(levels), name),
        iceberg.SchemaParser.fromJson(json.dumps(document)),
        iceberg.PartitionSpec.unpartitioned(),
        {**MESSY, "format-version": str(version), **(properties or {})},
    )
    return f"{namespace}.{name}"
