"""Learning: from recorded outcomes to lessons. A pure function, so that nothing but outcomes needs to be kept.

Medians instead of means, so that one odd run teaches little; and each with its error, because what may be chance is no
lesson. Older measurements fade with every newer one, so that a world that has changed is noticed; and with time, so
that what was given up is tried again some day.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeVar

from icepact.economics.lessons import (
    NOTHING,
    TOWARDS_OTHERS,
    Evidence,
    GainHorizon,
    Lesson,
    Lessons,
    WriteRate,
    gain_horizon_of,
    write_rate_of,
)
from icepact.model.outcome import GroupOutcome, Outcome

HALF_LIFE_HOURS = 45 * 24.0
"""After so long a measurement counts half."""
HALF_COUNT = 8.0
"""And after so many others of its kind."""
HALF_COUNT_LASTING = 16.0
HALF_COUNT_EXACT = 2.0
"""The same for what hardly differs from one measurement to the next: if it does, something has changed."""
_LEAST_ENCODED = 0.1
"""Share of the bytes from which on a group tells about compression."""
_LARGEST = math.log(50)
"""Ratios beyond it tell of something else than the ratio."""
_LOST = ("superseded", "re-plan", "late")
"""How the reasons of groups begin that somebody else's commit has cost."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Group:
    """One file group of an outcome."""

    table: str
    at: datetime
    weight: float
    outcome: GroupOutcome


Item = TypeVar("Item")
Key = TypeVar("Key")
Learned = TypeVar("Learned")
Measure = tuple[float, float]
"""A value and its weight."""


def learn(outcomes: Iterable[Outcome], table: str, *, now: datetime, since: datetime | None = None) -> Lessons:
    """What the outcomes of a catalog's runs teach about one of its tables; nothing before `since`."""
    groups = sorted(_groups(outcomes, now, since), key=lambda g: g.at)
    tables = _by(groups, lambda g: g.table, lambda some: _evidence(some, now))
    own = tables.pop(table, Evidence())
    return Lessons(own=own, others=_agreement(list(tables.values())))


def _agreement(tables: Sequence[Evidence]) -> Evidence:
    """What tables agree about: each has one voice, and where they differ nothing is left."""

    def agreed(lessons: Iterable[Lesson]) -> Lesson:
        voices = [(one.value, one.weight / (one.weight + TOWARDS_OTHERS)) for one in lessons if one.weight]
        lesson = _middle(voices, 0.5, math.inf)
        return lesson if lesson.significant else NOTHING

    def by_kind(mine: Sequence[Mapping[Key, Lesson]], kinds: Iterable[Key]) -> dict[Key, Lesson]:
        known = [kind for kind in kinds if any(kind in one for one in mine)]
        return {kind: agreed(one.get(kind, NOTHING) for one in mine) for kind in known}

    return Evidence(
        files=agreed(t.files for t in tables),
        compression=agreed(t.compression for t in tables),
        lasting=by_kind([t.lasting for t in tables], GainHorizon),
        conflicts=by_kind([t.conflicts for t in tables], WriteRate),
        groups=sum(t.groups for t in tables),
    )


def _groups(outcomes: Iterable[Outcome], now: datetime, since: datetime | None) -> Iterator[_Group]:
    for outcome in outcomes:
        at = outcome.started_at
        if since is not None and at < since:
            continue
        weight = 0.5 ** (max(0.0, _hours(at, now)) / HALF_LIFE_HOURS)
        for group in outcome.groups:
            yield _Group(table=outcome.table, at=at, weight=weight, outcome=group)


def _evidence(groups: Sequence[_Group], now: datetime) -> Evidence:
    lasted = list(_lasted(groups, now))[::-1]
    ended = [g for g in groups if g.outcome.committed or _was_lost(g)]
    return Evidence(
        files=_middle(_each(groups, _files), 0.3),
        compression=_middle(_each(groups, _compression), 0.1, HALF_COUNT_EXACT),
        lasting=_by(lasted, lambda one: gain_horizon_of(one.group.outcome.features), _survived),
        lasting_in=_by(lasted, lambda one: one.group.outcome.partition, _survived),
        conflicts=_by(ended, lambda g: write_rate_of(g.outcome.features), _share),
        groups=len(groups),
    )


def _each(groups: Sequence[_Group], measure: Callable[[GroupOutcome], float | None]) -> list[Measure]:
    measured = ((measure(g.outcome), g.weight) for g in groups)
    return [(value, weight) for value, weight in measured if value is not None]


def _files(group: GroupOutcome) -> float | None:
    """Of groups that had files predicted: earlier versions did not."""
    if not group.committed or not group.predicted_files:
        return None
    return _ratio(group.input_files - group.output_files, group.input_files - group.predicted_files)


def _compression(group: GroupOutcome) -> float | None:
    """Of what was encoded: what is copied keeps its size, and rows that deletes have taken are no compression."""
    if not group.committed or not group.rows_in or not group.rows_out:
        return None
    copied, kept = group.effort.copied_bytes, group.bytes_in * group.rows_out / group.rows_in
    if kept - copied < _LEAST_ENCODED * kept:
        return None
    return _ratio(group.bytes_out - copied, kept - copied)


def _ratio(real: float, predicted: float) -> float | None:
    if real <= 0 or predicted <= 0:
        return None
    return max(-_LARGEST, min(_LARGEST, math.log(real) - math.log(predicted)))


class _Lasted(NamedTuple):
    """How long a gain lasted."""

    group: _Group
    value: float
    """Over what was predicted."""
    over: bool
    """False if it lasts still."""


def _lasted(groups: Sequence[_Group], now: datetime) -> Iterator[_Lasted]:
    """Of each rewrite, newest first: how long its gain really lasted over what was predicted.

    It lasts until as many files have come again as were merged. The next rewrite of the partition tells how many had
    come by then. Where there was none yet, it has lasted until now.
    """
    done = [g for g in groups if g.outcome.committed and g.outcome.features.get("lasting_hours")]
    following: dict[tuple[str, str], _Group] = {}
    for group in reversed(done):
        features, partition = group.outcome.features, (group.table, group.outcome.partition)
        later = following.get(partition)
        following[partition] = group
        hours = _hours(group.at, later.at if later else now)
        if later is not None:
            come = max(1.0, later.outcome.input_files - group.outcome.output_files)
            hours *= features.get("merged_files", come) / come
        value = _ratio(min(hours, features.get("horizon_hours", hours)), features["lasting_hours"])
        if value is not None:
            yield _Lasted(group, value, later is not None)


def _hours(begin: datetime, end: datetime) -> float:
    return (end - begin).total_seconds() / 3600


def _was_lost(group: _Group) -> bool:
    return not group.outcome.committed and group.outcome.reason.startswith(_LOST)


def _share(groups: Sequence[_Group]) -> Lesson:
    weights = _fading([g.weight for g in groups])
    lost, total = sum(w for w, group in zip(weights, groups, strict=True) if _was_lost(group)), sum(weights)
    share = (lost + 0.5) / (total + 1)  # none lost of few is no certainty
    return Lesson(value=lost / total, weight=total, error=math.sqrt(share * (1 - share) / total))


def _fading(weights: Sequence[float], half: float = HALF_COUNT) -> list[float]:
    """Weights of measurements, oldest first: each counts less with every one that came after it."""
    newest = len(weights) - 1
    return [weight * 0.5 ** ((newest - at) / half) for at, weight in enumerate(weights)]


def _middle(measures: Sequence[Measure], usual: float, half: float = HALF_COUNT) -> Lesson:
    """The weighted median of measurements, oldest first.

    `usual` is their spread as long as there are few of them.
    """
    if not measures:
        return NOTHING
    weights = _fading([weight for _, weight in measures], half)
    ordered = sorted(zip((value for value, _ in measures), weights, strict=True))
    total = sum(weights)
    reached = 0.0
    middle = ordered[-1][0]
    for value, weight in ordered:
        reached += weight
        if reached >= total / 2:
            middle = value
            break
    return _lesson(middle, ordered, total, usual)


def _survived(lasted: Sequence[_Lasted]) -> Lesson:
    """The median of how long gains last, after Kaplan and Meier: those that last still count as far as they got."""
    weights = _fading([one.group.weight for one in lasted], HALF_COUNT_LASTING)
    ordered = sorted((one.value, one.over, weight) for one, weight in zip(lasted, weights, strict=True))
    at_risk, share, middle = sum(weights), 1.0, ordered[-1][0]
    for value, over, weight in ordered:
        share *= 1 - weight / at_risk if over else 1
        at_risk -= weight
        if share <= 0.5:
            middle = value
            break
    telling = [(value, weight) for value, over, weight in ordered if over or value >= min(0.0, middle)]
    total = sum(weight for _, weight in telling)
    return _lesson(middle, telling, total, 1.0) if total else NOTHING


def _lesson(middle: float, measures: Sequence[Measure], total: float, usual: float) -> Lesson:
    """A median with its weight and its error."""
    spread = math.sqrt((sum(w * (v - middle) ** 2 for v, w in measures) + usual**2) / (total + 1))
    return Lesson(value=middle, weight=total, error=spread / math.sqrt(total))


def _by(
    items: Sequence[Item], key: Callable[[Item], Key], sum_up: Callable[[list[Item]], Learned]
) -> dict[Key, Learned]:
    """What the items of each key teach."""
    by_key: dict[Key, list[Item]] = {}
    for item in items:
        by_key.setdefault(key(item), []).append(item)
    return {kind: sum_up(some) for kind, some in by_key.items()}
