"""Texts that came in dictionaries, not nested and never null: their indices change, and no text is looked at again."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icepact.execute.parquet.dictionary_chunk import DictionaryChunk, TextDictionary
from icepact.execute.parquet.new_chunk import PageForm
from icepact.execute.parquet.run_lengths import Indices, bits_for, smallest

_ROWS_PER_CHECK = 8192
"""Rows that are read between two checks whether all values of a dictionary are in use."""
_LARGEST_OF_ROWS = 0.6
"""A dictionary with more entries per row than this saves nothing."""

_KINDS = (pa.dictionary(pa.int32(), pa.string()), pa.dictionary(pa.int32(), pa.binary()))


def text_chunk(column: pa.ChunkedArray, form: PageForm, most_bytes: int) -> DictionaryChunk | None:
    """A chunk with one dictionary of the texts in use; `None` if it is not such a column, or not worth a dictionary."""
    if column.type not in _KINDS:
        return None
    parts = [chunk for chunk in column.chunks if len(chunk)]
    if not parts or any(part.null_count or part.dictionary.null_count for part in parts):
        return None
    indices = [part.indices.to_numpy() for part in parts]
    used = [
        part.dictionary.filter(pa.array(in_use(mine, len(part.dictionary))))
        for part, mine in zip(parts, indices, strict=True)
    ]
    texts = pc.unique(pa.chunked_array(used))
    if not worth_a_dictionary(texts, len(column), most_bytes):
        return None
    texts = texts.take(pc.array_sort_indices(texts))
    narrow = smallest(bits_for(len(texts)))
    # a text that is not in use has no index, and nothing asks for it
    renumbered = [pc.index_in(part.dictionary, texts).fill_null(0).to_numpy().astype(narrow) for part in parts]
    moved = (taken(new, part.indices) for new, part in zip(renumbered, parts, strict=True))
    return DictionaryChunk(TextDictionary(texts.cast(pa.binary()).to_pylist()), moved, form)


def taken(values: Indices, indices: pa.Array) -> Indices:
    """The value at each index; numpy would make indices of eight bytes first."""
    found: Indices = pc.take(pa.array(values), indices, boundscheck=False).to_numpy()
    return found


def worth_a_dictionary(values: pa.Array, rows: int, most_bytes: int) -> bool:
    """True if values, each once, make a dictionary for so many rows that saves something."""
    return values.nbytes <= most_bytes and len(values) <= max(1, _LARGEST_OF_ROWS * rows)


def in_use(indices: NDArray[np.int32], count: int) -> NDArray[np.bool_]:
    """Which of so many values are in use."""
    used = np.zeros(count, dtype=bool)
    for at in range(0, len(indices), _ROWS_PER_CHECK):
        used[indices[at : at + _ROWS_PER_CHECK]] = True
        if used.all():
            break
    return used
