"""An OpenTelemetry collector on loopback: it takes spans by OTLP over HTTP, and remembers them."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from icepact.telemetry import trace


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """A span as it arrived."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: str
    failed: bool
    why: str
    attributes: Mapping[str, Any]
    events: Sequence[Mapping[str, Any]]
    service: str
    began: int
    ended: int


class Collector:
    """What has arrived."""

    def __init__(self) -> None:
        self.spans: list[Seen] = []
        self.headers: list[Mapping[str, str]] = []
        self.bodies: list[bytes] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.path == "/v1/traces"
                collector.headers.append({name.lower(): value for name, value in self.headers.items()})
                collector.bodies.append(body)
                collector.spans += _spans(ExportTraceServiceRequest.FromString(body))
                self.send_response(200)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Silence."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        """Hear no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def one(self, name: str) -> Seen:
        """The only span of that name."""
        [found] = [span for span in self.spans if span.name == name]
        return found

    def below(self, span: Seen) -> list[str]:
        """Names of the parts of a span, by their beginning."""
        parts = [one for one in self.spans if one.parent_id == span.span_id]
        return [one.name for one in sorted(parts, key=lambda one: one.began)]


@contextmanager
def collecting(**given: Any) -> Iterator[Collector]:
    """Spans of this process go to a collector; at the end of the block all of them are there."""
    collector = Collector()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SDK_DISABLED"):
            patch.delenv(name, raising=False)
        assert trace.setup(collector.address, **given)
        try:
            yield collector
        finally:
            trace.shutdown()
            collector.close()


def _spans(request: ExportTraceServiceRequest) -> Iterator[Seen]:
    for resource in request.resource_spans:
        service = _attributes(resource.resource.attributes)["service.name"]
        for span in (span for scope in resource.scope_spans for span in scope.spans):
            yield Seen(
                name=span.name,
                trace_id=span.trace_id.hex(),
                span_id=span.span_id.hex(),
                parent_id=span.parent_span_id.hex(),
                kind=span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower(),
                failed=span.status.code == span.status.STATUS_CODE_ERROR,
                why=span.status.message,
                attributes=_attributes(span.attributes),
                events=[_attributes(event.attributes) for event in span.events],
                service=service,
                began=span.start_time_unix_nano,
                ended=span.end_time_unix_nano,
            )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(one) for one in value.array_value.values]
    return getattr(value, str(kind))
