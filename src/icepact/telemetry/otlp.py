"""Spans that OpenTelemetry records and exports by OTLP over HTTP. Loaded only where traces are set up."""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Any
from urllib.parse import urlsplit

from icepact.model.errors import Cancelled, SetupMissing
from icepact.model.masking import masked, masked_value
from icepact.telemetry.trace import Kind, Span

try:
    from opentelemetry import context as contexts
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
except ImportError as error:
    raise SetupMissing(
        f"traces need OpenTelemetry, and {error.name} is not here: pip install 'icepact[telemetry]'"
    ) from None

_LIBRARY = "opentelemetry"
_TIMEOUTS = ("OTEL_EXPORTER_OTLP_TIMEOUT", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT")
_PATIENCE = 3.0
"""Seconds for all tries of one export, if variables do not say: a command does not end before."""
_log = logging.getLogger("icepact")


class Recorder:
    """Records spans, and exports them from a thread of its own."""

    def __init__(self, endpoint: str | None, headers: Mapping[str, str], service: str) -> None:
        """`None` for the collector that variables name."""
        # its own words about a collector that is not there would come again and again, some with the headers
        logging.getLogger(_LIBRARY).setLevel(logging.CRITICAL + 1)
        address = None if endpoint is None else f"{endpoint.rstrip('/')}/v1/traces"
        ours = {SERVICE_NAME: service, SERVICE_VERSION: version("icepact")}
        resource = Resource.create().merge(Resource(ours)).merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=resource)
        patience = None if any(os.environ.get(name) for name in _TIMEOUTS) else _PATIENCE
        exporter = OTLPSpanExporter(endpoint=address, headers=dict(headers) or None, timeout=patience)
        self._provider.add_span_processor(BatchSpanProcessor(_Exporter(exporter)))
        self._tracer = self._provider.get_tracer("icepact", ours[SERVICE_VERSION])

    @contextmanager
    def span(self, name: str, kind: Kind, within: Any | None, attributes: Mapping[str, Any]) -> Iterator[Span]:
        """A span around a block."""
        with self._tracer.start_as_current_span(
            name,
            context=within,
            kind=trace.SpanKind[kind.name],
            attributes=_as_attributes(attributes),
            record_exception=False,
            set_status_on_exception=False,
        ) as found:
            ours = _Recorded(found)
            try:
                yield ours
            except (Cancelled, KeyboardInterrupt, GeneratorExit) as error:
                found.set_attribute("cancelled", masked(str(error)))
                raise
            except BaseException as error:
                kind_of_error, message = type(error).__qualname__, masked(str(error))
                found.add_event("exception", {"exception.type": kind_of_error, "exception.message": message})
                found.set_attribute("error.type", kind_of_error)
                ours.fail(message)
                raise

    def here(self) -> Any:
        """Where spans are parts of the one around this."""
        return contexts.get_current()

    @contextmanager
    def continued(self, trace_id: str, span_id: str, flags: str) -> Iterator[None]:
        """What is in the block is part of a span elsewhere."""
        elsewhere = trace.SpanContext(
            trace_id=int(trace_id, 16),
            span_id=int(span_id, 16),
            is_remote=True,
            trace_flags=trace.TraceFlags(int(flags, 16)),
        )
        token = contexts.attach(trace.set_span_in_context(trace.NonRecordingSpan(elsewhere)))
        try:
            yield
        finally:
            contexts.detach(token)

    def traceparent(self) -> str | None:
        """The span around this, as W3C has it; `None` if there is none."""
        found = trace.get_current_span().get_span_context()
        if not found.is_valid:
            return None
        return f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags & 1:02x}"

    def flush(self) -> None:
        """Export what is still here, within a few seconds."""
        self._provider.force_flush(5000)

    def shutdown(self) -> None:
        """Export what is still here, and end."""
        self._provider.shutdown()


class _Recorded:
    """A span that is recorded."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def set(self, **attributes: Any) -> None:
        """Say more of it."""
        self._span.set_attributes(_as_attributes(attributes))

    def rename(self, name: str) -> None:
        """Call it something else."""
        self._span.update_name(name)

    def fail(self, why: str) -> None:
        """It did not go well."""
        self._span.set_status(trace.Status(trace.StatusCode.ERROR, masked(why)))


def _as_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as OpenTelemetry takes them, without what may be a secret."""
    return {name: masked_value(value, name) for name, value in attributes.items() if value is not None}


class _Exporter(SpanExporter):
    """Exports, and says once that it cannot."""

    def __init__(self, exporter: OTLPSpanExporter) -> None:
        self._exporter = exporter
        self._works = True

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """To the collector; what it does not take is lost."""
        try:
            result = self._exporter.export(spans)
        except Exception:
            result = SpanExportResult.FAILURE
        works = result is SpanExportResult.SUCCESS
        if self._works and not works:
            where = urlsplit(self._exporter._endpoint)
            _log.warning("traces cannot be exported to %s: they are lost until it answers", where.hostname)
        self._works = works
        return result

    def shutdown(self) -> None:
        """No more."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30000) -> bool:
        """Nothing waits here."""
        return self._exporter.force_flush(timeout_millis)
