"""Deletes that reached inputs while they were rewritten, written anew as deletes of the outputs.

The row maps of the units say where each row is now; no row is read. What cannot be told for certain is not taken along:
the group is planned again then. Where a method makes no map, ids of rows do not tell instead: an updated row has the id
of the one that it replaced, and that one is deleted by position.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from importlib.metadata import version
from itertools import count
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from icepact.execute.assemble.row_map import locate
from icepact.execute.assemble.task import fetch
from icepact.execute.deletes.bitmaps import decode_positions
from icepact.execute.deletes.cache import DeleteCache
from icepact.execute.deletes.writing import write_positions, write_vectors
from icepact.execute.rewriters.base import UnitResult
from icepact.execute.storage.base import Sink, Storage
from icepact.execute.storage.open import refusal, storage_for
from icepact.execute.units import unit_ids
from icepact.iceberg.table.staging import FileDocument, Staging, has_plain_partition
from icepact.iceberg.table.write_context import write_context
from icepact.model.errors import IcepactError
from icepact.model.files import DeleteFile
from icepact.model.plan import Plan, RewriteFiles, Unit
from icepact.model.row_map import RowMap

MOST_BYTES, MOST_ROWS = 128 * 1024**2, 20_000_000
"""Of deletes that are read for one group: with more, the group is planned again, and its tasks read them."""
_AT_ONCE = 8
"""Inputs whose deletes are read at the same time."""
_VECTORS_FROM = 3
"""Format version in which positions are deleted by vectors."""
_Changed: TypeAlias = Mapping[str, tuple[Sequence[DeleteFile], bool]]
"""By the path of an input: the deletes that apply to it now, and whether some that did do not any more."""


class _NotCarried(Exception):
    """Why deletes cannot be taken along."""


class LateDeletes:
    """Takes deletes along for the groups of one round of a run."""

    def __init__(
        self, staging: Staging, plan: Plan, results: Mapping[str, UnitResult], on_file: Callable[[str], None]
    ) -> None:
        """`on_file` hears the path of each new file before there is one."""
        self._staging = staging
        self._plan = plan
        self._steps = {step.group_id: step for step in plan.rewrites}
        self._results = results
        self._on_file = on_file
        self._numbers = count()

    def carry(self, group_id: str, changed: _Changed) -> Sequence[FileDocument] | str:
        """Write the deletes of these inputs as deletes of the group's outputs; or why that cannot be done."""
        step = self._steps[group_id]
        try:
            storage = self._storage()
            _check_size(changed)
            found = self._located(step, changed, _positions(changed, storage))
            return self._written(step, found, storage)
        except _NotCarried as error:
            return str(error)
        except (IcepactError, ValueError) as error:
            return f"they cannot be taken along: {error}"

    def _storage(self) -> Storage:
        facts = write_context(self._staging.table, [])
        reason = refusal(facts.io, facts.credentials)
        if reason is not None:
            raise _NotCarried(reason)
        return storage_for(facts.io, facts.credentials)

    def _located(
        self, step: RewriteFiles, changed: _Changed, deleted: Mapping[str, NDArray[np.int64]]
    ) -> dict[str, NDArray[np.int64]]:
        """Positions that are to be deleted, by output."""
        found: dict[str, list[NDArray[np.int64]]] = defaultdict(list)
        for unit_id, unit in zip(unit_ids(step), step.units, strict=True):
            result = self._results[unit_id]
            for number, file in enumerate(unit.files):
                if file.path not in changed:
                    continue
                row_map = self._map_of(result, unit)
                located = locate(row_map, number, deleted[file.path])
                if changed[file.path][1] and len(located.dropped) != _dropped(row_map, number):
                    raise _NotCarried(f"rows of {file.path} that were deleted are not any more")
                for output, positions in located.moved.items():
                    found[result.files[output].path].append(positions)
        return {path: np.sort(np.concatenate(parts)) for path, parts in found.items()}

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
        if self._plan.format_version >= _VECTORS_FROM:
            by = f"icepact version {version('icepact')}"
            with self._sink(f"{stem}-{next(self._numbers)}.puffin", storage) as sink:
                deletes = write_vectors(sink, found, created_by=by)
        else:
            deletes = []
            for path, positions in found.items():
                with self._sink(f"{stem}-{next(self._numbers)}.parquet", storage) as sink:
                    deletes.append(write_positions(sink, path, positions))
        return [
            delete.to_json(outputs[delete.referenced]["spec-id"], outputs[delete.referenced]["partition"])
            for delete in deletes
        ]

    @contextmanager
    def _sink(self, path: str, storage: Storage) -> Iterator[Sink]:
        """A new file; nothing is left of it if it cannot be written."""
        self._on_file(path)
        sink = storage.create(path)
        try:
            yield sink
            sink.close()
        except BaseException:
            with suppress(Exception):
                sink.abort()
            raise


def _check_size(changed: _Changed) -> None:
    deletes = {delete.key: delete for some, _ in changed.values() for delete in some}.values()
    if sum(d.size for d in deletes) > MOST_BYTES or sum(d.records for d in deletes) > MOST_ROWS:
        raise _NotCarried(f"they have more than {MOST_BYTES >> 20} MiB, or {MOST_ROWS:,} rows")


def _positions(changed: _Changed, storage: Storage) -> dict[str, NDArray[np.int64]]:
    """Rows that are deleted by position now, by input; several deletes are read at the same time."""
    cache = DeleteCache(partial(fetch, storage))
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="icepact-deletes") as pool:
        found = pool.map(lambda path: cache.positions(changed[path][0], path), changed)
        return dict(zip(changed, found, strict=True))


def _dropped(row_map: RowMap, number: int) -> int:
    """How many rows of an input are in no output."""
    bitmap = row_map.dropped.get(number)
    return 0 if bitmap is None else len(decode_positions(bitmap))
