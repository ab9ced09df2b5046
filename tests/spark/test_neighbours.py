"""Other writers of the same table: commits wait for them, and catalogs may take a compaction back for them."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.model.outcome import Outcome
from icepact.model.progress import UnitDone
from icepact.model.status import Status
from tests.spark.test_orphans import old
from tests.spark.test_used_again import edit_metadata
from tests.spark.test_ways_to_hurt import append, call, head, ids, make_days
from tests.support.later import clean_up_later
from tests.support.meanwhile import Meanwhile
from tests.support.oracle import data_files
from tests.support.reach import on_disk

ROLLBACK = "polaris.internal.conflict-resolution.by-operation-type.replace"


@pytest.fixture
def days(spark: SparkSession, namespace: str) -> str:
    """Two partitions of three small files each, ids 0 to 29; odd ones on day 1."""
    return make_days(spark, namespace, 2)


def summary(compactor: Compactor, table: str, snapshot: int) -> dict[str, str]:
    """What a snapshot says of itself."""
    loaded = compactor.application.spark_catalog.table(table)
    loaded.refresh()
    return loaded.java.mapping(loaded.table.snapshot(snapshot).summary())


# -- quiet moments --------------------------------------------------------------------------------


def with_a_rhythm(compactor: Compactor, spark: SparkSession, table: str, *, gap: float, ago: float) -> None:
    """Three deletes, as if they had been made one after the other, the last one so many seconds ago."""
    for number in (0, 2, 4):
        spark.sql(f"DELETE FROM {table} WHERE id = {number}")
    now = time.time()

    def edit(document: dict[str, Any]) -> None:
        snapshots = sorted(document["snapshots"], key=lambda one: one["sequence-number"])
        times = {
            one["snapshot-id"]: int(1000 * (now - ago - gap * back)) for back, one in enumerate(reversed(snapshots))
        }
        for one in (*document["snapshots"], *document["snapshot-log"]):
            one["timestamp-ms"] = times[one["snapshot-id"]]

    edit_metadata(compactor, spark, table, edit)


class Writer:
    """Progress that has somebody change rows so many seconds after the run began to wait."""

    def __init__(self, seconds: float, act: Callable[[], object]) -> None:
        self.steps: list[str] = []
        self._seconds = seconds
        self._act = act
        self._thread = threading.Thread(target=self._later)
        self.acted = datetime.min.replace(tzinfo=UTC)

    def _later(self) -> None:
        time.sleep(self._seconds)
        self._act()

    def advance(self, done: UnitDone) -> None:
        """Nothing to do."""

    def step(self, name: str) -> None:
        """Begin."""
        self.steps.append(name)
        if name == "waiting" and self.steps.count(name) == 1:
            self._thread.start()

    def join(self) -> None:
        """Wait until it is done."""
        self._thread.join()


def test_a_commit_waits_for_a_periodic_writer_and_lands_at_once(
    compactor: Compactor, spark: SparkSession, days: str
) -> None:
    """What the writer deletes is taken along; nothing is done again, and the snapshot comes right after it."""
    with_a_rhythm(compactor, spark, days, gap=30, ago=20)
    writer = Writer(0.5, lambda: spark.sql(f"DELETE FROM {days} WHERE id = 6"))
    outcome = compactor.compact(days, commit_when="quiet", progress=writer)
    writer.join()
    assert outcome.status is Status.COMMITTED
    assert 0.3 < outcome.waited_seconds < 20
    assert outcome.wait_reason.startswith("others change rows every 30 s, and next in ")
    assert outcome.wait_reason.endswith("; that came")
    assert ids(spark, days) == [i for i in range(30) if i not in (0, 2, 4, 6)]
    assert writer.steps.index("waiting") < writer.steps.index("judged")
    [snapshot] = outcome.snapshots
    told = summary(compactor, days, snapshot)
    assert told["icepact.commit-id"] == f"{outcome.run_id}/0.1/1", "the first attempt of the first commit"
    assert float(told["icepact.waited-seconds"]) == pytest.approx(outcome.waited_seconds, abs=0.1)
    assert outcome.to_dict()["waited_seconds"] == outcome.waited_seconds
    [parent] = spark.sql(f"SELECT parent_id FROM {days}.snapshots WHERE snapshot_id = {snapshot}").collect()
    [before] = spark.sql(f"SELECT operation FROM {days}.snapshots WHERE snapshot_id = {parent[0]}").collect()
    assert before[0] in ("delete", "overwrite")


def test_nobody_is_waited_for_in_vain(compactor: Compactor, spark: SparkSession, days: str) -> None:
    """Neither where nobody asks for it, nor at a quiet moment, nor longer than the run may wait or last."""
    with_a_rhythm(compactor, spark, days, gap=3600, ago=1800 + 900)
    options: list[dict[str, Any]] = [
        {},
        {"commit_when": "now"},
        {"commit_when": "quiet", "max_commit_wait": "1m"},
        {"commit_when": "quiet", "max_commit_wait": "1h", "max_duration": "1m"},
    ]
    reasons = []
    for given in options:
        outcome = compactor.compact(days, rewrite_all=True, **given)
        assert (outcome.status, outcome.waited_seconds) == (Status.COMMITTED, 0.0)
        assert "icepact.waited-seconds" not in summary(compactor, days, outcome.snapshots[0])
        reasons.append(outcome.wait_reason)
    assert reasons[:2] == ["", ""]
    for reason in reasons[2:]:
        assert reason.startswith("others change rows every 1h, and next in ")
        assert reason.endswith(": later than may be waited for")


def test_the_run_waits_no_longer_than_it_may(compactor: Compactor, spark: SparkSession, days: str) -> None:
    """The change is late; all commits of the run share what they may wait."""
    with_a_rhythm(compactor, spark, days, gap=60, ago=70)
    outcome = compactor.compact(days, commit_when="quiet", max_commit_wait="1.5s", max_commits=2)
    assert (outcome.status, len(outcome.snapshots)) == (Status.COMMITTED, 2)
    assert outcome.waited_seconds == pytest.approx(1.5, abs=0.5)
    assert "that did not come" in outcome.wait_reason


def test_a_run_that_is_cancelled_does_not_wait_on(compactor: Compactor, spark: SparkSession, days: str) -> None:
    with_a_rhythm(compactor, spark, days, gap=600, ago=500)
    before = head(spark, days)

    def cancel() -> None:
        [run] = compactor.runs(days, open_only=True)
        compactor.cancel(run.run_id)

    started = time.monotonic()
    outcome = compactor.compact(days, commit_when="quiet", max_commit_wait="10m", progress=Meanwhile("waiting", cancel))
    assert (outcome.status, head(spark, days)) == (Status.CANCELLED, before)
    assert time.monotonic() - started < 60


# -- inputs that others take ----------------------------------------------------------------------


def test_a_group_goes_on_without_an_input_that_is_gone(compactor: Compactor, spark: SparkSession, days: str) -> None:
    """An update writes one of three files anew: the other two become one, in the second round."""
    spark.sql(f"ALTER TABLE {days} SET TBLPROPERTIES ('write.update.mode' = 'copy-on-write')")
    before = len(data_files(spark, days))
    assert before == 6

    def update() -> None:
        spark.sql(f"UPDATE {days} SET key = 1000 WHERE id = 3")

    outcome = compactor.compact(days, min_input_files=2, progress=Meanwhile("proven", update))
    assert outcome.status is Status.COMMITTED
    assert sorted(group.input_files for group in outcome.groups) == [2, 3]
    assert len(data_files(spark, days)) == 3
    assert (outcome.files_before, outcome.files_after) == (6, 3)
    assert ids(spark, days) == list(range(30))
    assert spark.sql(f"SELECT key FROM {days} WHERE id = 3").collect()[0][0] == 1000
    clean_up_later(compactor, days)
    assert compactor.compact(days, min_input_files=2).status is Status.COMMITTED
    assert (len(data_files(spark, days)), ids(spark, days)) == (2, list(range(30)))


# -- rolled back ----------------------------------------------------------------------------------


def test_only_a_policy_that_says_so_lets_catalogs_take_a_compaction_back(
    compactor: Compactor, spark: SparkSession, days: str
) -> None:
    told = summary(compactor, days, compactor.compact(days).snapshots[0])
    assert ROLLBACK not in told
    spark.sql(f"ALTER TABLE {days} SET TBLPROPERTIES ('icepact.may-be-rolled-back' = 'true')")
    told = summary(compactor, days, compactor.compact(days, rewrite_all=True).snapshots[0])
    assert told[ROLLBACK] == "rollback"


def by_procedure(compactor: Compactor, spark: SparkSession, table: str, outcome: Outcome, before: int) -> None:
    """Somebody goes back; the snapshot stays in the table's metadata."""
    call(spark, f"rollback_to_snapshot('{table}', {before})")


def by_catalog(compactor: Compactor, spark: SparkSession, table: str, outcome: Outcome, before: int) -> None:
    """As Polaris does it: the branch goes back, the snapshot and its number are gone."""

    def edit(document: dict[str, Any]) -> None:
        gone = set(outcome.snapshots)
        document["snapshots"] = [one for one in document["snapshots"] if one["snapshot-id"] not in gone]
        document["snapshot-log"] = [one for one in document["snapshot-log"] if one["snapshot-id"] not in gone]
        document["refs"]["main"]["snapshot-id"] = document["current-snapshot-id"] = before
        document["last-sequence-number"] = max(one["sequence-number"] for one in document["snapshots"])

    edit_metadata(compactor, spark, table, edit)
    spark.sql(f"REFRESH TABLE {table}")


@pytest.fixture(params=[by_procedure, by_catalog])
def taken_back(request: pytest.FixtureRequest, compactor: Compactor, spark: SparkSession, days: str) -> Outcome:
    """A run that was rolled back for a delete, which has landed since."""
    before = head(spark, days)
    outcome = compactor.compact(days, may_be_rolled_back=True)
    assert outcome.status is Status.COMMITTED
    request.param(compactor, spark, days, outcome, before)
    spark.sql(f"DELETE FROM {days} WHERE id IN (3, 4)")
    return outcome


LEFT = [i for i in range(30) if i not in (3, 4)]


def test_a_run_that_was_rolled_back_is_known_and_done_anew(
    compactor: Compactor, spark: SparkSession, days: str, taken_back: Outcome
) -> None:
    written = {path for path in on_disk(spark, days) if taken_back.run_id in path and "/data/" in path}
    assert len(written) == 2
    health = compactor.health(days)
    assert health.notes == (f"run {taken_back.run_id} was rolled back: the next one does its work anew",)
    [run] = compactor.runs(days)
    assert run.status is Status.ROLLED_BACK
    assert len(compactor.plan(days).rewrites) == 2

    clean_up_later(compactor, days)
    assert written <= set(on_disk(spark, days)), "somebody may still read the snapshot"

    outcome = compactor.compact(days)
    assert outcome.status is Status.COMMITTED
    assert (len(data_files(spark, days)), ids(spark, days)) == (2, LEFT)
    assert compactor.plan(days).rewrites == ()
    assert compactor.health(days).notes == ()
    clean_up_later(compactor, days)
    assert written <= set(on_disk(spark, days))


def test_the_clean_up_knows_it_as_well(
    compactor: Compactor, spark: SparkSession, days: str, taken_back: Outcome
) -> None:
    written = {path for path in on_disk(spark, days) if taken_back.run_id in path}
    clean_up_later(compactor, days)
    assert compactor.runs(days)[0].status is Status.ROLLED_BACK
    assert written <= set(on_disk(spark, days))
    assert compactor.compact(days).status is Status.COMMITTED
    assert ids(spark, days) == LEFT


def test_files_of_a_snapshot_that_a_catalog_removed_go_as_orphans(
    compactor: Compactor, spark: SparkSession, days: str
) -> None:
    before = head(spark, days)
    outcome = compactor.compact(days, may_be_rolled_back=True)
    written = {path for path in on_disk(spark, days) if outcome.run_id in path}
    by_catalog(compactor, spark, days, outcome, before)
    assert compactor.orphans(days).status is Status.NOTHING_TO_DO
    assert written <= set(on_disk(spark, days))
    old(*written)
    assert compactor.orphans(days).status is Status.COMMITTED
    assert written.isdisjoint(on_disk(spark, days))
    assert ids(spark, days) == list(range(30))


def test_what_was_committed_later_or_expired_is_not_taken_for_rolled_back(
    compactor: Compactor, spark: SparkSession, days: str
) -> None:
    outcome = compactor.compact(days)
    spark.sql(f"ALTER TABLE {days} CREATE TAG kept AS OF VERSION {outcome.snapshots[0]}")
    for start in (100, 200, 300):
        append(spark, days, start, start + 2)
    call(spark, f"expire_snapshots(table => '{days}', older_than => TIMESTAMP '2999-01-01', retain_last => 1)")
    assert compactor.health(days).notes == ()
    assert compactor.runs(days)[0].status is Status.COMMITTED
    spark.sql(f"ALTER TABLE {days} DROP TAG kept")
    call(spark, f"expire_snapshots(table => '{days}', older_than => TIMESTAMP '2999-01-01', retain_last => 1)")
    assert compactor.health(days).notes == ()
    assert compactor.runs(days)[0].status is Status.COMMITTED
