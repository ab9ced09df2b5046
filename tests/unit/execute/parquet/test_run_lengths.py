"""Indices of a dictionary: runs and packed groups, read back as the format says, bit by bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.execute.parquet.run_lengths import MOST_BITS, bits_for, encoded_indices, packed, smallest


def read_back(data: bytes, bits: int, count: int) -> list[int]:
    """The values of a hybrid of runs and packed groups: no cleverer than the specification."""
    values: list[int] = []
    at = 0
    while len(values) < count:
        head = shift = 0
        while True:
            byte, at = data[at], at + 1
            head |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        if head & 1:
            size = (head >> 1) * bits
            word = int.from_bytes(data[at : at + size], "little")
            values += [word >> n * bits & ((1 << bits) - 1) for n in range(8 * (head >> 1))]
        else:
            size = (bits + 7) // 8
            values += [int.from_bytes(data[at : at + size], "little")] * (head >> 1)
        at += size
    assert at == len(data), "nothing is left over"
    assert not any(values[count:]), "what fills the last group is zero"
    return values[:count]


@st.composite
def numbers(draw: st.DrawFn) -> tuple[list[int], int]:
    """Parts in which values change at random, and runs, some very long."""
    bits = draw(st.integers(1, MOST_BITS))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    values: list[int] = []
    for kind, rows in draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5000)), min_size=1, max_size=6)):
        length = (1, 20, 40_000)[kind]
        some = random.integers(0, 1 << bits, rows if kind < 2 else 1)
        values += np.repeat(some, random.integers(1, length + 1, len(some)))[: 10 * rows].tolist()
    return values, bits


@given(numbers())
def test_values_come_back(case: tuple[list[int], int]) -> None:
    values, bits = case
    assert read_back(encoded_indices(np.array(values, dtype=smallest(bits)), bits), bits, len(values)) == values


@pytest.mark.parametrize("bits", range(1, MOST_BITS + 1))
def test_every_width(bits: int) -> None:
    values = np.random.default_rng(bits).integers(0, 1 << bits, 1001).astype(smallest(bits))
    values[0] = (1 << bits) - 1
    data = packed(values, bits)
    assert len(data) == 126 * bits
    word = int.from_bytes(data, "little")
    assert [word >> n * bits & ((1 << bits) - 1) for n in range(1001)] == values.tolist()


def test_runs_take_a_few_bytes() -> None:
    """Also where the rest of the page changes with every row."""
    random = np.random.default_rng(0)
    mixed = np.concatenate([np.full(10_000, 3), random.integers(0, 16, 10_000)]).astype(np.uint8)
    assert len(encoded_indices(mixed[:10_000], 4)) == 4
    assert len(encoded_indices(mixed, 4)) < 6500
    sorted_ = np.sort(random.integers(0, 16, 20_000)).astype(np.uint8)
    assert len(encoded_indices(sorted_, 4)) == 16 * 3


@pytest.mark.parametrize(("count", "bits"), [(1, 1), (2, 1), (3, 2), (256, 8), (257, 9), (65536, 16)])
def test_bits(count: int, bits: int) -> None:
    assert bits_for(count) == bits
    assert count - 1 <= np.iinfo(smallest(bits)).max
