"""Runs that the record store has lost are read from the table: by the library, the API, the client and the commands."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from icepact.app import Application
from icepact.entrypoints.cli import main as cli
from icepact.entrypoints.wiring import build_application
from icepact.model.errors import BadInput
from icepact.model.history import COMMIT_ID
from icepact.policy.options import Options
from tests.support.api import Served, as_json, served
from tests.support.jobs import THEM
from tests.support.listed import listed, snapshot, write_metadata
from tests.support.records import run_record

RUNS = [f"2026111509550{number}-61d347dc" for number in range(5)]
FILES = {"total-data-files": "4", "added-data-files": "1", "deleted-data-files": "9"}


def committed(number: int, run_id: str, **more: str) -> dict[str, Any]:
    """A snapshot that a run has made, as metadata has it."""
    return {**snapshot(number, **{COMMIT_ID: f"{run_id}/0.1/1", **more}), "parent-snapshot-id": number - 1}


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """With a table that five runs have compacted, and one that none has."""
    folder = tmp_path / "warehouse"
    folder.mkdir()
    listed(folder, [("db", name, "", "TABLE") for name in ("events", "clicks")])
    theirs = [{**snapshot(1), "parent-snapshot-id": None}]
    write_metadata(folder, "clicks", 1, theirs)
    write_metadata(folder, "events", 1, [*theirs, *(committed(at, run, **FILES) for at, run in enumerate(RUNS, 2))])
    for name, head in (("events", 6), ("clicks", 1)):
        file = folder / f"{name}-1.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), "current-snapshot-id": head}))
    return folder


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Application]:
    """Makes applications whose record store is empty."""
    monkeypatch.setenv("ICEPACT_STORE", "memory")
    return lambda folder: build_application(warehouse=folder)


@pytest.fixture
def api(tmp_path: Path, warehouse: Path) -> Iterator[Served]:
    """A service that knows nothing."""
    with served(tmp_path) as found:
        yield found


def test_an_application_with_an_empty_store_reads_them_without_spark(
    forgetful: Callable[[Path], Application], warehouse: Path
) -> None:
    application = forgetful(warehouse)
    found = application.runs("db.events", limit=3)
    assert [run.run_id for run in found] == RUNS[:1:-1]
    assert all(run.recovered and run.recovered.files_before == 12 for run in found)
    assert application._opened is None
    assert application.runs() == application.runs("db.events", open_only=True) == []
    assert list(application.runs("db.clicks")) == list(application.runs("db.nobody")) == []
    assert application.resume_dead("db.events", Options()) is None
    with pytest.raises(BadInput, match="there is no run"):
        application.resume(RUNS[0])
    assert list(application.costs("db.events")) == []


def test_a_store_that_knows_a_run_is_believed(forgetful: Callable[[Path], Application], warehouse: Path) -> None:
    application = forgetful(warehouse)
    application.store.begin(run_record("r1", catalog=application.catalog.recorded_as, owner=THEM))
    assert [run.run_id for run in application.runs("db.events")] == ["r1"]


def test_nothing_is_read_of_a_warehouse_that_is_not_there(
    forgetful: Callable[[Path], Application], tmp_path: Path
) -> None:
    application = forgetful(tmp_path / "none")
    assert list(application.runs("db.events")) == []
    assert application._opened is None


def test_the_api_answers_page_by_page(api: Served) -> None:
    with api.http() as http:
        found, cursor = [], None
        for expected in (2, 2, 1):
            asked = {"limit": 2, **({"cursor": cursor} if cursor else {})}
            page = as_json(http.get("/api/v1/tables/db.events/history", params=asked), 200)
            assert len(page["items"]) == expected
            found += [run["run_id"] for run in page["items"]]
            cursor = page["next"]
        assert (found, cursor) == (RUNS[::-1], None)
        first = as_json(http.get("/api/v1/runs", params={"table": "db.events"}), 200)["items"][0]
        assert (first["status"], first["outcome"], first["dead"], first["snapshots"]) == ("committed", None, None, [6])
        assert first["recovered"]["files_after"] == 4
        for nothing in ("/tables/db.clicks/history", "/tables/db.nobody/history", "/runs", "/runs?open_only=true"):
            assert as_json(http.get(f"/api/v1{nothing}"), 200)["items"] == []
        as_json(http.get(f"/api/v1/runs/{RUNS[0]}"), 404)


def test_the_service_records_nothing_of_what_it_has_read(api: Served) -> None:
    with api.client() as client:
        assert [run.run_id for run in client.history("db.events")] == RUNS[::-1]
        assert list(client.costs("db.events")) == []
    assert list(api.service.store.runs(catalog=api.service.catalog.recorded_as)) == []


def test_the_name_of_a_run_in_a_summary_opens_nobody_elses_record(api: Served) -> None:
    """Who may write to a table could name any run there."""
    catalog = api.service.catalog.recorded_as
    api.service.store.begin(run_record(RUNS[0], catalog=catalog, table="db.others", owner=THEM))
    with api.http() as http:
        items = as_json(http.get("/api/v1/tables/db.events/history"), 200)["items"]
    assert (items[-1]["run_id"], items[-1]["table"], items[-1]["owner"]) == (RUNS[0], "db.events", None)


def test_the_commands_say_where_it_is_from(
    api: Served,
    warehouse: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ICEPACT_STORE", "memory")
    monkeypatch.setenv("COLUMNS", "200")
    here = ["--warehouse", str(warehouse)]
    printed = []
    for where in (here, ["--server", api.url]):
        assert cli.run(["runs", "db.events", "--limit", "1", *where]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    head, line, note = printed[0].splitlines()
    assert head.split()[:3] == ["run", "table", "what"]
    assert line.split() == [RUNS[-1], "db.events", "compact", "committed", "2026-11-15", "09:55:04", "12", "->", "4"]
    assert note == "the record store knows no run on db.events: its snapshots tell of these"
