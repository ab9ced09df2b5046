"""Deletes of outputs: those that a group carries by plan, and those that reached its inputs while it was rewritten."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from icepact.commit.batches import Carrier, DeleteDocument, ProvenGroup
from icepact.commit.judge import Answer, DeleteKey, Verdict
from icepact.iceberg.java.bridge import error_line
from icepact.iceberg.table.table import HeadView
from icepact.model.errors import Cancelled, RunLost
from icepact.model.files import DeleteFile, DeleteKind
from icepact.model.late_deletes import HeadDeletes, NotCarried

_VECTORS_FROM = 3
"""Format version in which no files of position deletes may be added."""
_NOTHING_GOES = "no delete file goes for those that would come"


@dataclass(frozen=True, kw_only=True, slots=True)
class Moved:
    """A delete file that stays, under another path: Iceberg wants one to go where others come."""

    delete: DeleteFile
    """As it is at the head."""
    path: str
    """Of its copy, which has the same sequence number."""

    @property
    def paths(self) -> tuple[str, str]:
        """Its own, and that of its copy."""
        return self.delete.path, self.path

    @property
    def keys(self) -> Mapping[DeleteKey, DeleteKey]:
        """What it was known by, and what it is known by now."""
        return {self.delete.key: (self.path, None)}


@dataclass(frozen=True, kw_only=True, slots=True)
class TakenAlong:
    """What a commit adds besides its outputs."""

    documents: Mapping[str, Sequence[DeleteDocument]] = field(default_factory=dict)
    """Deletes of the outputs, by group."""
    late: int = 0
    """Rows that they delete and no plan knew of."""
    moved: Moved | None = None

    @property
    def all(self) -> list[DeleteDocument]:
        """Deletes of all outputs."""
        return [document for some in self.documents.values() for document in some]

    @property
    def rows(self) -> int:
        """Rows of the outputs that they delete."""
        return rows_of(self.all)

    @property
    def files(self) -> list[DeleteDocument]:
        """The new files, each once: vectors share one."""
        files = {document["file-path"]: document for document in self.all}
        if self.moved is not None:
            files[self.moved.path] = {
                "file-path": self.moved.path,
                "file-size-in-bytes": self.moved.delete.file_size or self.moved.delete.size,
            }
        return list(files.values())

    def files_of(self, group_id: str) -> frozenset[str]:
        """Paths of what is committed with a group."""
        own = {str(document["file-path"]) for document in self.documents.get(group_id, ())}
        return frozenset(own | ({self.moved.path} if self.moved else set()))


def rows_of(documents: Collection[DeleteDocument]) -> int:
    """Rows that some deletes delete."""
    return sum(int(document["record-count"]) for document in documents)


def take_along(
    carrier: Carrier,
    view: HeadView,
    groups: Sequence[ProvenGroup],
    *,
    changed: Collection[str],
    resolved: Collection[str],
    removed: Collection[DeleteKey],
) -> tuple[TakenAlong, dict[str, Verdict]]:
    """Deletes of the outputs of all groups, and why some groups cannot be committed with theirs.

    `changed` are groups whose inputs gained position deletes: these are written as deletes of the outputs, together
    with those that the group carries. Those of them that are `resolved` gained equality deletes that will not reach the
    outputs: the rows that they hit are deleted by position. `removed` are the deletes that go with the commit.
    """
    documents: dict[str, Sequence[DeleteDocument]] = {}
    fallen: dict[str, Verdict] = {}
    late = 0
    for group in groups:
        found: Sequence[DeleteDocument] | NotCarried = group.deletes
        if group.group_id in changed:
            found = _carried(carrier, group, _changed(group, view, resolve=group.group_id in resolved))
        if isinstance(found, NotCarried):
            fallen[group.group_id] = _again(found)
        else:
            documents[group.group_id] = found
            late += rows_of(found) - rows_of(group.deletes)
    moved: Moved | None = None
    if not fallen and not removed and any(documents.values()):
        found_one = _moved(carrier, view, groups)
        if isinstance(found_one, Moved):
            moved = found_one
        else:
            fallen = {g.group_id: _not_carried(g, found_one) for g in groups if documents[g.group_id]}
    return TakenAlong(documents=documents, late=late, moved=moved), fallen


def _not_carried(group: ProvenGroup, why: str) -> Verdict:
    if not group.deletes:
        return _again(NotCarried(why))
    return Verdict(answer=Answer.NOT_CARRIED, reason=f"its deletes cannot be carried: {why}")


def _again(why: NotCarried) -> Verdict:
    reason = f"new deletes apply to its inputs, and {why.reason}"
    return Verdict(answer=Answer.REPLAN, reason=reason, useless=why.useless)


def _carried(
    carrier: Carrier, group: ProvenGroup, changed: Mapping[str, HeadDeletes]
) -> Sequence[DeleteDocument] | NotCarried:
    try:
        return carrier.carry(group.group_id, changed)
    except (Cancelled, RunLost):
        raise
    except Exception as error:
        return NotCarried(error_line(error))


def _changed(group: ProvenGroup, view: HeadView, *, resolve: bool) -> dict[str, HeadDeletes]:
    """Inputs of a group to which other deletes apply at the head than when they were read."""
    now = {file.path: [view.deletes[i] for i in file.deletes] for file in view.files}
    changed: dict[str, HeadDeletes] = {}
    for then in group.inputs:
        attached = {delete.key for delete in now[then.path]}
        if attached != then.deletes:
            replaced = not then.deletes <= attached
            known = frozenset[DeleteKey]() if replaced else then.deletes
            by_key = [d for d in now[then.path] if d.kind is DeleteKind.EQUALITY and d.key not in known]
            changed[then.path] = HeadDeletes(now[then.path], replaced, by_key if resolve else ())
    return changed


def _moved(carrier: Carrier, view: HeadView, groups: Sequence[ProvenGroup]) -> Moved | str:
    """Copy one of the delete files that stay, the smallest that applies to an input; or why that cannot be done.

    Where none goes with the inputs, those that apply to them apply to other files, too. One of them goes, and comes
    again with its own sequence number, as a copy: under its old path an expiry would delete it.
    """
    inputs = {path for group in groups for path in group.paths}
    attached = {i for file in view.files if file.path in inputs for i in file.deletes}
    kinds = (
        {DeleteKind.EQUALITY} if view.format_version >= _VECTORS_FROM else {DeleteKind.EQUALITY, DeleteKind.POSITION}
    )
    movable = [d for d in (view.deletes[i] for i in attached) if d.kind in kinds and d.referenced is None]
    if not movable:
        return _NOTHING_GOES
    delete = min(movable, key=lambda d: (d.size, d.path))
    try:
        return Moved(delete=delete, path=carrier.copy(delete, next(group.group_id for group in groups)))
    except Exception as error:
        return f"{_NOTHING_GOES}, and {delete} cannot be copied: {error_line(error)}"
