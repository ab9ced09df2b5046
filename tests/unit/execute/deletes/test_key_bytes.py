"""Keys as byte strings: equal where the keys are, and nowhere else."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from icepact.execute.deletes import key_bytes as module
from icepact.execute.deletes.columns import key_column
from icepact.execute.deletes.key_bytes import key_batches, key_bytes
from icepact.execute.deletes.kinds import comparable, parse_kind

KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "long": (pa.int64(), st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1])),
    "double": (pa.float64(), st.sampled_from([0.0, -0.0, math.nan, 1.5, -math.inf])),
    "string": (pa.string(), st.text("ab\0\1", max_size=3)),
    "decimal(30, 2)": (pa.decimal128(30, 2), st.decimals(-2, 2, places=2)),
    "boolean": (pa.bool_(), st.booleans()),
}
COLUMNS = st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3)


@given(data=st.data(), kinds=COLUMNS, prefixes=st.tuples(st.integers(0, 2), st.integers(0, 2)))
def test_bytes_are_equal_where_keys_are(data: st.DataObject, kinds: Sequence[str], prefixes: tuple[int, int]) -> None:
    """Texts that run into each other, nulls in any place, NaN and zeros."""
    row = st.tuples(*(KINDS[kind][1] | st.none() for kind in kinds))
    rows = data.draw(st.lists(row, min_size=1, max_size=12))
    columns = [
        key_column(parse_kind(kind), pa.array([row[n] for row in rows], KINDS[kind][0])) for n, kind in enumerate(kinds)
    ]
    forms = [tuple(comparable(kind, value) for kind, value in zip(kinds, row, strict=True)) for row in rows]
    mine, others = (key_bytes(columns, prefix).to_pylist() for prefix in prefixes)
    for form, key in zip(forms, mine, strict=True):
        for other_form, other in zip(forms, others, strict=True):
            assert (key == other) == (form == other_form and prefixes[0] == prefixes[1])


def test_batches_follow_each_other(monkeypatch: Any) -> None:
    monkeypatch.setattr(module, "_MOST_ROWS", 4)
    columns = [key_column(parse_kind("long"), pa.array([1, None, 3, 4, 5, 6, None, 8, 9, 10]))]
    batches = list(key_batches(columns, 7))
    assert [first for first, _ in batches] == [0, 4, 8]
    assert [key for _, keys in batches for key in keys.to_pylist()] == key_bytes(columns, 7).to_pylist()


def test_no_rows() -> None:
    columns = [key_column(parse_kind(kind), pa.array([], KINDS[kind][0])) for kind in ("string", "long")]
    assert list(key_batches(columns, 0)) == []
    assert len(key_bytes(columns, 0)) == 0
    assert isinstance(columns[1].values, np.ndarray)
