"""Table names by Spark's rules: dots separate, backquotes protect, a doubled backquote is one."""

import re

from icepact.model.errors import BadInput

_PART = re.compile(r"`((?:[^`\0]|``)+)`|([^`.\s\0]+)")
_NAME = re.compile(rf"(?:{_PART.pattern})(?:\.(?:{_PART.pattern}))*")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def table_parts(text: str, catalog: str, namespace: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Namespace and table; the catalog's own name in front is accepted and dropped. A name without a namespace is in
    the given one; if none is given, it is refused in one line."""
    parts = parse_levels(text)
    if len(parts) == 1 and not namespace:
        raise BadInput(f"{text!r} names no namespace: write db.table")
    if len(parts) == 1:
        return (*namespace, *parts)
    return parts[1:] if len(parts) > 2 and parts[0] == catalog else parts


def parse_levels(text: str) -> tuple[str, ...]:
    """The parts of a dotted name."""
    if not _NAME.fullmatch(text):
        raise BadInput(f"{text!r} is not a table name: write db.table, with `backquotes` around odd parts")
    return tuple(part[2] or part[1].replace("``", "`") for part in _PART.finditer(text))


def quote(parts: tuple[str, ...]) -> str:
    """The name as Spark SQL reads it, whatever is in it."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def show_name(parts: tuple[str, ...]) -> str:
    """The name for people: backquotes only where they are needed."""
    return ".".join(part if _PLAIN.fullmatch(part) else quote((part,)) for part in parts)
