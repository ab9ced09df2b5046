"""Writers of one table, and the oracle: what its rows must be, kept in Python beside every commit.

The oracle never reads the table. A writer holds a lock around its own commit and the oracle's, so that writers do not
meet each other; compactors know nothing of the lock and meet them all the time. A commit that is refused, because a
compactor was faster, changes nothing; if it fails with another error, the history says whether it landed.
"""

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import types as T

from tests.chaos.streaming import Column, Row, Stream
from tests.support.java import jvm

DAYS = 3
MOST_ROWS = 4000
MOST_COLUMNS = 8
_SPARK = {"int": T.IntegerType(), "long": T.LongType(), "string": T.StringType(), "double": T.DoubleType()}


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """One commit, and what it means."""

    commit: Callable[[], object]
    effect: Callable[[], object]
    """On the oracle, once the commit has landed."""
    landed: Callable[[], bool] | None = None
    """Whether it did after all, if its commit failed; null to ask the history for a snapshot."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """A table held against its oracle."""

    rows: int
    lost: int
    duplicated: int
    resurrected: int
    """Rows that the oracle does not have: deleted before, or never written."""
    changed: int
    """Rows with other values, and row ids that are missing or there twice."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A kind of commit."""

    name: str
    weight: int
    """How often, compared with the others."""
    make: Callable[[], Change | None]
    """The next one of its kind; null if there is nothing to do it to."""
    equality: bool = False
    """Whether it writes equality deletes."""


class World:
    """One table with its writers and its oracle."""

    def __init__(self, spark: SparkSession, name: str, *, version: int, seed: str, upgrades: bool = False) -> None:
        self.name = name
        self.done: Counter[str] = Counter()
        """Commits, by kind."""
        self.refused: Counter[str] = Counter()
        """Commits that did not land, by kind."""
        self.journal: list[str] = []
        """What was done, for those who have to find out what went wrong."""
        self.rows: dict[int, dict[int, Any]] = {}
        """The oracle: values by field id, by id."""
        self._spark = spark
        self._dice = random.Random(seed)
        self._stream = Stream(spark, f"local.{name}", self._dice)
        self._lock = threading.Lock()
        self._equality = threading.Lock()
        self._next_id = 0
        self._serial = 0
        self._anywhere: set[int] = set()
        """Ids that were written with the old spec: deletes of one partition may or may not find them."""
        self._version = version
        self._lineage = version >= 3  # rows of an upgraded table get their ids with the next commit only
        self._create(version)
        self._columns = self._stream.columns()
        """As they are now; only writers change them."""
        self._id, self._day, self._text, self._n = self._columns
        self._operations = self._all_operations(upgrades=upgrades)

    def _create(self, version: int) -> None:
        modes = {"delete": "merge-on-read", "merge": "merge-on-read", "update": "copy-on-write"}
        wishes = {"format-version": str(version), "write.distribution-mode": "none"}
        wishes |= {f"write.{what}.mode": mode for what, mode in modes.items()}
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in wishes.items())
        columns = "id bigint, day int, text string, n int"
        self._spark.sql(f"CREATE TABLE {self.name} ({columns}) USING iceberg TBLPROPERTIES ({listed})")
        self._spark.sql(f"ALTER TABLE {self.name} ADD PARTITION FIELD day")

    # -- acting -----------------------------------------------------------------------------------

    def act(self) -> None:
        """One commit of any kind, or an attempt."""
        with self._lock, self._chosen() as operation:
            self._columns = self._stream.columns()
            change = operation.make()
            if change is not None:
                self._carry_out(operation.name, change)

    @contextmanager
    def _chosen(self) -> Iterator[Operation]:
        """Any operation; if nobody may write equality deletes now, one that does not."""
        [operation] = self._dice.choices(self._operations, [o.weight for o in self._operations])
        held = operation.equality and self._equality.acquire(blocking=False)
        if operation.equality and not held:
            others = [o for o in self._operations if not o.equality]
            [operation] = self._dice.choices(others, [o.weight for o in others])
        try:
            yield operation
        finally:
            if held:
                self._equality.release()

    def _carry_out(self, name: str, change: Change) -> None:
        head = self._head()
        try:
            change.commit()
        except Exception as error:  # of Java, of Spark, of a validation: what counts is the table
            landed = change.landed() if change.landed else self._landed(head)
            self.journal.append(f"{name}: {'landed' if landed else 'refused'}: {str(error)[:300]}")
            if not landed:
                self.refused[name] += 1
                return
        else:
            self.journal.append(f"{name}: done")
        self.done[name] += 1
        change.effect()

    @contextmanager
    def without_equality_deletes(self) -> Iterator[None]:
        """Nobody writes equality deletes in this block.

        Spark's own `rewrite_data_files` brings rows back that are deleted by equality while it runs (see
        `tests/spark/test_rivals.py`). That is no fault of ours, and would hide one.
        """
        with self._equality:
            yield

    def _head(self) -> int | None:
        snapshot = self._stream.java.currentSnapshot()
        return None if snapshot is None else int(snapshot.snapshotId())

    def _landed(self, since: int | None) -> bool:
        """Whether anybody but a compactor committed since; under the lock that can only be ourselves."""
        java = self._stream.java
        snapshot = java.currentSnapshot()
        while snapshot is not None and int(snapshot.snapshotId()) != since:
            if str(snapshot.operation()) != "replace":
                return True
            parent = snapshot.parentId()
            snapshot = None if parent is None else java.snapshot(parent)
        return False

    # -- operations -------------------------------------------------------------------------------

    def _all_operations(self, *, upgrades: bool) -> list[Operation]:
        found = [
            Operation("append", 8, self._append),
            Operation("append-by-spark", 2, self._append_by_spark),
            Operation("append-of-old-spec", 1, self._append_of_old_spec),
            Operation("delete", 4, self._delete),
            Operation("update", 3, self._update),
            Operation("merge", 2, self._merge),
            Operation("equality-delete", 5, self._equality_delete, equality=True),
            Operation("upsert", 4, self._upsert, equality=True),
            Operation("schema", 1, self._schema),
            Operation("expire", 1, self._expire),
        ]
        return [*found, Operation("upgrade", 1, self._upgrade)] if upgrades else found

    def fill(self) -> None:
        """Something to begin with."""
        with self._lock:
            for _ in range(3):
                for change in (self._append(), self._append_of_old_spec()):
                    change.commit()
                    change.effect()

    def _append(self) -> Change:
        batches = [(f"day={day}", self._new_rows(day)) for day in range(DAYS) for _ in range(self._dice.randint(0, 2))]
        batches = batches or [("day=0", self._new_rows(0))]
        fast = self._dice.random() < 0.5
        return Change(
            commit=lambda: self._stream.append(batches, fast=fast),
            effect=lambda: self._put([row for _, rows in batches for row in rows]),
        )

    def _append_of_old_spec(self) -> Change:
        rows = [row for day in range(DAYS) for row in self._new_rows(day)]
        self._anywhere |= {row[self._id.id] for row in rows}
        return Change(commit=lambda: self._stream.append([(None, rows)]), effect=lambda: self._put(rows))

    def _append_by_spark(self) -> Change:
        columns = self._columns
        rows = [row for day in range(DAYS) for row in self._new_rows(day)]
        schema = T.StructType([T.StructField(c.name, _SPARK[c.kind]) for c in columns])

        def commit() -> None:
            self._spark.sql(f"REFRESH TABLE {self.name}")
            frame = self._spark.createDataFrame([tuple(row.get(c.id) for c in columns) for row in rows], schema)
            frame.coalesce(1).writeTo(self.name).option("fanout-enabled", "true").append()

        return Change(commit=commit, effect=lambda: self._put(rows))

    def _delete(self) -> Change | None:
        if len(self.rows) > MOST_ROWS:
            middle = sorted(self.rows)[len(self.rows) // 2]
            gone, condition = [i for i in self.rows if i < middle], f"id < {middle}"
        else:
            gone = self._some(20)
            condition = f"id IN ({_listed(gone)})"
        statement = f"DELETE FROM {self.name} WHERE {condition}"
        return self._sql(statement, lambda: self._drop(gone)) if gone else None

    def _update(self) -> Change | None:
        some, text = self._some(10), self._new_text()
        statement = f"UPDATE {self.name} SET text = '{text}' WHERE id IN ({_listed(some)})"
        return self._sql(statement, lambda: self._set_text(some, text)) if some else None

    def _merge(self) -> Change | None:
        some, text = self._some(12), self._new_text()
        gone, kept = some[: len(some) // 2], some[len(some) // 2 :]
        if not gone or not kept:
            return None
        values = ", ".join([*(f"({i}, true)" for i in gone), *(f"({i}, false)" for i in kept)])
        statement = (
            f"MERGE INTO {self.name} t USING (SELECT col1 AS id, col2 AS gone FROM VALUES {values}) s ON t.id = s.id"
            f" WHEN MATCHED AND s.gone THEN DELETE WHEN MATCHED THEN UPDATE SET text = '{text}'"
        )

        def effect() -> None:
            self._drop(gone)
            self._set_text(kept, text)

        return self._sql(statement, effect)

    def _equality_delete(self) -> Change | None:
        if self._dice.random() < 0.4:  # of all partitions
            some, partition = self._some(15), None
        else:
            day = self._dice.randrange(DAYS)
            some = [i for i in self._some(40) if i % DAYS == day and i not in self._anywhere]
            partition = f"day={day}"
        if not some:
            return None
        return Change(commit=lambda: self._stream.delete(self._id, some, partition), effect=lambda: self._drop(some))

    def _upsert(self) -> Change | None:
        day = self._dice.randrange(DAYS)
        some = [i for i in self._some(30) if i % DAYS == day and i not in self._anywhere]
        if not some:
            return None
        rows = [self._row(i) for i in some]
        return Change(commit=lambda: self._stream.upsert(self._id, f"day={day}", rows), effect=lambda: self._put(rows))

    def _expire(self) -> Change:
        keep = self._dice.randint(2, 5)
        return self._sql(
            f"CALL local.system.expire_snapshots(table => '{self.name}', older_than => TIMESTAMP '2999-01-01',"
            f" retain_last => {keep})",
            lambda: None,
        )

    def _upgrade(self) -> Change | None:
        if self._version == 3:
            return None

        def effect() -> None:
            self._version = 3

        return Change(
            commit=lambda: self._stream.java.updateProperties().set("format-version", "3").commit(),
            effect=effect,
            landed=lambda: int(self._stream.java.operations().current().formatVersion()) == 3,
        )

    def _sql(self, statement: str, effect: Callable[[], object]) -> Change:
        def commit() -> None:
            self._spark.sql(f"REFRESH TABLE {self.name}")
            self._spark.sql(statement).collect()

        return Change(commit=commit, effect=effect)

    # -- schema -----------------------------------------------------------------------------------

    def _schema(self) -> Change:
        columns = self._columns
        extra = [c for c in columns if c.id not in (self._id.id, self._day.id, self._text.id, self._n.id)]
        n = next(c for c in columns if c.id == self._n.id)
        ways: list[Callable[[], Change]] = []
        if len(columns) < MOST_COLUMNS:
            ways.append(self._add_column)
        if extra:
            column = self._dice.choice(extra)
            ways += [lambda: self._drop_column(column), lambda: self._rename_column(column)]
        if n.kind == "int":
            ways.append(lambda: self._widen(n))
        return (self._dice.choice(ways) if ways else self._append)()

    def _add_column(self) -> Change:
        name, kind = f"c{self._new_text()}", self._dice.choice(sorted(_SPARK))
        default = self._value(kind) if self._version >= 3 and self._dice.random() < 0.5 else None
        iceberg: Any = jvm(self._spark).org.apache.iceberg
        java_type = iceberg.types.Types.fromPrimitiveString(kind)

        def commit() -> None:
            change = self._stream.java.updateSchema()
            if default is None:
                change.addColumn(name, java_type).commit()
            else:
                literal = iceberg.expressions.Literal.of(default).to(java_type)
                change.addColumn(name, java_type, None, literal).commit()

        def effect() -> None:
            [added] = [c for c in self._stream.columns() if c.name == name]
            for row in self.rows.values():
                row[added.id] = default

        return self._of_schema(commit, effect)

    def _drop_column(self, column: Column) -> Change:
        return self._of_schema(lambda: self._stream.java.updateSchema().deleteColumn(column.name).commit())

    def _rename_column(self, column: Column) -> Change:
        name = f"r{self._new_text()}"
        return self._of_schema(lambda: self._stream.java.updateSchema().renameColumn(column.name, name).commit())

    def _widen(self, column: Column) -> Change:
        long = jvm(self._spark).org.apache.iceberg.types.Types.fromPrimitiveString("long")
        return self._of_schema(lambda: self._stream.java.updateSchema().updateColumn(column.name, long).commit())

    def _of_schema(self, commit: Callable[[], object], effect: Callable[[], object] = lambda: None) -> Change:
        before = self._columns
        return Change(commit=commit, effect=effect, landed=lambda: self._stream.columns() != before)

    # -- rows -------------------------------------------------------------------------------------

    def _new_rows(self, day: int) -> list[dict[int, Any]]:
        rows = []
        for _ in range(self._dice.randint(1, 30)):
            rows.append(self._row(self._next_id * DAYS + day))
            self._next_id += 1
        return rows

    def _row(self, number: int) -> dict[int, Any]:
        row = {c.id: self._value(c.kind) for c in self._columns}
        return {**row, self._id.id: number, self._day.id: number % DAYS, self._text.id: self._new_text()}

    def _value(self, kind: str) -> Any:
        if self._dice.random() < 0.2:
            return None
        number = self._dice.randint(-1000, 1000)
        return {"int": number, "long": number * 10**12, "double": number / 7, "string": f"v{number}"}[kind]

    def _new_text(self) -> str:
        self._serial += 1
        return f"t{self._serial}"

    def _some(self, most: int) -> list[int]:
        return self._dice.sample(sorted(self.rows), min(len(self.rows), self._dice.randint(1, most)))

    def _put(self, rows: Sequence[Row]) -> None:
        for row in rows:
            self.rows[row[self._id.id]] = dict(row)

    def _drop(self, ids: Sequence[int]) -> None:
        for number in ids:
            del self.rows[number]

    def _set_text(self, ids: Sequence[int], text: str) -> None:
        for number in ids:
            self.rows[number][self._text.id] = text

    # -- judging ----------------------------------------------------------------------------------

    def compare(self) -> Compared:
        """Hold the whole table against the oracle; nobody may be writing."""
        self._spark.sql(f"REFRESH TABLE {self.name}")
        columns = self._stream.columns()
        found: dict[int, list[tuple[Any, ...]]] = {}
        for row in self._spark.sql(f"SELECT * FROM {self.name}").collect():
            found.setdefault(row["id"], []).append(tuple(row[c.name] for c in columns))
        right = {number: tuple(row.get(c.id) for c in columns) for number, row in self.rows.items()}
        both = found.keys() & right.keys()
        wrong = [number for number in both if any(row != right[number] for row in found[number])]
        compared = Compared(
            rows=sum(map(len, found.values())),
            lost=len(right.keys() - found.keys()),
            duplicated=sum(len(rows) - 1 for rows in found.values()),
            resurrected=len(found.keys() - right.keys()),
            changed=len(wrong) + self._doubtful_row_ids(),
        )
        for what, ids in {
            "lost": right.keys() - found.keys(),
            "resurrected": found.keys() - right.keys(),
            "duplicated": {number for number, rows in found.items() if len(rows) > 1},
            "changed": set(wrong),
        }.items():
            if ids:
                shown = {number: (found.get(number), right.get(number)) for number in sorted(ids)[:5]}
                self.journal.append(f"{what}: {sorted(ids)}: {shown}")
        return compared

    def _doubtful_row_ids(self) -> int:
        """Rows of format version 3 without an id, or with that of another row."""
        if not self._lineage:
            return 0
        counted = self._spark.sql(f"SELECT count(*), count(DISTINCT _row_id) FROM {self.name}").collect()[0]
        return int(counted[0] - counted[1])


def _listed(ids: Sequence[int]) -> str:
    return ", ".join(map(str, ids))
