"""Single values as Iceberg's JSON writes them: partition values and initial defaults."""

import datetime
import math
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from icepact.execute.assemble.target import arrow_type, decimal_of
from icepact.execute.deletes.kinds import comparable


def scalar_of(value: Any, kind: Any) -> pa.Scalar:
    """The value as Arrow holds it."""
    wanted = arrow_type(kind)
    return pa.scalar(_parsed(value, kind), wanted)


def _parsed(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    if not isinstance(kind, str):
        return _nested(value, kind)
    if decimal_of(kind):
        number = Decimal(str(value))
        return number if pa.types.is_decimal(arrow_type(kind)) else comparable(kind, number)
    parse = _PARSERS.get(kind.split("[")[0])
    return value if parse is None else parse(value)


def _number(value: Any) -> float:
    return math.nan if value == "NaN" else float(value)


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "float": _number,
    "double": _number,
    "date": datetime.date.fromisoformat,
    "timestamp": datetime.datetime.fromisoformat,
    "timestamptz": datetime.datetime.fromisoformat,
    "uuid": lambda value: uuid.UUID(value).bytes,
    "binary": bytes.fromhex,
    "fixed": bytes.fromhex,
}


def _nested(value: Any, kind: Any) -> Any:
    if kind["type"] == "struct":
        return {f["name"]: _parsed(value.get(str(f["id"])), f["type"]) for f in kind["fields"]}
    if kind["type"] == "list":
        return [_parsed(item, kind["element"]) for item in value]
    return [
        (_parsed(key, kind["key"]), _parsed(item, kind["value"]))
        for key, item in zip(value["keys"], value["values"], strict=True)
    ]
