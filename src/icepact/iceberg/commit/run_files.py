"""The files of a run on storage: where they are, which of them the table refers to, and how the others go."""

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Any, NamedTuple

from pyspark.sql import functions as F

from icepact.iceberg.java.bridge import JavaError, is_missing, retry_reads
from icepact.iceberg.table.table import IcebergTable

DATA_PATH = "write.data.path"
RUN_FOLDER = "icepact-"
"""Prefix of the folder of a run's files, before the run's id."""
_CUSTOM_LOCATIONS = "write.location-provider.impl"
_INPUT_FILE = "org.apache.iceberg.io.InputFile"
_LISTS_PREFIXES = "org.apache.iceberg.io.SupportsPrefixOperations"


def delete_files(table: IcebergTable, paths: Sequence[str]) -> None:
    """Delete files from storage; files that are already gone are no error."""
    if paths:
        java = table.java
        java.iceberg.CatalogUtil.deleteFiles(
            table.table.io(), java.from_json(list(paths), "java.util.ArrayList"), "uncommitted", True
        )


def run_folder(table: IcebergTable, run_id: str) -> str | None:
    """The folder below which a new run's files are; `None` if the table has a location provider of its own."""
    properties = table.properties
    if _CUSTOM_LOCATIONS in properties:
        return None
    base = properties.get(DATA_PATH) or f"{str(table.table.location()).rstrip('/')}/data"
    return f"{base.rstrip('/')}/{RUN_FOLDER}{run_id}"


class StoredFile(NamedTuple):
    """A file on storage."""

    path: str
    size: int
    written: int
    """Milliseconds since 1970, by the clock of the storage."""


@retry_reads
def stored_files(table: IcebergTable, folder: str) -> list[StoredFile]:
    """All files below a folder; none where storage cannot be listed by prefix."""
    io = table.table.io()
    if not table.java.class_of(_LISTS_PREFIXES).isInstance(io):
        return []
    info = "org.apache.iceberg.io.FileInfo"
    try:
        listed = table.java.listed(io.listPrefix(f"{folder}/"))
    except JavaError as error:
        if is_missing(error):
            return []  # nobody wrote anything
        raise
    paths = table.java.texts(listed, table.java.method(info, "location"))
    sizes = table.java.numbers(listed, table.java.method(info, "size"))
    times = table.java.numbers(listed, table.java.method(info, "createdAtMillis"))
    return [StoredFile(path, size or 0, time or 0) for path, size, time in zip(paths, sizes, times, strict=True)]


def listed_files(table: IcebergTable, folder: str | None) -> dict[str, int]:
    """Files below a run's own folder, with their sizes; none if it has no folder."""
    return {file.path: file.size for file in (stored_files(table, folder) if folder else ())}


def vanished(table: IcebergTable, run_id: str, documents: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """New files of a run that are not on storage as Iceberg's JSON describes them; one listing for all of them, but not
    of local ones: Hadoop starts a process for each that it lists."""
    if all(path.startswith(("/", "file:")) for path in _paths(documents)):
        missing = missing_files(table, _paths(documents))
        there = [document for document in documents if document["file-path"] not in missing]
        length = table.java.chain(_input_file(table), table.java.method(_INPUT_FILE, "getLength"))
        sizes = table.java.numbers(table.java.from_json(_paths(there), "java.util.ArrayList"), length)
        changed = [d for d, size in zip(there, sizes, strict=True) if size != d["file-size-in-bytes"]]
        return missing | {*_paths(changed)}
    marker = f"/{RUN_FOLDER}{run_id}"
    folders = {path.partition(marker)[0] + marker for path in _paths(documents) if f"{marker}/" in path}
    listed = {file_name(path): size for folder in sorted(folders) for path, size in listed_files(table, folder).items()}
    doubtful = [d for d in documents if listed.get(file_name(d["file-path"])) != d["file-size-in-bytes"]]
    if not doubtful:
        return frozenset()
    missing = missing_files(table, _paths(doubtful))  # not every storage can be listed
    return missing | {path for path in _paths(doubtful) if file_name(path) in listed}


def _paths(documents: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(document["file-path"]) for document in documents]


@retry_reads
def missing_files(table: IcebergTable, paths: Sequence[str]) -> frozenset[str]:
    """Which of these files are not on storage; asked for one by one, several at a time."""
    java = table.java
    exists = java.as_predicate(java.chain(_input_file(table), java.method(_INPUT_FILE, "exists")))
    missing = java.filtered(java.from_json(list(paths), "java.util.ArrayList").parallelStream(), exists.negate())
    return frozenset(str(path) for path in java.items(missing))


def _input_file(table: IcebergTable) -> Any:
    """Java's function from a path to its file."""
    method = table.java.method("org.apache.iceberg.io.FileIO", "newInputFile", "java.lang.String")
    return table.java.bind(method, 0, table.table.io())


def may_delete(table: IcebergTable) -> bool:
    """False if the table says that others may need files which its own snapshots do not refer to."""
    return str(table.properties.get("gc.enabled", "true")).lower() != "false"


def referenced(table: IcebergTable, run_id: str) -> frozenset[str]:
    """Files of a run that any snapshot of any branch refers to: data files, and deletes that were taken along."""
    return referenced_paths(table, {"all_data_files": "file_path", "all_delete_files": "file_path"}, [run_id])


@retry_reads
def referenced_paths(table: IcebergTable, columns: Mapping[str, str], words: Collection[str]) -> frozenset[str]:
    """Paths with one of these words in them that any snapshot of any branch refers to; `columns` are those that have
    paths, by metadata table."""
    table.table.refresh()
    if table.table.operations().current().snapshots().isEmpty():  # a branch may have some where main has none
        return frozenset()
    table.session.sql(f"REFRESH TABLE {table.sql_name}")  # Spark has a cache of its own
    paths: set[str] = set()
    for name, column in columns.items():
        wanted = reduce(or_, (F.contains(F.col(column), F.lit(word)) for word in words))
        rows = table.session.read.table(f"{table.sql_name}.{name}").where(wanted).select(column).distinct().collect()
        paths |= {str(row[0]) for row in rows}
    return frozenset(paths)


def deletable_files(listed: Sequence[str], keep: frozenset[str]) -> list[str]:
    """Files of a listing that are not to be kept.

    Listings spell paths in their own way (`file:/x`, another authority), so files are told apart by their names, which
    are unique; and unless every kept file is recognised in the listing, none is deletable.
    """
    if not {file_name(path) for path in keep} <= {file_name(path) for path in listed}:
        return []
    return unknown_files(listed, keep)


def unknown_files(listed: Sequence[str], known: frozenset[str]) -> list[str]:
    """Files of a listing that have the name of no known file."""
    names = {file_name(path) for path in known}
    return sorted(path for path in listed if file_name(path) not in names)


def delete_run_files(table: IcebergTable, folder: str | None, *, keep: frozenset[str]) -> None:
    """Delete the files below a run's own folder that are not to be kept.

    Only for a run whose commit state is known: nothing else ever writes there, so what is not kept can be
    referred to by no snapshot, now or later.
    """
    delete_files(table, deletable_files(list(listed_files(table, folder)), keep))


def file_name(path: str) -> str:
    """The last part of a path."""
    return path.rsplit("/", 1)[-1]
