"""Columns of whole numbers, dates and times that are neither nested nor null anywhere: no number is looked at twice."""

import numpy as np
import pyarrow as pa

from icepact.execute.assemble.ascending import ascends
from icepact.execute.assemble.texts import in_use, taken, worth_a_dictionary
from icepact.execute.parquet.dictionary_chunk import DictionaryChunk, NumberDictionary
from icepact.execute.parquet.new_chunk import NewChunk, PageForm, PlainChunk
from icepact.execute.parquet.run_lengths import bits_for, smallest

_STORED = {32: pa.int32(), 64: pa.int64()}


def number_chunk(
    column: pa.ChunkedArray, form: PageForm, most_bytes: int, *, in_dictionary: bool, special: bool
) -> NewChunk | None:
    """A chunk of a column; `None` if it has nulls, or is better made by pyarrow's writer.

    `in_dictionary` and `special` say how the sources encoded it: in dictionaries, or in an encoding of its own.
    """
    if column.null_count:
        return None
    if pa.types.is_dictionary(column.type):
        made = _in_dictionary(column, form, most_bytes)
        if made is not None:
            return made
        column = column.cast(column.type.value_type)
        in_dictionary = False
    if special or (in_dictionary and not (form.codec != "uncompressed" and ascends(column))):
        return None
    stored = _STORED[column.type.bit_width]
    parts = [chunk.view(stored).to_numpy() for chunk in column.chunks if len(chunk)]
    return PlainChunk(parts, form, stored.bit_width // 8) if parts else None


def _in_dictionary(column: pa.ChunkedArray, form: PageForm, most_bytes: int) -> DictionaryChunk | None:
    """A chunk with one dictionary of the numbers in use; `None` if it is not worth a dictionary."""
    parts = [chunk for chunk in column.chunks if len(chunk)]
    if not parts or any(part.dictionary.null_count for part in parts):
        return None
    indices = [part.indices.to_numpy() for part in parts]
    stored = _STORED[column.type.value_type.bit_width]
    dictionaries = [part.dictionary.view(stored).to_numpy() for part in parts]
    used = [d[in_use(mine, len(d))] for d, mine in zip(dictionaries, indices, strict=True)]
    numbers = np.unique(np.concatenate(used))
    if not worth_a_dictionary(pa.array(numbers), len(column), most_bytes):
        return None
    narrow = smallest(bits_for(len(numbers)))
    # a number that is not in use has an index of its neighbour, and nothing asks for it
    renumbered = [np.searchsorted(numbers, d).astype(narrow) for d in dictionaries]
    moved = (taken(new, part.indices) for new, part in zip(renumbered, parts, strict=True))
    return DictionaryChunk(NumberDictionary(numbers), moved, form)
