"""Traces: silent, exported, joined, and without secrets."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from icepact.model.errors import Cancelled, PermanentError
from icepact.telemetry import trace
from tests.support.collector import Collector, collecting

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture
def collector() -> Iterator[Collector]:
    """Spans go there; `trace.shutdown` sends what is left."""
    with collecting() as found:
        yield found


def test_without_a_setup_nothing_is_loaded_and_a_span_is_nothing() -> None:
    program = (
        "import sys; from icepact.telemetry import logs, metrics, trace\n"
        "assert not trace.setup() and trace.here() is None and trace.traceparent() is None\n"
        "with trace.span('x', files=1) as span: span.set(files=2); span.fail('no'); span.rename('y')\n"
        "metrics.run_ended(None, catalog='c', strategy='s'); trace.flush(); trace.shutdown(); metrics.shutdown()\n"
        "print([m for m in ('opentelemetry', 'prometheus_client', 'pydantic', 'json') if m in sys.modules])"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    answer = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert answer.stdout.strip() in ("[]", "['json']")


def test_a_silent_span_costs_next_to_nothing() -> None:
    """A compaction has some ten spans: all of them together take less than a tenth of a millisecond."""
    best = float("inf")
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(1000):
            with trace.span("planning", table="db.t") as span:
                span.set(files=1)
        best = min(best, time.perf_counter() - began)
    assert best / 1000 < 10e-6


def test_spans_are_parts_of_those_around_them(collector: Collector) -> None:
    with trace.span("compact_table", table="db.t") as whole:
        here = trace.here()
        with trace.span("planning"):
            pass
        whole.set(files=7, partitions=2, strategy="auto", odd=None, names=["a", "b"])
        with trace.span("execution", kind=trace.Kind.INTERNAL), trace.span("commit", within=here):
            pass
    trace.shutdown()
    root = collector.one("compact_table")
    assert collector.below(root) == ["planning", "execution", "commit"]
    assert root.attributes == {"table": "db.t", "files": 7, "partitions": 2, "strategy": "auto", "names": ["a", "b"]}
    assert (root.parent_id, root.kind, root.failed, root.service) == ("", "internal", False, "icepact")


def test_a_trace_from_elsewhere_is_continued_and_handed_on(collector: Collector) -> None:
    with trace.continued(PARENT), trace.span("POST", kind=trace.Kind.SERVER):
        handed_on = trace.traceparent()
    assert handed_on is not None

    def worker() -> None:
        with trace.continued(handed_on), trace.span("job", kind=trace.Kind.CONSUMER):
            pass

    thread = threading.Thread(target=worker)
    thread.start()
    thread.join()
    trace.shutdown()
    server, job = collector.one("POST"), collector.one("job")
    assert {server.trace_id, job.trace_id} == {PARENT.split("-")[1]}
    assert (server.parent_id, job.parent_id) == (PARENT.split("-")[2], server.span_id)
    assert (server.kind, job.kind) == ("server", "consumer")


def test_a_trace_is_handed_on_also_where_nobody_records_it() -> None:
    with trace.continued(PARENT):
        assert trace.traceparent() == PARENT
        with trace.continued(None):
            assert trace.traceparent() == PARENT
    assert trace.traceparent() is None


@pytest.mark.parametrize(
    "header",
    [
        "",
        "garbage",
        PARENT[:-1],
        PARENT.upper(),
        PARENT.replace("00-4", "ff-4"),
        f"{PARENT}-more",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-4bf92f3577b34da6a3ce929d0e0e4736-{'0' * 16}-01",
        "x" * 100_000,
    ],
)
def test_what_is_no_traceparent_begins_a_trace_of_its_own(header: str, collector: Collector) -> None:
    with trace.continued(header), trace.span("POST"):
        assert trace.traceparent() not in (None, header)
    trace.shutdown()
    assert collector.one("POST").parent_id == ""


def test_a_traceparent_of_a_later_version_is_understood() -> None:
    later = PARENT.replace("00-4", "01-4") + "-more"
    with trace.continued(later):
        assert trace.traceparent() == PARENT


def test_errors_are_recorded_without_secrets_and_cancelling_is_none(collector: Collector) -> None:
    with pytest.raises(PermanentError), trace.span("commit", uri="https://me:hush@host/x", password="hush"):
        raise PermanentError("cannot reach https://me:hush@host/x?token=hush")
    with pytest.raises(Cancelled), trace.span("execution"):
        raise Cancelled("somebody asked")
    with trace.span("compact_table") as span:
        span.fail("password=hush was refused")
    trace.shutdown()
    commit, execution, table = (collector.one(name) for name in ("commit", "execution", "compact_table"))
    assert (commit.failed, commit.why) == (True, "cannot reach https://***@host/x?token=***")
    assert commit.attributes == {"uri": "https://***@host/x", "password": "***", "error.type": "PermanentError"}
    assert commit.events[0]["exception.type"] == "PermanentError"
    assert (execution.failed, execution.attributes) == (False, {"cancelled": "somebody asked"})
    assert (table.failed, table.why) == (True, "password=*** was refused")
    assert not any(b"hush" in body for body in collector.bodies)


def test_headers_and_the_name_of_the_service_are_sent() -> None:
    with collecting(headers={"x-key": "k1"}, service="lake") as collector, trace.span("planning"):
        pass
    assert collector.headers[0]["x-key"] == "k1"
    assert collector.one("planning").service == "lake"


def test_variables_come_before_what_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    named = Collector()
    try:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", named.address)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "of-variables")
        assert trace.setup("http://127.0.0.1:9", service="configured")
        with trace.span("planning"):
            pass
        trace.shutdown()
        assert named.one("planning").service == "of-variables"
    finally:
        trace.shutdown()
        named.close()


@pytest.mark.parametrize(("name", "value"), [("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_TRACES_EXPORTER", "none")])
def test_variables_forbid_traces(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    assert not trace.setup("http://127.0.0.1:9")


def test_a_collector_that_is_not_there_costs_one_warning_and_no_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    assert trace.setup("http://me:hush@127.0.0.1:9")
    began = time.monotonic()
    for _ in range(3):
        with trace.span("planning"):
            pass
        assert time.monotonic() - began < 5
        trace.flush()
    trace.shutdown()
    said = [record.getMessage() for record in caplog.records]
    assert said == ["traces cannot be exported to 127.0.0.1: they are lost until it answers"]
    assert time.monotonic() - began < 8
