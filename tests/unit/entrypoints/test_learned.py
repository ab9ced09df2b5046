"""`icepact plan --learned`, without Spark."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from icepact.entrypoints.cli.flags import hoist
from icepact.entrypoints.cli.main import _guarded
from icepact.record.sql import SqlStore
from tests.support.records import NOON, run_outcome, run_record
from tests.unit.economics.test_learning import group

ELSEWHERE = ["--catalog", "prod", "--catalog-type", "rest", "--catalog-uri", "http://catalog.example"]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the record of six runs that saved half of the files that were predicted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ICEPACT_STATE", str(tmp_path))
    store = SqlStore.in_file(tmp_path / "icepact.db")
    for n in range(6):
        record = run_record(f"r{n}", catalog="prod", started_at=NOON + timedelta(hours=n))
        store.finish(store.begin(record), run_outcome(f"r{n}", groups=(group(output_files=10),)))
    store.close()
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a command answers."""
    assert _guarded(hoist(["plan", *words, *ELSEWHERE])) == 0
    return capsys.readouterr().out


def test_what_was_learned_is_shown_and_forgotten(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = said(capsys, "db.events", "--learned").splitlines()
    assert first[0] == "learned from 6 file groups of this table and 0 file groups of others"
    assert first[1].startswith("rewrites save ")
    document = json.loads(said(capsys, "db.events", "--learned", "--json"))
    assert (document["table"], document["own"]["groups"]) == ("db.events", 6)
    assert said(capsys, "db.events", "--learned", "--reset") == "what was learned about db.events is forgotten\n"
    assert said(capsys, "db.events", "--learned").startswith("nothing was learned yet")
    assert said(capsys, "db.other", "--learned").splitlines()[0].endswith("6 file groups of others")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["db.events", "--reset"], "--reset forgets what was learned: say --learned --reset"),
        (["db.events", "--learned", "--max-files", "3"], "--learned takes no options of a plan: leave out --max-files"),
        (["--learned"], "no table is given: write db.table"),
    ],
)
def test_bad_input_is_one_line(state: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str) -> None:
    assert _guarded(hoist(["plan", *words, *ELSEWHERE])) == 2
    assert capsys.readouterr().err == f"icepact: {message}\n"
