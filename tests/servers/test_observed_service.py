"""`icepact serve` as it is, watched from outside: one trace over its processes, its metrics, its logs."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.support.collector import Collector
from tests.support.servers.process import free_ports
from tests.unit.telemetry.test_metrics import value, values

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
_FILES = 3


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Where spans of all processes go."""
    made = Collector()
    yield made
    made.close()


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """An embedded warehouse with small files, made without Java."""
    folder = tmp_path / "warehouse"
    folder.mkdir()
    catalog = SqlCatalog("local", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=str(folder))
    catalog.create_namespace("shop")
    rows = pa.table({"id": pa.array(range(10), pa.int64())})
    table = catalog.create_table("shop.orders", schema=rows.schema)
    for _ in range(_FILES):
        table.append(rows)
    catalog.close()
    return folder


def test_a_service_can_be_watched(warehouse: Path, tmp_path: Path, collector: Collector) -> None:
    [port] = free_ports(1)
    telemetry = {"traces": collector.address, "logs": "json", "service_name": "lake"}
    settings = {"telemetry": telemetry, "spark": {"master": "local[2]"}, "warehouse": str(warehouse)}
    (tmp_path / "icepact.yaml").write_text(json.dumps(settings))
    log, url = tmp_path / "log", f"http://127.0.0.1:{port}"
    environment = {name: text for name, text in os.environ.items() if not name.startswith(("OTEL_", "ICEPACT_"))}
    command = "from icepact.entrypoints.cli.start import run; run()"
    with log.open("w") as sink:
        serve = subprocess.Popen(
            [sys.executable, "-c", command, "serve", "--port", str(port)], cwd=tmp_path, stderr=sink, env=environment
        )
    try:
        with httpx.Client(base_url=url, timeout=150) as client:
            _until_it_answers(client, serve, log)
            asked = {"table": "shop.orders", "options": {"min_input_files": 2}}
            answer = client.post("/api/v1/compact?wait=120s", json=asked, headers={"traceparent": PARENT})
            assert answer.status_code == 200, answer.text
            counted = values(client.get("/metrics").content)
        job = answer.json()
        assert job["status"] == "succeeded", job
    finally:
        serve.send_signal(signal.SIGTERM)
        code = serve.wait(60)
    assert code == 0, log.read_text()
    _is_one_trace(collector)
    assert value(counted, "files_compacted_total", tenant="default") == _FILES
    assert value(counted, "compactions_succeeded_total", status="committed") == 1
    assert value(counted, "last_compaction_timestamp_seconds") > 0
    assert value(counted, "http_request_duration_seconds_count", route="/api/v1/compact?wait") == 1
    _is_in_the_log(log, job["job_id"])


def _until_it_answers(client: httpx.Client, serve: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + 60
    while serve.poll() is None and time.monotonic() < until:
        try:
            if client.get("/readyz").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.05)
    raise AssertionError(log.read_text())


def _is_one_trace(collector: Collector) -> None:
    request = collector.one("POST /api/v1/compact?wait")
    job, table = collector.one("job compact"), collector.one("compact_table")
    _, trace_id, parent_id, _ = PARENT.split("-")
    assert {span.trace_id for span in (request, job, table)} == {trace_id}
    assert (request.parent_id, job.parent_id, table.parent_id) == (parent_id, request.span_id, job.span_id)
    assert collector.below(table) == ["planning", "execution", "commit"]
    assert {span.service for span in collector.spans} == {"lake"}
    assert table.attributes["files"] == _FILES


def _is_in_the_log(log: Path, job_id: str) -> None:
    """The worker's lines tell of the job and its trace; whatever is a document is one line."""
    events = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    mine = [event for event in events if event.get("job") == job_id]
    assert [event["message"] for event in mine][-1] == "compact shop.orders: succeeded"
    assert {event["trace"] for event in mine} == {PARENT.split("-")[1]}
    assert {event["tenant"] for event in mine} == {"default"}
    assert any(event["message"] == "POST /api/v1/compact: 200" for event in events)
