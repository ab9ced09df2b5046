"""Finished units as documents, and back: a resumed run does not do them again."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from icepact.execute.rewriters.base import UnitResult
from icepact.execute.run import group_of, unit_ids
from icepact.iceberg.java import JavaError
from icepact.iceberg.staging import Staging, has_plain_partition
from icepact.model.plan import Method, RewriteFiles
from icepact.model.rewrite import Written, WrittenFile
from icepact.model.run import Checkpoint

_MEASURED = (
    *("rows_observed", "seconds", "copied_bytes", "encoded_bytes"),
    *("requests", "write_requests", "transferred_bytes"),
)


def to_document(result: UnitResult) -> dict[str, Any]:
    """All that is needed to commit a unit."""
    return {
        "method": result.method.value,
        "files": [dict(document) for document in result.documents],
        **{name: getattr(result, name) for name in _MEASURED},
    }


def written_of(step: RewriteFiles, documents: Mapping[str, Mapping[str, Any]]) -> Written:
    """A group that is in the table already, as its checkpoints tell of it."""
    units = [documents[unit_id] for unit_id in unit_ids(step) if unit_id in documents]
    return Written(
        group_id=step.group_id,
        inputs=(),
        rows_observed=sum(unit["rows_observed"] for unit in units),
        files=tuple(_as_described(told) for unit in units for told in unit["files"]),
        seconds=sum(unit["seconds"] for unit in units),
        methods=Counter(unit["method"] for unit in units),
        copied_bytes=sum(unit["copied_bytes"] for unit in units),
        encoded_bytes=sum(unit["encoded_bytes"] for unit in units),
        requests=sum(unit["requests"] for unit in units),
        write_requests=sum(unit.get("write_requests", 0) for unit in units),
        transferred_bytes=sum(unit["transferred_bytes"] for unit in units),
    )


def outputs_by_group(checkpoints: Iterable[Checkpoint]) -> dict[str, frozenset[str]]:
    """Files of every group, as far as checkpoints tell."""
    files: dict[str, set[str]] = defaultdict(set)
    for checkpoint in checkpoints:
        files[group_of(checkpoint.unit_id)] |= {str(told["file-path"]) for told in checkpoint.document["files"]}
    return {group: frozenset(paths) for group, paths in files.items()}


def _as_described(told: Mapping[str, Any]) -> WrittenFile:
    size, rows = told["file-size-in-bytes"], told["record-count"]
    return WrittenFile(
        path=told["file-path"],
        size=size,
        rows=rows,
        spec_id=told["spec-id"],
        partition=tuple(told.get("partition", ())),
        format=told["file-format"].lower(),
        stored_size=size,
        stored_rows=rows,
        columns=None,
    )


def recall(document: Mapping[str, Any], staging: Staging) -> UnitResult | None:
    """A unit that was finished before; null if its files are not on storage as they were described."""
    if not all(has_plain_partition(told) for told in document["files"]):
        return None
    try:
        found = [staging.stored(told) for told in document["files"]]
    except JavaError:
        return None
    files = [file for file, _ in found]
    if any(file.stored_size != file.size or file.stored_rows not in (None, file.rows) for file in files):
        return None
    return UnitResult(
        files=files,
        documents=[told for _, told in found],
        method=Method(document["method"]),
        **{name: document[name] for name in _MEASURED if name in document},
    )
