"""How much memory this process holds, and how much it may."""

import psutil

_SHARE = 0.75
"""Of the machine's memory, for all of its workers."""


def held_bytes() -> int:
    """What this process and all that it has started hold; files that they share count for each."""
    here = psutil.Process()
    held = here.memory_info().rss
    for child in here.children(recursive=True):
        try:
            held += child.memory_info().rss
        except psutil.Error:  # it has ended
            continue
    return int(held)


def usual_limit(workers: int) -> int:
    """What one of so many workers may hold if nobody says anything else."""
    return int(psutil.virtual_memory().total * _SHARE / max(workers, 1))
