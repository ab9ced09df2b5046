"""Which deletes are converted, and which apply to nothing: decided from what scans attach to which data file.

A delete that a scan attaches to no data file applies to nothing for any reader: its data files are gone or newer, its
bounds rule all rows out, or a deletion vector stands in its place.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

from icepact.economics.key_join import join_seconds
from icepact.economics.scans import scan_seconds
from icepact.iceberg.java.bridge import JavaError
from icepact.iceberg.table.scan import live_deletes
from icepact.iceberg.table.table import HeadView, IcebergTable
from icepact.model.cost import Cost
from icepact.model.delete_files import ConvertDeletes, DeleteTotals
from icepact.model.effort import Estimate
from icepact.model.errors import PermanentError
from icepact.model.files import DataFile, DeleteFile, DeleteKind
from icepact.model.formatting import plural
from icepact.model.housekeeping import Kept
from icepact.model.key_join import KeyLookups

Key: TypeAlias = tuple[str, int | None]
VECTORS_FROM = 3
"""Format version in which positions are deleted by vectors."""
_KEYS_FROM = 2
"""Format version that knows deletes."""
_SECONDS, _SECONDS_PER_FILE, _SECONDS_PER_ROW, _SECONDS_PER_RECORD = 1.0, 0.02, 5e-8, 1e-6
"""Of work on one core: to begin and to commit, for each data file, for each row whose keys are read, and for each
delete record."""
_REQUESTS_PER_FILE = 3
_REQUESTS_PER_COMMIT = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class DeleteWork:
    """What is to be done about the deletes at one head."""

    files: Sequence[DataFile]
    """Data files whose deletes become one."""
    by_key: frozenset[Key]
    """Equality deletes that are resolved to positions."""
    by_position: frozenset[Key]
    """Position deletes and vectors that are taken up by new ones."""
    idle: frozenset[Key]
    """Deletes that apply to nothing."""
    kept: tuple[Kept, ...] = ()

    @property
    def is_nothing(self) -> bool:
        """Whether all is as it should be."""
        return not self.files and not self.idle


def find_work(
    files: Sequence[DataFile],
    deletes: Sequence[DeleteFile],
    *,
    version: int,
    points_to: Mapping[str, set[str]],
    only: frozenset[Key] | None = None,
) -> DeleteWork:
    """What is to be done. `files` are all data files that a delete is attached to, `points_to` tells of those of
    `unbound` of which data files they speak. Of equality deletes, none but `only` are resolved."""
    attached = _attached(files)
    kept: list[Kept] = []
    by_key = set[int]()
    for number, delete in enumerate(deletes):
        if (
            delete.kind is not DeleteKind.EQUALITY
            or number not in attached
            or (only is not None and delete.key not in only)
        ):
            continue
        other = next((file for file in attached[number] if file.format != "parquet"), None)
        if other is None:
            by_key.add(number)
        else:
            kept.append(Kept(what=str(delete), why=f"it applies to {other.path}, which is no Parquet file"))
    wanted = {file.path for number in by_key for file in attached[number]}
    merged, touched = _to_merge(files, deletes, attached, wanted, version)
    wanted |= touched
    merged |= {i for file in files if file.path in wanted for i in file.deletes if not _by_key(deletes[i])}
    live = {file.path for file in files}
    idle = {
        number
        for number, delete in enumerate(deletes)
        if number not in attached
        or (number not in merged and delete.path in points_to and points_to[delete.path].isdisjoint(live))
    }
    return DeleteWork(
        files=[file for file in files if file.path in wanted],
        by_key=_keys(deletes, by_key),
        by_position=_keys(deletes, merged),
        idle=_keys(deletes, idle - merged),
        kept=tuple(kept),
    )


def unbound(files: Sequence[DataFile], deletes: Sequence[DeleteFile], *, version: int) -> list[DeleteFile]:
    """Position-delete files that are not merged, and of which only their content tells whether they apply to anything:
    they are of a whole partition."""
    if version >= VECTORS_FROM:
        return []
    attached = _attached(files)
    merged, _ = _to_merge(files, deletes, attached, set(), version)
    return [
        delete
        for number, delete in enumerate(deletes)
        if delete.kind is DeleteKind.POSITION
        and delete.referenced is None
        and number in attached
        and number not in merged
    ]


def _attached(files: Sequence[DataFile]) -> dict[int, list[DataFile]]:
    """The data files that each delete is attached to."""
    attached: dict[int, list[DataFile]] = defaultdict(list)
    for file in files:
        for number in file.deletes:
            attached[number].append(file)
    return attached


def _by_key(delete: DeleteFile) -> bool:
    return delete.kind is DeleteKind.EQUALITY


def _keys(deletes: Sequence[DeleteFile], numbers: Iterable[int]) -> frozenset[Key]:
    return frozenset(deletes[number].key for number in numbers)


def _to_merge(
    files: Sequence[DataFile],
    deletes: Sequence[DeleteFile],
    attached: Mapping[int, Sequence[DataFile]],
    wanted: set[str],
    version: int,
) -> tuple[set[int], set[str]]:
    """Files of position deletes that are merged, and the data files that they are attached to.

    Where there are vectors: all of them. Otherwise those of a data file that has several of them or is `wanted` anyway;
    and, because a file of a whole partition only goes if all its data files have another one, all that hang together.
    """
    of = {
        file.path: [i for i in file.deletes if deletes[i].kind is DeleteKind.POSITION]
        for file in files
        if any(deletes[i].kind is DeleteKind.POSITION for i in file.deletes)
    }
    if version >= VECTORS_FROM:
        return {i for some in of.values() for i in some}, set(of)
    merged, touched = set[int](), set[str]()
    waiting = [path for path, some in of.items() if len(some) > 1 or path in wanted]
    while waiting:
        path = waiting.pop()
        if path in touched:
            continue
        touched.add(path)
        for number in of[path]:
            if number not in merged:
                merged.add(number)
                waiting += [file.path for file in attached[number] if file.path not in touched]
    return merged, touched


# -- at a table -----------------------------------------------------------------------------------


def deletes_at_head(table: IcebergTable, branch: str) -> tuple[HeadView, Sequence[DataFile]]:
    """The head of a branch, and all its data files that a delete is attached to. Raises PermanentError if its deletes
    contradict each other."""
    try:
        view = table.view(branch, [])
    except JavaError:
        _refuse_two_vectors(table, branch)
        raise
    _refuse_two_vectors_of(view.deletes)
    return view, view.everything.with_deletes().files(view.deletes)


def _refuse_two_vectors(table: IcebergTable, branch: str) -> None:
    snapshot = table.head(branch)
    if snapshot is not None:
        _refuse_two_vectors_of(live_deletes(table.java, table.table, snapshot)[1])


def _refuse_two_vectors_of(deletes: Sequence[DeleteFile]) -> None:
    """Two vectors for one data file say two things of it."""
    known: dict[str, DeleteFile] = {}
    for delete in deletes:
        if delete.kind is DeleteKind.DV and delete.referenced is not None:
            other = known.setdefault(delete.referenced, delete)
            if other is not delete:
                raise PermanentError(f"{delete.referenced} has two deletion vectors: {other} and {delete}")


def plan_deletes(
    table: IcebergTable, *, branch: str, task_memory: int, now: datetime, but: Collection[str] = ()
) -> ConvertDeletes | str:
    """Which deletes to convert or remove; or why none. Data files that somebody else takes care of are named in `but`,
    by path."""
    del now  # nothing here depends on the time
    if table.format_version < _KEYS_FROM:
        return f"format version {table.format_version} has no deletes"
    table.refresh()
    if table.head(branch) is None:
        return "the table has no snapshot yet"
    view, files = deletes_at_head(table, branch)
    if not view.deletes:
        return "there are no deletes"
    work = find_work(files, view.deletes, version=view.format_version, points_to=points_to(table, view, files))
    if work.is_nothing:
        return _why_nothing(view.deletes, work)
    if but:
        work = replace(work, files=[file for file in work.files if file.path not in but])
        if work.is_nothing:
            return "all data files that deletes apply to are rewritten"
    return _step(branch, view, work, task_memory)


def points_to(table: IcebergTable, view: HeadView, files: Sequence[DataFile]) -> dict[str, set[str]]:
    """Of which data files those position-delete files speak of which nothing else tells."""
    asked = [delete.path for delete in unbound(files, view.deletes, version=view.format_version)]
    return table.paths_in_position_deletes(view.snapshot_id, asked)


def _why_nothing(deletes: Sequence[DeleteFile], work: DeleteWork) -> str:
    if work.kept:
        first, more = work.kept[0], len(work.kept) - 1
        return f"{first.what} stays: {first.why}" + (f"; and {more:,} more" if more else "")
    vectors = sum(delete.kind is DeleteKind.DV for delete in deletes)
    if vectors == len(deletes):
        return f"{plural(vectors, 'deletion vector')}, one for each data file that has deleted rows: nothing is faster"
    return f"every data file has one delete at most ({totals_of(deletes)}): only a rewrite does away with them"


def totals_of(deletes: Iterable[DeleteFile]) -> DeleteTotals:
    """Deletes, counted."""
    some = list(deletes)
    kinds = [delete.kind for delete in some]
    return DeleteTotals(
        equality=kinds.count(DeleteKind.EQUALITY),
        positions=kinds.count(DeleteKind.POSITION),
        vectors=kinds.count(DeleteKind.DV),
        records=sum(delete.records for delete in some),
    )


def _step(branch: str, view: HeadView, work: DeleteWork, task_memory: int) -> ConvertDeletes:
    """The step, and what it takes."""
    into = work.by_key | work.by_position
    numbers = {number for file in work.files for number in file.deletes}
    converted = [delete for number, delete in enumerate(view.deletes) if delete.key in into and number in numbers]
    by_key = [delete for delete in converted if delete.key in work.by_key]
    idle = [delete for delete in view.deletes if delete.key in work.idle]
    ids = {i for delete in by_key for i in delete.equality_ids}
    attached = {i for i, delete in enumerate(view.deletes) if delete.key in work.by_key}
    read = [file for file in work.files if not attached.isdisjoint(file.deletes)]
    rows, records = sum(file.rows for file in read), sum(delete.records for delete in converted)
    join = KeyLookups(view.deletes, task_memory, only=attached).join(work.files)
    seconds = (
        _SECONDS
        + (0.0 if join is None else join_seconds(join.keys + join.rows).likely)
        + _SECONDS_PER_FILE * len(work.files)
        + _SECONDS_PER_ROW * rows * len(ids)
        + _SECONDS_PER_RECORD * records
    )
    writes = len(work.files) + _REQUESTS_PER_COMMIT
    vectors = view.format_version >= VECTORS_FROM
    if vectors:
        writes = min(writes, _REQUESTS_PER_COMMIT + 1 + records // 4_000_000)
    return ConvertDeletes(
        branch=branch,
        snapshot_id=view.snapshot_id,
        into="vectors" if vectors else "positions",
        converted=totals_of(converted),
        idle=totals_of(idle),
        data_files=len(work.files),
        data_bytes=sum(file.size for file in work.files),
        rows=sum(file.rows for file in work.files),
        reason=_reason(by_key, len(converted) - len(by_key)),
        kept=work.kept,
        joined=join,
        scan_seconds=_scan_seconds(view.deletes, work),
        cost=Cost(
            seconds=Estimate(likely=seconds, low=seconds / 3, high=seconds * 3),
            encoded_bytes=2 * records,
            requests=len(converted) + _REQUESTS_PER_FILE * len(read) + writes,
            write_requests=writes,
        ),
    )


def _scan_seconds(deletes: Sequence[DeleteFile], work: DeleteWork) -> float:
    """What a scan takes less: each data file has one delete then, and its rows are not compared with keys."""
    opened = sum(len(file.deletes) - 1 for file in work.files)
    keys = [delete.records if delete.key in work.by_key else 0 for delete in deletes]
    compared = sum(keys[number] for file in work.files for number in file.deletes)
    return scan_seconds(files=0, row_groups=0, delete_files=opened, delete_records=compared)


def _reason(by_key: Sequence[DeleteFile], others: int) -> str:
    """Why these."""
    if not by_key:
        return "so that a scan opens one delete for each data file"
    records = plural(sum(delete.records for delete in by_key), "key")
    return f"so that scans need not compare {records} with every row" + (
        ", and open one delete a file" if others else ""
    )
