"""The audit log: who changed what of the service, when, and what came of it.

Entries are documents that are written once. Their keys are sorted by tenant, and by time from the newest on; each
tenant's log is read by itself, so that nobody can see from it how much goes on elsewhere.
"""

import json
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from heapq import merge
from itertools import islice
from threading import Lock
from typing import Any

from icepact.model.document import StoredDocument
from icepact.model.documents import document_of, from_json
from icepact.model.errors import BadInput
from icepact.model.tenant import AuditEntry, Caller, check_tenant_name
from icepact.record.store import DocumentStore

AUDIT = "audit"
"""Kind of the documents."""
DONE = "done"
KEPT = timedelta(days=400)
"""For so long entries are kept unless somebody says otherwise."""
_LAST = 10**19
"""Nanoseconds since 1970, counted down from here, are in the ids."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_AT_ONCE = 200
_LONGEST = 1000
"""Characters of one text in an entry."""
_log = logging.getLogger("icepact.audit")


class Audit:
    """The audit log in a record store."""

    def __init__(self, store: DocumentStore, *, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._store = store
        self._clock = clock
        self._last = 0
        self._lock = Lock()

    def record(
        self,
        by: Caller | str,
        action: str,
        target: str,
        *,
        tenant: str | None = None,
        result: str = DONE,
        request_id: str | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> AuditEntry:
        """Write down that somebody did something, or tried to. `by` is who asked, or who sits at the machine; `tenant`
        is whose things it was about, if it is not the tenant of who asked. No secret belongs into any of it."""
        about = tenant or (by.tenant if isinstance(by, Caller) else None)
        if about is None:
            raise BadInput("an entry of the audit log is about a tenant's things")
        now = self._clock()
        entry = AuditEntry(
            entry_id=self._new_id(now),
            at=now,
            tenant=check_tenant_name(about),
            by=_cut(_who(by) if isinstance(by, Caller) else by),
            action=action,
            target=_cut(target),
            result=_cut(result),
            request_id=None if request_id is None else _cut(request_id),
            details=_short(details or {}),
        )
        self._store.put_document(AUDIT, f"{entry.tenant}/{entry.entry_id}", document_of(entry), version=0)
        _log.info("%s: %s of %s by %s: %s", entry.tenant, entry.action, entry.target, entry.by, entry.result)
        return entry

    def entries(self, tenant: str | None = None, *, after: str = "", limit: int = 100) -> Sequence[AuditEntry]:
        """Entries about a tenant, or about all of them, the newest first; only those that are older than the one whose
        id is `after`."""
        if tenant is not None:
            return list(islice(self._of(tenant, after, limit), limit))
        every = (self._of(name, after, limit) for name in self._tenants())
        return list(islice(merge(*every, key=lambda entry: entry.entry_id), limit))

    def forget(self, *, kept: timedelta = KEPT) -> int:
        """Drop entries that are older than that; returns how many."""
        return self._store.forget_documents(AUDIT, before=self._clock() - kept)

    def _of(self, tenant: str, after: str, limit: int) -> Iterator[AuditEntry]:
        prefix = f"{tenant}/"
        last, most = f"{prefix}{after}" if after else "", min(limit, _MOST_AT_ONCE)
        while True:
            page = self._store.documents(AUDIT, prefix=prefix, after=last, limit=most)
            yield from map(_entry, page)
            if len(page) < most:
                return
            last = page[-1].key

    def _tenants(self) -> Iterator[str]:
        """All that there are entries about, those included that were removed."""
        after = ""
        while found := self._store.documents(AUDIT, after=after, limit=1):
            name = found[0].key.partition("/")[0]
            yield name
            after = f"{name}0"  # the character after the slash

    def _new_id(self, now: datetime) -> str:
        """Smaller than all before it of this process, whatever its clock does."""
        with self._lock:
            self._last = max(self._last + 1, (now - _EPOCH) // timedelta(microseconds=1) * 1000)
            return f"{_LAST - self._last:019d}-{secrets.token_hex(4)}"


def _who(caller: Caller) -> str:
    if caller.key_id is None:
        return f"nobody in particular, without a key, for {caller.tenant}"
    name = f" ({caller.name})" if caller.name else ""
    return f"key {caller.key_id}{name} of {caller.tenant}"


def _entry(stored: StoredDocument) -> AuditEntry:
    return from_json(AuditEntry, json.dumps(stored.body))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _short(details: Mapping[str, Any]) -> dict[str, Any]:
    """The details, unless there are too many of them."""
    document: dict[str, Any] = json.loads(json.dumps(dict(details), default=str))
    return document if len(json.dumps(document)) <= 20 * _LONGEST else {"cut": sorted(map(str, details))[:100]}
