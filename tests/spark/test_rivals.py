"""Histories that bring deleted rows back, on twin tables: one compacted by Spark's own procedures, one by icepact.

Spark's `rewrite_data_files` is stopped between its planning and its commit: a job of ours holds every task slot, so
the procedure plans on the driver, submits its job, and waits. Then the writers commit, all of them on the driver and
without a Spark job, and the slots are given back. No timing decides what comes first. That the writers did come
between is checked in the snapshots, and the pin by the sequence number that the outputs were given.

What each case asserts of Spark's side was measured with Iceberg 1.12.0, in the cases that lose nothing too.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any, Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.iceberg.java.bridge import Java, JavaError
from icepact.iceberg.table.staging import own_session, static_get
from icepact.model.errors import BadInput
from icepact.model.outcome import Outcome
from icepact.model.status import Status
from tests.support.java import jvm
from tests.support.meanwhile import Meanwhile
from tests.support.messy import convert_to_positions, equality_delete, load, scan_tasks
from tests.support.oracle import data_files, delete_files

_PATIENCE = 60


# -- tables and writers, all without Spark jobs ---------------------------------------------------------


def create(spark: SparkSession, table: str, *, version: int = 2, by_day: bool = False) -> None:
    """An empty table."""
    spark.sql(
        f"CREATE TABLE {table} (id bigint, day int) USING iceberg {'PARTITIONED BY (day)' if by_day else ''}"
        f" TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read')"
    )


def add(spark: SparkSession, table: str, *files: Iterable[int], day: int = 0) -> None:
    """Append files with these ids, in one commit."""
    java = load(spark, f"local.{table}")
    append = java.newAppend()
    for ids in files:
        append.appendFile(data_file(spark, java, ids, day))
    append.commit()


def data_file(spark: SparkSession, java: Any, ids: Iterable[int], day: int) -> Any:
    """A new file of the table's current spec."""
    iceberg, rows = jvm(spark).org.apache.iceberg, list(ids)
    path = Path(str(java.location()).removeprefix("file:")) / "data" / f"{uuid4()}.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = [
        pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("day", pa.int32(), metadata={"PARQUET:field_id": "2"}),
    ]
    pq.write_table(pa.table({"id": rows, "day": [day] * len(rows)}, schema=pa.schema(fields)), path)
    wanted = iceberg.MetricsConfig.getDefault()
    builder = (
        iceberg.DataFiles.builder(java.spec())
        .withPath(str(path))
        .withFormat("parquet")
        .withFileSizeInBytes(path.stat().st_size)
        .withMetrics(iceberg.parquet.ParquetUtil.fileMetrics(iceberg.Files.localInput(str(path)), wanted))
    )
    return (builder.withPartitionPath(f"day={day}") if java.spec().isPartitioned() else builder).build()


def delete(spark: SparkSession, table: str, *ids: int, day: int | None = None) -> None:
    """Commit an equality delete, as a streaming writer does."""
    partition = None if day is None else f"day={day}"
    equality_delete(spark, f"local.{table}", [{"id": i} for i in ids], columns=["id"], partition=partition)


def three_files(spark: SparkSession, table: str, *, version: int = 2) -> None:
    """Ids 0 to 29 in three small files."""
    create(spark, table, version=version)
    add(spark, table, range(10), range(10, 20), range(20, 30))


def three_days(spark: SparkSession, table: str) -> None:
    """Ids 0 to 29, the even ones on day 0 and the odd ones on day 1, two files each; day 2 has one file, id 99."""
    create(spark, table, by_day=True)
    add(spark, table, [99], day=2)
    for day in (0, 1):
        add(spark, table, range(day, 10, 2), range(10 + day, 30, 2), day=day)


# -- Spark's side ---------------------------------------------------------------------------------------


def until(answer: Callable[[], Any], what: str) -> None:
    """Look until it is so; fail rather than go on without."""
    deadline = time.monotonic() + _PATIENCE
    while not answer():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.02)


class Slots:
    """Every task slot of the session, held until `let_go`: whoever submits a job later waits, because Spark serves jobs
    in the order of their submission, and this one has as many tasks as there are slots."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._context = spark.sparkContext
        self._tracker = self._context.statusTracker()
        self._name = f"slots-{uuid4()}"
        self._thread = Thread(target=self._hold)

    def __enter__(self) -> Self:
        self._thread.start()
        until(lambda: self._tracker.getJobIdsForGroup(self._name), "the job that holds the slots is submitted")
        [self._job] = self._tracker.getJobIdsForGroup(self._name)
        return self

    def __exit__(self, *_: object) -> None:
        self.let_go()

    def _hold(self) -> None:
        slots = self._context.defaultParallelism
        self._context.setJobGroup(self._name, "holds every slot", interruptOnCancel=True)
        sleep = f"java_method('java.lang.Thread', 'sleep', {2 * _PATIENCE * 1000}L)"
        with suppress(*JavaError):  # cancelled: that is how it ends
            self._spark.range(0, slots, 1, slots).selectExpr(sleep).collect()

    def stop(self, call: Future[None]) -> None:
        """Wait until the call has submitted a job that comes after ours, and so waits for it."""
        until(lambda: call.done() or any(job > self._job for job in self._tracker.getActiveJobsIds()), "a job waits")
        assert not call.done(), call.result()

    def let_go(self) -> None:
        """Give the slots back."""
        self._context.cancelJobGroup(self._name)
        self._thread.join(_PATIENCE)


def rewrite_data_files(spark: SparkSession, table: str, **options: str) -> None:
    """Spark's own compaction, with its defaults but for the number of files that are worth it."""
    given = {"min-input-files": "2", **{name.replace("_", "-"): value for name, value in options.items()}}
    listed = ", ".join(f"'{word}'" for pair in given.items() for word in pair)
    spark.sql(f"CALL local.system.rewrite_data_files(table => '{table}', options => map({listed}))").collect()


def rewrite_meanwhile(spark: SparkSession, table: str, writers: Callable[[], None]) -> None:
    """Spark's compaction with writers between its planning and its commit."""
    with ThreadPoolExecutor(1) as pool, Slots(spark) as slots:
        call = pool.submit(rewrite_data_files, spark, table)
        slots.stop(call)
        writers()
        slots.let_go()
        call.result(_PATIENCE)


# -- what became of a table -----------------------------------------------------------------------------


def rows(spark: SparkSession, table: str, at: int | None = None) -> list[int]:
    """What readers see, of a snapshot if one is named."""
    version = "" if at is None else f" VERSION AS OF {at}"
    return sorted(row[0] for row in spark.sql(f"SELECT id FROM {table}{version}").collect())


def head(spark: SparkSession, table: str) -> int:
    """The newest snapshot."""
    return int(load(spark, f"local.{table}").currentSnapshot().snapshotId())


def since(spark: SparkSession, table: str, pin: int) -> list[tuple[int, str]]:
    """Snapshots after the pin and what they did, oldest first."""
    java, found = load(spark, f"local.{table}"), []
    snapshot = java.currentSnapshot()
    while int(snapshot.snapshotId()) != pin:
        found.append((int(snapshot.snapshotId()), str(snapshot.operation())))
        snapshot = java.snapshot(snapshot.parentId())
    return found[::-1]


def added_numbers(spark: SparkSession, table: str) -> set[int]:
    """Sequence numbers of the data files that the newest snapshot added."""
    live = f"SELECT sequence_number FROM {table}.entries WHERE status = 1 AND data_file.content = 0"
    return {row[0] for row in spark.sql(f"{live} AND snapshot_id = {head(spark, table)}").collect()}


def changed(spark: SparkSession, table: str) -> tuple[list[int], list[int]]:
    """Rows that the newest snapshot brought back, and those that it took away: a compaction should do neither."""
    parent = load(spark, f"local.{table}").currentSnapshot().parentId()
    before, after = Counter(rows(spark, table, parent)), Counter(rows(spark, table))
    return sorted((after - before).elements()), sorted((before - after).elements())


def without(*ids: int, more: Iterable[int] = ()) -> list[int]:
    """Ids 0 to 29 without some, and more."""
    return sorted([*(i for i in range(30) if i not in ids), *more])


# -- R1 and R3: deletes that come during the rewrite ------------------------------------------------------

Writer = Callable[[SparkSession, str], None]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A history, what it should leave, and what Spark's compaction makes of it."""

    before: Writer = three_files
    writers: Sequence[Writer]
    """Commit between planning and commit."""
    operations: Sequence[str]
    """Theirs, as the snapshots have them."""
    rows: Sequence[int]
    """What readers must see in the end."""
    back: Sequence[int]
    """What they see besides, after Spark's compaction."""


def _three_files_v3(spark: SparkSession, table: str) -> None:
    three_files(spark, table, version=3)


def _three_files_one_delete(spark: SparkSession, table: str) -> None:
    three_files(spark, table)
    delete(spark, table, 3)


def _delete_3(spark: SparkSession, table: str) -> None:
    delete(spark, table, 3)


def _delete_14(spark: SparkSession, table: str) -> None:
    delete(spark, table, 14)


def _append(spark: SparkSession, table: str) -> None:
    add(spark, table, range(100, 110))


def _convert(spark: SparkSession, table: str) -> None:
    convert_to_positions(spark, f"local.{table}", deleted=3)


CASES = {
    # Iceberg drops deletes that are older than all remaining data, and does not count the files that it adds
    "r1-append": Case(
        writers=(_delete_3, _append),
        operations=("delete", "append"),
        rows=without(3, more=range(100, 110)),
        back=[3],
    ),
    "r1-append-v3": Case(
        before=_three_files_v3,
        writers=(_delete_3, _append),
        operations=("delete", "append"),
        rows=without(3, more=range(100, 110)),
        back=[3],
    ),
    "r1-two-deletes": Case(
        writers=(_delete_3, _delete_14), operations=("delete", "delete"), rows=without(3, 14), back=[3]
    ),
    # nothing came after the delete, so it is not older than what came last: it stays
    "r1-one-delete": Case(writers=(_delete_3,), operations=("delete",), rows=without(3), back=[]),
    # the equality delete is allowed for; the position delete that replaced it is not looked for in a `replace`
    "r3-deleted-and-converted": Case(
        writers=(_delete_3, _convert), operations=("delete", "replace"), rows=without(3), back=[3]
    ),
    # the delete was applied when the rows were read, so it does not matter what became of it
    "r3-converted-only": Case(
        before=_three_files_one_delete, writers=(_convert,), operations=("replace",), rows=without(3), back=[]
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_deletes_during_the_rewrite(compactor: Compactor, spark: SparkSession, namespace: str, name: str) -> None:
    """R1 and R3, with Spark's own procedure from planning to commit."""
    case, theirs, ours = CASES[name], f"{namespace}.theirs", f"{namespace}.ours"
    for table in (theirs, ours):
        case.before(spark, table)

    def writers(table: str) -> None:
        for writer in case.writers:
            writer(spark, table)

    pin = load(spark, f"local.{theirs}").currentSnapshot()
    rewrite_meanwhile(spark, theirs, lambda: writers(theirs))
    history = since(spark, theirs, int(pin.snapshotId()))
    assert [operation for _, operation in history] == [*case.operations, "replace"]
    assert added_numbers(spark, theirs) == {pin.sequenceNumber()}
    assert rows(spark, theirs, history[-2][0]) == case.rows
    assert changed(spark, theirs) == (case.back, [])

    plan = compactor.plan(ours)
    writers(ours)
    outcome = compactor.apply(plan)
    assert rows(spark, ours) == case.rows
    assert outcome.status is Status.COMMITTED
    assert outcome.files_after == 1


# -- R2: deletes that are taken for dangling ---------------------------------------------------------------


def _old_and_new_spec(spark: SparkSession, table: str) -> None:
    """A file of an old, unpartitioned spec; two newer ones in partition day=7; a delete that applies to those two."""
    create(spark, table)
    add(spark, table, range(10), day=7)
    spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD day")
    add(spark, table, range(100, 110), range(200, 210), day=7)
    delete(spark, table, 5, 105, day=7)


def _move(spark: SparkSession, table: str) -> None:
    """Another compactor brings the old file into the partition, with its old number: now the delete applies to it."""
    java = load(spark, f"local.{table}")
    old = next(t.file() for t in scan_tasks(java) if t.file().specId() == 0)
    moved = data_file(spark, java, range(10), 7)
    java.newRewrite().dataSequenceNumber(old.dataSequenceNumber()).deleteFile(old).addFile(moved).commit()


MOVED = [i for i in (*range(10), *range(100, 110), *range(200, 210)) if i not in (5, 105)]
"""What readers see from then on."""


def _by_procedure(spark: SparkSession, table: str) -> None:
    """`rewrite_data_files` with `remove-dangling-deletes`, stopped where it looks for such deletes.

    First it waits for slots with its rewrite. Behind that we queue once more for all slots, and so get them before its
    next job, the one that finds out which deletes are needed.
    """
    pin = head(spark, table)
    with ThreadPoolExecutor(1) as pool, Slots(spark) as first:
        call = pool.submit(rewrite_data_files, spark, table, remove_dangling_deletes="true")
        first.stop(call)
        with Slots(spark) as second:
            first.let_go()
            second.stop(call)
            assert [operation for _, operation in since(spark, table, pin)] == ["replace"]  # the rewrite has landed
            _move(spark, table)
        with pytest.raises(JavaError, match="Cannot remove dangling deletes: current snapshot changed"):
            call.result(_PATIENCE)
    assert [operation for _, operation in since(spark, table, pin)] == ["replace", "replace"]


def _by_plain_commit(spark: SparkSession, table: str) -> None:
    """`RewriteFiles` with the delete that only the inputs needed at the pin."""
    group = planned_group(spark, table, 7)
    write_group(spark, table, group)
    java, sets = load(spark, f"local.{table}"), jvm(spark).java.util.Set
    pin = head(spark, table)
    needed = [str(task.file().location()) for task in scan_tasks(java) if not task.deletes().isEmpty()]
    assert sorted(needed) == sorted(
        str(file.location()) for file in Java(spark.sparkContext._gateway).items(group.rewrittenFiles())
    )
    needless = sets.of(group.fileScanTasks().get(0).deletes().get(0))
    _move(spark, table)
    rewrite = java.newRewrite().validateFromSnapshot(pin)
    rewrite.rewriteFiles(group.rewrittenFiles(), needless, group.addedFiles(), sets.of()).commit()
    assert [operation for _, operation in since(spark, table, pin)] == ["replace", "replace"]


@pytest.mark.parametrize(
    ("by_spark", "back"),
    [
        pytest.param(_by_procedure, [], id="r2-procedure"),
        pytest.param(_by_plain_commit, [5], id="r2-plain-commit"),
    ],
)
def test_a_delete_is_needed_again(
    compactor: Compactor,
    spark: SparkSession,
    namespace: str,
    by_spark: Writer,
    back: list[int],
) -> None:
    """R2. Spark's procedure does not fall for it: it fails if anything was committed since it looked, after its rewrite
    has landed. The commit beneath it checks nothing about deletes that it removes."""
    theirs, ours = f"{namespace}.theirs", f"{namespace}.ours"
    for table in (theirs, ours):
        _old_and_new_spec(spark, table)

    by_spark(spark, theirs)
    assert rows(spark, theirs) == sorted([*MOVED, *back])
    assert len(delete_files(spark, theirs)) == (0 if back else 1)

    plan = compactor.plan(ours)
    _move(spark, ours)
    outcome = compactor.apply(plan)
    assert rows(spark, ours) == MOVED
    assert outcome.status is Status.COMMITTED
    assert len(delete_files(spark, ours)) == 1


def test_r2_global(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """A delete of an unpartitioned spec applies everywhere; here no file of that spec is left. Both keep it."""
    theirs, ours = f"{namespace}.theirs", f"{namespace}.ours"
    for table in (theirs, ours):
        create(spark, table)
        spark.sql(f"ALTER TABLE {table} ADD PARTITION FIELD day")
        add(spark, table, range(10), range(10, 20), day=1)
        add(spark, table, range(20, 30), day=2)
        equality_delete(spark, f"local.{table}", [{"id": 3}, {"id": 23}], columns=["id"], unpartitioned=True)
    rewrite_data_files(spark, theirs, remove_dangling_deletes="true")
    assert compactor.compact(ours, where="day = 1").status is Status.COMMITTED
    for table in (theirs, ours):
        assert rows(spark, table) == without(3, 23)
        assert (len(data_files(spark, table)), len(delete_files(spark, table))) == (2, 1)


# -- R4: two pins in one commit --------------------------------------------------------------------------


def planned_group(spark: SparkSession, table: str, day: int) -> Any:
    """The files of one day at the head, as the planner of Spark's action groups them."""
    iceberg, java = jvm(spark).org.apache.iceberg, load(spark, f"local.{table}")
    of_day = iceberg.expressions.Expressions.equal("day", day)
    planner = iceberg.actions.BinPackRewriteFilePlanner(java, of_day, head(spark, table), True)
    planner.init(jvm(spark).java.util.Map.of("min-input-files", "2"))
    groups = planner.plan().groups().iterator()
    group = groups.next()
    assert not groups.hasNext()
    return group


def write_group(spark: SparkSession, table: str, group: Any) -> None:
    """What the runner of Spark's action does with a group."""
    java = Java(spark.sparkContext._gateway, spark._jsparkSession)
    loaded, name = load(spark, f"local.{table}"), str(uuid4())
    cache = static_get(java, "org.apache.iceberg.spark.SparkTableCache")
    tasks = java.iceberg.spark.ScanTaskSetManager.get()
    session = own_session(java, spark, 0)
    cache.add(name, loaded)
    try:
        tasks.stageTasks(loaded, name, group.fileScanTasks())
        with java.active(session):
            read = session.read.format("iceberg").option("file-open-cost", "0").load(name)
            read.write.format("iceberg").option("distribution-mode", "none").mode("append").save(name)
        group.setOutputFiles(java.iceberg.spark.FileRewriteCoordinator.get().fetchNewFiles(loaded, name))
    finally:
        cache.remove(name)
        tasks.removeTasks(loaded, name)


@pytest.mark.parametrize(
    ("number_of", "back", "gone"),
    [pytest.param("second", [4], [], id="r4-newer-number"), pytest.param("first", [], [5], id="r4-older-number")],
)
def test_two_pins_in_one_commit(
    compactor: Compactor,
    spark: SparkSession,
    namespace: str,
    number_of: str,
    back: list[int],
    gone: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R4, with Iceberg's planner, staged rewrite and commit manager, which Spark's action is made of.

    The action itself has one pin and cannot do this; whoever keeps finished groups for a later commit can. Day 0 is
    read, then 4 is deleted there and 5 is replaced on day 1, then day 1 is read. With the newer pin's number 4 comes
    back; with the older one's the new 5 is deleted with the old.
    """
    theirs, ours = f"{namespace}.theirs", f"{namespace}.ours"
    for table in (theirs, ours):
        three_days(spark, table)
    expected = without(4, 7, more=[99]) if number_of == "second" else without(4, more=[99])

    def writers(table: str) -> None:
        delete(spark, table, 4, day=0)
        delete(spark, table, 5, day=1)
        add(spark, table, [5], day=1)
        if number_of == "second":  # a position delete that is not taken along: icepact too has a second pin
            monkeypatch.setattr("icepact.execute.late_deletes.MOST_ROWS", 0)
            spark.sql(f"DELETE FROM {table} WHERE id = 7")

    pins = {"first": head(spark, theirs)}
    groups = [planned_group(spark, theirs, 0)]
    write_group(spark, theirs, groups[0])
    writers(theirs)
    pins["second"] = head(spark, theirs)
    groups.append(planned_group(spark, theirs, 1))
    write_group(spark, theirs, groups[1])
    java = load(spark, f"local.{theirs}")
    manager = jvm(spark).org.apache.iceberg.actions.RewriteDataFilesCommitManager(java, pins[number_of], True)
    manager.commitFileGroups(jvm(spark).java.util.Set.of(*groups))
    assert since(spark, theirs, pins["second"]) == [(head(spark, theirs), "replace")]
    assert rows(spark, theirs, pins["second"]) == expected
    assert changed(spark, theirs) == (back, gone)

    plan = compactor.plan(ours)
    writers(ours)
    outcome = compactor.apply(plan)
    assert rows(spark, ours) == expected
    assert (outcome.status, len(outcome.groups)) == (Status.COMMITTED, 2)
    again = outcome.snapshots[:1] if number_of == "second" else ()
    assert pins_of(spark, ours, outcome) == [plan.snapshot_id, *again]


def pins_of(spark: SparkSession, table: str, outcome: Outcome) -> list[int]:
    """On which snapshot each of our commits stands."""
    java = load(spark, f"local.{table}")
    return [int(java.snapshot(s).summary()["icepact.pinned-snapshot-id"]) for s in outcome.snapshots]


# -- relatives: others at work during our run --------------------------------------------------------------

STEPS = ("proven", "attempting")
"""When the first group is written and proven, and between the judgement and the commit."""


@pytest.fixture(params=STEPS)
def step(request: pytest.FixtureRequest) -> str:
    """When the others come."""
    return str(request.param)


@pytest.fixture
def days(spark: SparkSession, namespace: str) -> str:
    """Three days, two of them worth compacting."""
    three_days(spark, f"{namespace}.t")
    return f"{namespace}.t"


def test_sparks_own_compaction_during_our_run(compactor: Compactor, spark: SparkSession, days: str, step: str) -> None:
    """It replaces all inputs: our groups are superseded, nothing of ours is in the table, and no row is doubled."""
    live: list[str] = []

    def compact() -> None:
        rewrite_data_files(spark, days)
        live.extend(data_files(spark, days))

    outcome = compactor.compact(days, progress=Meanwhile(step, compact))
    assert (outcome.status, outcome.snapshots) == (Status.SUPERSEDED, ())
    assert all(g.reason.startswith("superseded: 2 inputs are gone") for g in outcome.groups)
    assert rows(spark, days) == without(more=[99])
    assert data_files(spark, days) == live


def test_sparks_own_compaction_of_one_partition(compactor: Compactor, spark: SparkSession, days: str) -> None:
    """Only what it touched is given up."""

    def compact() -> None:
        options = "map('min-input-files', '2')"
        spark.sql(f"CALL local.system.rewrite_data_files(table => '{days}', where => 'day = 0', options => {options})")

    outcome = compactor.compact(days, progress=Meanwhile("attempting", compact))
    assert {g.partition: g.committed for g in outcome.groups} == {"day=0": False, "day=1": True}
    assert outcome.status is Status.PARTLY_COMMITTED
    assert rows(spark, days) == without(more=[99])
    assert len(data_files(spark, days)) == 3


def test_position_deletes_are_rewritten_during_our_run(
    compactor: Compactor, spark: SparkSession, days: str, step: str
) -> None:
    """Spark's `rewrite_position_delete_files` replaces the deletes of our inputs, in a `replace` that adds deletes."""
    spark.sql(f"DELETE FROM {days} WHERE id IN (4, 6)")

    def convert() -> None:
        options = "map('rewrite-all', 'true')"
        spark.sql(f"CALL local.system.rewrite_position_delete_files(table => '{days}', options => {options})")

    outcome = compactor.compact(days, progress=Meanwhile(step, convert))
    assert rows(spark, days) == without(4, 6, more=[99])
    assert outcome.status is Status.COMMITTED
    assert (len(data_files(spark, days)), delete_files(spark, days)) == (3, [])


def test_an_upgrade_and_a_deletion_vector_during_our_run(
    compactor: Compactor, spark: SparkSession, days: str, step: str
) -> None:
    """Position deletes of format 2 become part of a vector of format 3, and rows get ids."""
    spark.sql(f"DELETE FROM {days} WHERE id = 4")

    def upgrade() -> None:
        spark.sql(f"ALTER TABLE {days} SET TBLPROPERTIES ('format-version' = '3')")
        spark.sql(f"DELETE FROM {days} WHERE id = 6")

    outcome = compactor.compact(days, progress=Meanwhile(step, upgrade))
    assert rows(spark, days) == without(4, 6, more=[99])
    assert outcome.status is Status.COMMITTED
    assert len({row[0] for row in spark.sql(f"SELECT _row_id FROM {days}").collect()} - {None}) == 29


def test_the_pin_expires_during_our_run(compactor: Compactor, spark: SparkSession, days: str, step: str) -> None:
    """And a delete came before that: nobody can ask the history any more, the head has to do."""

    def expire() -> None:
        delete(spark, days, 4, day=0)
        add(spark, days, [100], day=0)
        expire_all(spark, days)

    outcome = compactor.compact(days, progress=Meanwhile(step, expire))
    assert rows(spark, days) == without(4, more=[99, 100])
    assert outcome.status is Status.COMMITTED
    assert len(known_snapshots(spark, days)) == 1 + len(outcome.snapshots)


def expire_all(spark: SparkSession, table: str) -> None:
    """Leave only the newest snapshot, and only its files."""
    load(spark, f"local.{table}").expireSnapshots().expireOlderThan(2**62).retainLast(1).commit()


def known_snapshots(spark: SparkSession, table: str) -> list[int]:
    """Snapshots that the table still knows."""
    return [row[0] for row in spark.sql(f"SELECT snapshot_id FROM {table}.snapshots").collect()]


def test_the_pin_expires_before_our_run(compactor: Compactor, spark: SparkSession, days: str) -> None:
    plan = compactor.plan(days)
    add(spark, days, [100], day=0)
    expire_all(spark, days)
    with pytest.raises(BadInput, match=r"has expired: plan again"):
        compactor.apply(plan)
    assert rows(spark, days) == without(more=[99, 100])


def test_inputs_are_replaced_and_their_files_deleted(compactor: Compactor, spark: SparkSession, days: str) -> None:
    """Another compactor replaces our inputs, and an expiry deletes them, before we have read them."""
    inputs, live = data_files(spark, days), []

    def replace_and_expire() -> None:
        rewrite_data_files(spark, days)
        add(spark, days, [100], day=2)  # files are deleted with the snapshot that removed them
        expire_all(spark, days)
        live.extend(data_files(spark, days))
        assert [path for path in inputs if Path(path.removeprefix("file:")).exists()] == [*set(inputs) & set(live)]

    outcome = compactor.compact(days, progress=Meanwhile("staged", replace_and_expire))
    assert rows(spark, days) == without(more=[99, 100])
    assert data_files(spark, days) == live
    assert (len(outcome.groups), outcome.snapshots) == (2, ())
    assert outcome.status is Status.SUPERSEDED
    assert all(g.reason.startswith("superseded: 2 inputs are gone") for g in outcome.groups)
    assert compactor.unblock(days) == 0, "this is no failure of the table"
