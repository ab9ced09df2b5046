"""The signals a score is made of, and how many points each can cost.

Every signal is a share between 0 and 1 that never falls when there are more small files to merge,
more delete records, more delete files or deeper overlap, all else equal; so more of them never raises the score.
"""

from collections.abc import Callable
from typing import NamedTuple

from icepact.model.health import Facts, Score

DELETE_RATIO_WORST = 0.5
"""Delete records over rows at which the deletes signal is at its worst."""


def small_files(facts: Facts) -> float:
    """Small files that could be merged, over all data files."""
    return facts.mergeable_files / facts.data_files if facts.data_files else 0.0


def deletes(facts: Facts) -> float:
    """Delete records over rows, at its worst from one delete for every two rows on."""
    return min(1.0, facts.delete_ratio / DELETE_RATIO_WORST)


def fragments(facts: Facts) -> float:
    """Delete files over data files: what a scan must open besides the data."""
    return min(1.0, facts.fragment_ratio)


def overlap(facts: Facts) -> float:
    """Files that a reader of one key opens for nothing, over those that it opens; 0 where no two files overlap."""
    return 1 - 1 / max(1.0, facts.overlap.average) if facts.overlap is not None else 0.0


class Signal(NamedTuple):
    """One part of the score."""

    name: str
    points: float
    """Points lost when the share is 1."""
    share: Callable[[Facts], float]


SIGNALS = (
    Signal("small_files", 50.0, small_files),
    Signal("deletes", 35.0, deletes),
    Signal("fragments", 15.0, fragments),
)
OVERLAP = Signal("overlap", 20.0, overlap)
"""Takes its points of the hundred that the others have left, so that there are always enough; of sorted tables only."""


def signals_of(facts: Facts) -> tuple[Signal, ...]:
    """All that there are points to lose to."""
    return SIGNALS if facts.overlap is None else (*SIGNALS, OVERLAP)


def score(facts: Facts) -> Score:
    """100 minus what each signal costs."""
    parts = {signal.name: round(signal.points * signal.share(facts), 2) for signal in SIGNALS}
    if facts.overlap is not None:
        left = (100.0 - sum(parts.values())) / 100.0
        parts[OVERLAP.name] = round(OVERLAP.points * OVERLAP.share(facts) * left, 2)
    return Score(value=round(100.0 - sum(parts.values()), 2), parts=parts)
