"""Ranges of columns, taken from statistics, and the keys that they rule out.

A row group may be copied only if no delete row can match in it, so everything doubtful counts as a possible
match: unknown counts or bounds, bounds that contradict each other, NaN (which statistics leave out) and
zeros (whose sign statistics may have lost).
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icepact.execute.deletes.columns import KeyColumn, each_once
from icepact.execute.deletes.kinds import Comparable, Kind, comparable

_LEAST, _MOST = -(2**63), 2**63 - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnRange:
    """What is known of one column in one row group. Bounds are in comparable form, see `kinds`."""

    lower: Comparable = None
    """No value is below it; `None` if unknown or not to be trusted."""
    upper: Comparable = None
    """No value is above it; `None` if unknown or not to be trusted."""
    nulls: int | None = None
    """Rows in which it is null, by itself or with a struct around it; `None` if unknown."""
    rows: int | None = None
    """Rows of the row group; `None` if unknown."""

    @classmethod
    def of(
        cls, kind: str, *, lower: Any = None, upper: Any = None, nulls: int | None = None, rows: int | None = None
    ) -> "ColumnRange":
        """From plain values, as `kinds.comparable` takes them."""
        return cls(lower=comparable(kind, lower), upper=comparable(kind, upper), nulls=nulls, rows=rows)

    @classmethod
    def constant(cls, kind: str, value: Any, rows: int) -> "ColumnRange":
        """A column that the file lacks: the same value in every row."""
        form = comparable(kind, value)
        return cls(lower=form, upper=form, nulls=rows if form is None else 0, rows=rows)

    def sound(self, kind: Kind) -> "ColumnRange":
        """The range without what cannot be relied on for a column of this kind."""
        lower, upper = self.lower, self.upper
        if kind.floating:
            if kind.nan in (lower, upper):
                lower = upper = None
            lower, upper = -1 if lower == 0 else lower, 0 if upper == -1 else upper
        counts_fit = self.nulls is None or 0 <= self.nulls <= (_MOST if self.rows is None else self.rows)
        ordered = lower is None or upper is None or lower <= upper  # type: ignore[operator]
        all_null = self.nulls is not None and self.nulls == self.rows
        bounds_fit = not all_null or (lower is None and upper is None)
        if counts_fit and ordered and bounds_fit:
            return ColumnRange(lower=lower, upper=upper, nulls=self.nulls, rows=self.rows)
        return ColumnRange(rows=self.rows)


UNKNOWN = ColumnRange()
"""A column of which nothing is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Window:
    """The keys of one column that statistics do not rule out."""

    start: int
    end: int
    """Numbers of distinct values, from start up to but not including end."""
    nan: bool
    """True if the set has NaN, and NaN is possible."""
    null: bool
    """True if null is possible."""


class KeyRanges:
    """One key column of all delete rows, sorted once, so that bounds are found by bisection."""

    def __init__(self, kind: Kind, column: KeyColumn, *, coded: bool) -> None:
        self.kind = kind
        self.has_null = column.nulls is not None and bool(column.nulls.any())
        self.distinct, codes = _distinct(column, coded)
        self._codes = codes
        self._has_nan = kind.floating and len(self.distinct) > 0 and bool(self.distinct[-1] == kind.nan)

    def window(self, known: ColumnRange) -> Window:
        """Which keys a row with such a column may have."""
        known = known.sound(self.kind)
        null = known.nulls is None or known.nulls > 0
        if known.nulls is not None and known.nulls == known.rows:
            return Window(start=0, end=0, nan=False, null=null)
        start = 0 if known.lower is None else self._bisect(known.lower, left=True)
        end = len(self.distinct) if known.upper is None else self._bisect(known.upper, left=False)
        return Window(start=start, end=max(start, end), nan=self._has_nan, null=null)

    def any_in(self, window: Window) -> bool:
        """True if the set has one of these keys."""
        return window.end > window.start or window.nan or (window.null and self.has_null)

    def inside(self, window: Window) -> NDArray[np.bool_]:
        """For each delete row, whether its key is one of these."""
        codes = self._codes
        inside = (codes >= window.start) & (codes < window.end)
        if window.nan:
            inside |= codes == len(self.distinct) - 1
        if window.null and self.has_null:
            inside |= codes < 0
        return inside

    def values(self, window: Window) -> list[Any]:
        """The keys themselves, in comparable form; NaN and null are not among them."""
        keys: list[Any] = self.distinct[window.start : window.end].tolist()
        return keys

    def _bisect(self, bound: Any, *, left: bool) -> int:
        if isinstance(self.distinct, np.ndarray):
            number = np.int64(min(max(bound, _LEAST), _MOST))
            return int(np.searchsorted(self.distinct, number, side="left" if left else "right"))
        search = bisect_left if left else bisect_right
        return search(range(len(self.distinct)), bound, key=lambda index: self.distinct[index].as_py())


def _distinct(column: KeyColumn, coded: bool) -> tuple[Any, NDArray[np.int32]]:
    """Distinct values in ascending order; if `coded`, the number of each row's value, -1 for null."""
    present = None if column.nulls is None else np.flatnonzero(~column.nulls)
    kept = column.values if present is None else column.take(present).values
    if isinstance(kept, np.ndarray):
        values: Any = each_once(np.sort(kept))
        codes = np.searchsorted(values, kept) if coded else np.empty(0, dtype=np.int64)
    else:
        dictionary = kept.dictionary_encode()
        order = pc.array_sort_indices(dictionary.dictionary).to_numpy()
        values = dictionary.dictionary.take(pa.array(order))
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        codes = rank[dictionary.indices.to_numpy(zero_copy_only=False)] if coded else np.empty(0, dtype=np.int64)
    if present is None:
        return values, codes.astype(np.int32)
    every = np.full(len(column) if coded else 0, -1, dtype=np.int32)
    if coded:
        every[present] = codes
    return values, every
