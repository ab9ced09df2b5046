"""Catalogs that do not answer: a call ends in time, and a commit without an answer is looked for."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from icepact.commit import protocol
from icepact.entrypoints.cli.main import _guarded
from icepact.iceberg.java import bridge as java
from icepact.model.errors import CatalogUnusable
from icepact.model.status import Status
from tests.support.compactors import short_compactor
from tests.support.oracle import seen
from tests.support.servers import silenced
from tests.support.servers.postgres import Postgres
from tests.support.servers.process import LOOPBACK, serving, tail
from tests.support.servers.rest import RestCatalog
from tests.support.servers.silenced import dead_since, limited
from tests.support.servers.silent import Line, line_to, talkative
from tests.support.servers.trial import ROOT, configuration, make_messy

NOBODY = (
    "catalog 'lake' does not answer (SocketTimeoutException: Read timed out): see whether it is up; "
    "if it is only slow, raise catalog_timeout in icepact.yaml"
)


@pytest.fixture
def line(rest_catalog: RestCatalog) -> Iterator[Line]:
    """To the REST catalog, not to the store."""
    with line_to(urlsplit(rest_catalog.uri).port) as line:
        yield line


def test_over_rest(
    rest_catalog: RestCatalog, line: Line, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(java, "READ_ATTEMPTS", 1)
    monkeypatch.setattr(protocol, "FIRST_WAIT", 0.0)
    maker = short_compactor(config=configuration(tmp_path / "maker", rest_catalog.properties))
    maker.spark.sql(f"CREATE NAMESPACE {table.split('.')[0]}")
    make_messy(maker.spark, table, version=2)
    before = seen(maker.spark, table)
    over = limited(tmp_path, {**rest_catalog.properties, "uri": f"http://{LOOPBACK}:{line.port}"}, "1s")
    commit = f"POST /v1/namespaces/{table.replace('.', '/tables/')} ".encode()

    line.rule = lambda asked: asked.startswith(commit) and not line.swallowed
    assert over.compact(table).status is Status.COMMITTED
    assert line.swallowed == 1

    line.rule = dead_since(commit)
    dead = over.compact(table, rewrite_all=True)
    assert dead.status is Status.UNKNOWN
    assert dead.error is not None
    assert "RESTException: Error occurred while processing POST request (SocketTimeoutException" in dead.error

    line.rule = talkative
    found = over.resume(dead.run_id)
    assert found.status is Status.COMMITTED

    line.swallowed = 0
    line.rule = lambda asked: asked.startswith(commit) and not line.swallowed
    assert over.rollback(table, dead.run_id) == over.application.spark_catalog.table(table).parent_of(
        found.snapshots[-1]
    )
    assert line.swallowed == 1
    assert seen(maker.spark, table) == before


def test_a_catalog_that_takes_calls_and_says_nothing(
    rest_catalog: RestCatalog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with line_to(None) as nobody:
        uri = f"http://{LOOPBACK}:{nobody.port}"
        compactor = limited(tmp_path, {**rest_catalog.properties, "uri": uri}, "0.2s")
        for ask in (compactor.tables, lambda: compactor.health("db.t"), compactor.fleet):
            with pytest.raises(CatalogUnusable) as told:
                ask()
            assert str(told.value) == NOBODY
        assert _guarded(["--config", str(tmp_path / "icepact.yaml"), "health", "db.t"]) == 1
        assert capsys.readouterr().err == f"icepact: {NOBODY}\n"


def test_over_jdbc(postgres: Postgres, tmp_path: Path) -> None:
    """In a process of its own, with the driver on its class path."""
    wanted, answer = tmp_path / "server.json", tmp_path / "answer.json"
    facts = {name: getattr(postgres, name) for name in ("port", "user", "password", "database")}
    wanted.write_text(json.dumps({**facts, "driver": str(postgres.driver)}))
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", silenced.__name__, str(wanted), str(answer)]
    with serving("silenced", command, folder=tmp_path, env={"PYTHONPATH": path}) as application:
        assert application.guard.wait() == 0, tail(application.log)
    found = json.loads(answer.read_text())
    assert (found["once"], found["swallowed"]) == ("committed", 1)
    status, error = found["dead"]
    assert status == "unknown"
    assert error.startswith("UncheckedSQLException: Unknown failure (SocketTimeoutException: Read timed out)")
    assert found["again"] == "committed"
    assert found["same"]
    assert found["line"].endswith("see whether the catalog is up, and answers in time")
    assert found["nobody"].startswith("catalog 'lake' does not answer (")
    assert "\n" not in found["line"] + found["nobody"]
    assert postgres.password not in answer.read_text()
