"""The proof before the commit: what was written is what readers saw. Pure.

Rows that flowed through the scan against rows written and rows in the footers on storage; rows dropped
against what the deletes can account for; null counts and bounds per column, equal where nothing was
dropped, contained where rows were.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from icepact.model.errors import ProofFailed
from icepact.model.files import DataFile, DeleteFile, DeleteKind
from icepact.model.rewrite import ColumnFacts, Written
from icepact.model.schema import flat_columns


def prove(written: Written, files: Sequence[DataFile], deletes: Sequence[DeleteFile], schema: Mapping[str, Any]) -> int:
    """Compare, or raise ProofFailed with the first difference; returns how many columns were compared."""
    rows_in = sum(f.rows for f in files)
    rows_out = sum(f.rows for f in written.files)
    described = sum(i.rows for i in written.inputs)
    _same("rows in the manifests read again", described, "rows in the plan", rows_in, written)
    if sorted(i.path for i in written.inputs) != sorted(f.path for f in files):
        raise ProofFailed(f"group {written.group_id}: other files were read than planned")
    _same("rows written", rows_out, "rows read", written.rows_observed, written)
    for file in written.files:
        _same(f"bytes of {file.path} on storage", file.stored_size, "bytes described", file.size, written)
        if file.stored_rows is not None:
            _same(f"rows in the footer of {file.path}", file.stored_rows, "rows described", file.rows, written)
    dropped = rows_in - rows_out
    _deletes_account_for(dropped, files, deletes, written)
    return _compare_columns(written, _comparable(written, files, schema), dropped)


def _same(what: str, one: int, other_what: str, other: int, written: Written) -> None:
    if one != other:
        raise ProofFailed(f"group {written.group_id}: {what} {one}, {other_what} {other}")


def _deletes_account_for(
    dropped: int, files: Sequence[DataFile], deletes: Sequence[DeleteFile], written: Written
) -> None:
    """Vectors say exactly how many rows go, or are deleted in the new files; other deletes say at most how many, or
    nothing at all."""
    gone = dropped + written.deletes_carried
    if dropped < 0:
        raise ProofFailed(f"group {written.group_id}: {-dropped} more rows were written than there were")
    attached = {i: deletes[i] for f in files for i in f.deletes}
    kinds = {d.kind for d in attached.values()}
    if DeleteKind.EQUALITY in kinds:
        return
    records = sum(d.records for d in attached.values())
    exact = kinds <= {DeleteKind.DV}
    if gone > records or (exact and gone != records):
        carried = f" and {written.deletes_carried} carried" if written.deletes_carried else ""
        raise ProofFailed(
            f"group {written.group_id}: {dropped} rows dropped{carried}, the deletes account for {records}"
        )


# -- columns --------------------------------------------------------------------------------------

_Files = Sequence[tuple[int, ColumnFacts]]
"""Rows and columns of each file."""
_Range = tuple[Any, Any]


def _comparable(written: Written, files: Sequence[DataFile], schema: Mapping[str, Any]) -> dict[int, str]:
    """Types of the columns that can be compared, by field id.

    ORC and Parquet count the nulls of a struct's fields differently, and ORC rounds the bounds of
    timestamps: where formats are mixed, only plain top-level columns are compared.
    """
    formats = {f.format for f in files} | {f.format for f in written.files}
    columns = flat_columns(schema)
    if len(formats) > 1:
        columns = {i: c for i, c in columns.items() if not c.nested and not c.kind.startswith("timestamp")}
    return {field_id: column.kind for field_id, column in columns.items()}


def _compare_columns(written: Written, columns: Mapping[int, str], dropped: int) -> int:
    """Compare what both sides tell of these columns; returns of how many they do."""
    inputs = [(i.rows, i.columns) for i in written.inputs]
    outputs = [(f.rows, f.columns) for f in written.files if f.columns is not None]
    if len(outputs) != len(written.files):
        return 0
    compared = 0
    for field_id, kind in columns.items():
        if not all(field_id in facts.nulls for _, facts in (*inputs, *outputs)):
            continue  # a file from before the column was added, or a column without metrics
        compared += 1
        what = f"group {written.group_id}: column #{field_id}"
        _compare_nulls(what, field_id, inputs, outputs, dropped)
        _compare_bounds(what, _range(field_id, kind, inputs), _range(field_id, kind, outputs), exact=dropped == 0)
    return compared


def _compare_nulls(what: str, field_id: int, inputs: _Files, outputs: _Files, dropped: int) -> None:
    before = sum(facts.nulls[field_id] for _, facts in inputs)
    after = sum(facts.nulls[field_id] for _, facts in outputs)
    if not before - dropped <= after <= before:
        raise ProofFailed(f"{what} had {before} nulls and has {after}, {dropped} rows dropped")


def _compare_bounds(what: str, before: _Range | None, after: _Range | None, *, exact: bool) -> None:
    if before is None or after is None:
        return
    contained = before[0] <= after[0] and after[1] <= before[1]
    if not contained or (exact and before != after):
        raise ProofFailed(f"{what} ranged over {before} and ranges over {after}")


def _range(field_id: int, kind: str, files: _Files) -> _Range | None:
    """Smallest and largest value of a column; `None` if one file that has values does not tell.

    A footer tells nothing of a column with NaN in it, so one silent file makes the others' range useless.
    """
    filled = [facts for rows, facts in files if rows > facts.nulls[field_id]]
    lower = [_decode(kind, facts.lower.get(field_id)) for facts in filled]
    upper = [_decode(kind, facts.upper.get(field_id)) for facts in filled]
    if not filled or any(value is None for value in (*lower, *upper)):
        return None
    return min(lower), max(upper)


def _decode(kind: str, bound: str | None) -> Any:
    """A bound as a comparable value; `None` if it is missing, NaN, or of a kind that writers may shorten."""
    raw = bytes.fromhex(bound or "")
    if not raw:
        return None
    if kind in {"int", "long", "date"}:
        return int.from_bytes(raw, "little", signed=True)
    if kind in {"timestamp", "timestamptz"} and len(raw) == 8:  # 4 bytes: a date that was widened
        return int.from_bytes(raw, "little", signed=True)
    if kind in {"float", "double"}:
        value = struct.unpack("<f" if len(raw) == 4 else "<d", raw)[0]
        return None if math.isnan(value) else value  # old writers put NaN into bounds
    if kind.startswith("decimal"):
        return Decimal(int.from_bytes(raw, "big", signed=True))
    return None
