"""Bloom filters: what is in the column is always found, and most of what is not is ruled out."""

import struct
from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepact.execute.parquet.bloom import hashes, may_contain
from icepact.execute.parquet.input import Input, MemorySource


def _filter(values: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.table({"key": values})
    pq.write_table(table, sink, bloom_filter_options={"key": {"ndv": len(values), "fpp": 0.01}})
    opened = Input(MemorySource(sink.getvalue()))
    found = opened.bloom(opened.footer.row_groups[0].chunks[0])
    assert found is not None
    return bytes(found)


@pytest.mark.parametrize(
    ("kind", "packed"),
    [
        (pa.int32(), lambda n: struct.pack("<i", n)),
        (pa.int64(), lambda n: struct.pack("<q", n)),
        (pa.string(), lambda n: str(n).encode()),
    ],
)
def test_nothing_that_is_there_is_ruled_out(kind: pa.DataType, packed: Callable[[int], bytes]) -> None:
    inside, outside = list(range(0, 4000, 2)), list(range(1, 4000, 2))
    plain = [str(n) for n in inside] if pa.types.is_string(kind) else inside
    data = _filter(pa.array(plain, kind))
    assert may_contain(data, hashes(packed(n) for n in inside)).all()
    wrong = may_contain(data, hashes(packed(n) for n in outside)).mean()
    assert wrong < 0.05


def test_asking_for_nothing() -> None:
    assert len(may_contain(_filter(pa.array([1, 2])), hashes([]))) == 0
