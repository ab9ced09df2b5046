"""Texts without what may be a secret: for messages, logs, traces, and whatever else leaves the process."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

_HIDDEN = "***"


def masked(text: str) -> str:
    """A message without what may be a secret: users and passwords in URLs, keys of stores and of services, and values
    of whatever has a name that sounds like a secret."""
    text = _JDBC.sub(_without_secrets, text)
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text


def masked_value(value: Any, name: str = "") -> Any:
    """The same for values as JSON has them, at any depth; one whose name sounds like a secret is hidden whole."""
    if name and _SECRET_NAME.fullmatch(name) and isinstance(value, str | bytes):
        return _HIDDEN
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, Mapping):
        return {masked(str(key)): masked_value(inner, str(key)) for key, inner in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, bytes):
        return [masked_value(inner, name) for inner in value]
    return value if value is None or isinstance(value, bool | int | float) else masked(str(value))


def _without_secrets(url: re.Match[str]) -> str:
    """The driver of a JDBC URL and, if that is all there is, its address: each driver has its own way to put user and
    password into the rest."""
    driver, rest = url[1], url[2]
    address = re.split("[?;(]", rest)[0]
    known = rest.startswith("//") or driver == "jdbc:sqlite:"
    return f"{driver}{address if known and '@' not in rest else '...'}"


_JDBC = re.compile(r"(jdbc:[\w+.-]+:)([^\s'\"<>]*)", re.I)
_SOUNDS_SECRET = (
    r"(?<![\w.-])(?=[\w.-]*?"
    r"(?:password|passwd|pwd|secret|token|credential|(?:access|account|api|private)[._-]?key|signature))[\w.-]++"
)
"""A whole word, looked at once: it may be long, and come from whoever names tables."""
_SECRET_NAME = re.compile(rf"{_SOUNDS_SECRET}|(?:proxy-)?authorization|(?:set-)?cookie", re.I)
_SECRETS = (
    (
        re.compile(r"((?:postgres|mysql|mariadb|oracle|mssql|redshift|redis|mongodb|amqp)[\w+]*:)//\S*@", re.I),
        r"\1//***@",
    ),
    (re.compile(r"(//[^/\s:@'\"]*):[^\s'\"]*@"), "//***@"),
    (re.compile(r"//[^/\s@]+@"), "//***@"),
    (
        re.compile(r"((?:proxy-)?authorization[\"']?\s*[:=]\s*[\"']?(?:basic|digest|bearer)?)\s*[^\s,;\"'}]+", re.I),
        r"\1 ***",
    ),
    (re.compile(r"((?:set-)?cookie[\"']?\s*:\s*[\"']?)[^\"'\r\n]+", re.I), r"\1***"),
    (re.compile(rf"({_SOUNDS_SECRET}|(?<=[?&;])user(?:name)?)=(?:'[^']*'|\"[^\"]*\"|[^&;,\s]+)", re.I), r"\1=***"),
    (re.compile(rf"(([\"']){_SOUNDS_SECRET}\2\s*:\s*)(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')", re.I), r'\1"***"'),
    (re.compile(r"(?<=[?&])sig=[^&\s]+"), "sig=***"),
    (re.compile(r"\bBearer\s+\S+", re.I), "Bearer ***"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), _HIDDEN),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"), _HIDDEN),
    (
        re.compile(r"(?<![\w/+=.-])(?=[\w/+]*[a-z])(?=[\w/+]*[A-Z])(?=[\w/+]*\d)[A-Za-z0-9/+]{40}(?![\w/+=-])"),
        _HIDDEN,
    ),
)
"""The last ones know secrets by how they look: access keys of S3, signed tokens, secret keys of S3."""
