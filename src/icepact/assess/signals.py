"""The signals a score is made of, and how many points each can cost.

Every signal is a share between 0 and 1 that never falls when there are more small files to merge,
more delete records or more delete files, all else equal; so more of them never raises the score.
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


def score(facts: Facts) -> Score:
    """100 minus what each signal costs."""
    parts = {signal.name: round(signal.points * signal.share(facts), 2) for signal in SIGNALS}
    return Score(value=round(100.0 - sum(parts.values()), 2), parts=parts)
