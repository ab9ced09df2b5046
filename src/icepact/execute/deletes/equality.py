"""Equality deletes: a set of keys, built once, that says which rows of a batch are deleted."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from icepact.execute.deletes.columns import KeyColumn, constant_column, dictionary_column, each_once, joined, key_column
from icepact.execute.deletes.errors import BrokenDelete, UnsupportedDelete
from icepact.execute.deletes.files import Bytes, column_batches, read_columns
from icepact.execute.deletes.kinds import Comparable, Kind, comparable, parse_kind, unscaled_of_wide
from icepact.execute.deletes.lookup import Buckets, mixed, row_hashes
from icepact.execute.deletes.ranges import UNKNOWN, ColumnRange, KeyRanges
from icepact.model.files import DeleteFile

__all__ = ["ColumnRange", "KeySet", "comparable_columns", "read_key_batches", "read_key_rows"]

KeyRows = Sequence[KeyColumn]
"""Key columns of some delete rows, in the order of their field ids."""


class KeySet:
    """All delete rows with the same key columns that apply to a data file.

    Null equals null, NaN equals NaN, -0.0 differs from 0.0. Safe to use from several threads.
    """

    def __init__(self, types: Mapping[int, str], parts: Sequence[KeyRows]) -> None:
        """`types` are the wanted types of the key columns by field id; a part has its columns in that order."""
        self.field_ids = tuple(types)
        self._kinds = tuple(parse_kind(text) for text in types.values())
        empty = [constant_column(kind, None, 0) for kind in self._kinds]
        columns = [joined(pieces) for pieces in zip(empty, *parts, strict=True)]
        alone = len(columns) == 1 and not self._kinds[0].bytewise
        self._rows: _Numbers | _Rows = _Numbers(columns[0]) if alone else _Rows(columns)

    def __len__(self) -> int:
        """Number of different keys."""
        return len(self._rows)

    @property
    def nbytes(self) -> int:
        """About how much memory it holds, with the index that statistics need."""
        return self._rows.nbytes + sum(len(column) * 4 + column.nbytes for column in self._rows.columns)

    def matches(self, columns: Mapping[int, Any], rows: int | None = None) -> NDArray[np.bool_]:
        """True for each row that is deleted.

        Columns are Arrow arrays by field id. Anything else is a constant, `None` included, for a column that the
        data file lacks; `rows` is needed if there are only constants. Calls with many rows are cheaper than many calls.
        """
        given = [columns[field_id] for field_id in self.field_ids]
        lengths = {len(column) for column in given if _is_array(column)} | ({rows} if rows is not None else set())
        if len(lengths) != 1:
            raise ValueError(f"key columns of {sorted(lengths)} rows do not make a batch")
        (count,) = lengths
        if not len(self) or not count:
            return np.zeros(count, dtype=np.bool_)
        if len(given) == 1 and _is_array(given[0]) and pa.types.is_dictionary(given[0].type):
            return self._by_dictionary(given[0])
        pairs = zip(self._kinds, given, strict=True)
        return self._rows.find([_comparable_column(kind, column, count) for kind, column in pairs])

    def may_match(self, stats: Mapping[int, ColumnRange]) -> bool:
        """False only if every delete row is ruled out by what is known of some key column."""
        if not len(self) or any(known.rows == 0 for known in stats.values()):
            return False
        windows = [r.window(stats.get(i, UNKNOWN)) for i, r in zip(self.field_ids, self._ranges, strict=True)]
        possible = [r.any_in(window) for r, window in zip(self._ranges, windows, strict=True)]
        if len(self.field_ids) == 1 or not all(possible):
            return all(possible)
        left = np.ones(len(self), dtype=np.bool_)
        for ranges, window in zip(self._ranges, windows, strict=True):
            left &= ranges.inside(window)
        return bool(left.any())

    def may_match_column(self, field_id: int, known: ColumnRange) -> bool:
        """False only if no delete row has a value of this key column that is possible by what is known of it."""
        ranges = self._ranges[self.field_ids.index(field_id)]
        return ranges.any_in(ranges.window(known))

    def single_values(self, field_id: int, limit: int, within: ColumnRange = UNKNOWN) -> list[int | bytes] | None:
        """All keys that a row within this range could match, for a test against a bloom filter.

        `None` if there are more than `limit`, if there are more key columns than this one, and if a bloom filter
        cannot rule all of them out: null is in none, and floats have several spellings. Numbers are in the unit
        of the wanted type, decimals unscaled.
        """
        if self.field_ids != (field_id,) or self._kinds[0].floating:
            return None
        ranges = self._ranges[0]
        window = ranges.window(within)
        if (window.null and ranges.has_null) or window.end - window.start > limit:
            return None
        values = ranges.values(window)
        return [unscaled_of_wide(v) for v in values] if self._kinds[0].wide else values

    @cached_property
    def _ranges(self) -> list[KeyRanges]:
        coded = len(self.field_ids) > 1
        return [KeyRanges(k, c, coded=coded) for k, c in zip(self._kinds, self._rows.columns, strict=True)]

    def _by_dictionary(self, column: Any) -> NDArray[np.bool_]:
        """Each value of a dictionary is looked up once, however many rows have it."""
        matches = []
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            values, codes = dictionary_column(self._kinds[0], chunk)
            matches.append(self._rows.find([values]).take(codes))
        return np.concatenate(matches)


class _Numbers:
    """Keys of one column that is compared as a number: its hash is the key."""

    def __init__(self, column: KeyColumn) -> None:
        self._has_null = bool(column.is_null.any())
        kept = column.values if column.nulls is None else column.values[~column.nulls]
        keys = each_once(np.sort(kept))
        self._least, self._most = (int(keys[0]), int(keys[-1])) if len(keys) else (0, -1)
        self._buckets = Buckets(np.sort(mixed(keys)))
        nulls = np.zeros(len(keys) + 1, dtype=np.bool_) if self._has_null else None
        if nulls is not None:
            nulls[-1] = True
        self.columns = [KeyColumn(values=np.append(keys, 0) if self._has_null else keys, nulls=nulls)]

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def nbytes(self) -> int:
        return self._buckets.nbytes + self.columns[0].nbytes

    def find(self, probes: KeyRows) -> NDArray[np.bool_]:
        (column,) = probes
        matched = np.zeros(len(column), dtype=np.bool_)
        if column.values.min() <= self._most and column.values.max() >= self._least:
            for rows, _ in self._buckets.pairs(mixed(column.values)):
                matched[rows] = True
        if column.nulls is not None:
            matched[column.nulls] = self._has_null
        return matched


class _Rows:
    """Keys of several columns, or of one compared as bytes: found by hash, then compared in full."""

    def __init__(self, columns: KeyRows) -> None:
        hashes = row_hashes(columns)
        order = np.argsort(hashes, kind="stable")
        hashes, sorted_columns = hashes[order], [column.take(order) for column in columns]
        # the same key a million times would make one bucket of a million
        again = np.flatnonzero(hashes[1:] == hashes[:-1])
        same = np.ones(len(again), dtype=np.bool_)
        for column in sorted_columns:
            same &= column.take(again + 1).equals(column.take(again))
        kept = np.delete(np.arange(len(hashes)), again[same] + 1)
        self.columns = [column.take(kept) for column in sorted_columns]
        self._buckets = Buckets(hashes[kept])

    def __len__(self) -> int:
        return len(self.columns[0])

    @property
    def nbytes(self) -> int:
        return self._buckets.nbytes + sum(column.nbytes for column in self.columns)

    def find(self, probes: KeyRows) -> NDArray[np.bool_]:
        matched = np.zeros(len(probes[0]), dtype=np.bool_)
        for rows, slots in self._buckets.pairs(row_hashes(probes)):
            same = np.ones(len(rows), dtype=np.bool_)
            for probe, key in zip(probes, self.columns, strict=True):
                same &= probe.take(rows).equals(key.take(slots))
            matched[rows[same]] = True
        return matched


def read_key_rows(
    delete: DeleteFile, data: Bytes, types: Mapping[int, str], constants: Mapping[int, Comparable]
) -> list[KeyColumn]:
    """Key columns of an equality-delete file, in the order of `types`; absent ones are constants, else null."""
    if not delete.equality_ids:
        raise BrokenDelete(f"{delete} is an equality delete without key columns")
    return _key_rows(delete, read_columns(delete, data, types), types, constants, delete.records)


def read_key_batches(
    delete: DeleteFile, data: Bytes, types: Mapping[int, str], constants: Mapping[int, Comparable]
) -> Iterator[list[KeyColumn]]:
    """What `read_key_rows` reads, in parts that follow each other."""
    if not delete.equality_ids:
        raise BrokenDelete(f"{delete} is an equality delete without key columns")
    for rows, columns in column_batches(delete, data, types):
        yield _key_rows(delete, columns, types, constants, rows)


def _key_rows(
    delete: DeleteFile,
    columns: Mapping[int, Any],
    types: Mapping[int, str],
    constants: Mapping[int, Comparable],
    rows: int,
) -> list[KeyColumn]:
    try:
        return [
            key_column(kind, columns[i]) if i in columns else constant_column(kind, constants.get(i), rows)
            for i, kind in ((i, parse_kind(text)) for i, text in types.items())
        ]
    except UnsupportedDelete as error:
        raise UnsupportedDelete(f"{delete}: {error}") from None


def comparable_columns(types: Mapping[int, str], columns: Mapping[int, Any], rows: int) -> list[KeyColumn]:
    """Columns as `KeySet.matches` takes them, in comparable form, in the order of `types`."""
    return [_comparable_column(parse_kind(text), columns[i], rows) for i, text in types.items()]


def _comparable_column(kind: Kind, column: Any, rows: int) -> KeyColumn:
    return key_column(kind, column) if _is_array(column) else constant_column(kind, comparable(kind, column), rows)


def _is_array(column: Any) -> bool:
    return isinstance(column, pa.Array | pa.ChunkedArray)
