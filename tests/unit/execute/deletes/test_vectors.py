"""Deletion vectors: every container kind, positions beyond 32 bits, and every way to be damaged."""

import pickle
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from icepact.execute.deletes.errors import BrokenDelete
from icepact.execute.deletes.vectors import MAGIC, decode_vector
from icepact.model.files import DeleteFile, DeleteKind
from tests.support.states import delete_file


def bitmap64(pieces: list[tuple[int, bytes]], count: int | None = None) -> bytes:
    """The portable 64-bit format from keys and serialized 32-bit bitmaps."""
    head = struct.pack("<Q", len(pieces) if count is None else count)
    return head + b"".join(struct.pack("<I", key) + bitmap for key, bitmap in pieces)


def framed(vector: bytes) -> bytes:
    """A blob around a vector, length and checksum right."""
    body = MAGIC + vector
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def blob_of(positions: list[int] | np.ndarray, *, runs: bool = False) -> bytes:
    """What a writer makes of these positions."""
    by_key: dict[int, BitMap] = {}
    for position in np.asarray(positions, dtype=np.int64):
        by_key.setdefault(int(position) >> 32, BitMap()).add(int(position) & 0xFFFFFFFF)
    if runs:
        for bitmap in by_key.values():
            bitmap.run_optimize()
    return framed(bitmap64([(key, by_key[key].serialize()) for key in sorted(by_key)]))


def ref(blob: bytes, records: int, **other: Any) -> DeleteFile:
    values: dict[str, Any] = {"size": len(blob), "file_size": 1000, "records": records} | other
    return delete_file(path="s3://b/v.puffin", kind=DeleteKind.DV, format="puffin", **values)


def decoded(blob: bytes, records: int) -> list[int]:
    found: list[int] = decode_vector(blob, ref(blob, records)).tolist()
    return found


CONTAINERS = {
    "array": list(range(0, 8192, 2)),
    "largest array": list(range(4096)),
    "smallest bit set": list(range(0, 3 * 4097, 3)),
    "bit set": list(range(0, 65536, 2)),
    "full": list(range(65536)),
    "run": list(range(1000, 60000)),
    "many containers": [n * 65536 + k for n in range(9) for k in range(n, 50 * n + 1)],
    "few containers": [n * 65536 + k for n in range(3) for k in range(100)],
    "all kinds": [*range(0, 65536, 2), *range(65536, 70000), 131072, 131080, *range(200_000, 400_000)],
    "beyond 32 bits": [0, 2**32 - 1, 2**32, 2**32 + 5, 7 * 2**32 + 65536, 2**63 - 1],
    "empty": [],
}


@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("name", CONTAINERS)
def test_containers(name: str, runs: bool) -> None:
    positions = CONTAINERS[name]
    found = decode_vector(blob := blob_of(positions, runs=runs), ref(blob, len(positions)))
    assert found.dtype == np.int64
    assert found.tolist() == positions
    assert not found.flags.writeable


@given(
    st.sets(
        st.one_of(st.integers(0, 300), st.integers(65_000, 66_000), st.integers(2**32 - 9, 2**32 + 9))
        | st.integers(0, 2**63 - 1)
    ),
    st.lists(st.tuples(st.integers(0, 2**33), st.integers(1, 9000)), max_size=3),
    st.booleans(),
)
def test_any_positions(single: set[int], spans: list[tuple[int, int]], runs: bool) -> None:
    positions = sorted(single.union(*(range(start, start + size) for start, size in spans)))
    assert decoded(blob_of(positions, runs=runs), len(positions)) == positions


def test_a_run_bitmap_without_a_run_is_measured_by_its_own_header() -> None:
    # the cookie says that containers may be runs, the flags say that none is; libraries write it shorter
    odd = struct.pack("<IBHHH", 12347, 0, 0, 0, 42)
    assert decoded(framed(bitmap64([(0, odd), (3, BitMap([1]).serialize())])), 2) == [42, 3 * 2**32 + 1]


@pytest.mark.parametrize("name", ["array", "run", "few containers", "beyond 32 bits"])
def test_any_flipped_bit_is_noticed(name: str) -> None:
    positions = CONTAINERS[name][:300]
    blob = blob_of(positions, runs=True)
    for at in range(len(blob)):
        for bit in range(8):
            damaged = bytearray(blob)
            damaged[at] ^= 1 << bit
            with pytest.raises(BrokenDelete, match=r"s3://b/v\.puffin at offset 4"):
                decode_vector(damaged, ref(blob, len(positions)))


@pytest.mark.parametrize("name", ["array", "smallest bit set", "run", "few containers", "beyond 32 bits"])
def test_damage_under_a_right_checksum_never_passes_for_other_positions(name: str) -> None:
    """A writer's mistake: either it is noticed, or the bytes really say as many ascending positions."""
    positions = CONTAINERS[name][:5000]
    vector = blob_of(positions, runs=True)[8:-4]
    for at in [*range(min(len(vector), 120)), *range(len(vector) - 20, len(vector))]:
        damaged = bytearray(vector)
        damaged[at] ^= 0x11
        blob = framed(bytes(damaged))
        try:
            found = decode_vector(blob, ref(blob, len(positions)))
        except BrokenDelete:
            continue
        assert len(found) == len(positions)
        assert np.all(np.diff(found) > 0)
        assert found[0] >= 0


@pytest.mark.parametrize("cut", [0, 3, 4, 8, 11, 12, 15, 20, 25])
def test_a_cut_blob_is_noticed(cut: int) -> None:
    blob = blob_of([1, 2, 3])[:cut]
    with pytest.raises(BrokenDelete, match=r"too few|length field"):
        decode_vector(blob, ref(blob, 3))


ONE = BitMap([1]).serialize()
DAMAGED = {
    "its magic number is 00000000": struct.pack(">I", 12) + bytes(12) + struct.pack(">I", zlib.crc32(bytes(12))),
    "its keys do not ascend: 5, 5": framed(bitmap64([(5, ONE), (5, ONE)])),
    "its keys do not ascend: 5, 4": framed(bitmap64([(5, ONE), (4, ONE)])),
    "it holds negative positions": framed(bitmap64([(0x80000000, ONE)])),
    "3 bytes follow its last bitmap": framed(bitmap64([(0, ONE)]) + b"abc"),
    "it is cut short": framed(bitmap64([(0, ONE)])[:-1]),
    "unpack_from": framed(bitmap64([(0, ONE)], count=2)),
    "is not the start of a bitmap": framed(bitmap64([(0, b"\0" * 16)])),
    "cannot have 70000 containers": framed(bitmap64([(0, struct.pack("<II", 12346, 70_000))])),
    "strictly increasing|positions do not ascend": framed(
        bitmap64([(0, BitMap([1, 2]).serialize()[:-4] + struct.pack("<HH", 2, 1))])
    ),
    "a container does not have as many values": framed(
        bitmap64([(0, BitMap(range(0, 65536, 2)).serialize()[:-8192] + b"\xff" * 8192)])
    ),
}


@pytest.mark.parametrize("message", DAMAGED)
def test_each_kind_of_damage_is_named(message: str) -> None:
    blob = DAMAGED[message]
    with pytest.raises(BrokenDelete, match=message):
        decode_vector(blob, ref(blob, 2))


def test_length_and_cardinality_are_those_of_the_manifest() -> None:
    blob = blob_of([1, 2, 3])
    with pytest.raises(BrokenDelete, match="it holds 3 positions, its manifest says 4"):
        decode_vector(blob, ref(blob, 4))
    with pytest.raises(BrokenDelete, match=f"{len(blob)} bytes were read, its manifest says 7"):
        decode_vector(blob, ref(blob, 3, size=7))


def test_refs_and_errors_travel_to_workers() -> None:
    one = ref(b"", 3, referenced="a.parquet")
    assert pickle.loads(pickle.dumps(one)) == one
    assert hash(pickle.loads(pickle.dumps(one))) == hash(one)
    error = pickle.loads(pickle.dumps(BrokenDelete("why")))
    assert (type(error), str(error)) == (BrokenDelete, "why")
