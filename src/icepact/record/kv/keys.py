"""Names of keys: parts with a byte between them that is smaller than all others, so that they sort part by part."""

from datetime import UTC, datetime, timedelta

from icepact.model.errors import BadInput
from icepact.record.kv.interface import Span

_BETWEEN = "\0"
_AFTER_ALL = "\U0010ffff"
_FIRST_MOMENT = datetime.min.replace(tzinfo=UTC)
_LAST = 10**18
"""Greater than any moment in microseconds."""


def key(*parts: str) -> str:
    """The name of a key."""
    if any(_BETWEEN in part for part in parts):
        raise BadInput("a name holds a zero byte: no store can keep that")
    return _BETWEEN.join(parts)


def parts_of(name: str) -> list[str]:
    """The parts of a key."""
    return name.split(_BETWEEN)


def below(*parts: str, after: str | None = None, prefix: str = "", before: str | None = None) -> tuple[str, str]:
    """First and last of the keys that begin with some parts: those whose next part begins with `prefix`, is greater
    than `after`, and less than `before`."""
    base = key(*parts) + _BETWEEN
    start = base + prefix
    if after is not None:
        start = max(start, base + key(after) + "\1")  # what is below `after` itself is not wanted either
    if before is not None:
        return start, base + key(before)
    return start, base + prefix + _AFTER_ALL


def all_below(*parts: str) -> Span:
    """All keys that begin with some parts."""
    return Span(*below(*parts))


def ascending(moment: datetime) -> str:
    """A moment, so that earlier ones come first."""
    return f"{_microseconds(moment):018d}"


def moment_of(part: str) -> datetime:
    """The moment that `ascending` has made a part of."""
    return _FIRST_MOMENT + timedelta(microseconds=int(part))


def descending(moment: datetime) -> str:
    """A moment, so that later ones come first."""
    return f"{_LAST - _microseconds(moment):018d}"


def inverted(text: str) -> str:
    """A name, so that greater ones come first, as bytes of UTF-8."""
    return bytes(255 - byte for byte in text.encode()).hex() + "~"


def _microseconds(moment: datetime) -> int:
    return (moment - _FIRST_MOMENT) // timedelta(microseconds=1)
