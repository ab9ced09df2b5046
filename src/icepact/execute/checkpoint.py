"""Finished units as documents, and back: a resumed run does not do them again."""

import base64
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from icepact.execute.rewriters.base import UnitResult
from icepact.execute.units import group_of, unit_ids
from icepact.iceberg.java.bridge import JavaError
from icepact.iceberg.table.staging import Staging, has_plain_partition
from icepact.model.effort import Effort
from icepact.model.methods import Method
from icepact.model.plan import RewriteFiles
from icepact.model.rewrite import Written, WrittenFile
from icepact.model.row_map import RowMap
from icepact.model.run import Checkpoint


def to_document(result: UnitResult) -> dict[str, Any]:
    """All that is needed to commit a unit."""
    return {
        "method": result.method.value,
        "files": [dict(document) for document in result.documents],
        "deletes": [dict(document) for document in result.deletes],
        "rows_observed": result.rows_observed,
        "row_map": None if result.row_map is None else base64.b64encode(result.row_map.to_bytes()).decode(),
        **asdict(result.effort),
    }


NOTHING_WRITTEN: Mapping[str, Any] = {"method": None, "files": [], "deletes": [], "rows_observed": 0}
"""In the place of a unit that is not needed any more."""


def _effort(document: Mapping[str, Any]) -> Effort:
    """What a unit took; earlier versions did not measure all of it."""
    return Effort(**{name: document[name] for name in Effort.__slots__ if name in document})


def written_of(step: RewriteFiles, documents: Mapping[str, Mapping[str, Any]]) -> Written:
    """A group that is in the table already, as its checkpoints tell of it."""
    units = [documents[unit_id] for unit_id in unit_ids(step) if unit_id in documents]
    return Written(
        group_id=step.group_id,
        inputs=(),
        rows_observed=sum(unit["rows_observed"] for unit in units),
        files=tuple(WrittenFile.described(file) for unit in units for file in unit["files"]),
        methods=Counter(unit["method"] for unit in units if unit["method"]),
        effort=Effort.sum(map(_effort, units)),
        deletes_carried=sum(delete["record-count"] for unit in units for delete in unit.get("deletes", ())),
    )


def outputs_by_group(checkpoints: Iterable[Checkpoint]) -> dict[str, frozenset[str]]:
    """Files of every group, as far as checkpoints tell."""
    files: dict[str, set[str]] = defaultdict(set)
    for checkpoint in checkpoints:
        if isinstance(checkpoint.document["files"], str):  # housekeeping writes down what it deletes, not what it wrote
            continue
        files[group_of(checkpoint.unit_id)] |= {str(file["file-path"]) for file in checkpoint.document["files"]}
    return {group: frozenset(paths) for group, paths in files.items()}


def recall(document: Mapping[str, Any], staging: Staging) -> UnitResult | None:
    """The result of a unit that was finished before; `None` if its files are not on storage as they were described."""
    if not all(has_plain_partition(file) for file in document["files"]):
        return None
    try:
        stored = [staging.stored(file) for file in document["files"]]
        deletes = document.get("deletes", [])
        whole = all(staging.is_stored(delete) for delete in deletes)
    except JavaError:
        return None
    files = [file for file, _ in stored]
    if not whole or any(file.stored_size != file.size or file.stored_rows not in (None, file.rows) for file in files):
        return None
    return UnitResult(
        rows_observed=document["rows_observed"],
        files=files,
        documents=[described for _, described in stored],
        method=Method(document["method"]),
        effort=_effort(document),
        row_map=_row_map(document.get("row_map")),
        deletes=deletes,
    )


def _row_map(text: str | None) -> RowMap | None:
    """The row map of a unit; `None` if an earlier version made none, or another one made it."""
    if text is not None:
        with suppress(ValueError, LookupError, TypeError):  # of another version, or damaged
            return RowMap.from_bytes(base64.b64decode(text))
    return None
