"""What the scheduler knows about tables, as documents of the record store."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from icepact.model.document import StoredDocument
from icepact.model.documents import Document, from_json, to_json
from icepact.model.errors import StoreUnusable
from icepact.model.schedule import Chosen, Fired
from icepact.schedule.triggers import CommitsSeen, Past

SCHEDULES, COMMITS, FORECASTS = "schedule", "commits", "forecast"
"""Kinds of documents."""

REMEMBERED = 64
"""Snapshots that are known to be counted."""
Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSchedule(Document):
    """What is known about one table."""

    table: str
    past: Past
    chosen: Chosen | None = None
    """What is due and waits for a better time."""
    fired: Fired | None = None
    """The newest job."""
    held_back: str = ""
    """Why nothing is begun though it is due: no budget, a job that goes on."""
    marker: str = ""
    """What the catalog said last about the table's metadata; another one means a commit."""
    snapshots: tuple[int, ...] = ()
    """The newest snapshots that are known to be counted."""
    note: str = ""
    """The note of commits that was taken last."""
    noted: int = 0
    """Commits of that note that are counted."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Of the table, as far as they have a say here."""
    properties_of: str = ""
    """The marker for which they are known."""


def key_of(catalog: str, table: str) -> str:
    """The key of a table's documents; `catalog` is its name in the record store."""
    return f"{catalog}/{table}"


def body_of(value: object) -> dict[str, Any]:
    """A value as a document has it."""
    body: dict[str, Any] = json.loads(to_json(value))
    return body


def value_of(kind: type[Value], document: StoredDocument) -> Value:
    """The value of a document."""
    try:
        return from_json(kind, json.dumps(document.body))
    except ValueError:
        raise StoreUnusable(f"the {document.kind} of {document.key} in the record store cannot be read") from None


def with_commits(schedule: TableSchedule, seen: CommitsSeen, snapshots: Sequence[int]) -> TableSchedule:
    """A schedule that knows of further commits."""
    past, before = schedule.past, schedule.past.commits
    known = (*schedule.snapshots, *(number for number in snapshots if number not in schedule.snapshots))
    if not seen.count:
        return replace(schedule, snapshots=known[-REMEMBERED:])
    counted = CommitsSeen(
        count=before.count + seen.count,
        first_at=before.first_at or seen.first_at,
        last_at=seen.last_at if before.last_at is None or seen.last_at is None else max(before.last_at, seen.last_at),
    )
    return replace(schedule, past=replace(past, commits=counted), snapshots=known[-REMEMBERED:])
