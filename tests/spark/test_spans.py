"""Traces of real work: the parts of a compaction, and one trace from the request over the queue to the commit."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import httpx
import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.entrypoints.api.application import create_api
from icepact.entrypoints.serving import Service
from icepact.iceberg.names import parse_levels
from icepact.model.errors import Cancelled, CommitRefused
from icepact.policy.config import Config
from icepact.record.store import RecordStore
from icepact.schedule.jobs import Jobs
from icepact.schedule.requests import Names
from icepact.schedule.worker import Ended, Worker, WorkerSettings
from icepact.telemetry import metrics, trace
from icepact.telemetry.prometheus import WorkerMetrics
from tests.support.collector import Collector, Seen, collecting
from tests.unit.telemetry.test_metrics import value, values

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Where spans go."""
    with collecting() as found:
        yield found


@pytest.fixture
def table(spark: SparkSession, namespace: str) -> str:
    """Two partitions of three small files each."""
    name = f"{namespace}.t"
    spark.sql(f"CREATE TABLE {name} (id bigint, p bigint) USING iceberg PARTITIONED BY (p)")
    for _ in range(3):
        rows = spark.range(0, 20, 1, 1).selectExpr("id", "id % 2 AS p").sortWithinPartitions("p")
        rows.writeTo(name).append()
    return name


def whole(collector: Collector, name: str = "compact_table") -> Seen:
    """The span around all, once all have arrived."""
    trace.shutdown()
    return collector.one(name)


def test_a_compaction_is_planning_execution_and_commit(compactor: Compactor, table: str, collector: Collector) -> None:
    outcome = compactor.compact(table, min_input_files=2, strategy="small-files")
    root = whole(collector)
    assert collector.below(root) == ["planning", "execution", "commit"]
    assert {**root.attributes, "bytes": 0} == {
        **{"table": table, "strategy": "small-files", "partitions": 2, "files": 6, "groups": 2, "bytes": 0},
        **{"run": outcome.run_id, "status": "committed"},
    }
    assert (root.parent_id, root.failed) == ("", False)
    assert (collector.one("execution").attributes, collector.one("commit").attributes) == (
        {"groups": 2, "files": 6},
        {"batch": 1, "groups": 2, "files": 6},
    )
    assert root.began <= min(s.began for s in collector.spans) <= max(s.ended for s in collector.spans) <= root.ended


def test_commits_in_between_are_no_parts_of_the_execution(
    compactor: Compactor, table: str, collector: Collector
) -> None:
    compactor.compact(table, min_input_files=2, max_commits=2)
    root = whole(collector)
    assert sorted(collector.below(root)) == ["commit", "commit", "execution", "planning"]


def test_a_saved_plan_and_housekeeping_have_spans(
    compactor: Compactor, table: str, collector: Collector, tmp_path: Path
) -> None:
    plan = compactor.plan(table, min_input_files=2)
    compactor.save_plan(plan, tmp_path / "plan.json")
    compactor.apply(compactor.load_plan(tmp_path / "plan.json"))
    compactor.statistics(table)
    root = whole(collector)
    assert collector.below(root) == ["execution", "commit"]
    assert collector.below(collector.one("statistics_table")) == ["planning", "execution"]


def test_what_goes_wrong_is_told(
    compactor: Compactor, table: str, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise CommitRefused("the catalog said no to https://me:hush@host")

    monkeypatch.setattr("icepact.maintain.rounds.commit", refuse)
    compactor.compact(table, min_input_files=2)
    root = whole(collector)
    commit = collector.one("commit")
    assert (commit.failed, commit.why) == (True, "the catalog said no to https://***@host")
    assert (root.failed, root.attributes["status"], root.why) == (True, "failed", commit.why)
    assert not collector.one("planning").failed


def test_a_plan_that_was_not_confirmed_is_no_failure(compactor: Compactor, table: str, collector: Collector) -> None:
    from icepact.policy.options import Options

    with pytest.raises(Cancelled):
        compactor.application.compact(table, Options(min_input_files=2), confirm=lambda _: False)
    root = whole(collector)
    assert (root.failed, collector.below(root)) == (False, ["planning"])


def service(compactor: Compactor) -> Service:
    """The service on the catalog of these tests."""
    application = compactor.application
    store: RecordStore = application.store
    namespace = parse_levels("default")
    names = Names(catalog=application.catalog.name, namespace=namespace, strategies=application.policies.strategies)
    return Service(
        config=Config(),
        catalog=application.catalog,
        namespace=namespace,
        policies=application.policies,
        prices=application.prices,
        budgets=application.budgets,
        store=store,
        jobs=Jobs(store, application.catalog.recorded_as, names=names),
        clock=store.now,
    )


def test_one_trace_goes_from_the_request_over_the_queue_to_the_commit(
    compactor: Compactor, table: str, collector: Collector, tmp_path: Path
) -> None:
    asked = {"table": table, "strategy": "small-files", "options": {"min_input_files": 2}}
    api = create_api(service(compactor), workers=tmp_path)

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=api)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8080") as client:
            return await client.post("/api/v1/compact", json=asked, headers={"traceparent": PARENT})

    answer = asyncio.run(ask())
    assert answer.status_code == 202, answer.text
    assert "trace" not in answer.json()
    metrics.setup(tmp_path)
    ours = WorkerMetrics(tmp_path, host="127.0.0.1", port=0)
    try:
        application = compactor.application
        worker = Worker(application, application.store, settings=WorkerSettings(max_jobs=1))
        assert worker.run() is Ended.WORKED
        with urlopen(f"http://127.0.0.1:{ours.port}/metrics") as said:
            counted = values(said.read())
    finally:
        ours.close()
        metrics.shutdown()
    root = whole(collector)
    request, job = collector.one("POST /api/v1/compact"), collector.one("job compact")
    _, trace_id, parent_id, _ = PARENT.split("-")
    assert {span.trace_id for span in (request, job, root)} == {trace_id}
    assert (request.parent_id, job.parent_id, root.parent_id) == (parent_id, request.span_id, job.span_id)
    assert (request.kind, job.kind) == ("server", "consumer")
    assert collector.below(root) == ["planning", "execution", "commit"]
    assert (job.attributes["table"], job.attributes["status"]) == (table, "succeeded")
    assert job.attributes["run"] == root.attributes["run"]
    of = {"strategy": "small-files", "tenant": "default"}
    assert value(counted, "files_compacted_total", **of) == 6
    assert value(counted, "compactions_succeeded_total", status="committed", **of) == 1
    assert value(counted, "file_size_bytes_count", **of) == 2
    assert value(counted, "bytes_read_total", **of) == root.attributes["bytes"]
    assert value(counted, "compute_seconds_total", operation="compact", **of) > 0.001
