"""Ways to spoil a file that a table refers to."""

from pathlib import Path

from icepact.execute.parquet.input import Input, MemorySource
from icepact.execute.parquet.layout import PAGE_HEADER
from tests.support.parquet_bent import encode, footer_of, meta_of, walk


def gone(path: Path) -> None:
    """It is not there any more."""
    path.unlink()


def shorter(path: Path) -> None:
    """Its end is cut off."""
    path.write_bytes(path.read_bytes()[:-100])


def footer_damaged(path: Path) -> None:
    """Its footer is as long as it says, and holds nonsense."""
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[-8:-4], "little")
    data[-8 - length : -8] = b"\xff" * length
    path.write_bytes(data)


def no_footer(path: Path) -> None:
    """Its last bytes are not those of a Parquet file."""
    path.write_bytes(path.read_bytes()[:-4] + b"XXXX")


def index_beyond_dictionary(path: Path) -> None:
    """In the last column of the only row group, which is not compressed, some rows have values that their dictionary
    lacks."""
    data = bytearray(path.read_bytes())
    chunk = Input(MemorySource(bytes(data))).footer.row_groups[0].chunks[-1]
    data[chunk.end - 300 : chunk.end - 297] = b"\xff" * 3
    path.write_bytes(data)


def fewer_values(path: Path) -> None:
    """In the first page of its first column are fewer values than there were, and readers do not notice."""
    data = path.read_bytes()
    at, _, header = next(walk(data, Input(MemorySource(data)).footer.row_groups[0].chunks[0]))
    before = encode(header, PAGE_HEADER)
    header[5][1] -= 1
    after = encode(header, PAGE_HEADER)
    assert len(after) == len(before)
    assert data[at:].startswith(before)
    path.write_bytes(data[:at] + after + data[at + len(after) :])


def page_unreadable(path: Path) -> None:
    """The header of the first page of its first column is none."""
    data = bytearray(path.read_bytes())
    at = meta_of(footer_of(bytes(data)))[9]
    data[at : at + 4] = b"\xff" * 4
    path.write_bytes(data)
