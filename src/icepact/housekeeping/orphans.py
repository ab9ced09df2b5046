"""Removal of orphans: storage is held against everything that the table needs; what is old and not needed goes."""

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from icepact.housekeeping.expire import refuse_protected
from icepact.iceberg.commit.deletion import BulkDeletion
from icepact.iceberg.commit.run_files import RUN_FOLDER
from icepact.iceberg.table.listing import (
    NeededFiles,
    Neighbour,
    OrphanSearch,
    checked_folder,
    is_inside,
    kind_of,
    locations_of,
    spelled_as_listed,
)
from icepact.iceberg.table.reachability import FileToDelete, in_portions, totals_of
from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import BadInput
from icepact.model.formatting import plural
from icepact.model.housekeeping import NO_FILES, Kept
from icepact.model.orphans import OTHER_TABLES, OrphanFile, OrphansResult, RemoveOrphans

_KNOWN: dict[str, NeededFiles] = {}
"""Of the table that was looked at last: what is needed only grows there, so that it may be held on to."""


class Journal(Protocol):
    """What a removal asks and says."""

    def check(self) -> None:
        """Raise if the run must stop."""

    def deleted(self, files: int, size: int) -> None:
        """So many files, with so many bytes, are gone."""


def plan_orphans(
    table: IcebergTable,
    *,
    older_than: datetime,
    exclude: Sequence[str],
    runs: Mapping[str, str],
    neighbours: Callable[[], Mapping[str, Neighbour]],
    uploads: Callable[[str], int],
) -> RemoveOrphans | str:
    """The orphans of a table that are old enough, or why there is nothing to do. `runs` are ids of icepact's own runs
    whose files are not to be touched, and why; `neighbours` are the other tables of the catalog by name; `uploads`
    counts unfinished uploads below a folder that are old enough."""
    refuse_protected(table)
    locations = locations_of(table)
    excluded = [checked_folder(table, folder) for folder in exclude]
    others = neighbours()
    refuse_shared(table, locations, excluded, others)
    _refuse_stray(table, locations, excluded, others)
    before = int(older_than.timestamp() * 1000)
    with OrphanSearch(table, locations, before=before, excluded=excluded, marks=_marks(runs)) as search:
        found = search.found(_needed_files(table, locations))
    begun = sum(uploads(location) for location in locations)
    kept = [Kept(what=f"files of run {run_id}", why=why) for run_id, why in runs.items()] if found.marked else []
    if found.young:
        kept.append(Kept(what=plural(found.young, "file"), why=f"younger than {older_than:%Y-%m-%d %H:%M} UTC"))
    if not found.orphans and not begun:
        stays = f"; {'; '.join(f'{entry.what}: {entry.why}' for entry in kept)}" if kept else ""
        return f"no orphans among {plural(found.listed, 'file')}{stays}"
    return RemoveOrphans(
        older_than=older_than,
        locations=locations,
        excluded=tuple(excluded),
        paths=tuple(found.orphans),
        files=totals_of(_to_delete(found.orphans)),
        uploads=begun,
        listed=found.listed,
        reason=f"written before {older_than:%Y-%m-%d %H:%M} UTC, and needed by no snapshot",
        kept=tuple(kept),
    )


def carry_out_orphans(
    table: IcebergTable,
    step: RemoveOrphans,
    *,
    journal: Journal,
    runs: Mapping[str, str],
    neighbours: Callable[[], Mapping[str, Neighbour]],
    abort_uploads: Callable[[str], int],
) -> OrphansResult:
    """Delete exactly what was listed and is still an orphan: the table is read again before each portion goes, because
    a writer may have committed files that it had written long before; and other tables are asked for again, because
    one may have been made there."""
    started = time.monotonic()
    refuse_protected(table)
    locations = locations_of(table)
    _refuse_strange(table, step, locations)
    refuse_shared(table, locations, step.excluded, neighbours())
    needed = _needed_files(table, locations)
    deletion, gone, again, left = BulkDeletion(table), NO_FILES, 0, 0
    marks = _marks(runs)
    for portion in in_portions(_to_delete(step.paths)):
        journal.check()
        table.refresh()
        refuse_protected(table)
        needed.add(table)
        orphans = needed.unneeded([OrphanFile(file.path, file.size, 0) for file in portion])
        unmarked = frozenset(file.path for file in orphans if not any(mark in file.path for mark in marks))
        again += len(portion) - len(unmarked)
        stayed = frozenset(deletion.delete(sorted(unmarked)))
        left += len(stayed)
        totals = totals_of(file for file in portion if file.path in unmarked and file.path not in stayed)
        gone += totals
        journal.deleted(totals.files, totals.bytes)
    aborted = sum(abort_uploads(location) for location in locations) if step.uploads else 0
    return OrphansResult(
        files=gone,
        bytes_freed=gone.bytes,
        uploads_aborted=aborted,
        needed_again=again,
        listed=step.listed,
        kept=step.kept,
        reason=f"{plural(left, 'file')} could not be deleted" if left else "",
        seconds=round(time.monotonic() - started, 3),
    )


def _refuse_strange(table: IcebergTable, step: RemoveOrphans, locations: Sequence[str]) -> None:
    """Raise BadInput if a list has files that are not the table's: it may be of before the table moved, or edited."""
    for file in step.paths:
        if not any(is_inside(file.path, folder) for folder in locations) or "/../" in file.path:
            raise BadInput(f"{file.path} is not below {' or '.join(locations)}, where {table.name} is: plan again")
        if any(is_inside(file.path, folder) for folder in step.excluded):
            raise BadInput(f"{file.path} is in a folder that the plan leaves alone: plan again")


def refuse_shared(
    table: IcebergTable, locations: Sequence[str], excluded: Sequence[str], neighbours: Mapping[str, Neighbour]
) -> None:
    """Raise BadInput if another table writes at, above or below a location, or cannot be loaded, unless its folder is
    excluded."""
    for name, neighbour in sorted(neighbours.items()):
        spelled = [spelled_as_listed(table, location) for location in neighbour.locations]
        others = [other for other in spelled if not any(is_inside(other, folder) for folder in excluded)]
        if neighbour.error and (others or not spelled):
            raise BadInput(f"{OTHER_TABLES}{neighbour.error}; {_way_forward(others)}")
        for other in others:
            for folder in locations:
                if is_inside(other, folder) or is_inside(folder, other):
                    raise BadInput(
                        f"{OTHER_TABLES}table {name} is at {other}, and {table.name} at {folder}: what belongs to one "
                        f"may look like an orphan of the other, so nothing is deleted; --exclude {other} leaves its "
                        "folder alone"
                    )


def _way_forward(others: Sequence[str]) -> str:
    """What to do about a table that cannot be loaded, whose metadata is in one of some folders, as far as anybody
    knows."""
    doubt = "what it needs may look like an orphan of another table, so nothing is deleted"
    if not others:
        return f"{doubt}, and its catalog does not tell where it is: mend it, or take it out of the catalog"
    return (
        f"{doubt}: mend it, take it out of the catalog, or leave its folder alone with --exclude {others[0]}, where "
        "its metadata is, and so with every other one that it writes to"
    )


def _refuse_stray(
    table: IcebergTable, locations: Sequence[str], excluded: Sequence[str], neighbours: Mapping[str, Neighbour]
) -> None:
    """Raise BadInput if a folder is excluded that has to do with no table: it may be misspelled."""
    known = [*locations, *(spelled_as_listed(table, at) for one in neighbours.values() for at in one.locations)]
    for folder in excluded:
        if not any(is_inside(folder, location) or is_inside(location, folder) for location in known):
            raise BadInput(
                f"--exclude {folder}: neither {table.name}, which is at {' and '.join(locations)}, nor another table"
                " of the catalog is at, above or below it; see how it is spelled"
            )


def _needed_files(table: IcebergTable, locations: Sequence[str]) -> NeededFiles:
    """What the table needs now."""
    known = _KNOWN.get(table.uuid)
    if known is None or known.locations != tuple(locations) or not known.is_of(table):
        _KNOWN.clear()
        known = _KNOWN[table.uuid] = NeededFiles(table, locations)
    else:
        known.add(table)
    return known


def _marks(runs: Mapping[str, str]) -> list[str]:
    return [f"{RUN_FOLDER}{run_id}" for run_id in runs]


def _to_delete(files: Sequence[OrphanFile]) -> list[FileToDelete]:
    return [FileToDelete(kind_of(file.path), file.size, file.path) for file in files]
