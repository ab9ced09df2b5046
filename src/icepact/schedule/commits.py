"""Commits of writers, noted for the scheduler by whoever hears of them: webhooks, reports, or looks at the catalog.

The note of a table is a document that grows until the scheduler takes it. A commit whose snapshot is known counts once,
from however many sides it is reported.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from icepact.model.documents import Document
from icepact.model.errors import BadInput, Conflict
from icepact.record.store import DocumentStore
from icepact.schedule.state import COMMITS, REMEMBERED, body_of, key_of, value_of
from icepact.schedule.triggers import NO_COMMITS, CommitsSeen

_TRIES = 20
_COMMIT, _SCAN = "commit-report", "scan-report"
REPORTS = (_COMMIT, _SCAN)
"""What reports can be of, as Iceberg calls it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitNote(Document):
    """Commits of a table that the scheduler has not taken yet."""

    note: str
    """Its name: another one once this one was taken."""
    seen: CommitsSeen = NO_COMMITS
    snapshots: tuple[int, ...] = ()
    """The newest of them, as far as they are known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """One commit or scan, as engines report it."""

    table: str
    """With dots between its parts, as Iceberg writes it."""
    snapshot_id: int | None = None
    commit: bool
    """Or it is of a scan."""


class NoteStore(DocumentStore, Protocol):
    """Store of notes, with a clock."""

    def now(self) -> datetime:
        """The time, by a clock that is the same for all who share the store."""


def note_commit(store: NoteStore, table: str, snapshot_id: int | None = None, *, catalog: str) -> bool:
    """Note that somebody has committed to a table, by its full name and that of its catalog in the record store. False
    if that snapshot was noted already."""
    key = key_of(catalog, table)
    for _ in range(_TRIES):
        stored = store.document(COMMITS, key)
        known = CommitNote(note=secrets.token_hex(6)) if stored is None else value_of(CommitNote, stored)
        if snapshot_id is not None and snapshot_id in known.snapshots:
            return False
        now = store.now()
        seen = CommitsSeen(count=known.seen.count + 1, first_at=known.seen.first_at or now, last_at=now)
        more = known.snapshots if snapshot_id is None else (*known.snapshots, snapshot_id)[-REMEMBERED:]
        body = body_of(replace(known, seen=seen, snapshots=more))
        try:
            store.put_document(COMMITS, key, body, version=0 if stored is None else stored.version)
        except Conflict:  # somebody notes another one
            continue
        return True
    raise Conflict(f"commits of {table} are noted by too many at once: try again")


def parse_report(document: Mapping[str, Any]) -> Report:
    """A report as REST catalogs receive it; BadInput says what is missing."""
    kind = document.get("report-type", _COMMIT)
    if kind not in REPORTS:
        raise BadInput(f"report-type: {kind!r} is neither {_COMMIT} nor {_SCAN}")
    table, snapshot = document.get("table-name"), document.get("snapshot-id")
    if not isinstance(table, str) or not table:
        raise BadInput("table-name: this is missing")
    if snapshot is not None and (isinstance(snapshot, bool) or not isinstance(snapshot, int)):
        raise BadInput("snapshot-id: a whole number is wanted")
    return Report(table=table, snapshot_id=snapshot, commit=kind == _COMMIT)
