"""Documents of the service over keys and values, with an index by the time of their last change."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from icepact.model.document import StoredDocument
from icepact.model.errors import Conflict
from icepact.record.kv.base import KvBase
from icepact.record.kv.keys import ascending, below, key, parts_of
from icepact.record.kv.rows import row_bytes, row_of
from icepact.record.kv.space import Change

DOCUMENT_MOMENTS = ("changed_at",)


class KvDocuments(KvBase):
    """The part of a store that keeps documents."""

    def document(self, kind: str, key: str) -> StoredDocument | None:
        """One document."""
        found = self._space.one(_name(kind, key))
        return None if found is None else _stored(kind, key, found)

    def documents(self, kind: str, *, prefix: str = "", after: str = "", limit: int = 1000) -> Sequence[StoredDocument]:
        """The first documents of a kind, by their keys."""
        span = below("document", kind, prefix=prefix, after=after or None)
        found = islice(self._space.scan(span, page=max(1, min(limit, 100))), limit)
        return [_stored(kind, parts_of(name)[-1], value) for name, value in found]

    def put_document(
        self, kind: str, key: str, body: Mapping[str, Any], *, version: int | None = None
    ) -> StoredDocument:
        """Write a document."""
        name = _name(kind, key)
        text = json.dumps(body)
        now = self.now()

        def decide(values: Mapping[str, bytes]) -> Change[StoredDocument]:
            seen = _expected(values.get(name), kind, key, version)
            written = 1 + (seen.version if seen else 0)
            row = {"kind": kind, "key": key, "version": written, "changed_at": now, "body": text}
            puts = {name: row_bytes(row), age_key(kind, key, now): b""}
            old = [age_key(kind, key, seen.changed_at)] if seen else []
            stored = StoredDocument(kind=kind, key=key, body=json.loads(text), version=written, changed_at=now)
            return Change(result=stored, puts=puts, deletes=old)

        return self._space.change([name], decide)

    def remove_document(self, kind: str, key: str, *, version: int | None = None) -> bool:
        """Remove a document."""
        return self._remove(kind, key, version=version)

    def forget_documents(self, kind: str, *, before: datetime) -> int:
        """Drop documents that were changed last before a moment."""
        old = below("document-age", kind, before=ascending(before))
        keys = [parts_of(name)[-1] for name, _ in self._space.scan(old)]
        return sum(self._remove(kind, key, before=before) for key in keys)

    def _remove(self, kind: str, key: str, *, version: int | None = None, before: datetime | None = None) -> bool:
        name = _name(kind, key)

        def decide(values: Mapping[str, bytes]) -> Change[bool]:
            seen = _expected(values.get(name), kind, key, version)
            if seen is None or (before is not None and seen.changed_at >= before):
                return Change(result=False)
            return Change(result=True, deletes=[name, age_key(kind, key, seen.changed_at)])

        return self._space.change([name], decide)


def _name(kind: str, name: str) -> str:
    return key("document", kind, name)


def age_key(kind: str, name: str, changed_at: datetime) -> str:
    """The key under which a document is found when it is old."""
    return key("document-age", kind, ascending(changed_at), name)


def _expected(value: bytes | None, kind: str, name: str, version: int | None) -> StoredDocument | None:
    """The document as it is; Conflict if that is not what was seen."""
    seen = None if value is None else _stored(kind, name, value)
    if version is not None and version != (seen.version if seen else 0):
        raise Conflict(f"{kind} {name} was changed by somebody else meanwhile: look at it again")
    return seen


def _stored(kind: str, name: str, value: bytes) -> StoredDocument:
    row = row_of(value, DOCUMENT_MOMENTS)
    return StoredDocument(
        kind=kind, key=name, body=json.loads(row["body"]), version=row["version"], changed_at=row["changed_at"]
    )
