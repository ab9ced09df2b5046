"""New deletes of outputs, written beside them: a vector for each, all in one file, or for each a file of positions."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import numpy as np
from numpy.typing import NDArray

from icepact.execute.deletes.writing import WrittenDelete, write_positions, write_vectors
from icepact.execute.storage.base import Sink, Storage

VECTORS_FROM = 3
"""Format version in which positions are deleted by vectors."""


def write_deletes(
    found: Mapping[str, NDArray[np.int64]],
    name: Callable[[str], str],
    storage: Storage,
    *,
    vectors: bool,
    created_by: str,
) -> list[WrittenDelete]:
    """One delete for each data file: positions, ascending, by its path. Nothing is left of them if that fails.

    `name` makes the path of a new file, given its ending.
    """
    found = {path: positions for path, positions in found.items() if len(positions)}
    written: list[WrittenDelete] = []
    if vectors and found:
        with new_file(name("puffin"), storage) as sink:
            return write_vectors(sink, found, created_by=created_by)
    try:
        for path, positions in found.items():
            with new_file(name("parquet"), storage) as sink:
                written.append(write_positions(sink, path, positions))
    except BaseException:
        for delete in written:
            with suppress(Exception):
                storage.delete(delete.path)
        raise
    return written


@contextmanager
def new_file(path: str, storage: Storage) -> Iterator[Sink]:
    """A new file; nothing is left of it if it cannot be written."""
    sink = storage.create(path)
    try:
        yield sink
        sink.close()
    except BaseException:
        with suppress(Exception):
            sink.abort()
        raise
