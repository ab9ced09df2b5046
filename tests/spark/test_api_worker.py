"""The API with a real worker on real tables: asked over HTTP, done in Spark, answered as here."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.client import Client
from icepact.entrypoints.cli import main as cli
from icepact.model.errors import TableNotFound
from icepact.model.job import JobStatus
from icepact.model.outcome import Outcome
from icepact.schedule.worker import Worker
from tests.support.api import serving
from tests.support.oracle import seen

FILES = 6


@pytest.fixture
def table(spark: SparkSession, namespace: str) -> str:
    """Small files."""
    name = f"{namespace}.over_http"
    spark.sql(f"CREATE TABLE {name} (id bigint) USING iceberg TBLPROPERTIES ('format-version' = '2')")
    for batch in range(FILES):
        spark.range(batch * 10, batch * 10 + 10, 1, 1).writeTo(name).append()
    return name


@contextmanager
def working(compactor: Compactor) -> Iterator[None]:
    """A worker, until the block ends."""
    worker = Worker(compactor.application, compactor.application.store)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.stop()
        thread.join()


def test_a_table_from_health_to_compaction_over_http(
    compactor: Compactor, spark: SparkSession, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = seen(spark, table)
    with serving(compactor.application) as url, Client(url) as client, working(compactor):
        health = client.health(table)
        assert health.health.to_dict() == compactor.health(table).to_dict()
        assert table in [entry.table for entry in client.tables(fresh=True)]
        plan = client.plan(table, options={"min_input_files": 2})
        assert plan.plan.files_at_work == FILES
        job = client.compact(table, options={"min_input_files": 2})
        shown = list(client.progress(job))[-1]
        assert (shown.status, shown.progress.units) == (JobStatus.SUCCEEDED, 1)
        assert client.result(job).result is not None
        [run] = client.history(table)
        assert isinstance(run.outcome, Outcome)
        assert (run.run_id, run.outcome.files_before, run.outcome.files_after) == (shown.run_id, FILES, 1)
        assert client.costs(table)[0].runs == 1
        assert client.result(client.apply(plan)).result["status"] == "superseded"  # type: ignore[index]
        with pytest.raises(TableNotFound):
            client.health("nowhere.at_all")
        assert cli.run(["health", table, "--server", url]) == 0
    there = capsys.readouterr().out
    from icepact.entrypoints.cli.render import Renderer

    Renderer(as_json=False).health(compactor.health(table))
    assert there == capsys.readouterr().out
    assert seen(spark, table) == before
