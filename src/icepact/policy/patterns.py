"""Patterns over table names: `*` for anything, dots included; `?` for one character; `[abc]` for one of these."""

import re
from dataclasses import dataclass
from enum import IntEnum

from icepact.model.errors import BadInput

_TOKEN = re.compile(r"`((?:[^`]|``)+)`|(\*+)|(\?)|\[(!?)([^\]`.]+)\]|(\.)|([^`\s\[])")
_BETWEEN = "\x1f"
"""Stands between the parts of a name, since a part may hold a dot."""


class Reach(IntEnum):
    """How much a pattern means, from most to least."""

    ALL = 0
    CATALOG = 1
    NAMESPACE = 2
    TABLE = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Pattern:
    """A pattern over names of tables, with or without the catalog in front."""

    text: str
    regex: re.Pattern[str]
    exact: bool
    """True if it is a name: nothing in it stands for something else."""
    letters: tuple[int, ...]
    """By part: how many characters are given as they are."""

    def matches(self, catalog: str, table: tuple[str, ...]) -> bool:
        """Whether it means this table: by its namespace and name, or with the catalog in front."""
        return self.means(table) or self.means((catalog, *table))

    def means(self, name: tuple[str, ...]) -> bool:
        """Whether it means a name as it is, with nothing in front. A part that looks like two is meant by nothing."""
        return self.regex.fullmatch(_BETWEEN.join(name)) is not None and not any(_BETWEEN in part for part in name)

    def reach(self, table: tuple[str, ...]) -> Reach:
        """How far it reaches, seen from a table that it matches."""
        if self.exact:
            return Reach.TABLE
        if not any(self.letters):
            return Reach.ALL
        # what matches with the catalog in front only, and says nothing after it, speaks of the catalog
        of_catalog = not self.means(table) and not any(self.letters[1:])
        return Reach.CATALOG if of_catalog else Reach.NAMESPACE

    def specificity(self, table: tuple[str, ...]) -> tuple[int, int]:
        """Of two patterns that match a table, the one with the greater specificity counts."""
        return self.reach(table), sum(self.letters)


def parse_pattern(text: str) -> Pattern:
    """A pattern, or one line that says how to write one."""
    segments = [""]
    exact = True
    letters = [0]
    position = 0
    empty = True
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None or (match[6] and empty):
            raise _refused(text)
        position = match.end()
        if match[6]:
            letters.append(0)
        else:
            letters[-1] += len((match[1] or "").replace("``", "`")) + len(match[7] or "")
        if match[2]:
            segments.append("")
        else:
            segments[-1] += _regex(match)
        exact = exact and not (match[2] or match[3] or match[5])
        empty = bool(match[6])
    if empty:
        raise _refused(text)
    if exact and len(letters) < 2:
        raise BadInput(f"{text!r} names no namespace: write db.{text}, or *.{text} for every namespace")
    try:
        compiled = re.compile(_between_stars(segments), re.DOTALL)
    except re.error:  # a range from z to a
        raise _refused(text) from None
    return Pattern(text=text, regex=compiled, exact=exact, letters=tuple(letters))


def _between_stars(segments: list[str]) -> str:
    """What stands between stars, as one expression. Each segment is as long in every name, so that the first place for
    it is as good as any: nothing is tried again, however many stars there are."""
    first, *middle = segments
    last = f".*{middle.pop()}" if middle else ""
    return first + "".join(f"(?>.*?{segment})" for segment in middle) + last


def _regex(token: re.Match[str]) -> str:
    """One token but a star as a regular expression."""
    if token[1]:
        return re.escape(token[1].replace("``", "`"))
    if token[3]:
        return f"[^{_BETWEEN}]"
    if token[5]:
        inside = "".join(c if c == "-" else re.escape(c) for c in token[5])
        return f"(?!{_BETWEEN})[{'^' if token[4] else ''}{inside}]"
    return _BETWEEN if token[6] else re.escape(token[7])


def _refused(text: str) -> BadInput:
    return BadInput(f"{text!r} is not a pattern: write it like db.events, db.*, *.events or prod.db.*")
