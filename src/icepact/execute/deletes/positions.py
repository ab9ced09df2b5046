"""Position deletes: row numbers by data file."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icepact.execute.deletes.columns import each_once, in_dictionaries
from icepact.execute.deletes.errors import BrokenDelete
from icepact.execute.deletes.files import Bytes, read_columns
from icepact.model.files import DeleteFile, DeleteKind

FILE_PATH_ID = 2147483546
POS_ID = 2147483545
_NAMES = {FILE_PATH_ID: "file_path", POS_ID: "pos"}
_PATH_OVERHEAD = 200
"""Bytes that Python needs for a path and its slice, beside its characters."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PositionIndex:
    """One position-delete file, sorted once, so that each data file's share is a slice."""

    positions: NDArray[np.int64]
    """Row numbers, grouped by data file; ascending and unique in a group."""
    slices: Mapping[str, tuple[int, int]]
    """Start and end in `positions` of the group of each data file, by its path."""

    def of(self, data_path: str) -> NDArray[np.int64]:
        """Deleted rows of this data file; paths compare as they are written."""
        start, end = self.slices.get(data_path, (0, 0))
        return self.positions[start:end]

    @property
    def nbytes(self) -> int:
        """About how much memory it holds."""
        return self.positions.nbytes + sum(len(path) + _PATH_OVERHEAD for path in self.slices)


def read_positions(delete: DeleteFile, data: Bytes) -> PositionIndex:
    """Index a position-delete file."""
    columns = read_columns(delete, data, _NAMES, _NAMES)
    if len(columns) != len(_NAMES):
        raise BrokenDelete(f"{delete} lacks file_path or pos")
    paths, pos = columns[FILE_PATH_ID], columns[POS_ID]
    if paths.null_count or pos.null_count:
        raise BrokenDelete(f"{delete} has rows without a path or position")
    if not in_dictionaries(paths):
        raise BrokenDelete(f"{delete} is damaged: an index is beyond its dictionary")
    names, codes = coded_paths(paths)
    numbers: NDArray[np.int64] = pos.cast(pa.int64()).to_numpy()
    if len(numbers) and numbers.min() < 0:
        raise BrokenDelete(f"{delete} has negative positions")
    return _indexed(names, codes, numbers)


def deleted_positions(
    deletes: Iterable[DeleteFile],
    data_path: str,
    *,
    vector: Callable[[DeleteFile], NDArray[np.int64]],
    index: Callable[[DeleteFile], PositionIndex],
) -> NDArray[np.int64]:
    """Deleted rows of one data file, ascending and unique. Equality deletes among the deletes are passed over.

    A deletion vector stands for all position deletes of its file, those in older delete files included.
    """
    chosen = {delete.key: delete for delete in deletes}.values()
    vectors = [delete for delete in chosen if delete.kind is DeleteKind.DV]
    if len(vectors) > 1:
        raise BrokenDelete(f"{data_path} has {len(vectors)} deletion vectors: {', '.join(map(str, vectors))}")
    if vectors:
        if vectors[0].referenced not in (None, data_path):
            raise BrokenDelete(f"deletion vector {vectors[0]} belongs to {vectors[0].referenced}, not to {data_path}")
        return vector(vectors[0])
    parts = [index(delete).of(data_path) for delete in chosen if delete.kind is DeleteKind.POSITION]
    if len(parts) == 1:
        return parts[0]
    return each_once(np.sort(np.concatenate([np.empty(0, dtype=np.int64), *parts])))


def coded_paths(paths: pa.ChunkedArray) -> tuple[list[str], NDArray[np.int64]]:
    """Distinct paths, and for each row the number of its path."""
    values = paths.cast(pa.large_string()) if not pa.types.is_dictionary(paths.type) else paths
    coded = values.unify_dictionaries() if pa.types.is_dictionary(values.type) else pc.dictionary_encode(values)
    if coded.num_chunks == 0:
        return [], np.empty(0, dtype=np.int64)
    names: list[str] = coded.chunk(0).dictionary.to_pylist()
    if len(set(names)) != len(names):  # nothing forbids a dictionary page to repeat itself
        return coded_paths(paths.cast(pa.large_string()))
    codes = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in coded.chunks])
    return names, codes.astype(np.int64)


def _indexed(names: list[str], codes: NDArray[np.int64], numbers: NDArray[np.int64]) -> PositionIndex:
    same_path = codes[1:] == codes[:-1]
    if not np.all((codes[1:] > codes[:-1]) | same_path & (numbers[1:] >= numbers[:-1])):
        order = np.lexsort((numbers, codes))
        codes, numbers = codes[order], numbers[order]
        same_path = codes[1:] == codes[:-1]
    keep = np.ones(len(numbers), dtype=bool)
    keep[1:] = ~(same_path & (numbers[1:] == numbers[:-1]))
    codes, numbers = codes[keep], numbers[keep]
    numbers.flags.writeable = False
    edges = np.searchsorted(codes, np.arange(len(names) + 1)).tolist()
    return PositionIndex(positions=numbers, slices=dict(zip(names, pairwise(edges), strict=True)))
