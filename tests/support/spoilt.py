"""Ways to spoil a file that a table refers to."""

from pathlib import Path

from icepact.execute.parquet.input import Input, MemorySource


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
