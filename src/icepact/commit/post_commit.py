"""The check after a commit: every delete that must still be live is, and the rows add up; if not, it is taken back."""

import hashlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

from icepact.iceberg.commit.replace import roll_back
from icepact.iceberg.java.bridge import error_line
from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import CommitBroken, CommitUnknown
from icepact.model.run import Attempt


class _CommitState(NamedTuple):
    """What a commit has left in the table, as far as it can be checked."""

    deletes: str
    """Digest of the live deletes."""
    off: int
    """Records that are live and should not be; negative if some are missing."""
    parent: int | None
    missing: frozenset[str]
    """New files that are not on storage."""


def delete_digest(keys_of_deletes: Iterable[tuple[str, int | None]]) -> str:
    """Digest of some deletes: how many, and which."""
    keys = sorted(map(repr, keys_of_deletes))
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
    state = _read(table, attempt, snapshot_id, missing)
    what = _wrong(attempt, state)
    if what is None:
        return
    broken = f"{what} since the commit of snapshot {snapshot_id}"
    stop(broken)
    back = state.parent is not None and roll_back(table, branch, bad=snapshot_id, good=state.parent)
    raise CommitBroken(
        f"{broken}; "
        + (
            "it was rolled back"
            if back
            else "it could not be rolled back, most likely because the table moved on: look at it now"
        )
    )


def _wrong(attempt: Attempt, state: _CommitState) -> str | None:
    """What a commit did else than it should; `None` if nothing."""
    wanted, live = attempt.deletes.partition(":")[0], state.deletes.partition(":")[0]
    if state.off:
        return f"the row count is off by {state.off}"
    if wanted != live:
        return f"{wanted} deletes should be live and {live} are"
    if state.deletes != attempt.deletes:
        return "other deletes are live than should be"
    if state.missing:
        return f"{len(state.missing)} of the new files are not on storage, first {min(state.missing)},"
    return None


def _read(
    table: IcebergTable, attempt: Attempt, snapshot_id: int, missing: Callable[[], frozenset[str]]
) -> _CommitState:
    try:
        parent = table.parent_of(snapshot_id)
        before = table.total_rows(parent) if parent is not None and table.has_snapshot(parent) else None
        after = table.total_rows(snapshot_id)
        return _CommitState(
            deletes=delete_digest(
                d.key for d in table.deletes_of(snapshot_id) if d.sequence_number >= attempt.deletes_since
            ),
            off=0 if before is None or after is None else after - before - attempt.added_rows,
            parent=parent,
            missing=missing(),
        )
    except Exception as error:
        raise CommitUnknown(f"snapshot {snapshot_id} landed, but cannot be checked: {error_line(error)}") from error
