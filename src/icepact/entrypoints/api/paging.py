"""Pages: so many entries, and a word by which the next ones are asked for. What it means is nobody's business."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query

from icepact.model.answers import Cursor
from icepact.model.errors import BadInput

Item = TypeVar("Item")
MOST = 200
"""Entries of a page."""
_LONGEST = 2000

Limit = Annotated[int, Query(ge=1, le=MOST, description="Entries of a page.")]
After = Annotated[
    str | None, Query(max_length=_LONGEST, description="`next` of the page before; the first page if not given.")
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Page(Generic[Item]):
    """Some entries of a list."""

    items: Sequence[Item]
    next: Cursor = None


def cursor_of(kind: str, key: str) -> str:
    """The word for what comes after an entry of a kind of list."""
    return base64.urlsafe_b64encode(json.dumps([kind, key]).encode()).decode().rstrip("=")


def key_of(cursor: str | None, kind: str) -> str | None:
    """The entry after which a page begins; `None` if it is the first one. BadInput if the word is none of ours."""
    if cursor is None:
        return None
    try:
        found = json.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True))
        json.dumps(found, ensure_ascii=False).encode()  # halves of characters are nobody's names
    except (ValueError, binascii.Error, RecursionError):
        found = None
    if not (isinstance(found, list) and len(found) == 2 and found[0] == kind and isinstance(found[1], str)) or (
        "\0" in found[1]
    ):
        raise BadInput("cursor: give `next` of the page before, as it is")
    return found[1]


def page(found: Sequence[Item], limit: int, kind: str, key: Callable[[Item], str]) -> Page[Any]:
    """A page of what was found if one more than the limit was asked for."""
    more = len(found) > limit
    items = found[:limit]
    return Page(items=items, next=cursor_of(kind, key(items[-1])) if more else None)
