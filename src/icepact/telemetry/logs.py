"""Logs: for people as they ever were, or one JSON document on each line."""

import json
import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from typing import Any

from icepact.model.masking import masked, masked_value
from icepact.telemetry.ids import ids
from icepact.telemetry.trace import parsed, traceparent

_STANDARD = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName", "color_message"})
_OURS = "_icepact"
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""What begins another line, or moves the cursor of a terminal: names of tables may have it."""


def setup(*, json: bool, level: int | None = None) -> None:
    """Write logs to stderr: as JSON, with the ids of what is worked on, or as lines for people.

    With a `level` that is what this process does with all its logs, and `level` is for those of icepact. Without one
    the process is somebody else's: only what icepact says is written by us, and without `json` nothing changes at all.
    """
    if not json and level is None:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if json else Lines())
    setattr(handler, _OURS, True)
    ours, root = logging.getLogger("icepact"), logging.getLogger()
    for logger in (ours, root):
        logger.handlers[:] = [old for old in logger.handlers if not hasattr(old, _OURS)]
    ours.propagate = level is not None
    if level is None:
        ours.addHandler(handler)
        return
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    ours.setLevel(level)
    logging.captureWarnings(True)


class JsonLines(logging.Formatter):
    """One document on one line for each event, without what may be a secret."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        event: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": masked(_message(record)),
            **ids(),
        }
        parts = parsed(traceparent() or "")
        if parts is not None:
            event |= {"trace": parts[0], "span": parts[1]}
        event |= {
            name: masked_value(value, name)
            for name, value in vars(record).items()
            if name not in _STANDARD and name not in event
        }
        if record.exc_info and record.exc_info[0] is not None:
            event["error"] = masked("".join(traceback.format_exception(*record.exc_info)))
        if record.stack_info:
            event["stack"] = masked(record.stack_info)
        return json.dumps(event, default=str)


class Lines(logging.Formatter):
    """For people: time, level, what happened, and the job it is about; without what may be a secret."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, and those of an error."""
        at = datetime.fromtimestamp(record.created, UTC)
        job = ids().get("job")
        said = _CONTROLS.sub(lambda found: repr(found[0])[1:-1], _message(record))
        text = f"{at:%Y-%m-%d %H:%M:%S} {record.levelname.lower()}: {f'[{job}] ' if job else ''}{said}"
        if record.exc_info and record.exc_info[0] is not None:
            text += "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
        return masked(text)


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # whoever logged it gave it the wrong values
        return f"{record.msg} {record.args!r}"
