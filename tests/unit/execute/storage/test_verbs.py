"""Any sequence of appends and copies gives the bytes that a plain byte string would have; on every storage."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icepact.execute.storage import local
from icepact.execute.storage.base import Storage
from icepact.execute.storage.local import LocalStorage, by_copy_file_range, by_sendfile
from icepact.execute.storage.pyiceberg_io import PyIcebergStorage


@dataclass(frozen=True)
class Append:
    """Bytes of the writer's own."""

    length: int


@dataclass(frozen=True)
class Copy:
    """A range of a file; what does not fit is cut."""

    file: int
    offset: int
    length: int


@dataclass(frozen=True)
class GoOn:
    """The range right after the one copied last."""

    length: int


Verb = Append | Copy | GoOn


def noise(length: int, seed: int = 0) -> bytes:
    """Bytes that are nowhere else the same."""
    return np.random.default_rng((seed, length)).bytes(length)


def verbs(sizes: Sequence[int], lengths: Sequence[int], most: int) -> st.SearchStrategy[list[Verb]]:
    """Sequences over files of these sizes, with lengths near the interesting ones."""
    length = st.sampled_from(lengths)
    offset = st.sampled_from([0, 1, *lengths])
    copies = st.builds(Copy, st.integers(0, len(sizes) - 1), offset, length)
    return st.lists(copies | st.builds(GoOn, length) | st.builds(Append, length), max_size=most)


def resolved(steps: Sequence[Verb], sizes: Sequence[int]) -> list[Append | Copy]:
    """The same steps, with ranges that lie within their files."""
    last = Copy(0, 0, 0)
    result: list[Append | Copy] = []
    for step in steps:
        if isinstance(step, Append):
            result.append(step)
            continue
        wanted = step if isinstance(step, Copy) else Copy(last.file, last.offset + last.length, step.length)
        offset = min(wanted.offset, sizes[wanted.file])
        last = Copy(wanted.file, offset, min(wanted.length, sizes[wanted.file] - offset))
        result.append(last)
    return result


def carry_out(
    storage: Storage, paths: Sequence[str], contents: Sequence[bytes], steps: Sequence[Verb], to: str
) -> bytes:
    """Write a file by these steps; returns what it must hold."""
    sources = [storage.open(path, len(content)) for path, content in zip(paths, contents, strict=True)]
    sink = storage.create(to)
    expected = bytearray()
    try:
        for number, step in enumerate(resolved(steps, [len(content) for content in contents])):
            if isinstance(step, Append):
                data = noise(step.length, seed=number + 1000)
                sink.append(data)
                expected += data
            else:
                sink.copy(sources[step.file], step.offset, step.length)
                expected += contents[step.file][step.offset : step.offset + step.length]
            assert sink.position == len(expected)
        sink.close()
    finally:
        sink.abort()
        for source in sources:
            source.close()
    return bytes(expected)


SIZES = [0, 1, 5_000, 3 * local.BUFFER]
LENGTHS = [0, 1, 100, 4_999, local.BUFFER - 1, local.BUFFER, local.BUFFER + 1, 3 * local.BUFFER]
KINDS: dict[str, Callable[[], Storage]] = {
    "in the file system": lambda: LocalStorage(ways=[by_copy_file_range]),
    "in the kernel": lambda: LocalStorage(ways=[by_sendfile]),
    "by reading": lambda: LocalStorage(ways=[]),
    "by PyIceberg": lambda: PyIcebergStorage({}, "file:///"),
}


@pytest.mark.parametrize("kind", list(KINDS))
def test_any_sequence_of_appends_and_copies(kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("verbs")
    contents = [noise(size, seed) for seed, size in enumerate(SIZES)]
    paths = [f"{folder}/in-{number}" for number in range(len(SIZES))]
    for path, content in zip(paths, contents, strict=True):
        Path(path).write_bytes(content)

    @settings(max_examples=60)
    @given(verbs(SIZES, LENGTHS, most=12))
    def run(steps: list[Verb]) -> None:
        target = folder / "out"
        expected = carry_out(KINDS[kind](), paths, contents, steps, str(target))
        try:
            assert target.read_bytes() == expected
        finally:
            os.unlink(target)

    run()
