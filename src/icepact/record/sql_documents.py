"""Documents of the service in a database. A change that was meant for another version changes nothing."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, select, update

from icepact.model.document import StoredDocument
from icepact.model.errors import Conflict
from icepact.record.database import Database, insert_if_absent
from icepact.record.tables import DOCUMENTS

_COLUMNS = (DOCUMENTS.c.kind, DOCUMENTS.c.key, DOCUMENTS.c.version, DOCUMENTS.c.changed_at, DOCUMENTS.c.body)


class SqlDocuments(Database):
    """The part of a store that keeps documents."""

    def document(self, kind: str, key: str) -> StoredDocument | None:
        """One document."""
        rows = self._rows(select(*_COLUMNS).where(_is(kind, key)))
        return _stored(rows[0]) if rows else None

    def documents(self, kind: str, *, prefix: str = "", after: str = "", limit: int = 1000) -> Sequence[StoredDocument]:
        """The first documents of a kind, by their keys."""
        key = DOCUMENTS.c.key
        wanted = select(*_COLUMNS).where(DOCUMENTS.c.kind == kind, key > after).order_by(key).limit(limit)
        if prefix:
            wanted = wanted.where(key >= prefix, key < prefix + chr(0x10FFFF))
        return [_stored(row) for row in self._rows(wanted)]

    def put_document(
        self, kind: str, key: str, body: Mapping[str, Any], *, version: int | None = None
    ) -> StoredDocument:
        """Write a document."""
        now = self.now()
        text = json.dumps(body)
        with self._writing() as connection:
            # so that there is a row to lock; it goes with the transaction if this one is refused
            new = {"kind": kind, "key": key, "version": 0, "changed_at": now, "body": "null"}
            insert_if_absent(connection, DOCUMENTS, new)
            written = _locked_version(connection, kind, key, expected=version) + 1
            values = {"version": written, "changed_at": now, "body": text}
            connection.execute(update(DOCUMENTS).where(_is(kind, key)).values(**values))
        return StoredDocument(kind=kind, key=key, body=json.loads(text), version=written, changed_at=now)

    def remove_document(self, kind: str, key: str, *, version: int | None = None) -> bool:
        """Remove a document."""
        with self._writing() as connection:
            found = _locked_version(connection, kind, key, expected=version)
            connection.execute(delete(DOCUMENTS).where(_is(kind, key)))
        return found > 0

    def forget_documents(self, kind: str, *, before: datetime) -> int:
        """Drop documents that were changed last before a moment."""
        return self._changed(delete(DOCUMENTS).where(DOCUMENTS.c.kind == kind, DOCUMENTS.c.changed_at < before))


def _is(kind: str, key: str) -> ColumnElement[bool]:
    return (DOCUMENTS.c.kind == kind) & (DOCUMENTS.c.key == key)


def _locked_version(connection: Connection, kind: str, key: str, *, expected: int | None) -> int:
    """The version of a document that nobody else changes meanwhile; 0 if there is none."""
    seen = select(DOCUMENTS.c.version).where(_is(kind, key)).with_for_update()
    found = connection.execute(seen).scalar() or 0
    if expected is not None and expected != found:
        raise Conflict(f"{kind} {key} was changed by somebody else meanwhile: look at it again")
    return found


def _stored(row: Any) -> StoredDocument:
    return StoredDocument(
        kind=row.kind, key=row.key, body=json.loads(row.body), version=row.version, changed_at=row.changed_at
    )
