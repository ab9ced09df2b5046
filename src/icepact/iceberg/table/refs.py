"""Tags and branches of a table: which there are, the history of a branch, and making a tag."""

from datetime import UTC, datetime
from typing import NamedTuple

from icepact.iceberg.java.bridge import JavaError, error_class, error_line, retry_reads, through_a_file
from icepact.iceberg.java.classes import instance_of
from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import CommitRefused, CommitUnknown, HeadMoved

_CONFLICTS = {"CommitFailedException", "IllegalArgumentException", "ValidationException"}
_REFUSALS = {"NotAuthorizedException", "ForbiddenException", "NoSuchTableException"}


class Ref(NamedTuple):
    """A tag or a branch."""

    name: str
    snapshot_id: int
    is_tag: bool
    max_age_ms: int | None


def refs_of(table: IcebergTable) -> dict[str, Ref]:
    """All tags and branches, as the table was last read."""
    refs, found = table.table.refs(), {}
    for name in table.java.keys(refs):
        ref = refs[name]
        age = ref.maxRefAgeMs()
        found[str(name)] = Ref(str(name), int(ref.snapshotId()), bool(ref.isTag()), None if age is None else int(age))
    return found


@retry_reads
def history_of(table: IcebergTable, branch: str) -> list[tuple[int, datetime]]:
    """The snapshots of a branch and when they were committed, oldest first, as far as they have not expired."""
    log, snapshots = instance_of(table.java, "SnapshotLog"), table.table.operations().current().snapshots()
    nothing = table.java.from_json([""], "java.util.ArrayList")
    lines = through_a_file(lambda path: log.snapshots(snapshots, nothing, path)).decode().splitlines()
    known = {int(line.split("\t")[0]): line.split("\t") for line in lines}
    found: list[tuple[int, datetime]] = []
    at = table.head_id(branch)
    while at is not None and at in known:
        _, parent, _, committed, *_ = known[at]
        found.append((at, datetime.fromtimestamp(int(committed) / 1000, UTC)))
        at = int(parent) if parent else None
    return found[::-1]


def create_tag(table: IcebergTable, name: str, snapshot_id: int, *, max_age_ms: int | None) -> None:
    """Make a tag, which must not be there yet, by one compare-and-set: it never moves one.

    Raises HeadMoved if it did not happen and should be judged again, CommitRefused if the catalog does not want it,
    CommitUnknown if nobody can tell.
    """
    try:
        change = table.table.manageSnapshots().createTag(name, snapshot_id)
        if max_age_ms is not None:
            change = change.setMaxRefAgeMs(name, max_age_ms)
    except JavaError as error:  # nothing was sent
        raise HeadMoved(error_line(error)) from error
    try:
        change.commit()
    except Exception as error:
        kind = error_class(error)
        if kind in _CONFLICTS:
            raise HeadMoved(error_line(error)) from error
        if kind in _REFUSALS:
            raise CommitRefused(error_line(error)) from error
        raise CommitUnknown(f"{kind}: {error_line(error)}") from error
