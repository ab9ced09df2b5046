"""Deletes that reached inputs while they were rewritten, written anew as deletes of the outputs: together with those
that a group carries by plan, since a data file has one vector at most.

The row maps of the units say where each row is now. No row is read, but for the keys where equality deletes are among
them that will not reach the outputs. What cannot be told for certain is not taken along: the unit is done again then.
Where a method makes no map, ids of rows do not tell instead: an updated row has the id of the one that it replaced, and
that one is deleted by position.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from itertools import count
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from icepact.execute.assemble.carried import rows_in_outputs, rows_of_input
from icepact.execute.assemble.messages import InputFile
from icepact.execute.assemble.new_deletes import VECTORS_FROM, new_file, write_deletes
from icepact.execute.assemble.row_map import ranges_by_input
from icepact.execute.assemble.task import fetch
from icepact.execute.deletes.bitmaps import decode_positions
from icepact.execute.deletes.cache import DeleteCache
from icepact.execute.rewriters.base import UnitResult
from icepact.execute.rewriters.writing import input_file
from icepact.execute.storage.base import Storage
from icepact.execute.storage.open import refusal, storage_for
from icepact.execute.units import unit_ids
from icepact.iceberg.table.staging import FileDocument, Staging, has_plain_partition
from icepact.iceberg.table.write_context import write_context
from icepact.model.errors import Cancelled, IcepactError, RunLost
from icepact.model.files import DeleteFile, DeleteKind
from icepact.model.late_deletes import HeadDeletes, NotCarried
from icepact.model.plan import Plan, RewriteFiles, Unit
from icepact.model.row_map import RowMap, RowRange

MOST_BYTES, MOST_ROWS = 128 * 1024**2, 20_000_000
"""Of deletes that are read for one group: with more, the group is planned again, and its tasks read them."""
_AT_ONCE = 8
"""Inputs whose deletes are read at the same time."""
FindByKey: TypeAlias = Callable[[Sequence[InputFile]], Mapping[str, NDArray[np.int64]]]
"""Finds the rows of data files that their equality deletes delete: positions, ascending, by path."""
_Changed: TypeAlias = Mapping[str, HeadDeletes]
"""By the path of an input."""


class _NotCarried(Exception):
    """Why deletes cannot be taken along."""

    useless: Collection[str] = ()
    """Outputs that the reason is about; empty if it is about the group."""


class LateDeletes:
    """Takes deletes along for the groups of one round of a run."""

    def __init__(
        self,
        staging: Staging,
        plan: Plan,
        results: Mapping[str, UnitResult],
        on_file: Callable[[str], None],
        find_by_key: FindByKey,
    ) -> None:
        """`on_file` hears the path of each new file before there is one."""
        self._staging = staging
        self._plan = plan
        self._steps = {step.group_id: step for step in plan.rewrites}
        self._results = results
        self._on_file = on_file
        self._find_by_key = find_by_key
        self._numbers = count()

    def carry(self, group_id: str, changed: _Changed) -> Sequence[FileDocument] | NotCarried:
        """All deletes of the group's outputs: those that it carries, and those of these inputs, written anew; or why
        that cannot be done."""
        step = self._steps[group_id]
        try:
            storage = self._storage()
            _check_size(changed)
            self._check_maps(step, changed)
            found, kept = self._located(step, changed, self._positions(step, changed, storage), storage)
            return [*kept, *self._written(step, found, storage)]
        except _NotCarried as error:
            return NotCarried(str(error), frozenset(error.useless))
        except (Cancelled, RunLost):
            raise
        except (IcepactError, ValueError) as error:
            return NotCarried(f"they cannot be taken along: {error}")

    def copy(self, delete: DeleteFile, group_id: str) -> str:
        """Copy a delete file as it is to the files of a group; returns the path."""
        if delete.size > MOST_BYTES:
            raise _NotCarried(f"it has more than {MOST_BYTES >> 20} MiB")
        storage = self._storage()
        stem = self._staging.output_path(unit_ids(self._steps[group_id])[0])
        path = f"{stem}-moved-{next(self._numbers)}.{delete.format}"
        data = fetch(storage, delete)
        self._on_file(path)
        with new_file(path, storage) as sink:
            sink.append(data)
        return path

    def _storage(self) -> Storage:
        facts = write_context(self._staging.table, [])
        reason = refusal(facts.io, facts.credentials)
        if reason is not None:
            raise _NotCarried(reason)
        return storage_for(facts.io, facts.credentials)

    def _positions(self, step: RewriteFiles, changed: _Changed, storage: Storage) -> dict[str, NDArray[np.int64]]:
        """Rows that are deleted now and not by deletes that reach the outputs, too, by input."""
        cache = DeleteCache(partial(fetch, storage))
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="icepact-deletes") as pool:
            found = pool.map(lambda path: cache.positions(changed[path].deletes, path), changed)
            positions = dict(zip(changed, found, strict=True))
        asked = [
            replace(input_file(file._replace(deletes=()), ()), deletes=tuple(changed[file.path].by_key))
            for unit in step.units
            for file in unit.files
            if file.path in changed and changed[file.path].by_key
        ]
        by_key = self._find_by_key(asked) if asked else {}
        return positions | {path: np.union1d(positions[path], rows) for path, rows in by_key.items()}

    def _check_maps(self, step: RewriteFiles, changed: _Changed) -> None:
        """Refuse before anything is read if it is not known of some units where their rows are now."""
        useless: set[str] = set()
        reason = ""
        for unit_id, unit in zip(unit_ids(step), step.units, strict=True):
            if any(file.path in changed for file in unit.files):
                try:
                    self._map_of(self._results[unit_id], unit)
                except _NotCarried as error:
                    reason = str(error)
                    useless |= {file.path for file in self._results[unit_id].files}
        if reason:
            raise _about(useless, reason)

    def _located(
        self, step: RewriteFiles, changed: _Changed, deleted: Mapping[str, NDArray[np.int64]], storage: Storage
    ) -> tuple[dict[str, NDArray[np.int64]], list[FileDocument]]:
        """Positions that are to be deleted, by output; and deletes that the group carries and that say all there is."""
        found: dict[str, NDArray[np.int64]] = {}
        kept: list[FileDocument] = []
        for unit_id, unit in zip(unit_ids(step), step.units, strict=True):
            result = self._results[unit_id]
            numbers = {number: file.path for number, file in enumerate(unit.files) if file.path in changed}
            if not numbers:
                kept += result.deletes
                continue
            outputs = [file.path for file in result.files]
            row_map, own = self._map_of(result, unit), _carried(result, storage)
            ranges = ranges_by_input(row_map)
            for number, path in numbers.items():
                if changed[path].replaced and not _still_deleted(
                    row_map, number, ranges.get(number, ()), own, deleted[path]
                ):
                    raise _about(outputs, f"rows of {path} that were deleted are not any more")
            more = rows_in_outputs(row_map, {n: deleted[path] for n, path in numbers.items()}, outputs)
            known = {outputs[number]: positions for number, positions in own.items()}
            whole = {path: np.union1d(positions, known.get(path, positions)) for path, positions in more.items()}
            grown = {path: positions for path, positions in whole.items() if len(positions) > len(known.get(path, ()))}
            found |= grown
            kept += [document for document in result.deletes if document["referenced-data-file"] not in grown]
        return found, kept

    def _map_of(self, result: UnitResult, unit: Unit) -> RowMap:
        """The row map of a unit, if it is one of these files."""
        if result.row_map is None:
            raise _NotCarried(f"method {result.method} does not tell where rows are")
        inputs, outputs = tuple(file.rows for file in unit.files), tuple(file.rows for file in result.files)
        if (result.row_map.inputs, result.row_map.outputs) != (inputs, outputs):
            raise _NotCarried("what tells where rows are is of other files")
        return result.row_map

    def _written(
        self, step: RewriteFiles, found: Mapping[str, NDArray[np.int64]], storage: Storage
    ) -> list[FileDocument]:
        """New delete files, as Iceberg's JSON describes them."""
        if not found:
            return []
        names = unit_ids(step)
        outputs = {str(d["file-path"]): d for unit_id in names for d in self._results[unit_id].documents}
        if not all(has_plain_partition(outputs[path]) for path in found):
            raise _NotCarried("Iceberg's JSON cannot describe their partition")
        stem = f"{self._staging.output_path(names[0])}-deletes"

        def name(ending: str) -> str:
            path = f"{stem}-{next(self._numbers)}.{ending}"
            self._on_file(path)
            return path

        vectors = self._plan.format_version >= VECTORS_FROM
        deletes = write_deletes(
            found, name, storage, vectors=vectors, created_by=f"icepact version {version('icepact')}"
        )
        return [
            delete.to_json(outputs[delete.referenced]["spec-id"], outputs[delete.referenced]["partition"])
            for delete in deletes
        ]


def _carried(result: UnitResult, storage: Storage) -> dict[int, NDArray[np.int64]]:
    """Rows of a unit's outputs that it carries although they are deleted: positions by the number of the output."""
    number_of = {file.path: number for number, file in enumerate(result.files)}
    cache = DeleteCache(partial(fetch, storage))
    return {
        number_of[delete.referenced]: cache.positions([delete], delete.referenced)
        for delete in map(_described, result.deletes)
        if delete.referenced is not None
    }


def _described(document: FileDocument) -> DeleteFile:
    """A new delete of one data file, by Iceberg's JSON of it."""
    vector = "content-offset" in document
    size = document["file-size-in-bytes"]
    return DeleteFile(
        path=document["file-path"],
        offset=document.get("content-offset"),
        kind=DeleteKind.DV if vector else DeleteKind.POSITION,
        size=document["content-size-in-bytes"] if vector else size,
        records=document["record-count"],
        spec_id=document["spec-id"],
        partition=tuple(document["partition"]),
        sequence_number=0,
        referenced=document["referenced-data-file"],
        format=document["file-format"],
        file_size=size,
    )


def _still_deleted(
    row_map: RowMap,
    number: int,
    ranges: Sequence[RowRange],
    own: Mapping[int, NDArray[np.int64]],
    deleted: NDArray[np.int64],
) -> bool:
    """Whether all rows of an input that were deleted when it was read are among these."""
    if number in row_map.dropped:
        then = decode_positions(row_map.dropped[number])
    else:
        then = rows_of_input(row_map, number, ranges, own)
    return bool(np.isin(then, deleted, assume_unique=True).all())


def _about(useless: Collection[str], reason: str) -> _NotCarried:
    error = _NotCarried(reason)
    error.useless = useless
    return error


def _check_size(changed: _Changed) -> None:
    deletes = {delete.key: delete for one in changed.values() for delete in one.deletes}.values()
    if sum(d.size for d in deletes) > MOST_BYTES or sum(d.records for d in deletes) > MOST_ROWS:
        raise _NotCarried(f"they have more than {MOST_BYTES >> 20} MiB, or {MOST_ROWS:,} rows")
