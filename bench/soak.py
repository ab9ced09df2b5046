"""Good neighbours: five kinds of writers on one table, compacted all the time by icepact, or by Spark's own action.

Writers never meet each other: whatever they lose, they lose to whoever compacts. A commit of theirs that did not land
counts as lost if a compaction landed meanwhile. After each side the whole table is held against an oracle, which never
reads it.
"""

import random
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.errors import PySparkException
from tests.chaos.writers import Change, Compared, Operation, World
from tests.support.writers import partition_positions

from bench.result import Result
from bench.session import neutral_compactor
from icepact import Compactor
from icepact.model.errors import IcepactError
from icepact.model.status import Status

WHOLE_BAR, LOST_BAR, WRONG_BAR = 0.05, 0.5, 0
_TARGET = 64 * 1024**2
_FILLS, _FILL_ROWS = 4, 1500
"""Commits that a table begins with, and rows of each in every partition."""
_PAUSES = {"append": 1.0, "spark": 3.0, "pyiceberg": 4.0, "upsert": 2.0, "positions": 4.0}
"""Seconds between two commits of each kind of writer, on average, besides what they take."""
_PAUSE = 1.0
"""Seconds between two compactions."""
_WARM = 8.0
"""Seconds in which everybody is at work and nothing is counted."""
_STRANGE = 0.05
"""Share of commits that may fail by themselves: catalogs in one file are locked at times."""
_ERRORS = (IcepactError, Py4JError, PySparkException)
_DAYS = 3
_OWN_DAY = 2
"""The partition without equality deletes: PyIceberg cannot rewrite files that they apply to."""


class Neighbours(World):
    """One table of format version 2 and its five kinds of writers."""

    def __init__(self, compactor: Compactor, name: str, seed: int) -> None:
        self.lost: Counter[str] = Counter()
        """Commits that a compaction was in the way of, by kind."""
        self.strange: list[str] = []
        """Commits that failed for another reason."""
        folder = compactor.catalog.embedded
        assert folder is not None
        self._pyiceberg = SqlCatalog("local", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=str(folder))
        super().__init__(compactor.spark, name, version=2, seed=f"{seed}/neighbours")
        self._by_kind: dict[str, list[Callable[[], Change | None]]] = {
            "append": [self._append, self._append, self._append_by_spark],
            "spark": [self._delete, self._update, self._merge],
            "pyiceberg": [self._append_by_pyiceberg, self._overwrite],
            "upsert": [self._upsert, self._upsert, self._equality_delete],
            "positions": [self._positions],
        }

    def _all_operations(self, *, upgrades: bool) -> list[Operation]:
        """Writers of this table choose among those of their own kind."""
        del upgrades
        return []

    def fill(self) -> None:
        """Some thousand rows in files of a modest size."""
        for _ in range(_FILLS):
            batches = [(f"day={day}", self._rows_of(day, _FILL_ROWS)) for day in range(_DAYS)]
            self._stream.append(batches)
            self._put([row for _, rows in batches for row in rows])

    def write(self, kind: str) -> None:
        """One commit of one kind of writer, or an attempt."""
        with self._lock:
            change = self._dice.choice(self._by_kind[kind])()
            if change is None:
                return
            refused, head = self.refused[kind], self._head()
            self._carry_out(kind, change)
            if self.refused[kind] > refused:
                if self._replaced_since(head):
                    self.lost[kind] += 1
                else:
                    self.strange.append(self.journal[-1])

    def _replaced_since(self, since: int | None) -> bool:
        """Whether a compaction landed."""
        java = self._stream.java
        snapshot = java.currentSnapshot()
        while snapshot is not None and int(snapshot.snapshotId()) != since:
            if str(snapshot.operation()) == "replace":
                return True
            parent = snapshot.parentId()
            snapshot = None if parent is None else java.snapshot(parent)
        return False

    def files_replaced(self) -> int:
        """Data files that compactions of this table have replaced so far."""
        java, found = self._stream.java, 0
        snapshot = java.currentSnapshot()
        while snapshot is not None:
            if str(snapshot.operation()) == "replace":
                found += int(snapshot.summary().get("deleted-data-files") or 0)
            parent = snapshot.parentId()
            snapshot = None if parent is None else java.snapshot(parent)
        return found

    # -- what they write --------------------------------------------------------------------------

    def _rows_of(self, day: int, count: int) -> list[dict[int, Any]]:
        first, self._next_id = self._next_id, self._next_id + count
        return [self._row((first + number) * _DAYS + day) for number in range(count)]

    def _delete(self) -> Change | None:
        gone = self._some(20)
        statement = f"DELETE FROM {self.name} WHERE id IN ({', '.join(map(str, gone))})"
        return self._sql(statement, lambda: self._drop(gone)) if gone else None

    def _equality_delete(self) -> Change | None:
        day = self._dice.randrange(_OWN_DAY)
        some = [number for number in self._some(40) if number % _DAYS == day]
        if not some:
            return None
        partition = f"day={day}"
        return Change(commit=lambda: self._stream.delete(self._id, some, partition), effect=lambda: self._drop(some))

    def _upsert(self) -> Change | None:
        day = self._dice.randrange(_OWN_DAY)
        rows = [self._row(number) for number in self._some(40) if number % _DAYS == day] + self._rows_of(day, 5)
        return Change(commit=lambda: self._stream.upsert(self._id, f"day={day}", rows), effect=lambda: self._put(rows))

    def _append_by_pyiceberg(self) -> Change:
        rows = [row for day in range(_DAYS) for row in self._rows_of(day, 10)]
        return Change(commit=lambda: self._table.append(self._arrow(rows)), effect=lambda: self._put(rows))

    def _overwrite(self) -> Change | None:
        """Rows of one partition are taken out of their files, which are written anew, and come with other values."""
        some = [number for number in self._some(60) if number % _DAYS == _OWN_DAY]
        if not some:
            return None
        rows = [self._row(number) for number in some]

        def commit() -> None:
            self._table.overwrite(self._arrow(rows), overwrite_filter=f"day = {_OWN_DAY} and id in ({_listed(some)})")

        return Change(commit=commit, effect=lambda: self._put(rows))

    @property
    def _table(self) -> Any:
        return self._pyiceberg.load_table(self.name)

    def _arrow(self, rows: Sequence[dict[int, Any]]) -> pa.Table:
        columns = {c.name: [row.get(c.id) for row in rows] for c in self._columns}
        return pa.table(columns, schema=self._table.schema().as_arrow())

    def _positions(self) -> Change | None:
        """As Trino does: one file of positions for all data files of a partition."""
        day = self._dice.randrange(_DAYS)
        gone = [number for number in self._some(40) if number % _DAYS == day]
        if not gone:
            return None

        def commit() -> None:
            self._spark.sql(f"REFRESH TABLE {self.name}")
            condition = f"day = {day} AND id IN ({_listed(gone)})"
            partition_positions(self._spark, f"local.{self.name}", condition, partition=f"day={day}", validated=True)

        return Change(commit=commit, effect=lambda: self._drop(gone))


def _listed(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))


@dataclass(kw_only=True)
class Side:
    """What became of one side."""

    minutes: float
    writes: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    """How compactions ended; those with nothing to do are not counted."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Why groups were not committed."""
    waited: float = 0.0
    """Seconds that commits waited for quiet moments."""
    files: int = 0
    """Data files that were replaced."""
    compared: Compared | None = None

    @property
    def wrong(self) -> int:
        """Rows that are not as the oracle has them."""
        c = self.compared
        return 0 if c is None else c.lost + c.duplicated + c.resurrected + c.changed

    @property
    def told(self) -> str:
        """One line."""
        runs = ", ".join(f"{name} {count}" for name, count in self.runs.most_common())
        lost = ", ".join(f"{name} {count}" for name, count in self.lost.most_common()) or "none"
        return (
            f"runs: {runs or 'none'}; {self.files} files replaced; lost besides {sum(self.writes.values())} commits: "
            f"{lost}; {self.wrong} rows wrong"
        )


def soak(minutes: float, folder: Path, heap: str, *, seed: int = 1, warm: float = _WARM) -> list[Result]:
    """Both sides, one after the other, each with a table and writers of its own that do the same by lot."""
    folder.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore", message="Merge on read is not yet supported")  # PyIceberg, at each overwrite
    with tempfile.TemporaryDirectory(dir=folder, prefix="soak-", ignore_cleanup_errors=True) as place:
        compactor = neutral_compactor(place, driver_memory=heap)
        compactor.spark.conf.set("spark.sql.shuffle.partitions", "2")
        compactor.spark.sql("CREATE NAMESPACE soak")
        compactor.runs()  # the record store is made before there are threads
        ours = _side(compactor, "icepact", lambda table, side: _by_icepact(compactor, table, side), minutes, seed, warm)
        theirs = _side(compactor, "spark", lambda table, side: _by_spark(compactor, table, side), minutes, seed, warm)
    return _results(ours, theirs)


def _side(
    compactor: Compactor,
    name: str,
    compact: Callable[[str, Side], None],
    minutes: float,
    seed: int,
    warm: float,
) -> Side:
    world = Neighbours(compactor, f"soak.{name}", seed)
    world.fill()
    side = Side(minutes=minutes)
    stop = threading.Event()
    threads = [
        threading.Thread(target=_again, args=(world, kind, pause, stop, seed), daemon=True)
        for kind, pause in _PAUSES.items()
    ]
    for thread in threads:
        thread.start()
    try:
        _for(warm, lambda: compact(world.name, Side(minutes=0)))
        written, lost, files = world.done.copy(), world.lost.copy(), world.files_replaced()
        _for(minutes * 60, lambda: compact(world.name, side))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    side.writes, side.lost = world.done - written, world.lost - lost
    side.files = world.files_replaced() - files
    side.compared = world.compare()
    _say(f"{name}: {side.told}")
    for reason, count in side.reasons.most_common(5):
        _say(f"{name}: {count} groups: {reason}")
    for commit in world.strange[:3]:
        _say(f"{name}: failed by itself: {commit}")
    if len(world.strange) > _STRANGE * sum(side.writes.values()):
        raise AssertionError(f"{len(world.strange)} commits failed by themselves, first {world.strange[0]}")
    return side


def _again(world: Neighbours, kind: str, pause: float, stop: threading.Event, seed: int) -> None:
    dice = random.Random(f"{seed}/{kind}")
    while not stop.wait(dice.uniform(0.5, 1.5) * pause):
        world.write(kind)


def _for(seconds: float, act: Callable[[], None]) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        act()
        time.sleep(_PAUSE)


def _by_icepact(compactor: Compactor, table: str, side: Side) -> None:
    try:
        outcome = compactor.compact(
            table,
            target_file_size=_TARGET,
            min_input_files=2,
            max_delete_ratio=0.0,
            commit_when="quiet",
            max_commit_wait="10s",
        )
    except IcepactError as error:
        side.runs[type(error).__name__] += 1
        side.reasons[str(error)[:200]] += 1
        return
    if outcome.status is Status.NOTHING_TO_DO:
        return
    side.runs[outcome.status.value] += 1
    side.waited += outcome.waited_seconds
    side.reasons.update(group.reason[:200] for group in outcome.groups if group.reason)


def _by_spark(compactor: Compactor, table: str, side: Side) -> None:
    options = {
        "target-file-size-bytes": str(_TARGET),
        "min-input-files": "2",
        "delete-file-threshold": "1",
        "partial-progress.enabled": "true",
    }
    listed = ", ".join(f"'{word}'" for pair in options.items() for word in pair)
    spark = compactor.spark
    try:
        spark.sql(f"REFRESH TABLE {table}")
        [row] = spark.sql(
            f"CALL local.system.rewrite_data_files(table => '{table}', options => map({listed}))"
        ).collect()
    except _ERRORS as error:
        side.runs["refused"] += 1
        side.reasons[str(error)[:200]] += 1
        return
    if row["rewritten_data_files_count"] or row["failed_data_files_count"]:
        side.runs["partly committed" if row["failed_data_files_count"] else "committed"] += 1


def _results(ours: Side, theirs: Side) -> list[Result]:
    runs, whole = sum(ours.runs.values()), ours.runs[Status.COMMITTED.value]
    lost, theirs_lost = sum(ours.lost.values()), sum(theirs.lost.values())
    rate, theirs_rate = lost / max(1, ours.files), max(1, theirs_lost) / max(1, theirs.files)
    waited = f"{ours.waited / max(1, runs):.1f} s of waiting for each run"
    how = f"{ours.minutes:g} minutes a side"
    return [
        Result(
            "runs beside five kinds of writers that did not commit all their groups / all runs",
            (runs - whole) / max(1, runs),
            "x",
            WHOLE_BAR,
            f"{runs - whole} of {runs}, {waited}, {how}; Spark's action: "
            + ", ".join(f"{name} {count}" for name, count in theirs.runs.most_common()),
        ),
        Result(
            "commits that writers lost to icepact / to Spark's rewrite_data_files, for each file that was replaced",
            rate / theirs_rate,
            "x",
            LOST_BAR,
            f"{lost} of {sum(ours.writes.values())} commits with {ours.files} files replaced, against {theirs_lost} of "
            f"{sum(theirs.writes.values())} with {theirs.files}, {how}",
            headline=True,
        ),
        Result(
            "rows beside five kinds of writers that are not as these meant",
            ours.wrong,
            "",
            WRONG_BAR,
            f"of {ours.compared.rows if ours.compared else 0} rows, {how}; after Spark's action: {theirs.wrong}",
        ),
    ]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
