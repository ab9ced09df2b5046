"""Messy tables, made with Iceberg's own Parquet writer through Spark: it is the one that Flink uses."""

import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.rewrite.results import Layout
from bench.rewrite.rows import LINES_PER_ORDER, FilePlan, Kind, lineitem_columns, make_files, wide_columns
from icepact import Compactor
from icepact.iceberg.table.table import IcebergTable

NAMESPACE = "bench"
DELETE_FILES = 10
"""Equality deletes come in so many files."""

_PROPERTIES = {
    "write.distribution-mode": "none",  # one task writes one file
    "write.parquet.compression-codec": "zstd",
    "write.delete.mode": "merge-on-read",
}
_ONE_FILE_PER_TASK = {"spark.sql.files.maxPartitionBytes": "1g", "spark.sql.files.openCostInBytes": "1g"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Pile:
    """Many files of one schema: what a table is filled with."""

    kind: Kind
    files: int
    rows: int
    """Per file."""
    partitions: int = 0
    """Days over which files are spread evenly; 0: the table has no partitions."""


class Workshop:
    """Makes tables in one warehouse. Files of a pile are written once, however many tables hold them."""

    def __init__(self, compactor: Compactor, folder: Path) -> None:
        self.compactor = compactor
        self.spark = compactor.spark
        self.folder = folder
        self._rows: dict[tuple[Kind, int, bool], int] = {}
        self._piles: dict[Pile, str] = {}
        self.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {NAMESPACE}")

    def java(self, table: str) -> IcebergTable:
        """Iceberg's own table, freshly read."""
        found = self.compactor.application.spark_catalog.table(table)
        found.refresh()
        return found

    # -- filling ----------------------------------------------------------------------------------

    def rows_for(self, kind: Kind, size: int, *, one_day: bool = False) -> int:
        """How many rows make a file of about this size, found by writing some."""
        key = kind, size, one_day
        if key not in self._rows:
            rows = max(LINES_PER_ORDER, size // (30 if kind is Kind.LINEITEM else 700))
            for _ in range(2):  # size does not grow evenly with rows, so the second guess is measured too
                table = self._write(Pile(kind=kind, files=1, rows=rows, partitions=int(one_day)))
                rows = max(1, round(rows * size / layout(self, table).bytes / LINES_PER_ORDER)) * LINES_PER_ORDER
                self.drop(table)
            self._rows[key] = rows
        return self._rows[key]

    def table(self, pile: Pile, *, version: int = 2) -> str:
        """A new table that holds the files of a pile."""
        if pile not in self._piles:
            self._piles[pile] = self._write(pile)
        source = self.java(self._piles[pile])
        name = self._create(pile, version)
        target = self.java(name)
        java = target.java
        iterable = source.table.newScan().includeColumnStats().planFiles()
        files = java.mapped(java.listed(iterable), java.method("org.apache.iceberg.ContentScanTask", "file"))
        iterable.close()
        append = target.table.newFastAppend()
        add = java.method("org.apache.iceberg.AppendFiles", "appendFile", "org.apache.iceberg.DataFile")
        files.forEach(java.as_interface("java.util.function.Consumer", java.bind(add, 0, append)))
        append.commit()
        return name

    def drop(self, table: str) -> None:
        """Remove a table and what was written for it; files it shares with a pile stay."""
        location = local(str(self.java(table).table.location()))
        self.spark.sql(f"DROP TABLE {table}")
        shutil.rmtree(location, ignore_errors=True)

    def forget(self, pile: Pile) -> None:
        """Remove the files of a pile, after the last table that holds them."""
        if pile in self._piles:
            self.drop(self._piles.pop(pile))

    def _write(self, pile: Pile) -> str:
        """The pile as a table of its own: plain files first, which Spark then writes one by one."""
        name = self._create(pile, 2)
        base = self.folder / f"base-{uuid.uuid4().hex[:8]}"
        make_files(
            [
                FilePlan(
                    kind=pile.kind,
                    path=str(base / f"{number:06d}.parquet"),
                    number=number,
                    rows=pile.rows,
                    ship_day=number % pile.partitions if pile.partitions else None,
                )
                for number in range(pile.files)
            ]
        )
        with settings(self.spark, _ONE_FILE_PER_TASK):
            self.spark.read.parquet(str(base)).writeTo(name).option("fanout-enabled", "true").append()
        shutil.rmtree(base)
        return name

    def _create(self, pile: Pile, version: int) -> str:
        name = f"{NAMESPACE}.{pile.kind}_{uuid.uuid4().hex[:8]}"
        columns = lineitem_columns() if pile.kind is Kind.LINEITEM else wide_columns()
        wishes = {**_PROPERTIES, "format-version": str(version)}
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in wishes.items())
        partitions = "PARTITIONED BY (l_shipdate)" if pile.partitions else ""
        self.spark.sql(f"CREATE TABLE {name} ({columns}) USING iceberg {partitions} TBLPROPERTIES ({listed})")
        return name

    # -- deleting ---------------------------------------------------------------------------------

    def delete_positions(self, table: str, pile: Pile, *, every: int) -> None:
        """Delete 2% of the rows of every so manieth file, as Spark's merge-on-read does it."""
        orders = pile.rows // LINES_PER_ORDER
        chosen = range(0, pile.files, every)
        ranges = " OR ".join(f"l_orderkey BETWEEN {n * orders} AND {(n + 1) * orders - 1}" for n in chosen)
        self.spark.sql(f"DELETE FROM {table} WHERE l_partkey % 50 = 7 AND ({'true' if every == 1 else ranges})")

    def delete_keys(self, table: str, pile: Pile, *, keys: int) -> None:
        """Delete rows by primary key, spread over the whole table, as an upserting stream does it."""
        java_table = self.java(table)
        java = java_table.java
        schema, location = java_table.table.schema(), local(str(java_table.table.location()))
        ids = [int(schema.findField(name).fieldId()) for name in ("l_orderkey", "l_linenumber")]
        array = java.gateway.new_array(java.gateway.jvm.int, 2)
        array[0], array[1] = ids
        chosen = np.random.default_rng(1).choice(pile.files * pile.rows, keys, replace=False)
        delta = java_table.table.newRowDelta()
        for part in np.array_split(chosen, DELETE_FILES):
            path = f"{location}/data/eq-{uuid.uuid4()}.parquet"
            _write_keys(path, ids, part)
            builder = java.iceberg.FileMetadata.deleteFileBuilder(java_table.table.spec()).ofEqualityDeletes(array)
            described = (
                builder.withPath(path)
                .withFormat("parquet")
                .withFileSizeInBytes(Path(path).stat().st_size)
                .withMetrics(
                    java.iceberg.parquet.ParquetUtil.fileMetrics(
                        java.iceberg.Files.localInput(path), java.iceberg.MetricsConfig.getDefault()
                    )
                )
            )
            delta = delta.addDeletes(described.build())
        delta.commit()


def _write_keys(path: str, ids: Sequence[int], rows: Any) -> None:
    fields = [
        pa.field(name, kind, metadata={"PARQUET:field_id": str(field_id)})
        for name, kind, field_id in zip(("l_orderkey", "l_linenumber"), (pa.int64(), pa.int32()), ids, strict=True)
    ]
    columns = [pa.array(rows // LINES_PER_ORDER), pa.array((rows % LINES_PER_ORDER + 1).astype(np.int32))]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns, schema=pa.schema(fields)), path, compression="zstd")


# -- looking ------------------------------------------------------------------------------------------


def layout(workshop: Workshop, table: str) -> Layout:
    """The live files of a table."""
    data = workshop.spark.sql(
        "SELECT count(*), sum(file_size_in_bytes), min(file_size_in_bytes), max(file_size_in_bytes)"
        f" FROM {table}.data_files"
    ).collect()[0]
    deletes = workshop.spark.sql(
        f"SELECT count(*), coalesce(sum(record_count), 0) FROM {table}.delete_files"
    ).collect()[0]
    return Layout(
        files=data[0],
        bytes=data[1],
        smallest=data[2],
        largest=data[3],
        row_groups=sum(pq.read_metadata(path).num_row_groups for path in data_paths(workshop, table)),
        delete_files=deletes[0],
        delete_records=deletes[1],
    )


def data_paths(workshop: Workshop, table: str) -> list[str]:
    """The live data files, as paths on this machine."""
    return [local(row[0]) for row in workshop.spark.sql(f"SELECT file_path FROM {table}.data_files").collect()]


def local(location: str) -> str:
    """A location without its scheme."""
    return location.removeprefix("file://").removeprefix("file:")


@contextmanager
def settings(spark: Any, wanted: dict[str, str]) -> Iterator[None]:
    """Settings of the session, for a while."""
    before = {key: spark.conf.get(key, None) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)
