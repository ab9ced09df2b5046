"""Orphan metadata of commits that nobody saw the end of: manifests, manifest lists, and table metadata files.

Iceberg deletes these itself when a commit fails; not if its process was killed, nor if it got no answer.
"""

import gzip
import json
from collections.abc import Collection, Sequence
from datetime import timedelta

from icepact.iceberg.commit.replace import COMMIT_ID
from icepact.iceberg.commit.run_files import (
    StoredFile,
    file_name,
    may_delete,
    referenced_paths,
    stored_files,
    unknown_files,
)
from icepact.iceberg.java.bridge import JavaError, is_missing, retry_reads
from icepact.iceberg.table.table import IcebergTable
from icepact.model.run import Attempt

_METADATA = ".metadata.json"
_SKEW = timedelta(hours=1)
"""By which the clocks of storage and of whoever made a commit may differ."""


def orphan_metadata(table: IcebergTable, attempts: Sequence[Attempt], *, lost: Collection[str]) -> dict[str, int]:
    """Metadata files that attempts left and nothing refers to, with their sizes. Only for attempts that cannot land any
    more, or have; `lost` are the ids of those that never did."""
    marked = [attempt for attempt in attempts if attempt.mark]
    if not marked or not may_delete(table):
        return {}
    folders = sorted({attempt.mark.rpartition("/")[0] for attempt in marked})
    stored = [file for folder in folders for file in stored_files(table, folder)]
    orphans = _unreferenced(table, [file.path for file in stored], marked, lost)
    orphans += _metadata(table, stored, [attempt for attempt in marked if attempt.commit_id in lost])
    sizes = {file.path: file.size for file in stored}
    return {path: sizes[path] for path in orphans}


def _word(attempt: Attempt) -> str:
    return attempt.mark.rpartition("/")[2]


def _unreferenced(
    table: IcebergTable, stored: Sequence[str], attempts: Sequence[Attempt], lost: Collection[str]
) -> list[str]:
    """Manifests and lists of these attempts that no snapshot needs.

    The list of one that landed must be needed, and nothing of one that did not: where that is not so, what is known of
    the table is not what is known of the attempt, and nothing of it is touched.
    """
    mine = {_word(a): [path for path in stored if _word(a) in file_name(path)] for a in attempts}
    written = [word for word, paths in mine.items() if paths]
    needed = _referenced(table, written) if written else frozenset[str]()
    orphans = []
    for attempt in attempts:
        names = [file_name(path) for path in needed if _word(attempt) in file_name(path)]
        as_expected = not names if attempt.commit_id in lost else any(name.startswith("snap-") for name in names)
        if as_expected:
            orphans += unknown_files(mine[_word(attempt)], needed)
    return orphans


def _referenced(table: IcebergTable, words: Collection[str]) -> frozenset[str]:
    """Manifests and lists with one of these words in their names that any snapshot needs."""
    return referenced_paths(table, {"all_manifests": "path", "snapshots": "manifest_list"}, words)


def _metadata(table: IcebergTable, stored: Sequence[StoredFile], lost: Sequence[Attempt]) -> list[str]:
    """Table metadata files that were written for commits which then did not get into the catalog.

    Their names tell nothing, so they are read; but only those that were written at the time of such a commit, and are
    not in the table's own log.
    """
    times = [((a.started_at - _SKEW).timestamp(), ((a.until or a.started_at) + _SKEW).timestamp()) for a in lost]
    then = [
        file.path
        for file in stored
        if file.path.endswith(_METADATA) and any(begin <= file.written / 1000 <= end for begin, end in times)
    ]
    if not then:
        return []
    table.table.refresh()
    current = table.table.operations().current()
    log = table.java.items(current.previousFiles())
    known = frozenset([str(current.metadataFileLocation()), *(str(entry.file()) for entry in log)])
    ids = {attempt.commit_id for attempt in lost}
    return [path for path in unknown_files(then, known) if _commit_of(table, path) in ids]


def _commit_of(table: IcebergTable, path: str) -> str | None:
    """The commit that a metadata file was written for; `None` if it was not one of icepact's, or is unfinished."""
    try:
        content = _content(table, path)
    except JavaError as error:
        if is_missing(error):
            return None
        raise
    try:
        document = json.loads(gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content)
        commit_id = document["snapshots"][-1]["summary"].get(COMMIT_ID)
    except (ValueError, LookupError, TypeError, AttributeError, EOFError, OSError):
        return None  # unfinished, or of a table without snapshots
    return str(commit_id) if commit_id else None


@retry_reads
def _content(table: IcebergTable, path: str) -> bytes:
    stream = table.table.io().newInputFile(path).newStream()
    try:
        content: bytes = stream.readAllBytes()
    finally:
        stream.close()
    return content
