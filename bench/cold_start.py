"""Cold `icepact health`, process start to answer, against a bare PySpark session that counts the table's files."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.result import Result
from icepact.iceberg.spark.jars import ensure_jars

_MAKE = """
import sys
from icepact import Compactor
spark = Compactor(warehouse=sys.argv[1]).spark
spark.sql("CREATE NAMESPACE bench")
spark.sql("CREATE TABLE bench.small (id bigint, day int) USING iceberg PARTITIONED BY (day)")
for _ in range(5):
    spark.range(0, 100, 1, 4).selectExpr("id", "cast(id % 3 as int) day").writeTo("bench.small").append()
"""

_BARE = """
import sys
from pyspark.sql import SparkSession
warehouse, class_path = sys.argv[1:]
catalog = "spark.sql.catalog.local"
spark = (
    SparkSession.builder.master("local[*]")
    .config("spark.driver.extraClassPath", class_path)
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
    .config(catalog, "org.apache.iceberg.spark.SparkCatalog")
    .config(f"{catalog}.type", "jdbc")
    .config(f"{catalog}.uri", f"jdbc:sqlite:{warehouse}/catalog.db")
    .config(f"{catalog}.warehouse", warehouse)
    .config(f"{catalog}.jdbc.schema-version", "V1")
    .getOrCreate()
)
print(spark.sql("SELECT count(*) FROM local.bench.small.files").collect()[0][0])
"""


def cold_health(rounds: int) -> list[Result]:
    """Both sides in turn, so that a noisy minute hits both; medians."""
    with tempfile.TemporaryDirectory() as warehouse:
        subprocess.run([sys.executable, "-c", _MAKE, warehouse], check=True, capture_output=True)
        health = [str(Path(sys.executable).parent / "icepact"), "health", "bench.small", "--warehouse", warehouse]
        class_path = os.pathsep.join(map(str, ensure_jars()))
        bare = [sys.executable, "-c", _BARE, warehouse, class_path]
        ours: list[float] = []
        theirs: list[float] = []
        for _ in range(rounds):
            theirs.append(_seconds(bare))
            ours.append(_seconds(health))
    ratio = statistics.median(ours) / statistics.median(theirs)
    detail = f"median {statistics.median(ours):.2f} s against {statistics.median(theirs):.2f} s, {rounds} rounds"
    return [Result("cold `icepact health` / bare PySpark counting files", ratio, "x", 0.45, detail, headline=True)]


def _seconds(command: list[str]) -> float:
    started = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    return time.monotonic() - started
