"""Reading the census of a snapshot: its manifests, each as one sheet, in bulk; and naming the files of a plan."""

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from pydantic_core import from_json

from icepact.iceberg.compiled import instance_of
from icepact.iceberg.java import patient, through_a_file
from icepact.iceberg.scan import gc_paused
from icepact.iceberg.table import IcebergTable, live_twice
from icepact.model.census import COLUMNS, Census, Ints, Sheet
from icepact.model.names import Names
from icepact.model.table import DataFile, Key, Pinned, TableState, as_partition

_DATA = ["content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes", "split_offsets"]
_BOUNDS = ["lower_bounds", "upper_bounds"]
_NAMES = ["first_row_id"]
"""Beyond what is counted anyway."""
_DELETES = [
    *("content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes", "equality_ids"),
    *("referenced_data_file", "content_offset", "content_size_in_bytes", *_BOUNDS),
]
_AT_ONCE = 4
"""Manifests that are read at the same time."""

Known = Callable[[Sequence[str]], Mapping[str, Sheet]]
Keep = Callable[[Mapping[str, Sheet], Sequence[str]], None]


class NameBook(Protocol):
    """Remembers the names of files, by the path of their manifest."""

    def names(self, paths: Sequence[str]) -> Mapping[str, Names]:
        """What is known of these manifests."""

    def keep_names(self, names: Mapping[str, Names]) -> None:
        """Names were read."""


def read_census(table: IcebergTable, pin: Pinned, *, known: Known, keep: Keep, book: NameBook | None = None) -> Census:
    """The census of a pinned snapshot. `known` gives the sheets of manifests that were read before, `keep` takes new
    ones, and the paths of all. Whoever brings a book will ask for names, too: they are read at the same time."""
    snapshot = None if pin.snapshot_id is None else table.table.snapshot(pin.snapshot_id)
    if snapshot is None:
        return Census(pin=pin, sheets={})
    listed = snapshot.allManifests(table.table.io())
    paths = table.manifest_paths(listed)
    found = {path: sheet for path, sheet in known(paths).items() if sheet.deletes or sheet.sorted_by == pin.sort_key}
    missing = {path: listed[at] for at, path in enumerate(paths) if path not in found}
    if missing:
        read = _read(table, missing, pin.sort_key, named=book is not None)
        sheets = {path: sheet for path, (sheet, _) in read.items()}
        keep(sheets, paths)
        if book is not None:
            book.keep_names({path: names for path, (_, names) in read.items() if names is not None})
        found |= sheets
    return Census(pin=pin, sheets={path: found[path] for path in paths})


def list_files(table: IcebergTable, census: Census, partitions: Collection[Key], book: NameBook) -> TableState:
    """A pinned snapshot with the files of some partitions. Iceberg's own scan is asked only where deletes apply."""
    part = census.only(partitions)
    touched = frozenset(part.places[at] for at in np.unique(part.place[part.deletes.touched]).tolist())
    state = table.listed(census, touched)
    scanned = [file for file in state.files if (file.spec_id, file.partition) in touched]
    files = [*scanned, *_named(table, census, frozenset(partitions) - touched, book)]
    return replace(state, files=files, live_twice=live_twice(files))


def _named(table: IcebergTable, census: Census, partitions: Collection[Key], book: NameBook) -> list[DataFile]:
    """The files of some partitions that no deletes apply to."""
    wanted = {path: rows for path, sheet in census.sheets.items() if len(rows := _rows_of(sheet, partitions))}
    if not wanted:
        return []
    names = dict(book.names(list(wanted)))
    missing = wanted.keys() - names.keys()
    if missing:
        listed = table.table.snapshot(census.pin.snapshot_id).allManifests(table.table.io())
        manifests = {path: listed[at] for at, path in enumerate(table.manifest_paths(listed)) if path in missing}
        read = _read(table, manifests, 0, named=True)
        fresh = {path: told for path, (_, told) in read.items() if told is not None}
        book.keep_names(fresh)
        names |= fresh
    with gc_paused():
        return [file for path, rows in wanted.items() for file in names[path].files(census.sheets[path], rows)]


def _rows_of(sheet: Sheet, partitions: Collection[Key]) -> Ints:
    """The files of a sheet that are in some partitions, as indexes into it."""
    if sheet.deletes:
        return np.zeros(0, np.int64)
    inside = [(sheet.spec_id, partition) in partitions for partition in sheet.partitions]
    return np.flatnonzero(np.array(inside, np.bool_)[sheet.place]) if any(inside) else np.zeros(0, np.int64)


def _read(
    table: IcebergTable, manifests: Mapping[str, Any], sort_key: int, *, named: bool
) -> dict[str, tuple[Sheet, Names | None]]:
    with ThreadPoolExecutor(min(_AT_ONCE, len(manifests))) as threads:
        over = threads.map if len(manifests) > 1 else map
        read = over(lambda manifest: read_sheet(table, manifest, sort_key, named=named), manifests.values())
        return dict(zip(manifests, read, strict=True))


@patient
def read_sheet(table: IcebergTable, manifest: Any, sort_key: int, *, named: bool = False) -> tuple[Sheet, Names | None]:
    """The live files of one manifest, and their names if it lists data files and names are asked for."""
    java, specs = table.java, table.table.specs()
    deletes = str(manifest.content()) == "DELETES"
    prefix = f"{str(table.table.location()).rstrip('/')}/" if named and not deletes else None
    wanted = _DELETES if deletes else [*_DATA, *(_BOUNDS if sort_key else ()), *(_NAMES if prefix else ())]
    columns = java.from_json(wanted, "java.util.ArrayList")
    kind = table.table.schema().findType(sort_key) if sort_key else None
    reading = instance_of(java, "Sheets")
    reading.read(manifest, table.table.io(), specs, columns, sort_key, kind, prefix)
    numbers = np.frombuffer(through_a_file(reading.write), "<i8").reshape(len(COLUMNS), -1)
    sheet = Sheet(
        spec_id=int(manifest.partitionSpecId()),
        deletes=deletes,
        sorted_by=0 if deletes else sort_key,
        partitions=tuple(as_partition(values) for values in from_json(reading.partitions())),
        **dict(zip(COLUMNS, numbers, strict=True)),
    )
    names = None if prefix is None else Names.from_bytes(through_a_file(reading.writeNames), prefix)
    return sheet, names
