"""Catalogs that carry a commit out and do not say so: Iceberg's client sends it again, and finds itself in the way."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos import ledger
from tests.chaos.answers import POSTGRES, SQLITE, rest_answers
from tests.support.servers.rest import RestCatalog


def test_a_rest_catalog_behind_a_gateway_that_loses_its_answer(rest_catalog: RestCatalog, tmp_path: Path) -> None:
    """On both format versions."""
    with rest_answers(tmp_path, rest_catalog) as answers:
        _committed([answers.trial(number, seed=7, worst=True) for number in (0, 1)])


def test_jdbc_catalogs_that_lose_the_connection(tmp_path_factory: pytest.TempPathFactory) -> None:
    """In an application of its own: drivers must be on the class path when Java starts."""
    path = tmp_path_factory.mktemp("answers") / "ledger.jsonl"
    words = ["answers", "--worst", "--count", "1", "--only", "postgres", "sqlite", "--ledger", str(path)]
    done = subprocess.run([sys.executable, "-m", "tests.chaos", *words], capture_output=True, text=True, check=False)
    entries = ledger.entries(path)
    assert [entry["kind"] for entry in entries] == [SQLITE, POSTGRES], done.stderr
    _committed(entries)


def _committed(entries: list[dict[str, object]]) -> None:
    for entry in entries:
        assert entry["clean"], entry
        assert entry["hit"], entry
        assert entry["status"] == "committed", entry
