"""Delete files that the kernel writes: Iceberg finds them sound, and readers find just the rows gone that they name."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.execute.assemble.task import fetch
from icepact.execute.deletes.cache import DeleteCache
from icepact.execute.deletes.errors import BrokenDelete
from icepact.execute.deletes.writing import WrittenDelete, write_positions, write_vectors
from icepact.execute.storage.local import LocalStorage
from icepact.iceberg.table.table import HeadView, IcebergTable
from icepact.model.files import DataFile, DeleteKind
from tests.support.checks import keeps_rows
from tests.support.tables import create

VERSIONS = pytest.mark.parametrize("version", [2, 3])
STORAGE = LocalStorage()


def opened(compactor: Compactor, name: str) -> tuple[IcebergTable, HeadView]:
    """A table and its live files."""
    table = compactor.application.spark_catalog.table(name)
    [*paths] = (
        row[0] for row in compactor.spark.sql(f"SELECT file_path FROM {name}.files WHERE content = 0").collect()
    )
    return table, table.view("main", paths)


def written(table: IcebergTable, version: int, positions: Mapping[str, Sequence[int]]) -> list[WrittenDelete]:
    """Deletes of these rows, by the path of the data file: one Puffin file, or a Parquet file for each."""
    base = f"{table.table.location()}/data/written"
    arrays = {path: np.array(sorted(rows), dtype=np.int64) for path, rows in positions.items()}
    if version == 3:
        sink = STORAGE.create(f"{base}-{len(arrays)}.puffin")
        deletes = write_vectors(sink, arrays, created_by="icepact version 0")
        sink.close()
        return deletes
    deletes = []
    for number, (path, rows) in enumerate(arrays.items()):
        sink = STORAGE.create(f"{base}-{number}.parquet")
        deletes.append(write_positions(sink, path, rows))
        sink.close()
    return deletes


def as_java(table: IcebergTable, document: Mapping[str, Any]) -> Any:
    """Java's own delete file."""
    node = table.java.mapper.readTree(json.dumps(document))
    return table.java.iceberg.ContentFileParser.fromJson(node, table.table.specs())


def committed(table: IcebergTable, files: Mapping[str, DataFile], deletes: Sequence[WrittenDelete]) -> None:
    """Add them by a RowDelta."""
    delta = table.table.newRowDelta()
    for delete in deletes:
        file = files[delete.referenced]
        delta.addDeletes(as_java(table, delete.to_json(file.spec_id, file.partition)))
    delta.commit()
    table.refresh()


def ids(spark: SparkSession, name: str, where: str = "true") -> list[int]:
    spark.catalog.refreshTable(name)
    return sorted(row[0] for row in spark.sql(f"SELECT id FROM {name} WHERE {where}").collect())


def at(spark: SparkSession, name: str) -> dict[str, dict[int, int]]:
    """Ids by position, by file."""
    found: dict[str, dict[int, int]] = {}
    for row in spark.sql(f"SELECT _file, _pos, id FROM {name}").collect():
        found.setdefault(row[0], {})[row[1]] = row[2]
    return found


@VERSIONS
@pytest.mark.parametrize("partitions", ["", "day", "bucket(3, id), day"], ids=["whole", "day", "bucket and day"])
def test_readers_find_just_these_rows_gone(compactor: Compactor, namespace: str, version: int, partitions: str) -> None:
    spark, name = compactor.spark, f"{namespace}.t"
    create(spark, name, "id bigint, day date", partitions, version=version)
    days = "date_add(date '2026-01-01', cast(id % 3 as int))"
    for first in (0, 500):
        spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id, {days} FROM range({first}, {first + 500})")
    table, view = opened(compactor, name)
    before = at(spark, name)
    chosen: dict[str, Sequence[int]] = {
        path: [*range(0, len(rows), 7), *range(20, 60)] for path, rows in list(before.items())[1:]
    }
    chosen = {path: sorted({p for p in rows if p in before[path]}) for path, rows in chosen.items()}
    deletes = written(table, version, chosen)
    committed(table, {file.path: file for file in view.files}, deletes)

    gone = {before[path][position] for path, rows in chosen.items() for position in rows}
    assert ids(spark, name) == sorted(set(range(1000)) - gone)
    assert ids(spark, name, "day = date '2026-01-02'") == sorted(i for i in set(range(1000)) - gone if i % 3 == 1)
    known = spark.sql(f"SELECT file_path, pos FROM {name}.position_deletes").collect()
    assert sorted((r[0], r[1]) for r in known) == sorted((p, n) for p, rows in chosen.items() for n in rows)
    read_back(compactor, name, chosen, version)
    keeps_rows(compactor, name)
    assert ids(spark, name) == sorted(set(range(1000)) - gone)
    assert spark.sql(f"SELECT * FROM {name}.delete_files").count() == 0


def read_back(compactor: Compactor, name: str, chosen: Mapping[str, Sequence[int]], version: int) -> None:
    """Each is bound to its data file, and our own reader finds the positions."""
    _, view = opened(compactor, name)
    cache = DeleteCache(lambda delete: fetch(STORAGE, delete))
    for file in view.files:
        mine = [view.deletes[n] for n in file.deletes]
        assert len(mine) == (file.path in chosen)
        assert all(d.referenced == file.path and d.kind is KINDS[version] for d in mine)
        assert cache.positions(mine, file.path).tolist() == list(chosen.get(file.path, ()))


KINDS = {2: DeleteKind.POSITION, 3: DeleteKind.DV}


def test_bounds_alone_bind_a_file_of_position_deletes(compactor: Compactor, namespace: str) -> None:
    """So they do for readers of before Iceberg 1.7, which know no reference."""
    spark, name = compactor.spark, f"{namespace}.t"
    create(spark, name, "id bigint", version=2)
    for first in (0, 10):
        spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id FROM range({first}, {first + 10})")
    table, view = opened(compactor, name)
    path = view.files[0].path
    [delete] = written(table, 2, {path: [1, 2]})
    document: dict[str, Any] = {**delete.to_json(0, ())}
    del document["referenced-data-file"]
    bound_to = table.java.iceberg.util.ContentFileUtil.referencedDataFileLocation
    assert bound_to(as_java(table, document)) == path


def test_a_damaged_vector_is_refused_by_both(compactor: Compactor, namespace: str) -> None:
    spark, name = compactor.spark, f"{namespace}.t"
    create(spark, name, "id bigint", version=3)
    spark.sql(f"INSERT INTO {name} SELECT /*+ COALESCE(1) */ id FROM range(0, 100)")
    table, view = opened(compactor, name)
    [delete] = written(table, 3, {view.files[0].path: [5, 6, 50]})
    committed(table, {file.path: file for file in view.files}, [delete])
    path = Path(delete.path.removeprefix("file:"))
    data = bytearray(path.read_bytes())
    assert delete.offset is not None
    assert delete.size is not None
    data[delete.offset + delete.size - 1] ^= 1
    path.write_bytes(data)
    [vector] = opened(compactor, name)[1].deletes
    with pytest.raises(BrokenDelete, match="its checksum does not fit"):
        DeleteCache(lambda delete: fetch(STORAGE, delete)).positions([vector], view.files[0].path)
    with pytest.raises(Exception, match="Invalid CRC"):
        ids(spark, name)
