"""Metrics: what a run adds to them, from which process whoever asks has them, and that nothing is counted twice."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from icepact.model.effort import Effort
from icepact.model.errors import BadInput, StoreUnusable
from icepact.model.outcome import Outcome
from icepact.model.status import Status
from icepact.telemetry import metrics
from icepact.telemetry.ids import about
from icepact.telemetry.metrics import COUNTERS, GAUGES, HISTOGRAMS, REQUEST_SECONDS, STORE_UP, Reading
from icepact.telemetry.prometheus import ServiceMetrics, WorkerMetrics
from tests.support.records import run_outcome

OF_THE_ISSUE = [
    "files_compacted_total",
    "bytes_read_total",
    "bytes_written_total",
    "compactions_succeeded_total",
    "compactions_failed_total",
    "api_calls_total",
    "compute_seconds_total",
    "estimated_cost_total",
    "compaction_duration_seconds",
    "file_size_bytes",
    "compression_ratio",
    "pending_compactions",
    "active_compactions",
    "queue_depth",
    "last_compaction_timestamp_seconds",
    "small_files",
    "health_score",
    "estimate_error_ratio",
    "compaction_recommended",
]
BOUNDED = {"catalog", "tenant", "strategy", "status", "operation", "kind", "currency", "method", "route"}
Values = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


def values(text: str | bytes) -> Values:
    """All samples, as Prometheus's own parser reads them."""
    families = text_string_to_metric_families(text if isinstance(text, str) else text.decode())
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def value(found: Values, name: str, **labels: str) -> float:
    """The sum of samples with these labels, and perhaps others."""
    wanted = labels.items()
    mine = [number for (n, has), number in found.items() if n == f"icepact_{name}" and has >= frozenset(wanted)]
    assert mine, f"there is no {name} of {labels}"
    return sum(mine)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """This process is a worker that writes its counters there."""
    metrics.setup(tmp_path)
    yield tmp_path
    metrics.shutdown()


def outcome(run_id: str = "r1", **given: object) -> Outcome:
    """A compaction with an effort."""
    effort = Effort(seconds=1.5, requests=20, write_requests=3)
    return run_outcome(run_id, **{"effort": effort, "money": 0.25, "currency": "USD", **given})


def ended(one: Outcome, sizes: tuple[int, ...] = (), strategy: str = "auto") -> None:
    """A run has ended."""
    metrics.run_ended(one, catalog="lake", strategy=strategy, file_sizes=sizes)


def text_of(folder: Path) -> str:
    """What an API process says of its workers."""
    return ServiceMetrics(lambda: [], workers=folder).text().decode()


# -- what there is --------------------------------------------------------------------------------


def test_there_are_the_metrics_that_were_asked_for_with_bounded_labels() -> None:
    everything = [*COUNTERS, *HISTOGRAMS, *GAUGES, REQUEST_SECONDS, STORE_UP]
    assert set(OF_THE_ISSUE) <= {metric.name for metric in everything}
    for metric in everything:
        assert set(metric.labels) <= BOUNDED | ({"table"} if metric in GAUGES else set()), metric.name


def test_a_run_is_counted_with_all_that_it_did(folder: Path) -> None:
    with about(tenant="red"):
        ended(outcome(), sizes=(400, 2**29))
    found = values(text_of(folder))
    of = {"catalog": "lake", "tenant": "red", "strategy": "auto"}
    counted = {
        "files_compacted_total": 6,
        "bytes_read_total": 600,
        "bytes_written_total": 400,
        "compactions_succeeded_total": 1,
        "compactions_failed_total": 0,
        "api_calls_total": 20,
        "compute_seconds_total": 1.5,
        "estimated_cost_total": 0.25,
        "compaction_duration_seconds_sum": 90,
        "compaction_duration_seconds_count": 1,
        "file_size_bytes_count": 2,
        "compression_ratio_sum": 1.5,
    }
    assert {name: value(found, name, **of) for name in counted} == counted
    assert value(found, "api_calls_total", kind="write") == 3
    assert value(found, "compaction_duration_seconds_bucket", le="60.0") == 0
    assert value(found, "compaction_duration_seconds_bucket", le="120.0") == 1


@pytest.mark.parametrize("status", [Status.FAILED, Status.UNKNOWN, Status.CANCELLED])
def test_a_run_that_did_not_end_well_is_counted_by_its_status(folder: Path, status: Status) -> None:
    [group] = outcome().groups
    lost = replace(group, committed=False)
    never_written = replace(lost, output_files=0, bytes_out=0)
    ended(outcome(status=status, groups=(lost, never_written)))
    found = values(text_of(folder))
    assert value(found, "compactions_failed_total", status=status.value, tenant="default") == 1
    assert value(found, "compactions_failed_total") == 1
    assert (value(found, "files_compacted_total"), value(found, "bytes_read_total")) == (0, 600)
    assert not [name for name, _ in found if "succeeded" in name or "compression" in name]


def test_housekeeping_costs_and_is_no_compaction(folder: Path) -> None:
    ended(outcome(operation="expire", groups=()))
    found = values(text_of(folder))
    assert value(found, "compute_seconds_total", operation="expire") == 1.5
    assert not [name for name, _ in found if name.startswith("icepact_compaction")]


# -- where it is ----------------------------------------------------------------------------------


def test_several_workers_are_added_up_and_those_that_were_killed_stay(tmp_path: Path) -> None:
    program = f"""
        import sys, time
        from pathlib import Path
        from icepact.telemetry import metrics
        from tests.unit.telemetry.test_metrics import ended, outcome
        metrics.setup(Path({str(tmp_path)!r}))
        for n in range(int(sys.argv[1])):
            ended(outcome(), sizes=(10,))
        print("done", flush=True)
        time.sleep(60)
    """
    api = ServiceMetrics(lambda: [], workers=tmp_path)
    before = 0.0
    for runs in (1, 2):
        worker = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program), str(runs)], stdout=subprocess.PIPE, text=True
        )
        assert worker.stdout is not None
        with worker.stdout:
            assert worker.stdout.readline() == "done\n"
        during = value(values(api.text()), "files_compacted_total")
        assert during == before + 6 * runs
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        assert value(values(api.text()), "files_compacted_total") == during
        before = during
    assert value(values(api.text()), "file_size_bytes_bucket", le="+Inf") == 3


def test_counters_are_right_whoever_asks_meanwhile(folder: Path) -> None:
    api = ServiceMetrics(lambda: [], workers=folder)
    seen: list[float] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            found = [v for (name, _), v in values(api.text()).items() if name == "icepact_files_compacted_total"]
            seen.append(sum(found))

    watcher = threading.Thread(target=look)
    watcher.start()
    for _ in range(50):
        ended(outcome())
    stop.set()
    watcher.join()
    assert seen == sorted(seen)
    assert value(values(api.text()), "files_compacted_total") == 300


def test_workers_without_an_api_have_a_port_of_their_own(folder: Path) -> None:
    ended(outcome())
    ours = WorkerMetrics(folder, host="127.0.0.1", port=0)
    try:
        with urlopen(f"http://127.0.0.1:{ours.port}/metrics") as answer:
            found = values(answer.read())
        with pytest.raises(BadInput, match=f"metrics cannot be served at 127.0.0.1, port {ours.port}: Address already"):
            WorkerMetrics(folder, host="127.0.0.1", port=ours.port)
    finally:
        ours.close()
    assert value(found, "files_compacted_total") == 6
    assert ("process_resident_memory_bytes", frozenset()) in found
    assert not any(name.endswith("_created") for name, _ in found)


def test_a_folder_that_is_gone_fails_no_run(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    for _ in range(3):
        ended(outcome())
    assert [record.getMessage() for record in caplog.records] == [
        f"metrics cannot be written to {folder}: No such file or directory"
    ]
    assert "files_compacted" not in text_of(folder)


def test_what_is_no_file_of_a_worker_is_left_out(folder: Path) -> None:
    ended(outcome())
    (folder / "broken.prom").write_text("icepact_files_compacted_total{ 3")
    (folder / "half.prom").write_bytes(b"\xff\xfe")
    (folder / f"{os.getpid()}.tmp").write_text("icepact_files_compacted_total 7")
    assert value(values(text_of(folder)), "files_compacted_total") == 6


# -- gauges and requests --------------------------------------------------------------------------


def test_the_store_is_asked_now_and_then_and_may_be_away() -> None:
    asked = 0
    away = False

    def read() -> list[Reading]:
        nonlocal asked
        asked += 1
        if away:
            raise StoreUnusable("postgresql://me:hush@db is away")
        return [Reading(name="queue_depth", labels={"catalog": "lake", "tenant": 'red "1"\n'}, value=3)]

    api = ServiceMetrics(read, seconds=3600)
    for _ in range(3):
        found = values(api.text())
        assert value(found, "queue_depth", tenant='red "1"\n') == 3
    assert (asked, value(found, "record_store_up")) == (1, 1)
    away = True
    api = ServiceMetrics(read, seconds=0)
    api.request("GET", "/api/v1/jobs", 200, 0.012)
    found = values(api.text())
    assert value(found, "record_store_up") == 0
    assert value(found, "http_request_duration_seconds_count", route="/api/v1/jobs") == 1
    assert not any(name == "icepact_queue_depth" for name, _ in found)
    away = False
    assert value(values(api.text()), "queue_depth") == 3


def test_the_longest_one_of_a_hundred_requests_can_be_told_from_the_buckets() -> None:
    api = ServiceMetrics(lambda: [])
    for _ in range(98):
        api.request("GET", "/x", 200, 0.004)
    for _ in range(2):
        api.request("GET", "/x", 200, 1.5)
    found = values(api.text())
    assert value(found, "http_request_duration_seconds_bucket", le="0.005") == 98
    assert value(found, "http_request_duration_seconds_bucket", le="1.0") == 98
    assert value(found, "http_request_duration_seconds_bucket", le="2.0") == 100
