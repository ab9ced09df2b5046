"""Reading the census of a snapshot: its manifests, each as one sheet, in bulk."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from pydantic_core import from_json

from icepact.iceberg.compiled import instance_of
from icepact.iceberg.java import patient, through_a_file
from icepact.iceberg.table import IcebergTable
from icepact.model.census import COLUMNS, Census, Sheet
from icepact.model.table import Pinned, as_partition

_DATA = ["content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes", "split_offsets"]
_BOUNDS = ["lower_bounds", "upper_bounds"]
_DELETES = [
    *("content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes", "equality_ids"),
    *("referenced_data_file", "content_offset", "content_size_in_bytes", *_BOUNDS),
]
_AT_ONCE = 4
"""Manifests that are read at the same time."""

Known = Callable[[Sequence[str]], Mapping[str, Sheet]]
Keep = Callable[[Mapping[str, Sheet], Sequence[str]], None]


def read_census(table: IcebergTable, pin: Pinned, *, known: Known, keep: Keep) -> Census:
    """The census of a pinned snapshot. `known` gives the sheets of manifests that were read before, `keep` takes new
    ones, and the paths of all."""
    snapshot = None if pin.snapshot_id is None else table.table.snapshot(pin.snapshot_id)
    if snapshot is None:
        return Census(pin=pin, sheets={})
    listed = snapshot.allManifests(table.table.io())
    paths = table.manifest_paths(listed)
    found = {path: sheet for path, sheet in known(paths).items() if sheet.deletes or sheet.sorted_by == pin.sort_key}
    missing = [at for at, path in enumerate(paths) if path not in found]
    if missing:
        with ThreadPoolExecutor(min(_AT_ONCE, len(missing))) as threads:
            over = threads.map if len(missing) > 1 else map
            sheets = over(lambda at: read_sheet(table, listed[at], pin.sort_key), missing)
            read = {paths[at]: sheet for at, sheet in zip(missing, sheets, strict=True)}
        keep(read, paths)
        found |= read
    return Census(pin=pin, sheets={path: found[path] for path in paths})


@patient
def read_sheet(table: IcebergTable, manifest: Any, sort_key: int) -> Sheet:
    """The live files of one manifest."""
    java, specs = table.java, table.table.specs()
    deletes = str(manifest.content()) == "DELETES"
    wanted = _DELETES if deletes else [*_DATA, *_BOUNDS] if sort_key else _DATA
    columns = java.from_json(wanted, "java.util.ArrayList")
    kind = table.table.schema().findType(sort_key) if sort_key else None
    reading = instance_of(java, "Sheets")
    reading.read(manifest, table.table.io(), specs, columns, sort_key, kind)
    spec_id = int(manifest.partitionSpecId())
    numbers = np.frombuffer(through_a_file(reading.write), "<i8").reshape(len(COLUMNS), -1)
    return Sheet(
        spec_id=spec_id,
        deletes=deletes,
        sorted_by=0 if deletes else sort_key,
        partitions=tuple(as_partition(values) for values in from_json(reading.partitions())),
        **dict(zip(COLUMNS, numbers, strict=True)),
    )
