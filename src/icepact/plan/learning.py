"""Learning: from recorded outcomes to lessons. A pure function, so that nothing but outcomes needs to be kept.

Medians instead of means, so that one odd run teaches little; and each with its error, because what may be chance is no
lesson. Older measurements fade with every newer one, so that a world that has changed is noticed; and with time, so
that what was given up is tried again some day.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from icepact.model.lessons import NOTHING, TOWARDS_OTHERS, Heat, Lesson, Lessons, Span, Taught, heat_of, span_of

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
    told: Mapping[str, Any]

    @property
    def features(self) -> Mapping[str, float]:
        found: Mapping[str, float] = self.told.get("features") or {}
        return found

    @property
    def heat(self) -> Heat:
        return heat_of(self.features.get("files_per_hour", 0.0))

    @property
    def committed(self) -> bool:
        return bool(self.told.get("committed"))


Item = TypeVar("Item")
Key = TypeVar("Key")
Measure = tuple[float, float]
"""A value and its weight."""


def learn(
    outcomes: Iterable[Mapping[str, Any]], table: str, *, now: datetime, since: datetime | None = None
) -> Lessons:
    """What the outcomes of a catalog's runs teach about one of its tables; nothing before `since`."""
    groups = sorted(_groups(outcomes, now, since), key=lambda g: g.at)
    tables = {name: _taught(some, now) for name, some in _by(groups, lambda g: g.table)}
    own = tables.pop(table, Taught())
    return Lessons(own=own, others=_together(list(tables.values())))


def _together(tables: Sequence[Taught]) -> Taught:
    """What tables agree about: each has one voice, and where they differ nothing is left."""

    def agreed(lessons: Iterable[Lesson]) -> Lesson:
        voices = [(one.value, one.weight / (one.weight + TOWARDS_OTHERS)) for one in lessons if one.weight]
        found = _middle(voices, 0.5, math.inf)
        return found if found.beyond() else NOTHING

    return Taught(
        cost=agreed(t.cost for t in tables),
        files=agreed(t.files for t in tables),
        compression=agreed(t.compression for t in tables),
        lasting={
            span: agreed(t.lasting.get(span, NOTHING) for t in tables)
            for span in Span
            if any(span in t.lasting for t in tables)
        },
        conflicts={
            heat: agreed(t.conflicts.get(heat, NOTHING) for t in tables)
            for heat in Heat
            if any(heat in t.conflicts for t in tables)
        },
        groups=sum(t.groups for t in tables),
    )


def _groups(outcomes: Iterable[Mapping[str, Any]], now: datetime, since: datetime | None) -> Iterator[_Group]:
    for outcome in outcomes:
        at = datetime.fromisoformat(outcome["started_at"])
        if since is not None and at < since:
            continue
        weight = 0.5 ** (max(0.0, (now - at).total_seconds() / 3600) / HALF_LIFE_HOURS)
        for told in outcome.get("groups", ()):
            yield _Group(table=outcome["table"], at=at, weight=weight, told=told)


def _taught(groups: Sequence[_Group], now: datetime) -> Taught:
    lasted = list(_lasted(groups, now))[::-1]
    return Taught(
        cost=_middle(_each(groups, _cost), 0.3),
        files=_middle(_each(groups, _files), 0.3),
        compression=_middle(_each(groups, _compression), 0.1, HALF_COUNT_EXACT),
        lasting={span: _survived(some) for span, some in _by(lasted, lambda one: span_of(one.group.features))},
        lasting_in={name: _survived(some) for name, some in _by(lasted, lambda one: str(one.group.told["partition"]))},
        conflicts={heat: _share(some) for heat, some in _by([g for g in groups if _ended(g)], lambda g: g.heat)},
        groups=len(groups),
    )


def _each(groups: Sequence[_Group], measure: Callable[[Mapping[str, Any]], float | None]) -> list[Measure]:
    found = ((measure(g.told), g.weight) for g in groups)
    return [(value, weight) for value, weight in found if value is not None]


def _cost(told: Mapping[str, Any]) -> float | None:
    """Of every group that was worked on, committed or not."""
    return _ratio(told.get("seconds", 0.0), told.get("baseline_seconds", 0.0))


def _files(told: Mapping[str, Any]) -> float | None:
    if not told.get("committed") or "predicted_files" not in told:
        return None
    return _ratio(told["input_files"] - told["output_files"], told["input_files"] - told["predicted_files"])


def _compression(told: Mapping[str, Any]) -> float | None:
    """Of what was encoded: what is copied keeps its size, and rows that deletes have taken are no compression."""
    if not told.get("committed") or not told["rows_in"] or not told["rows_out"]:
        return None
    copied, kept = told.get("copied_bytes", 0), told["bytes_in"] * told["rows_out"] / told["rows_in"]
    if kept - copied < _LEAST_ENCODED * kept:
        return None
    return _ratio(told["bytes_out"] - copied, kept - copied)


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
    done = [g for g in groups if g.committed and g.features.get("lasting_hours")]
    following: dict[tuple[str, str], _Group] = {}
    for group in reversed(done):
        place = group.table, str(group.told["partition"])
        later = following.get(place)
        following[place] = group
        predicted = group.features["lasting_hours"]
        hours = _hours(group.at, later.at if later else now)
        if later is not None:
            come = max(1.0, later.told["input_files"] - group.told["output_files"])
            hours *= group.features.get("merged_files", come) / come
        value = _ratio(min(hours, group.features.get("horizon_hours", hours)), predicted)
        if value is not None:
            yield _Lasted(group, value, later is not None)


def _hours(begin: datetime, end: datetime) -> float:
    return (end - begin).total_seconds() / 3600


def _ended(group: _Group) -> bool:
    """Whether a group tells about conflicts: it was committed, or lost to somebody."""
    return group.committed or _was_lost(group)


def _was_lost(group: _Group) -> bool:
    return not group.committed and str(group.told.get("reason", "")).startswith(_LOST)


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


def _by(items: Sequence[Item], key: Callable[[Item], Key]) -> list[tuple[Key, list[Item]]]:
    found: dict[Key, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return list(found.items())
