"""Combinations: all of them for the long run, and few that still bring every pair of values together."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

Combination = tuple[Any, ...]


def pairwise(legal: Sequence[Combination]) -> list[Combination]:
    """A small part of the legal combinations in which every legal pair of values occurs; always the same part."""
    missing = set().union(*(_pairs(one) for one in legal))
    chosen: list[Combination] = []
    while missing:
        best = max(legal, key=lambda one: len(_pairs(one) & missing))
        chosen.append(best)
        missing -= _pairs(best)
    return chosen


def _pairs(one: Combination) -> set[tuple[Any, Any]]:
    return set(combinations(enumerate(one), 2))
