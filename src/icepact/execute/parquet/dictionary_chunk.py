"""A new chunk of indices in a dictionary. The dictionary is in order, so that bounds are the bounds of indices."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from icepact.execute.parquet.layout import RLE_DICTIONARY
from icepact.execute.parquet.new_chunk import NewChunk, Numbers, PageForm, in_pages
from icepact.execute.parquet.run_lengths import Indices, bits_for, encoded_indices


class Dictionary(Protocol):
    """Values, each once and in ascending order."""

    def __len__(self) -> int:
        """How many there are."""

    def encoded(self) -> bytes:
        """The body of the dictionary page."""

    def value(self, index: int) -> bytes:
        """One of them, as statistics hold it."""

    def text_bytes(self, indices: Indices) -> int | None:
        """Bytes of the texts that these stand for; `None` if they are no texts."""


class TextDictionary:
    """Texts."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self._texts = texts
        self._sizes = pa.array([len(text) for text in texts], pa.int32())

    def __len__(self) -> int:
        return len(self._texts)

    def encoded(self) -> bytes:
        """Each behind its length."""
        return b"".join(part for text in self._texts for part in (len(text).to_bytes(4, "little"), text))

    def value(self, index: int) -> bytes:
        """One of them."""
        return self._texts[index]

    def text_bytes(self, indices: Indices) -> int:
        """Bytes of the texts that these stand for."""
        return int(pc.sum(pc.take(self._sizes, pa.array(indices), boundscheck=False)).as_py())


class NumberDictionary:
    """Whole numbers of four or eight bytes."""

    def __init__(self, numbers: Numbers) -> None:
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def encoded(self) -> bytes:
        """One after the other."""
        return self._numbers.tobytes()

    def value(self, index: int) -> bytes:
        """One of them."""
        return bytes(self._numbers[index].tobytes())

    def text_bytes(self, indices: Indices) -> None:
        """`None`: they are no texts."""
        del indices


class DictionaryChunk(NewChunk):
    """One column of a row group."""

    def __init__(self, dictionary: Dictionary, indices: Iterable[Indices], form: PageForm) -> None:
        """Arrays of indices in the dictionary follow each other."""
        super().__init__(form, RLE_DICTIONARY)
        self._dictionary = dictionary
        self._add_dictionary(dictionary.encoded(), len(dictionary))
        for page in in_pages(indices, form.rows_of(bits_for(len(dictionary)))):
            highest = int(page.max())
            bits = bits_for(highest + 1)
            self._add_page([bytes([bits]), encoded_indices(page, bits)], len(page), (int(page.min()), highest))
            text_bytes = dictionary.text_bytes(page)
            if text_bytes is not None:
                self._text_bytes.append(text_bytes)

    def _bound(self, number: int) -> bytes:
        return self._dictionary.value(number)
