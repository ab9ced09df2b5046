"""Random histories of real tables: what writers, auditors and compactors do, one after the other."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from icepact import Compactor
from tests.support.java import jvm


class History:
    """A table that things happen to; what cannot happen now does not."""

    def __init__(self, compactor: Compactor, table: str, seed: int, *, version: int) -> None:
        self.compactor = compactor
        self.spark: SparkSession = compactor.spark
        self.table = table
        self.random = random.Random(seed)
        self.version = version
        self.rows = 0
        mode = "copy-on-write" if version == 1 else "merge-on-read"
        self.spark.sql(
            f"CREATE TABLE {table} (id bigint, kind string) USING iceberg PARTITIONED BY (kind) TBLPROPERTIES "
            f"('format-version' = '{version}', 'write.delete.mode' = '{mode}', 'write.distribution-mode' = 'none',"
            " 'commit.manifest.min-count-to-merge' = '4', 'write.metadata.previous-versions-max' = '6')"
        )
        self.append()

    def happen(self, count: int) -> list[str]:
        """So many things, at random; returns what."""
        names = list(self.events)
        weights = [3 if name in ("append", "delete") else 1 for name in names]
        happened = []
        for _ in range(count):
            name = self.random.choices(names, weights)[0]
            try:
                self.events[name]()
                happened.append(name)
            except (PySparkException, Py4JJavaError) as error:
                happened.append(f"not {name}: {str(error).splitlines()[0][:80]}")
        return happened

    @property
    def events(self) -> Mapping[str, Callable[[], Any]]:
        """What may happen."""
        return {
            "append": self.append,
            "delete": self.delete,
            "overwrite": self.overwrite,
            "branch": self.branch,
            "tag": self.tag,
            "drop": self.drop,
            "roll back": self.roll_back,
            "stage": self.stage,
            "publish": self.publish,
            "compact": self.compact,
            "manifests": self.manifests,
            "fast append": self.append_again,
        }

    def append(self, where: str = "") -> None:
        """New rows in two partitions, on `main` or a branch."""
        first, self.rows = self.rows, self.rows + 20
        kinds = f"CASE WHEN id % 2 = 0 THEN 'a' ELSE '{self.random.choice('bc')}' END"
        self.spark.sql(f"INSERT INTO {self.table}{where} SELECT id, {kinds} FROM range({first}, {self.rows}, 1, 1)")

    def delete(self) -> None:
        """Some rows."""
        self.spark.sql(f"DELETE FROM {self.table} WHERE id % 7 = {self.random.randrange(7)}")

    def overwrite(self) -> None:
        """A whole partition goes."""
        self.spark.sql(f"DELETE FROM {self.table} WHERE kind = '{self.random.choice('abc')}'")

    def branch(self) -> None:
        """A branch, with a commit of its own."""
        name = f"b{self.random.randrange(3)}"
        self.spark.sql(f"ALTER TABLE {self.table} CREATE BRANCH IF NOT EXISTS {name}")
        self.append(f".branch_{name}")

    def tag(self) -> None:
        """A tag on some snapshot."""
        name = f"t{self.random.randrange(3)}"
        self.spark.sql(f"ALTER TABLE {self.table} CREATE TAG IF NOT EXISTS {name} AS OF VERSION {self._any()}")

    def drop(self) -> None:
        """A tag or a branch."""
        kind, name = self.random.choice([("TAG", "t"), ("BRANCH", "b")])
        self.spark.sql(f"ALTER TABLE {self.table} DROP {kind} {name}{self.random.randrange(3)}")

    def roll_back(self) -> None:
        """To an ancestor."""
        catalog = self.compactor.catalog.name
        self.spark.sql(f"CALL {catalog}.system.rollback_to_snapshot('{self.table}', {self._any()})")

    def stage(self) -> None:
        """A write that waits for its audit."""
        self.spark.sql(f"ALTER TABLE {self.table} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
        self.spark.conf.set("spark.wap.id", f"wap{self.random.randrange(10**9)}")
        try:
            self.append()
        finally:
            self.spark.conf.unset("spark.wap.id")

    def publish(self) -> None:
        """A staged write."""
        staged = self.spark.sql(
            f"SELECT snapshot_id FROM {self.table}.snapshots WHERE summary['wap.id'] IS NOT NULL"
        ).collect()
        if staged:
            catalog = self.compactor.catalog.name
            self.spark.sql(f"CALL {catalog}.system.cherrypick_snapshot('{self.table}', {staged[-1][0]})")

    def compact(self) -> None:
        """By icepact."""
        self.compactor.compact(self.table, rewrite_all=True)

    def manifests(self) -> None:
        """Rewritten by Spark."""
        self.spark.sql(f"CALL {self.compactor.catalog.name}.system.rewrite_manifests('{self.table}', false)")

    def append_again(self) -> None:
        """A file that was removed, and is still there, is added once more, as it was: nothing forbids it."""
        loaded = jvm(self.spark).org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            self.spark._jsparkSession, f"local.{self.table}"
        )
        snapshot = loaded.snapshot(self._any())
        changes = jvm(self.spark).org.apache.iceberg.SnapshotChanges.builderFor(loaded).snapshot(snapshot).build()
        files = loaded.io()
        removed = [file for file in changes.removedDataFiles() if files.newInputFile(file.location()).exists()]
        if removed:
            loaded.newFastAppend().appendFile(removed[0]).commit()
            self.spark.sql(f"REFRESH TABLE {self.table}")

    def _any(self) -> int:
        ids = [row[0] for row in self.spark.sql(f"SELECT snapshot_id FROM {self.table}.snapshots").collect()]
        return int(self.random.choice(sorted(ids)))
