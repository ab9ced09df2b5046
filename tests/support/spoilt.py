"""Ways to spoil a file that a table refers to."""

from pathlib import Path


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
