"""Somebody removes what no snapshot refers to yet: the finished files of a run that has not committed them.

It happens while the run is under way, or between its death and the day when it is resumed. Files are removed by
Iceberg's own action, as if they were old, or simply deleted, some or all of them.
"""

import random
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.chaos.disks import At
from tests.chaos.faults import told_of, tried
from tests.chaos.judge import LocalFiles, Verdict, judge, left, look, missing, recover, untrue
from tests.chaos.kills import drive
from tests.chaos.ledger import COUNTED
from tests.chaos.messes import TRIALS_PER_TABLE, MessyTable
from tests.chaos.soak import ERRORS
from tests.chaos.streaming import on_disk
from tests.support.compactors import short_compactor
from tests.support.java import jvm
from tests.support.messy import load
from tests.support.servers.trial import configuration

KIND = "orphans"
TOO_LATE = "attempting"
"""Files that go here were looked at for the last time: the commit lands, and must be taken back."""
STEPS = ("written", "checkpointed", "proven", "judged", TOO_LATE)
"""Of a run, at which files go, or it dies."""
_OPTIONS: dict[str, Any] = {"target_file_size": "64MB", "rewrite_all": True}
_NEW = "/data/icepact-"
"""In the path of every new file."""


class OrphanTrials:
    """Tables on a disk, in a catalog of their own."""

    def __init__(self, folder: Path) -> None:
        catalog = {
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{folder / 'catalog.db'}",
            "warehouse": str(folder / "warehouse"),
            "jdbc.schema-version": "V1",
        }
        self._folder = folder
        self._config = configuration(folder, catalog)
        self._compactor = short_compactor(config=self._config)
        self._compactor.spark.conf.set("spark.sql.shuffle.partitions", "2")
        self._compactor.spark.sql("CREATE NAMESPACE IF NOT EXISTS orphans")
        self._tables: dict[int, MessyTable] = {}

    def trial(self, number: int, *, seed: int) -> dict[str, Any]:
        """A run that loses files; an entry for the ledger. In one of three it dies first."""
        dice = random.Random(f"{seed}/{KIND}/{number}")
        version = 2 + number % 2
        table = self._table(version, f"s{seed}n{number}")
        table.mess(dice)
        removed: list[str] = []
        way = dice.choice(["deleted", "deleted", "remove_orphan_files"])
        commits, number_of = dice.randint(1, 3), dice.randint(1, 2)
        how = {"options": {**_OPTIONS, "max_commits": commits}, "pass": number_of}

        def remove() -> None:
            removed.extend(self._remove(table.name, way, dice))

        if number % 3 == 2:
            when = dice.choice(["before resuming", "while resuming"])
            how |= {"step": dice.choice(STEPS), "whole": True, "config": str(self._config)}
            step = dice.choice(["staged", "judged"]) if when == "while resuming" else None
            told = self._dead(table.name, how, remove, step)
        else:
            when = "during the run"
            how["step"] = dice.choice(STEPS)
            told = self._alive(table.name, how, remove)
        if not told["clean"] or "taken back" in told:
            self._tables.pop(version)
        faults = {f"{way} {when}": len(removed)}
        how.pop("config", None)
        return {
            "kind": KIND,
            "seed": seed,
            "number": number,
            "hit": bool(removed),
            "faults": faults,
            "how": how,
            **told,
        }

    def _alive(self, table: str, how: dict[str, Any], remove: Callable[[], None]) -> dict[str, Any]:
        at = At(how["step"], remove, number=how["pass"])
        options = {**how["options"], "progress": at}
        told = tried(self._compactor, table, options, "resume", LocalFiles(), lambda: None, lambda: None)
        return self._taken_back(table, told) if how["step"] == TOO_LATE and told["alarms"] else told

    def _taken_back(self, table: str, told: dict[str, Any]) -> dict[str, Any]:
        """The alarm is right, and so it is that the snapshot which was taken back misses files; the head must not. As
        long as that snapshot is there, nothing is deleted beside its files; once it has expired, nothing is left."""
        compactor, spark = self._compactor, self._compactor.spark
        spark.sql(f"REFRESH TABLE {table}")
        rows = spark.sql(f"SELECT file_path FROM {table}.files").collect()
        missing = sum(not Path(row[0].removeprefix("file:")).exists() for row in rows)
        live = f"SELECT snapshot_id FROM {table}.history WHERE is_current_ancestor"
        gone = spark.sql(f"SELECT snapshot_id FROM {table}.snapshots WHERE snapshot_id NOT IN ({live})").collect()
        listed = ", ".join(str(row[0]) for row in gone)
        spark.sql(f"CALL lake.system.expire_snapshots(table => '{table}', snapshot_ids => array({listed}))").collect()
        recover(compactor, table, "cleanup")
        after = left(compactor, spark, table, LocalFiles(), failing=True)
        told |= {"missing": missing, "leftovers": after["leftovers"], "alarms": 0, "taken back": True}
        told["clean"] = not told["failed"] and not any(told[name] for name in COUNTED if name != "rows")
        return told

    def _dead(self, table: str, how: dict[str, Any], remove: Callable[[], None], step: str | None) -> dict[str, Any]:
        """In a process of its own, which is killed; then files go, and it is resumed, or they go at a step of that."""
        compactor, spark = self._compactor, self._compactor.spark
        before = look(compactor, spark, table)
        driven = drive(self._folder, table, how)
        verdict, ended, failed = Verdict(rows=0), "", ""
        try:
            if step is None:
                remove()
            else:
                compactor.resume_dead(table, progress=At(step, remove))
            recover(compactor, table, "resume")
            verdict = replace(verdict, missing=missing(compactor, table, LocalFiles()))  # if nothing more can be said
            verdict = judge(compactor, spark, table, before, LocalFiles())
            for record in compactor.runs(table, limit=1):
                ended = record.status.value
                wrong = untrue(compactor, table, record.run_id, record.status, [c.snapshot_id for c in record.landed])
                verdict = replace(verdict, untrue=int(wrong))
            compactor.unblock(table)
        except ERRORS as raised:
            failed = told_of(raised)
        return {
            "status": ended if driven.hit else driven.told.get("status", "raised"),
            "recovery": "resume",
            "ended": ended,
            **asdict(verdict),
            "failed": failed,
            "clean": not failed and verdict.clean,
        }

    def _remove(self, table: str, way: str, dice: random.Random) -> list[str]:
        """What is gone: finished files that no snapshot refers to."""
        java = load(self._compactor.spark, f"lake.{table}")
        found = set(self._finished(table, java))
        if way == "deleted":
            some = found if dice.random() < 0.5 else {path for path in sorted(found) if dice.random() < 0.5}
            for path in some or found:
                Path(path).unlink()
        else:
            actions = jvm(self._compactor.spark).org.apache.iceberg.spark.actions.SparkActions
            older = datetime.now(UTC) + timedelta(days=1)
            action = actions.get(self._compactor.spark._jsparkSession).deleteOrphanFiles(java)
            action.olderThan(int(older.timestamp() * 1000)).execute()
        return sorted(path for path in found if not Path(path).exists())

    def _finished(self, table: str, java: Any) -> list[str]:
        self._compactor.spark.sql(f"REFRESH TABLE {table}")
        rows = self._compactor.spark.sql(f"SELECT file_path FROM {table}.all_files").collect()
        referred = {row[0].removeprefix("file:") for row in rows}
        stored = LocalFiles().below(f"{str(java.location()).rstrip('/')}/data")
        return [path for path in stored if _NEW in path and path.endswith(".parquet") and path not in referred]

    def _table(self, version: int, name: str) -> MessyTable:
        found = self._tables.get(version)
        if found is None or found.messes == TRIALS_PER_TABLE:
            spark = self._compactor.spark
            found = self._tables[version] = MessyTable(spark, on_disk, f"orphans.{name}", version)
        return found
