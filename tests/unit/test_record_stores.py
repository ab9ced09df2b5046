"""One behaviour suite over every record store."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from icepact.model.errors import BadInput
from icepact.model.outcome import Status
from icepact.record.memory import MemoryStore
from icepact.record.sqlite import SqliteStore
from icepact.record.store import RecordStore
from tests.support.records import NOON, run_outcome, run_record

STORES: dict[str, Callable[[Path], RecordStore]] = {
    "memory": lambda folder: MemoryStore(),
    "sqlite": lambda folder: SqliteStore(folder / "not" / "there" / "yet" / "icepact.db"),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> RecordStore:
    """Every store, empty."""
    return STORES[request.param](tmp_path)


def ids(store: RecordStore, **asked: object) -> list[str]:
    """Run ids in the order in which the store gives them."""
    return [record.run_id for record in store.runs(**{"catalog": "local", **asked})]


def test_an_empty_store_has_no_runs(store: RecordStore) -> None:
    assert store.runs(catalog="local") == []
    assert store.runs(catalog="local", table="db.events") == []


def test_a_run_that_has_begun_is_running(store: RecordStore) -> None:
    begun = run_record("r1")
    store.begin(begun)
    assert store.runs(catalog="local") == [begun]
    assert store.runs(catalog="local")[0].to_dict() == {
        "run_id": "r1",
        "catalog": "local",
        "table": "db.events",
        "branch": "main",
        "status": "running",
        "started_at": "2026-01-01T12:00:00+00:00",
        "finished_at": None,
        "outcome": None,
    }


@pytest.mark.parametrize("status", [s for s in Status if s is not Status.RUNNING])
def test_a_run_that_has_ended_says_how(store: RecordStore, status: Status) -> None:
    outcome = run_outcome("r1", status=status, error="disk full" if status is Status.FAILED else None)
    store.begin(run_record("r1"))
    store.finish(outcome)
    [record] = store.runs(catalog="local")
    assert (record.status, record.started_at, record.finished_at) == (status, NOON, NOON + timedelta(seconds=90))
    assert record.outcome == outcome.to_dict()
    assert json.loads(json.dumps(record.to_dict()))["outcome"]["groups"][0]["input_files"] == 6


def test_only_the_run_that_ended_has_ended(store: RecordStore) -> None:
    for run_id in ("r1", "r2"):
        store.begin(run_record(run_id))
    store.finish(run_outcome("r1"))
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


def test_runs_are_kept_apart_by_catalog_and_table(store: RecordStore) -> None:
    store.begin(run_record("r1"))
    store.begin(run_record("r2", table="db.other"))
    store.begin(run_record("r3", catalog="prod"))
    assert ids(store) == ["r2", "r1"]
    assert ids(store, table="db.events") == ["r1"]
    assert ids(store, catalog="prod") == ["r3"]
    assert ids(store, catalog="prod", table="db.other") == []
    assert ids(store, catalog="qa") == []


def test_odd_names_are_only_names(store: RecordStore) -> None:
    odd = "db.`x'; DROP TABLE runs; --`"
    store.begin(run_record("r1", table=odd))
    assert ids(store, table=odd) == ["r1"]
    assert ids(store, table="%") == []


def test_an_outcome_without_a_time_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="started_at must carry its time zone"):
        run_outcome("r1", started_at=datetime(2026, 1, 1))  # noqa: DTZ001


# -- SQLite alone ---------------------------------------------------------------------------------


def test_runs_survive_the_process(tmp_path: Path) -> None:
    path = tmp_path / "icepact.db"
    first = SqliteStore(path)
    first.begin(run_record("r1"))
    first.begin(run_record("r2"))
    first.finish(run_outcome("r1"))
    again = SqliteStore(path)
    assert again.runs(catalog="local") == first.runs(catalog="local")
    again.finish(replace(run_outcome("r2"), status=Status.SUPERSEDED))
    assert {r.run_id: r.status for r in first.runs(catalog="local")} == {
        "r1": Status.COMMITTED,
        "r2": Status.SUPERSEDED,
    }


def test_asking_makes_no_file(tmp_path: Path) -> None:
    assert SqliteStore(tmp_path / "state" / "icepact.db").runs(catalog="local") == []
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
        SqliteStore(path).begin(run_record("r1"))
    assert str(refused.value).startswith(f"the run history {path} cannot be used (")
    assert str(refused.value).endswith("): set ICEPACT_STATE")
