"""A disk without room: how messages tell of it, and what is to be done."""

FULL = "database or disk is full"
"""As SQLite says it."""
_FULL = ("no space left", "disk quota exceeded", FULL, "[sqlite_full]")


def is_full(text: str) -> bool:
    """Whether a message is about a disk without room."""
    return any(word in text.lower() for word in _FULL)


def no_room(where: str | None) -> str:
    """What is to be done; `where` is a folder on the disk, if it is known which."""
    return f"no space left{f' on the disk of {where}' if where else ''}: free some, then compact again"
