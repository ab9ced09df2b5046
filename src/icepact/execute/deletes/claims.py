"""What manifests claim of delete files, held against what these hold.

Readers pass a delete file over where its bounds rule every row of a data file out. One whose bounds are wrong deletes
rows for one reader and not for another: nobody can say what is right, so nothing is made of it.
"""

import struct
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icepact.execute.deletes.columns import KeyColumn
from icepact.execute.deletes.errors import BrokenDelete
from icepact.execute.deletes.kinds import Comparable, Kind, comparable, parse_kind
from icepact.execute.deletes.positions import FILE_PATH_ID
from icepact.execute.deletes.ranges import ColumnRange
from icepact.model.files import DeleteFile, ManifestBounds

_FLOATS = {4: "<f", 8: "<d"}


def check_keys(
    delete: DeleteFile, types: Mapping[int, str], columns: Sequence[KeyColumn], bounds: ManifestBounds
) -> None:
    """Raise BrokenDelete if a key is outside of what the manifest says of its column."""
    for (field_id, text), column in zip(types.items(), columns, strict=True):
        kind, rows = parse_kind(text), len(column)
        nulls = int(column.is_null.sum())
        known = bounds.nulls.get(field_id)
        if known is not None and ((known == 0 and nulls) or (known == bounds.values.get(field_id) and nulls < rows)):
            raise BrokenDelete(f"{delete} has {nulls} keys that are null, its manifest says {known}")
        claimed = ColumnRange(
            lower=_form(kind, bounds.lower.get(field_id)), upper=_form(kind, bounds.upper.get(field_id))
        ).sound(kind)
        least, most = _least_and_most(kind, column)
        below = claimed.lower is not None and least is not None and least < claimed.lower  # type: ignore[operator]
        above = claimed.upper is not None and most is not None and most > claimed.upper  # type: ignore[operator]
        if below or above:
            raise BrokenDelete(f"{delete} has keys in column {field_id} beyond the bounds that its manifest gives")


def check_paths(delete: DeleteFile, paths: Iterable[str], bounds: ManifestBounds) -> None:
    """Raise BrokenDelete if a position-delete file speaks of data files that its manifest rules out."""
    lower, upper = bounds.lower.get(FILE_PATH_ID), bounds.upper.get(FILE_PATH_ID)
    for path in paths:
        name = path.encode()
        bound = delete.referenced is not None and path != delete.referenced
        if bound or (lower is not None and name < lower) or (upper is not None and name > upper):
            raise BrokenDelete(f"{delete} deletes rows of {path}, which its manifest rules out")


def _form(kind: Kind, raw: bytes | None) -> Comparable:
    """A bound, as Iceberg writes single values, in comparable form; `None` if it cannot be understood for certain."""
    if not raw or kind.name == "unknown":
        return None
    if kind.floating:
        return comparable(kind, struct.unpack(_FLOATS[len(raw)], raw)[0]) if len(raw) in _FLOATS else None
    if kind.bytewise or kind.name == "decimal":
        return comparable(kind, bytes(raw))
    whole = (8,) if kind.name.startswith("timestamp") else (1, 4, 8)  # it may have been a date, in days
    return int.from_bytes(raw, "little", signed=True) if len(raw) in whole else None


def _least_and_most(kind: Kind, column: KeyColumn) -> tuple[Comparable, Comparable]:
    """The smallest and the largest key; neither null nor NaN, of which bounds do not speak."""
    present = ~column.is_null
    if isinstance(column.values, np.ndarray):
        numbers = column.values[present]
        numbers = numbers[numbers != kind.nan] if kind.floating else numbers
        return (int(numbers.min()), int(numbers.max())) if len(numbers) else (None, None)
    values = column.values.filter(pa.array(present))
    if not len(values):
        return None, None
    order = pc.sort_indices(values)
    return values[order[0].as_py()].as_py(), values[order[-1].as_py()].as_py()
