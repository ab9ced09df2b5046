"""Traces: what was done, when, and as a part of what, over all processes that take part.

Without `setup` spans are nothing, but where a trace was begun elsewhere is passed on all the same: from the request to
the job, and from the job to whatever is logged.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from icepact.telemetry.otlp import Recorder

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_recorder: "Recorder | None" = None
_remote: ContextVar[str | None] = ContextVar("icepact_traceparent", default=None)


class Kind(StrEnum):
    """What a span is to others."""

    INTERNAL = "internal"
    SERVER = "server"
    """It answers a request."""
    CLIENT = "client"
    """It makes one, and waits for the answer."""
    PRODUCER = "producer"
    """It asks for something that is done later."""
    CONSUMER = "consumer"
    """It does what a producer asked for."""


class Span(Protocol):
    """A span under way."""

    def set(self, **attributes: Any) -> None:
        """Say more of it; `None` says nothing."""

    def rename(self, name: str) -> None:
        """Call it something else: what it is about was not known before."""

    def fail(self, why: str) -> None:
        """It did not go well, although no error leaves it."""


class _Silent:
    """Of no span."""

    def set(self, **attributes: Any) -> None:
        """Nobody hears it."""

    def rename(self, name: str) -> None:
        """Nobody hears it."""

    def fail(self, why: str) -> None:
        """Nobody hears it."""


_NOTHING: AbstractContextManager[Span] = nullcontext(_Silent())


def span(
    name: str, *, kind: Kind = Kind.INTERNAL, within: Any | None = None, **attributes: Any
) -> AbstractContextManager[Span]:
    """A span around a block. An error that leaves the block is told with it. It is part of the span around it, or of
    the one that was around `within`, which is what `here()` said there."""
    if _recorder is None:
        return _NOTHING
    return _recorder.span(name, kind, within, attributes)


def here() -> Any | None:
    """The span around this, for spans that begin elsewhere to be parts of it."""
    return None if _recorder is None else _recorder.here()


@contextmanager
def continued(traceparent: str | None) -> Iterator[None]:
    """What is in the block is part of a trace that was begun elsewhere; `None`, or what is no W3C traceparent, changes
    nothing."""
    parts = None if traceparent is None else parsed(traceparent)
    if parts is None:
        yield
        return
    token = _remote.set("-".join(("00", *parts)))
    try:
        with nullcontext() if _recorder is None else _recorder.continued(*parts):
            yield
    finally:
        _remote.reset(token)


def parsed(traceparent: str) -> tuple[str, str, str] | None:
    """Trace, span and flags of a W3C traceparent; `None` if it is none."""
    match = _TRACEPARENT.fullmatch(traceparent.strip())
    if match is None:
        return None
    version, trace, parent, flags, more = match.groups()
    if version == "ff" or (version == "00" and more) or not int(trace, 16) or not int(parent, 16):
        return None
    return trace, parent, flags


def traceparent() -> str | None:
    """Where we are, for whoever carries on elsewhere; `None` if this is part of no trace."""
    return (None if _recorder is None else _recorder.traceparent()) or _remote.get()


def setup(endpoint: str | None = None, *, headers: Mapping[str, str] | None = None, service: str = "icepact") -> bool:
    """From now on spans go to an OpenTelemetry collector, by OTLP over HTTP: to the one that `OTEL_*` variables name,
    or else to `endpoint`. False if neither is given, or if the variables forbid it. The first setup of a process
    stays."""
    global _recorder
    if _recorder is not None:
        return True
    named = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), None)
    if not (named or endpoint) or _forbidden():
        return False
    from icepact.telemetry.otlp import Recorder  # takes a third of a second

    _recorder = Recorder(None if named else endpoint, headers or {}, service)
    return True


def _forbidden() -> bool:
    off = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return off or os.environ.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower() == "none"


def shutdown() -> None:
    """Export what is still here, and be silent again."""
    global _recorder
    recorder, _recorder = _recorder, None
    if recorder is not None:
        recorder.shutdown()


def flush() -> None:
    """Export what is still here."""
    if _recorder is not None:
        _recorder.flush()
