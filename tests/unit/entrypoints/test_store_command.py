"""`icepact store`, without Spark."""

import json
from pathlib import Path

import pytest

from icepact.entrypoints.cli.flags import hoist
from icepact.entrypoints.cli.main import _guarded
from icepact.record.sql import SqlStore
from tests.support.records import run_outcome, run_record


@pytest.fixture(autouse=True)
def _history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record store with one run in it."""
    monkeypatch.chdir(tmp_path)
    store = SqlStore.in_file(tmp_path / "icepact.db")
    store.finish(store.begin(run_record("r1"), b"plan"), run_outcome("r1"))
    store.close()


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command answers."""
    assert _guarded(hoist(["store", *words])) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Why a command is refused."""
    assert _guarded(hoist(["store", *words])) == 2
    return capsys.readouterr().err


def test_a_store_says_what_is_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = json.loads(said(capsys, "status", "sqlite:///icepact.db", "--json"))
    assert (rows["store"], rows["rows"]["runs"], rows["rows"]["jobs"]) == ("sqlite:///icepact.db", 1, 0)
    monkeypatch.setenv("ICEPACT_STATE", str(tmp_path))
    assert "runs                    1" in said(capsys, "status")


def test_a_store_is_copied_and_not_twice(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERE", "icepact.db")
    looked = json.loads(said(capsys, "copy", "sqlite:///${HERE}", "sqlite:///copy.db", "--dry-run", "--json"))
    assert (looked["copied"], Path("copy.db").exists()) == (False, False)
    assert said(capsys, "copy", "sqlite:///${HERE}", "sqlite:///copy.db").splitlines()[1].split() == ["runs", "1", "1"]
    copied = SqlStore("sqlite:///copy.db")
    run = copied.run("r1")
    assert run is not None
    assert (run.outcome, copied.plan("r1")) == (run_outcome("r1"), b"plan")
    copied.close()
    again = refused(capsys, "copy", "sqlite:///icepact.db", "sqlite:///copy.db")
    assert again == "icepact: there is something in that store already (1 runs): say --into-existing to add to it\n"
    said(capsys, "copy", "sqlite:///icepact.db", "sqlite:///copy.db", "--into-existing")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["copy", "sqlite:///a", "sqlite:///a"], "both are the same record store"),
        (["copy", "memory", "sqlite:///a"], "a record store in memory is of one process: there is nothing to copy"),
        (["status", "sqlite:///${ABSENT}"], "the environment variable ABSENT is not set"),
    ],
)
def test_what_cannot_be_copied_is_one_line(capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert refused(capsys, *words) == f"icepact: {message}\n"
