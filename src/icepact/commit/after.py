"""The check after a commit: every delete that must still be live is, and the rows add up; otherwise back at once."""

import hashlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

from icepact.iceberg.java import error_line
from icepact.iceberg.replace import roll_back
from icepact.iceberg.table import IcebergTable
from icepact.model.errors import CommitBroken, CommitUnknown
from icepact.model.run import Attempt
from icepact.model.table import DeleteFile


class _Found(NamedTuple):
    deletes: str
    off: int
    """By how much the number of records differs from what it should be."""
    parent: int | None
    missing: frozenset[str]
    """New files that are not on storage."""


def told(deletes: Iterable[DeleteFile], *, since: int) -> str:
    """Deletes from a sequence number on in one word: how many, and which."""
    keys = sorted(map(repr, (d.key for d in deletes if d.sequence_number >= since)))
    return f"{len(keys)}:{hashlib.sha256(','.join(keys).encode()).hexdigest()[:32]}"


def check_after(
    table: IcebergTable,
    branch: str,
    attempt: Attempt,
    snapshot_id: int,
    *,
    missing: Callable[[], frozenset[str]],
    stop: Callable[[str], None],
) -> None:
    """Raises CommitBroken if a commit did something else than it should; it is rolled back if nothing came since.

    Needs nothing but the attempt as it was recorded: whoever finds out that it landed can do this. `missing` tells
    which new files are not on storage: a removal of orphans may take some while the commit is under way. `stop` hears
    what is wrong before anything is rolled back: whoever dies then must have been heard.
    """
    if not attempt.deletes:  # of an older version, which did not write down what to check
        return
    found = _read(table, attempt, snapshot_id, missing)
    what = _wrong(attempt, found)
    if what is None:
        return
    broken = f"{what} since the commit of snapshot {snapshot_id}"
    stop(broken)
    back = found.parent is not None and roll_back(table, branch, bad=snapshot_id, good=found.parent)
    raise CommitBroken(
        f"{broken}; "
        + (
            "it was rolled back"
            if back
            else "it could not be rolled back, most likely because the table moved on: look at it now"
        )
    )


def _wrong(attempt: Attempt, found: _Found) -> str | None:
    wanted, live = attempt.deletes.partition(":")[0], found.deletes.partition(":")[0]
    if found.off:
        return f"the row count is off by {found.off}"
    if wanted != live:
        return f"{wanted} deletes should be live and {live} are"
    if found.deletes != attempt.deletes:
        return "other deletes are live than should be"
    if found.missing:
        return f"{len(found.missing)} of the new files are not on storage, first {min(found.missing)},"
    return None


def _read(table: IcebergTable, attempt: Attempt, snapshot_id: int, missing: Callable[[], frozenset[str]]) -> _Found:
    try:
        parent = table.parent_of(snapshot_id)
        before = table.total_rows(parent) if parent is not None and table.has_snapshot(parent) else None
        after = table.total_rows(snapshot_id)
        return _Found(
            deletes=told(table.deletes_of(snapshot_id), since=attempt.deletes_since),
            off=0 if before is None or after is None else after - before - attempt.added_rows,
            parent=parent,
            missing=missing(),
        )
    except Exception as error:
        raise CommitUnknown(f"snapshot {snapshot_id} landed, but cannot be checked: {error_line(error)}") from error
