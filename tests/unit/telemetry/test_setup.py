"""What the configuration says about watching is done, by the library as by the processes of the service."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from icepact.entrypoints.service.work import Working
from icepact.entrypoints.wiring import build_application
from icepact.model.errors import BadInput
from icepact.telemetry import trace
from icepact.telemetry.logs import JsonLines, Lines
from tests.support.collector import Collector
from tests.support.loggers import restored_loggers


@pytest.fixture(autouse=True)
def _as_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """In a folder of its own, without variables, and with everything undone."""
    monkeypatch.chdir(tmp_path)
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    with restored_loggers():
        yield
    trace.shutdown()


def configured(**telemetry: Any) -> dict[str, Any]:
    """What `build_application` and `build_service` are given."""
    Path("watched.yaml").write_text(json.dumps({"telemetry": telemetry}))
    return {"warehouse": "warehouse", "config": "watched.yaml"}


def formats(logger: str = "") -> list[type[logging.Formatter]]:
    """How a logger writes."""
    return [type(handler.formatter) for handler in logging.getLogger(logger).handlers if handler.formatter]


def test_without_a_word_a_library_stays_silent() -> None:
    before = formats(), formats("icepact")
    build_application(warehouse="warehouse")
    assert trace.here() is None
    assert (formats(), formats("icepact")) == before


def test_the_library_traces_and_logs_as_it_is_told() -> None:
    collector = Collector()
    try:
        build_application(**configured(traces=collector.address, service_name="lake", logs="json"))
        with trace.span("planning"):
            pass
        trace.shutdown()
        assert collector.one("planning").service == "lake"
    finally:
        collector.close()
    assert JsonLines in formats("icepact")
    assert JsonLines not in formats()  # the program is somebody else's


@pytest.mark.parametrize(
    ("telemetry", "refusal"),
    [
        ({"traces": "collector:4317"}, "telemetry.traces: write the address of a collector, such as http://"),
        ({"traces": "grpc://collector"}, "telemetry.traces: write the address of a collector"),
        ({"logs": "xml"}, "telemetry.logs"),
        ({"metrics_port": 70000}, "telemetry.metrics_port"),
        ({"metrics_tables": -1}, "telemetry.metrics_tables"),
        ({"metrics": True}, "telemetry.metrics"),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_name(telemetry: dict[str, Any], refusal: str) -> None:
    with pytest.raises(BadInput) as found:
        build_application(**configured(**telemetry))
    assert refusal in str(found.value)


def test_workers_without_an_api_say_where_their_metrics_are() -> None:
    working = Working(configured(metrics_port=0), workers=1)
    assert working.metrics is not None
    try:
        with urlopen(f"http://127.0.0.1:{working.metrics.port}/metrics") as answer:
            assert b"process_resident_memory_bytes" in answer.read()
        with pytest.raises(BadInput, match=r"metrics cannot be served at 127\.0\.0\.1"):
            Working(configured(), workers=1, metrics_port=working.metrics.port)
    finally:
        working.metrics.close()
        working.service.store.close()
    assert Lines in formats()
    assert Working(configured(), workers=1).metrics is None
