"""Iceberg's primitive types, and one value of each in the form in which keys are compared.

Every value becomes either a whole number of 64 bits or a byte string, so that equality is Iceberg's (Java's)
equality and order is the order of column statistics:

    boolean, int, long, date, time, timestamps    the number itself, in the unit of the wanted type
    decimal up to 18 digits                       its unscaled value
    decimal beyond                                16 bytes, big-endian, sign bit turned over
    float, double                                 its bits, negatives turned over; all NaN are one, above all others
    string, uuid, fixed, binary                   its bytes
"""

import datetime as dt
import re
import struct
import uuid
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any

from icepact.execute.deletes.errors import UnsupportedDelete

Comparable = int | bytes | None
"""A value in the form in which keys are compared; `None` is null."""
FLOAT_NAN = 0x7FC00000
DOUBLE_NAN = 0x7FF8000000000000
LONG_DIGITS = 18
"""A decimal of up to this many digits fits into 64 bits."""
_WHOLE = ("boolean", "int", "long", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")
_BYTEWISE = ("string", "uuid", "fixed", "binary")
_PLAIN = frozenset((*_WHOLE, "float", "double", "string", "uuid", "binary", "unknown"))
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIXED = re.compile(r"fixed\[\s*(\d+)\s*\]")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_EXACT = Context(prec=100)
_WIDE_SIGN = 1 << 127


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """One primitive type."""

    name: str
    """Iceberg's name without parameters: long, decimal, fixed, ..."""
    precision: int = 0
    """Digits of a decimal."""
    scale: int = 0
    """Digits of a decimal behind the point."""

    @property
    def floating(self) -> bool:
        """True if it has NaN and two zeros."""
        return self.name in ("float", "double")

    @property
    def bytewise(self) -> bool:
        """True if it is compared as bytes, false if as a number."""
        return self.name in _BYTEWISE or self.wide

    @property
    def wide(self) -> bool:
        """True for decimals that do not fit into 64 bits."""
        return self.name == "decimal" and self.precision > LONG_DIGITS

    @property
    def nan(self) -> int:
        """The comparable form of NaN."""
        return FLOAT_NAN if self.name == "float" else DOUBLE_NAN


@lru_cache
def parse_kind(text: str) -> Kind:
    """Read a type as Iceberg writes it: `long`, `decimal(12, 2)`, `fixed[16]`."""
    if text in _PLAIN:
        return Kind(name=text)
    if decimal := _DECIMAL.fullmatch(text):
        return Kind(name="decimal", precision=int(decimal[1]), scale=int(decimal[2]))
    if _FIXED.fullmatch(text):
        return Kind(name="fixed")
    raise UnsupportedDelete(f"rows cannot be compared by a column of type {text}")


def comparable(kind: str | Kind, value: Any) -> Comparable:
    """One value in the form in which keys are compared.

    Numbers are in the unit of the wanted type: days, micro- or nanoseconds, the unscaled value of a decimal.
    Dates, times, `Decimal`, `UUID`, text and bytes are taken for what they are; the bytes of a decimal are
    its unscaled value, big-endian.
    """
    kind = parse_kind(kind) if isinstance(kind, str) else kind
    if value is None:
        return None
    match kind.name:
        case "float" | "double":
            return _ordered(value, kind)
        case "decimal":
            unscaled = _unscaled(value, kind.scale)
            return (unscaled + _WIDE_SIGN).to_bytes(16, "big") if kind.wide else unscaled
        case "unknown":
            raise UnsupportedDelete("a column of unknown type has no values")
    return _bytes(value, kind.name) if kind.bytewise else _number(value, kind.name)


def unscaled_of_wide(form: bytes) -> int:
    """The unscaled value of a wide decimal in comparable form."""
    return int.from_bytes(form, "big") - _WIDE_SIGN


def _number(value: Any, name: str) -> int:
    """Dates and times in the unit of the type; numbers as they are."""
    if isinstance(value, dt.time):
        value = dt.datetime.combine(_EPOCH.date(), value, tzinfo=dt.UTC)
    elif name != "date" and isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        value = dt.datetime.combine(value, dt.time(), tzinfo=dt.UTC)
    if isinstance(value, dt.datetime):
        since = (value if value.tzinfo else value.replace(tzinfo=dt.UTC)) - _EPOCH
        return since // dt.timedelta(microseconds=1) * (1000 if name.endswith("_ns") else 1)
    if isinstance(value, dt.date):
        return (value - _EPOCH.date()).days
    return int(value)


def _ordered(value: float, kind: Kind) -> int:
    """Its bits as a number that orders as Java does: negatives turned over, -0.0 just below 0.0."""
    if value != value:
        return kind.nan
    bits, most = (("<i", "<f"), 0x7FFFFFFF) if kind.name == "float" else (("<q", "<d"), 0x7FFFFFFFFFFFFFFF)
    number: int = struct.unpack(bits[0], struct.pack(bits[1], value))[0]
    return number if number >= 0 else number ^ most


def _unscaled(value: Any, scale: int) -> int:
    if isinstance(value, bytes):
        return int.from_bytes(value, "big", signed=True)
    if isinstance(value, Decimal):
        shifted = value.scaleb(scale, _EXACT)
        if shifted != int(shifted):
            raise ValueError(f"{value} has more than {scale} digits behind the point")
        return int(shifted)
    return int(value)


def _bytes(value: Any, name: str) -> bytes:
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, str):
        return uuid.UUID(value).bytes if name == "uuid" else value.encode()
    return bytes(value)
