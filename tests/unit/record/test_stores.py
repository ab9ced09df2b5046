"""One behaviour suite over every record store."""

import json
import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from icepact.model.errors import BadInput, RunLost, StoreUnusable, TableBusy
from icepact.model.run import Attempt, Checkpoint, CommittedBatch, Failure, Owner, RunRecord
from icepact.model.status import TRANSITIONS, Status
from icepact.record import clock as clocks
from icepact.record.database import SCHEMA_VERSION
from icepact.record.kv.store import KvStore
from icepact.record.migrate import scripts, upgrade
from icepact.record.open import open_store
from icepact.record.sql import SqlStore
from icepact.record.store import RecordStore
from icepact.record.tables import METADATA
from tests.support.records import NOON, run_outcome, run_record
from tests.support.stores import SHARED, Clock, address_of, made


def ids(store: RecordStore, **asked: Any) -> list[str]:
    """Run ids in the order in which the store gives them."""
    return [record.run_id for record in store.runs(**{"catalog": "local", **asked})]


def test_an_outcome_of_a_later_version_does_not_hide_the_history(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = SqlStore.in_file(tmp_path / "icepact.db")
    for run_id in ("r1", "r2"):
        store.finish(store.begin(run_record(run_id)), run_outcome(run_id))
    store.close()
    with closing(sqlite3.connect(tmp_path / "icepact.db")) as file:
        file.execute(
            "UPDATE runs SET outcome = replace(outcome, '\"table\"', '\"of another kind\"') WHERE run_id = 'r1'"
        )
        file.commit()
    again = SqlStore.in_file(tmp_path / "icepact.db")
    assert {run.run_id: run.outcome is None for run in again.runs(catalog="local")} == {"r1": True, "r2": False}
    again.close()
    assert "the outcome of run r1 cannot be read" in caplog.text


def test_an_empty_store_has_no_runs(store: RecordStore) -> None:
    assert store.runs(catalog="local") == []
    assert store.runs(catalog="local", table="db.events") == []


def test_a_run_that_has_begun_is_running(store: RecordStore) -> None:
    begun = run_record("r1")
    store.begin(begun)
    assert store.runs(catalog="local") == [begun]
    assert store.run("r1") == begun
    assert store.run("r2") is None
    assert store.runs(catalog="local")[0].to_dict() == {
        "run_id": "r1",
        "catalog": "local",
        "table": "db.events",
        "branch": "main",
        "status": "running",
        "started_at": "2026-01-01T12:00:00+00:00",
        "finished_at": None,
        "owner": None,
        "snapshots": [],
        "outcome": None,
        "recovered": None,
    }


ENDS = sorted(status for status in TRANSITIONS[Status.RUNNING] if not status.open)


@pytest.mark.parametrize("status", ENDS)
def test_a_run_that_has_ended_says_how(store: RecordStore, status: Status) -> None:
    outcome = run_outcome("r1", status=status, error="disk full" if status is Status.FAILED else None)
    store.finish(store.begin(run_record("r1")), outcome)
    [record] = store.runs(catalog="local")
    assert (record.status, record.started_at, record.finished_at) == (status, NOON, NOON + timedelta(seconds=90))
    assert record.outcome == outcome
    assert record.to_dict()["outcome"]["groups"][0]["input_files"] == 6


def test_all_commits_are_told_at_the_end(store: RecordStore) -> None:
    """Whether or not they could be noted when they landed."""
    claim = store.begin(run_record("r1"))
    landed = [
        CommittedBatch(commit_id=f"r1/{n}", snapshot_id=n, parent_id=n - 1, sequence_number=n, groups=[str(n)])
        for n in (1, 2)
    ]
    store.move(claim, Status.RUNNING, landed=landed[:1])
    open_end = Attempt(
        commit_id="r1/3", head=2, groups=["3"], started_at=NOON, deletes_since=2, deletes="0:", added_rows=-1
    )
    store.finish(claim, run_outcome("r1"), landed=landed, attempts=[open_end])
    found = store.run("r1")
    assert found is not None
    assert (list(found.landed), list(found.attempts)) == (landed, [open_end])
    [lean] = store.runs(catalog="local", outcomes=False)
    assert (lean.outcome, lean.landed) == (None, found.landed)


def test_what_became_of_an_attempt_can_be_told_after_the_end(store: RecordStore) -> None:
    claim = store.begin(run_record("r1"))
    store.finish(claim, run_outcome("r1"), attempts=[ATTEMPT])
    record = store.run("r1")
    assert record is not None
    store.reconciled(record, attempts=(), landed=[LANDED])
    now = store.run("r1")
    assert now is not None
    assert (now.status, now.attempts, now.landed) == (Status.COMMITTED, (), (LANDED,))
    with pytest.raises(RunLost):
        store.reconciled(record, attempts=(), landed=[LANDED])


def test_thousands_of_units_are_one_checkpoint(store: RecordStore) -> None:
    claim = store.begin(run_record("r1"))
    units = [Checkpoint(unit_id=f"u{n}", document={"n": n}) for n in range(1200)]
    store.checkpoint(claim, units)
    store.checkpoint(claim, units)
    assert len(store.checkpoints("r1")) == 1200


def test_only_the_run_that_ended_has_ended(store: RecordStore) -> None:
    claims = {run_id: store.begin(run_record(run_id)) for run_id in ("r1", "r2")}
    store.finish(claims["r1"], run_outcome("r1"))
    assert {r.run_id: r.status for r in store.runs(catalog="local")} == {
        "r1": Status.COMMITTED,
        "r2": Status.RUNNING,
    }


def test_the_newest_run_comes_first(store: RecordStore) -> None:
    moments = {"b": 0.0, "a": 0.0, "old": -1.0, "new": 3600.0, "soon": 0.5, "sooner": 0.25}
    for run_id, seconds in moments.items():
        store.begin(run_record(run_id, started_at=NOON + timedelta(seconds=seconds)))
    assert ids(store) == ["new", "soon", "sooner", "b", "a", "old"]


def test_time_zones_do_not_change_the_order(store: RecordStore) -> None:
    east = timezone(timedelta(hours=5))
    store.begin(run_record("later", started_at=NOON + timedelta(minutes=1)))
    store.begin(run_record("earlier", started_at=NOON.astimezone(east)))
    assert ids(store) == ["later", "earlier"]
    assert store.runs(catalog="local")[1].started_at == NOON


def test_a_limit_keeps_the_newest(store: RecordStore) -> None:
    for n in range(5):
        store.begin(run_record(f"r{n}", started_at=NOON + timedelta(minutes=n)))
    assert ids(store, limit=2) == ["r4", "r3"]
    assert len(ids(store, limit=100)) == 5


@pytest.mark.parametrize("given", [{}, {"table": "db.events"}, {"open_only": True}], ids=str)
def test_a_list_of_runs_goes_on_where_it_ended(store: RecordStore, given: dict[str, Any]) -> None:
    """After the moment and the id of the last one, be that one still there or not."""
    moments = {"b": 0.0, "a": 0.0, "abc": 0.0, "old": -1.0, "new": 3600.0}
    for run_id, seconds in moments.items():
        store.begin(run_record(run_id, started_at=NOON + timedelta(seconds=seconds)))
    everything = store.runs(catalog="local", **given)
    assert [run.run_id for run in everything] == ["new", "b", "abc", "a", "old"]
    for at, last in enumerate(everything):
        rest = store.runs(catalog="local", before=(last.started_at, last.run_id), limit=2, **given)
        assert [run.run_id for run in rest] == [run.run_id for run in everything[at + 1 : at + 3]]
    gone = (NOON, "aaa")
    assert [run.run_id for run in store.runs(catalog="local", before=gone, **given)] == ["a", "old"]


def test_runs_are_kept_apart_by_catalog_and_table(store: RecordStore) -> None:
    store.begin(run_record("r1"))
    store.begin(run_record("r2", table="db.other"))
    store.begin(run_record("r3", catalog="prod"))
    assert ids(store) == ["r2", "r1"]
    assert ids(store, table="db.events") == ["r1"]
    assert ids(store, catalog="prod") == ["r3"]
    assert ids(store, catalog="prod", table="db.other") == []
    assert ids(store, catalog="qa") == []


def test_recent_runs_ended_lately_or_began_lately(store: RecordStore, clock: Clock) -> None:
    long_ago = NOON - timedelta(hours=3)
    for name, started in (("over", long_ago), ("long", long_ago), ("dead", long_ago), ("open", NOON)):
        claim = store.begin(run_record(name, started_at=started))
        if name == "over":
            clock.now = NOON - timedelta(hours=2)
            store.finish(claim, run_outcome(name, started_at=started))
        elif name == "long":
            clock.now = NOON - timedelta(minutes=1)
            store.finish(claim, run_outcome(name, started_at=started))
    store.begin(run_record("elsewhere", catalog="other"))
    found = store.recent(catalog="local", since=NOON - timedelta(hours=1))
    assert [record.run_id for record in found] == ["open", "long"]
    assert found[1].outcome is not None
    assert found[1].outcome.groups[0].bytes_in == 600


def test_odd_names_are_only_names(store: RecordStore) -> None:
    odd = "db.`x'; DROP TABLE runs; --`"
    store.begin(run_record("r1", table=odd))
    assert ids(store, table=odd) == ["r1"]
    assert ids(store, table="%") == []


def test_an_outcome_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="started_at must carry its time zone"):
        run_outcome("r1", started_at=datetime(2026, 1, 1))  # noqa: DTZ001


# -- states ---------------------------------------------------------------------------------------

ATTEMPT = Attempt(commit_id="r1/0.1/1", head=7, groups=["g0001", "g0002"], started_at=NOON)
LANDED = CommittedBatch(commit_id="r1/0.1/1", snapshot_id=8, parent_id=7, sequence_number=3, groups=["g0001", "g0002"])
US = Owner(host="here", pid=1, born=2, boot="b")
THEM = Owner(host="there", pid=3, born=4, boot="c")


def test_a_commit_under_way_is_known(store: RecordStore) -> None:
    claim = store.begin(run_record("r1", owner=US, uuid="u-1"))
    store.move(claim, Status.COMMITTING, attempts=[ATTEMPT])
    record = store.run("r1")
    assert record is not None
    assert (record.status, record.attempts, record.owner, record.uuid) == (Status.COMMITTING, (ATTEMPT,), US, "u-1")
    store.move(claim, Status.RUNNING, attempts=(), landed=[LANDED])
    record = store.run("r1")
    assert record is not None
    assert (record.status, record.attempts, record.landed) == (Status.RUNNING, (), (LANDED,))


def test_commits_are_added_up(store: RecordStore) -> None:
    claim = store.begin(run_record("r1"))
    second = replace(LANDED, commit_id="r1/0.2/1", snapshot_id=9, parent_id=8, groups=["g0003"])
    for landed in ([LANDED], [LANDED, second]):
        store.move(claim, Status.COMMITTING, attempts=[ATTEMPT])
        store.move(claim, Status.RUNNING, attempts=(), landed=landed)
    record = store.run("r1")
    assert record is not None
    assert record.landed == (LANDED, second)


def test_an_unknown_commit_stays_known(store: RecordStore) -> None:
    """Whoever looks into it later must know which commit it was."""
    claim = store.begin(run_record("r1"))
    store.move(claim, Status.COMMITTING, attempts=[ATTEMPT])
    store.finish(claim, run_outcome("r1", status=Status.UNKNOWN), attempts=[ATTEMPT])
    record = store.run("r1")
    assert record is not None
    assert (record.status, record.attempts) == (Status.UNKNOWN, (ATTEMPT,))


@pytest.mark.parametrize(("origin", "to"), [(a, b) for a in TRANSITIONS for b in Status])
def test_a_run_goes_only_where_it_can(request: pytest.FixtureRequest, clock: Clock, origin: Status, to: Status) -> None:
    store = KvStore.in_memory(clock=clock)
    claim = store.begin(run_record("r1", status=origin))
    if to in TRANSITIONS[origin]:
        store.move(claim, to)
    else:
        with pytest.raises(RunLost, match=f"run r1 is {origin} by now, .* it cannot become {to}"):
            store.move(claim, to)
    record = store.run("r1")
    assert record is not None
    assert record.status is (to if to in TRANSITIONS[origin] else origin)


def test_whoever_lost_a_run_cannot_move_it(store: RecordStore) -> None:
    claim = store.begin(run_record("r1", owner=US))
    record = store.run("r1")
    assert record is not None
    taken = store.take(record, THEM, to=Status.RUNNING)
    for refused in (
        lambda: store.move(claim, Status.COMMITTING, attempts=[ATTEMPT]),
        lambda: store.finish(claim, run_outcome("r1")),
        lambda: store.checkpoint(claim, [Checkpoint(unit_id="u", document={})]),
        lambda: store.take(record, US, to=Status.RUNNING),
    ):
        with pytest.raises(RunLost):
            refused()
    store.move(taken, Status.COMMITTING, attempts=[ATTEMPT])
    store.finish(taken, run_outcome("r1"))
    after = store.run("r1")
    assert after is not None
    assert (after.status, after.owner, after.epoch) == (Status.COMMITTED, THEM, 1)


def test_a_run_that_moved_on_is_not_taken(store: RecordStore) -> None:
    """What was judged dead while it ran must be looked at again once it commits."""
    claim = store.begin(run_record("r1"))
    seen = store.run("r1")
    assert seen is not None
    store.move(claim, Status.COMMITTING, attempts=[ATTEMPT])
    with pytest.raises(RunLost):
        store.take(seen, THEM, to=Status.FENCED)


def test_a_run_with_another_attempt_is_not_taken(store: RecordStore) -> None:
    """The state has the same name again, but what was judged is another commit by now."""
    claim = store.begin(run_record("r1"))
    store.move(claim, Status.COMMITTING, attempts=[ATTEMPT])
    seen = store.run("r1")
    assert seen is not None
    store.move(claim, Status.RUNNING)
    store.move(claim, Status.COMMITTING, attempts=[replace(ATTEMPT, commit_id="r1/0.1/2", head=9)])
    with pytest.raises(RunLost):
        store.take(seen, THEM, to=Status.FENCED)
    now = store.run("r1")
    assert now is not None
    assert store.take(now, THEM, to=Status.FENCED).epoch == 1


def test_of_many_takers_one_wins(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> None:
    for kind in SHARED:
        store = made(kind, request, tmp_path / kind, clock)
        store.begin(run_record("r1"))
        record = store.run("r1")
        assert record is not None

        def take(number: int, store: RecordStore = store, record: RunRecord = record) -> bool:
            try:
                store.take(record, Owner(host="h", pid=number, born=1), to=Status.FENCED)
            except RunLost:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sorted(pool.map(take, range(8))) == [False] * 7 + [True]


def test_open_runs(store: RecordStore) -> None:
    claims = [store.begin(run_record(f"r{n}", started_at=NOON + timedelta(minutes=n))) for n in range(3)]
    store.finish(claims[1], run_outcome("r1"))
    assert ids(store, open_only=True) == ["r2", "r0"]


def test_runs_that_worked(store: RecordStore) -> None:
    """Those that had nothing to do would drive the others out of whoever learns from the newest few."""
    claims = [store.begin(run_record(f"r{n}", started_at=NOON + timedelta(minutes=n))) for n in range(5)]
    ends = (Status.COMMITTED, Status.NOTHING_TO_DO, Status.FAILED, Status.NOTHING_TO_DO)
    for number, status in enumerate(ends):
        store.finish(claims[number], run_outcome(f"r{number}", status=status))
    assert ids(store, worked_only=True) == ["r2", "r0"]
    assert ids(store, worked_only=True, limit=1) == ["r2"]


def test_a_run_is_asked_to_stop(store: RecordStore) -> None:
    claim = store.begin(run_record("r1"))
    assert store.ask_to_cancel("r1")
    record = store.run("r1")
    assert record is not None
    assert record.cancel_asked
    store.finish(claim, run_outcome("r1", status=Status.CANCELLED))
    assert not store.ask_to_cancel("r1")
    assert not store.ask_to_cancel("nobody")


# -- plans and checkpoints ------------------------------------------------------------------------


def test_plans_and_checkpoints_come_back_as_they_were(store: RecordStore) -> None:
    claim = store.begin(run_record("r1"), b'{"plan": 1}' * 1000)
    other = store.begin(run_record("r2"))
    units = [Checkpoint(unit_id=f"g1-{n}", document={"n": n, "path": "s3://b/ü"}) for n in range(3)]
    store.checkpoint(claim, units[:2])
    store.checkpoint(claim, units[1:])
    store.checkpoint(other, [Checkpoint(unit_id="g1-0", document={"other": True})])
    assert store.plan("r1") == b'{"plan": 1}' * 1000
    assert (store.plan("r2"), store.plan("nobody")) == (b"", b"")
    assert store.checkpoints("r1") == units
    assert store.checkpoints("nobody") == []


def test_old_checkpoints_are_forgotten_and_runs_are_not(store: RecordStore) -> None:
    claims = {}
    for run_id in ("ended", "open"):
        claims[run_id] = store.begin(run_record(run_id), b"plan")
        store.checkpoint(claims[run_id], [Checkpoint(unit_id="u", document={})])
    store.finish(claims["ended"], run_outcome("ended"))
    assert store.forget(before=NOON) == 0
    assert store.forget(before=NOON + timedelta(hours=1)) == 1
    assert (store.plan("ended"), store.checkpoints("ended")) == (b"", [])
    assert (store.plan("open"), len(store.checkpoints("open"))) == (b"plan", 1)
    assert sorted(ids(store)) == ["ended", "open"]


# -- leases ---------------------------------------------------------------------------------------


def test_a_table_has_one_holder(store: RecordStore) -> None:
    lease = store.acquire("t", "r1", US, seconds=60)
    assert store.lease("t") == lease
    with pytest.raises(
        TableBusy, match=r"run r1 works on this table since 2026-01-01 12:00:00 UTC \(process 1 on here\)"
    ):
        store.acquire("t", "r2", THEM, seconds=60)
    assert store.acquire("other", "r2", THEM, seconds=60).token == 1
    store.release(lease)
    assert store.lease("t") is None
    assert store.acquire("t", "r2", THEM, seconds=60).token == 2


def test_a_lease_expires_unless_it_is_renewed(store: RecordStore, clock: Clock) -> None:
    lease = store.acquire("t", "r1", US, seconds=60)
    clock.passes(50)
    renewed = store.renew(lease, seconds=60)
    assert renewed is not None
    assert renewed.expires_at == NOON + timedelta(seconds=110)
    clock.passes(59)
    with pytest.raises(TableBusy):
        store.acquire("t", "r2", THEM, seconds=60)
    clock.passes(1)
    assert store.acquire("t", "r2", THEM, seconds=60).token == 2
    assert store.renew(lease, seconds=60) is None
    store.release(lease)  # of somebody who woke up late
    held = store.lease("t")
    assert held is not None
    assert held.run_id == "r2"


def test_a_lease_that_is_known_to_be_dead_is_not_waited_for(store: RecordStore) -> None:
    dead = store.acquire("t", "r1", US, seconds=60)
    lease = store.acquire("t", "r2", THEM, seconds=60, over=dead)
    with pytest.raises(TableBusy):
        store.acquire("t", "r3", US, seconds=60, over=dead)
    assert store.lease("t") == lease


def test_of_many_who_want_a_table_one_gets_it(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> None:
    for kind in SHARED:
        store = made(kind, request, tmp_path / kind, clock)

        def acquire(number: int, store: RecordStore = store) -> bool:
            try:
                store.acquire("t", f"r{number}", US, seconds=60)
            except TableBusy:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert sorted(pool.map(acquire, range(8))) == [False] * 7 + [True]


# -- failures -------------------------------------------------------------------------------------


def test_failures_are_counted_until_they_are_forgotten(store: RecordStore) -> None:
    once = Failure(signature="s1", partition="day=1", reason="disk full", count=0, last_at=NOON)
    twice = Failure(signature="s2", partition="day=2", reason="old", count=0, last_at=NOON)
    store.failed("u", once)
    store.failed("u", twice)
    store.failed("u", replace(twice, reason="new", last_at=NOON + timedelta(hours=1)))
    store.failed("elsewhere", once)
    assert store.failures("u") == [
        replace(once, count=1),
        replace(twice, reason="new", count=2, last_at=NOON + timedelta(hours=1)),
    ]
    assert store.forget_failures("u", ["s1", "unheard of"]) == 1
    assert [f.signature for f in store.failures("u")] == ["s2"]
    assert store.forget_failures("u") == 1
    assert len(store.failures("elsewhere")) == 1


# -- what was learned -----------------------------------------------------------------------------


def test_lessons_are_forgotten_by_table(store: RecordStore, clock: Clock) -> None:
    assert store.lessons_since("local", "db.events") is None
    store.forget_lessons("local", "db.events")
    clock.passes(60)
    store.forget_lessons("local", "db.other")
    assert store.lessons_since("local", "db.events") == NOON
    assert store.lessons_since("prod", "db.events") is None
    store.forget_lessons("local", "db.events")
    assert store.lessons_since("local", "db.events") == NOON + timedelta(seconds=60)


# -- migrations -----------------------------------------------------------------------------------


def test_the_newest_migration_is_the_one_that_is_expected() -> None:
    assert ScriptDirectory.from_config(scripts()).get_current_head() == SCHEMA_VERSION


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_migrations_make_the_tables_that_the_code_knows(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock, kind: str
) -> None:
    store = made(kind, request, tmp_path, clock)
    assert isinstance(store, SqlStore)
    (tmp_path / "not" / "there" / "yet").mkdir(parents=True)
    with store._engine.begin() as connection:
        upgrade(connection)
        context = MigrationContext.configure(connection, opts={"compare_type": False})
        assert compare_metadata(context, METADATA) == [] or {
            change[0] for change in compare_metadata(context, METADATA)
        } <= {"remove_table"}  # Alembic's own


def test_a_new_file_gets_the_tables_that_migrations_make(tmp_path: Path) -> None:
    for name in ("made", "migrated"):
        store = SqlStore.in_file(tmp_path / name)
        if name == "migrated":
            with store._engine.begin() as connection:
                upgrade(connection)
        store.begin(run_record("r1"))
        store.close()
    made_now, migrated = (_described(tmp_path / name) for name in ("made", "migrated"))
    assert made_now == migrated
    assert {"runs", "sheets", "alembic_version"} <= {name for name, _ in made_now}


def _described(path: Path) -> dict[tuple[str, str], Any]:
    """Tables and indexes of a file with their columns, and the version of the tables."""
    with closing(sqlite3.connect(path)) as connection:
        named = connection.execute("SELECT name, type FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'").fetchall()
        found: dict[tuple[str, str], Any] = {}
        for name, kind in named:
            rows = connection.execute(f"PRAGMA {kind}_info({name})").fetchall()
            found[name, kind] = sorted((row[1:] for row in rows), key=str) if kind == "table" else rows
        found["version", ""] = connection.execute("SELECT version_num FROM alembic_version").fetchall()
        return found


def test_a_history_from_before_migrations_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "icepact.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(
            "CREATE TABLE runs (run_id TEXT PRIMARY KEY, catalog TEXT NOT NULL, table_name TEXT NOT NULL,"
            " branch TEXT NOT NULL, status TEXT NOT NULL, started_at TEXT NOT NULL, finished_at TEXT, outcome TEXT)"
        )
        connection.execute(
            "INSERT INTO runs VALUES ('old', 'local', 'db.events', 'main', 'running', '2025-01-01T00:00:00+00:00',"
            " NULL, NULL)"
        )
        connection.commit()
    store = SqlStore.in_file(path)
    store.begin(run_record("new"))
    assert ids(store) == ["new", "old"]
    assert store.runs(catalog="local")[1].owner is None


def test_an_attempt_of_an_older_version_can_be_taken(tmp_path: Path) -> None:
    """There was one at most, and it did not say who made it."""
    path = tmp_path / "icepact.db"
    store = SqlStore.in_file(path)
    store.begin(replace(run_record("r1"), owner=US))
    told = {"commit_id": "r1/0.1/1", "head": 7, "groups": ["g"], "started_at": NOON.isoformat()}
    owner = {"host": US.host, "pid": US.pid, "born": US.born, "boot": US.boot, "space": US.space, "machine": "x"}
    with sqlite3.connect(path) as connection:
        connection.execute(
            "UPDATE runs SET status = 'committing', attempt = ?, owner = ?", (json.dumps(told), json.dumps(owner))
        )
    record = store.run("r1")
    assert record is not None
    assert record.attempts == (Attempt(commit_id="r1/0.1/1", head=7, groups=["g"], started_at=NOON, maker=US),)
    store.take(record, US, to=Status.RUNNING)


# -- PostgreSQL alone -----------------------------------------------------------------------------


def test_a_server_that_is_not_there_is_bad_input_and_keeps_its_secret() -> None:
    store = SqlStore("postgresql://me:s3cret@127.0.0.1:1/db")
    with pytest.raises(BadInput) as refused:
        store.begin(run_record("r1"))
    said = str(refused.value)
    assert said.startswith("the run history postgresql+psycopg://me:***@127.0.0.1:1/db cannot be used (")
    assert said.endswith("): see `store` in icepact.yaml")
    assert "s3cret" not in said


def test_secrets_after_the_question_mark_are_not_told() -> None:
    store = SqlStore("postgresql://me@127.0.0.1:1/db?password=s3cret&sslpassword=0ther")
    with pytest.raises(BadInput) as refused:
        store.begin(run_record("r1"))
    assert "s3cret" not in str(refused.value)
    assert "0ther" not in str(refused.value)


def test_a_broken_address_is_bad_input() -> None:
    with pytest.raises(BadInput, match="write postgresql://user@host/database"):
        SqlStore("my database")


# -- SQLite alone ---------------------------------------------------------------------------------


def test_runs_survive_the_process(tmp_path: Path) -> None:
    path = tmp_path / "icepact.db"
    first = SqlStore.in_file(path)
    claims = [first.begin(run_record("r1")), first.begin(run_record("r2"))]
    first.finish(claims[0], run_outcome("r1"))
    again = SqlStore.in_file(path)
    assert again.runs(catalog="local") == first.runs(catalog="local")
    again.finish(claims[1], replace(run_outcome("r2"), status=Status.SUPERSEDED))
    assert {r.run_id: r.status for r in first.runs(catalog="local")} == {
        "r1": Status.COMMITTED,
        "r2": Status.SUPERSEDED,
    }


def test_asking_makes_no_file(tmp_path: Path) -> None:
    assert SqlStore.in_file(tmp_path / "state" / "icepact.db").runs(catalog="local") == []
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("obstacle", ["a file in place of the folder", "a folder in place of the file", "no database"])
def test_a_place_that_cannot_be_used_is_bad_input(tmp_path: Path, obstacle: str) -> None:
    path = tmp_path / "state" / "icepact.db"
    if obstacle == "a file in place of the folder":
        path.parent.touch()
    elif obstacle == "a folder in place of the file":
        path.mkdir(parents=True)
    else:
        path.parent.mkdir()
        path.write_text("this is somebody's notebook, and no database at all" * 20)
    with pytest.raises(BadInput) as refused:
        SqlStore.in_file(path).begin(run_record("r1"))
    assert str(refused.value).startswith(f"the run history {path} cannot be used (")
    assert str(refused.value).endswith("): set ICEPACT_STATE")


def test_sheets_are_kept_while_they_are_live_and_there_is_room(store: RecordStore, clock: Clock) -> None:
    assert store.stats_by_manifest(["a"]) == {}
    store.keep_manifest_stats("t", {"a": b"1", "b": b"22"}, live={"a", "b"}, room=100)
    assert store.stats_by_manifest(["b", "a", "c"]) == {"a": b"1", "b": b"22"}
    store.keep_manifest_stats("t", {"c": b"333"}, live={"c"}, room=100)
    assert set(store.stats_by_manifest(["a", "b", "c"])) == {"a", "b", "c"}  # not yet: a rollback may bring them back
    clock.now += timedelta(days=2)
    store.keep_manifest_stats("u", {"d": b"4"}, live={"d"}, room=100)
    assert set(store.stats_by_manifest(["a", "b", "c", "d"])) == {"a", "b", "c", "d"}  # another table
    store.keep_manifest_stats("t", {"a": b"11"}, live={"a", "c"}, room=100)
    assert store.stats_by_manifest(["a", "b", "c", "d"]) == {"a": b"11", "c": b"333", "d": b"4"}
    store.keep_manifest_stats("t", {}, live={"a", "c"}, room=3)
    assert store.stats_by_manifest(["a", "b", "c", "d"]) == {"a": b"11", "d": b"4"}


def test_clocks_say_when_places_were_last_compacted(store: RecordStore) -> None:
    assert store.last_compacted("t", "main") == {}
    later = NOON + timedelta(hours=1)
    store.mark_compacted("t", "main", {"day=d1": "minor", "day=d2": "full"}, later)
    store.mark_compacted("t", "main", {"day=d1": "minor"}, NOON)  # told late
    store.mark_compacted("t", "main", {"day=d1": "major"}, NOON)
    store.mark_compacted("t", "audit", {"day=d1": "minor"}, NOON)
    assert store.last_compacted("t", "main") == {"day=d1": {"minor": later, "major": NOON}, "day=d2": {"full": later}}
    assert store.last_compacted("u", "main") == {}
    store.forget_compacted("t", "main", {"day=d1", "day=d3"})
    assert store.last_compacted("t", "main") == {"day=d2": {"full": later}}
    assert store.last_compacted("t", "audit") == {"day=d1": {"minor": NOON}}


@pytest.mark.parametrize("kind", ["postgres", "redis", "etcd"])
def test_a_server_tells_the_time(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Whoever has a clock that is hours off neither keeps a lease for ever nor loses it at once."""
    address = address_of(kind, request)
    right, wrong = (open_store(address) for _ in range(2))
    request.addfinalizer(right.close)
    request.addfinalizer(wrong.close)
    lease = right.acquire("table", "run", Owner(host="here", pid=1, born=1), seconds=3600)

    class Ahead(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime.now(UTC) + timedelta(hours=5)

    with monkeypatch.context() as patched:
        patched.setattr(clocks, "datetime", Ahead)
        assert abs(wrong.now() - datetime.now(UTC)) < timedelta(seconds=2)
        with pytest.raises(TableBusy):
            wrong.acquire("table", "another", Owner(host="there", pid=2, born=2), seconds=3600)
    assert right.lease("table") == lease


def test_a_history_that_can_only_be_read_is_read_without_writing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite itself wants to make files beside it, and fails where it cannot."""
    store = SqlStore.in_file(tmp_path / "icepact.db")
    store.begin(run_record("r1"))
    store.close()
    assert [file.name for file in tmp_path.iterdir()] == ["icepact.db"]
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    kept = SqlStore.in_file(tmp_path / "icepact.db")
    assert [run.run_id for run in kept.runs(catalog="local")] == ["r1"]
    assert [file.name for file in tmp_path.iterdir()] == ["icepact.db"]
    with pytest.raises(BadInput, match=r"is read-only; set ICEPACT_STATE to a folder that can be written$"):
        kept.begin(run_record("r2"))
    kept.close()


def test_runs_of_a_table_move_to_another_name_of_its_catalog(store: RecordStore) -> None:
    for run_id, uuid in (("r1", "mine"), ("r2", "others")):
        store.begin(replace(run_record(run_id), uuid=uuid))
    [first, _] = store.runs(catalog="local")
    store.forget_lessons("local", first.table)
    since = store.lessons_since("local", first.table)
    store.rename_catalog("local", "host (wh)", table=first.table, uuid="mine")
    assert [run.run_id for run in store.runs(catalog="host (wh)")] == ["r1"]
    assert [run.run_id for run in store.runs(catalog="local")] == ["r2"]
    assert store.lessons_since("host (wh)", first.table) == since


def test_a_store_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "runs.db"
    SqlStore(f"sqlite:///{file}").put_document("kind", "key", {})
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(StoreUnusable, match="a later version of icepact has made this record store"):
        SqlStore(f"sqlite:///{file}").document("kind", "key")
