"""Numbers in sentences."""


def counted(number: int, noun: str) -> str:
    """`1 file`, `12,000 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
