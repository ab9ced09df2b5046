"""Logs: one JSON document on each line, with ids, and whatever anybody logs, no secret."""

import json
import logging
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from typing import Any

import pytest

from icepact.model.masking import masked, masked_value
from icepact.telemetry import logs, trace
from icepact.telemetry.ids import about
from tests.support.loggers import restored_loggers

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
HOSTILE = [
    "postgresql://icepact:hush@db:5432/x is away",
    "postgresql+psycopg://icepact:hu@hush/:sh@db:5432/x is away",
    "redis://:hush@cache:6379/0 and rediss://me:hush@cache",
    "https://me:hush/hush@catalog.example/v1",
    "Authorization: Bearer hush.hush-hush",
    "authorization: Basic aHVzaA==hush",
    "{'Authorization': 'Bearer hush'}",
    '{"s3.secret-access-key": "hush\\"hush", "s3.access-key-id": "hush"}',
    "{'s3.secret-access-key': 'hush'}",
    "s3.secret-access-key=hush, s3.session-token=hush",
    "https://bucket.example/k?X-Amz-Credential=hush&X-Amz-Signature=hush&X-Amz-Security-Token=hush",
    "https://acc.blob.example/c?sv=1&sig=hush%2Fhush&se=2",
    "jdbc:mysql://me:hush@db/x",
    "password='hush hush' was refused",
    "Set-Cookie: session=hush; Path=/",
    "x-api-key=hush",
]
BY_THEIR_LOOKS = [
    "AKIAIOSFODNN7EXAMPLE",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.dBjftJeZ4CVP",
]


def event(message: str, *args: Any, **given: Any) -> dict[str, Any]:
    """What is written of one event."""
    record = logging.getLogger("icepact").makeRecord(
        "icepact", logging.WARNING, __file__, 1, message, args, given.pop("exc_info", None), extra=given or None
    )
    line = logs.JsonLines().format(record)
    assert "\n" not in line
    assert line.isascii()
    found: dict[str, Any] = json.loads(line)
    return found


def test_an_event_tells_what_is_worked_on() -> None:
    with about(tenant="red", job="j1"), about(run="r1", job=None), trace.continued(PARENT):
        found = event("unit %d is done", 3, files=7)
    _, trace_id, span_id, _ = PARENT.split("-")
    assert found | {"time": "", "pid": 0} == {
        **{"time": "", "pid": 0, "level": "warning", "logger": "icepact", "message": "unit 3 is done"},
        **{"tenant": "red", "job": "j1", "run": "r1", "trace": trace_id, "span": span_id, "files": 7},
    }
    assert "job" not in event("later")


@pytest.mark.parametrize("text", [*HOSTILE, *(f"the key {key}." for key in BY_THEIR_LOOKS)])
def test_no_secret_is_logged_wherever_it_stands(text: str) -> None:
    secrets = ["hush", *BY_THEIR_LOOKS]
    try:
        raise RuntimeError(text)
    except RuntimeError:
        error = sys.exc_info()
    written = [
        event(text),
        event("%s", text),
        event("x", where=text, deep={"a": [text, {"b": text}]}),
        event("x", exc_info=error),
        {"line": logs.Lines().format(logging.makeLogRecord({"msg": text, "exc_info": error}))},
    ]
    for found in written:
        assert not [secret for secret in secrets if secret in json.dumps(found)], found


def test_values_are_hidden_by_their_names() -> None:
    found = event("x", password="hush", headers={"authorization": "hush", "cookie": "hush", "accept": "a"}, tokens=3)
    assert (found["password"], found["tokens"]) == ("***", 3)
    assert found["headers"] == {"authorization": "***", "cookie": "***", "accept": "a"}
    assert masked_value({"client_secret": ["hush"], "n": None, "x": object}) == {
        **{"client_secret": ["***"], "n": None},
        "x": "<class 'object'>",
    }


@pytest.mark.parametrize("text", ["two\nlines\r\n", "\u2028 and \x00 and \x1b[31m", "ü and 雪"])
def test_an_event_is_one_line_whatever_is_in_it(text: str) -> None:
    assert event(text)["message"] == text


def test_wrong_arguments_lose_no_event() -> None:
    assert event("%d files", "many")["message"] == "%d files ('many',)"
    assert "object" in event("x", odd=object())["odd"]


@pytest.fixture
def restored() -> Iterator[None]:
    """Loggers as they were."""
    with restored_loggers():
        yield


@pytest.mark.usefixtures("restored")
def test_logs_for_people_stay_as_they_are() -> None:
    before = list(logging.getLogger().handlers), list(logging.getLogger("icepact").handlers)
    logs.setup(json=False)
    assert (logging.getLogger().handlers, logging.getLogger("icepact").handlers) == before


@pytest.mark.usefixtures("restored")
def test_a_second_setup_takes_the_place_of_the_first() -> None:
    before = len(logging.getLogger().handlers)
    for _ in range(3):
        logs.setup(json=True, level=logging.INFO)
    assert len(logging.getLogger().handlers) == before + 1
    logs.setup(json=True)
    assert len(logging.getLogger().handlers) == before
    assert len(logging.getLogger("icepact").handlers) == 1


def test_a_process_writes_whatever_is_logged_in_it() -> None:
    program = """
        import logging, warnings
        from icepact.telemetry import logs
        from icepact.telemetry.ids import about
        logs.setup(json=True, level=logging.INFO)
        with about(job="j1"):
            logging.getLogger("icepact.api").info("mine", extra={"status": 200})
            logging.getLogger("others").warning("theirs: token=hush")
            logging.getLogger("others").info("too much")
            warnings.warn("odd")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stderr.splitlines()]
    assert [one["message"].partition(":")[0] for one in found][:2] == ["mine", "theirs"]
    assert [one["job"] for one in found] == ["j1"] * 3
    assert found[0]["status"] == 200
    assert "hush" not in done.stderr


def test_a_name_makes_no_second_line() -> None:
    said = "compact of db.`a\n2026-01-01 00:00:00 info: [j1] succeeded\x1b[2K\u2028` failed"
    record = logging.getLogger("icepact").makeRecord("icepact", logging.INFO, __file__, 1, said, (), None)
    line = logs.Lines().format(record)
    assert line.isprintable()
    assert r"db.`a\n2026-01-01 00:00:00 info: [j1] succeeded\x1b[2K\u2028` failed" in line


@pytest.mark.parametrize("word", ["password", "secret-", "s3.secret-access-key"])
def test_long_words_are_masked_in_no_time(word: str) -> None:
    began = time.process_time()
    assert masked(f"{word * 2000} token{word * 2000}=hush") == f"{word * 2000} token{word * 2000}=***"
    assert time.process_time() - began < 1
