"""Copying all that one record store keeps into another one."""

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from icepact.model.documents import Document
from icepact.model.errors import BadInput
from icepact.model.formatting import plural
from icepact.model.job import JobStatus
from icepact.record.rows import KEYS, NAMES, Row
from icepact.record.store import RecordStore

_KIND = "store-copy"
"""Of the document that says in a store that a copy into it has not ended yet."""
_BATCH = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class TableCopy(Document):
    """What became of one table."""

    table: str
    rows: int
    """In the store that is copied from."""
    before: int
    """In the other one, before."""
    written: int
    """0 if nothing was to be written."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreCopy(Document):
    """What became of a copy."""

    copied: bool
    """False if it was only looked at."""
    resumed: bool
    """Whether an earlier copy had not ended."""
    tables: Sequence[TableCopy]


def copy_store(
    source: RecordStore,
    target: RecordStore,
    *,
    origin: str,
    dry_run: bool = False,
    into_existing: bool = False,
) -> StoreCopy:
    """Copy all rows, and make sure that they have arrived. `origin` names the source: a copy from there that did not
    end is gone on with. BadInput if somebody works with the source, or if there is something in the target already,
    unless rows are only to be added to it."""
    _refuse_while_in_use(source)
    begun = target.document(_KIND, "copy")
    resumed = begun is not None and begun.body.get("origin") == _fingerprint(origin)
    before = {table: target.count_rows(table) for table in KEYS}
    if not resumed and not into_existing and any(before.values()):
        found = ", ".join(f"{rows} {NAMES[table]}" for table, rows in before.items() if rows)
        raise BadInput(f"there is something in that store already ({found}): say --into-existing to add to it")
    rows = {table: source.count_rows(table) for table in KEYS}
    written = dict.fromkeys(KEYS, 0)
    if not dry_run:
        replace = resumed or not into_existing
        target.put_document(_KIND, "copy", {"origin": _fingerprint(origin)})
        for table in KEYS:
            for some in _batches(_wanted(table, source.rows(table))):
                written[table] += target.put_rows(table, some, replace=replace)
        for table in KEYS:
            _verify(table, source, target, whole=replace)
        target.remove_document(_KIND, "copy")
    tables = [
        TableCopy(table=NAMES[table], rows=rows[table], before=before[table], written=written[table]) for table in KEYS
    ]
    return StoreCopy(copied=not dry_run, resumed=resumed, tables=tables)


def _refuse_while_in_use(source: RecordStore) -> None:
    now = source.now()
    held = sum(1 for row in source.rows("leases") if row["held"] and row["expires_at"] > now)
    running = sum(
        1
        for row in source.rows("jobs")
        if row["status"] == JobStatus.RUNNING and row["expires_at"] is not None and row["expires_at"] > now
    )
    if held or running:
        raise BadInput(
            f"the store is in use ({plural(held, 'table')} held, {plural(running, 'job')} running): stop what works "
            "with it, and copy it then"
        )


def _verify(table: str, source: RecordStore, target: RecordStore, *, whole: bool) -> None:
    """BadInput unless all rows have arrived, and as they were if they had to be."""
    wanted = _digests(table, source.rows(table))
    found = _digests(table, target.rows(table))
    missing = len(wanted.keys() - found.keys())
    other = sum(1 for key, digest in wanted.items() if whole and found.get(key, digest) != digest)
    if missing or other:
        raise BadInput(
            f"not all {NAMES[table]} have arrived ({missing} are missing, {other} are not as they were): somebody "
            "works with one of the stores"
        )


def _digests(table: str, rows: Iterator[Row]) -> dict[bytes, bytes]:
    """A hash of each row, by that of its key."""
    return {
        _digest([row[name] for name in KEYS[table]]): _digest({name: row[name] for name in sorted(row)})
        for row in _wanted(table, rows)
    }


def _digest(value: Any) -> bytes:
    text = json.dumps(value, default=_plain)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    assert isinstance(value, bytes | memoryview)
    return b64encode(bytes(value)).decode()


def _wanted(table: str, rows: Iterator[Row]) -> Iterator[Row]:
    """Rows without what an earlier copy has noted for itself."""
    return (row for row in rows if table != "documents" or row["kind"] != _KIND)


def _batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while some := list(islice(rows, _BATCH)):
        yield some


def _fingerprint(origin: str) -> str:
    return hashlib.sha256(origin.encode()).hexdigest()


def sizes_of(store: RecordStore) -> Mapping[str, int]:
    """How many rows of each kind are in a store."""
    return {NAMES[table]: store.count_rows(table) for table in KEYS}
