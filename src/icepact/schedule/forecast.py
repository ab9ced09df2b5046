"""Forecasts of writers: how many commits an hour brings, and how likely a time is quiet; functions of values. Pure.

The past is cut into hours. An hour to come is foretold by the hours that are like it: those of the same hour of the
same weekday, those of the same hour of any day, and all. How much each kind has to say is chosen for each table from a
few ways, by which would have foretold its newest days best; old weeks count less. What is told are quantiles, so that
one burst in the past is not expected again each day. Hours go by the clocks of the table's zone: writers that begin at
nine do so in summer and in winter.

Whether a time is quiet is asked of the same hours: how often nothing was committed for so long, from any of their
quarters on.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from icepact.model.activity import Activity
from icepact.model.formatting import format_duration
from icepact.model.schedule import ChosenTime, Forecast, ForecastError, HourForecast, PartitionForecast

HOUR = timedelta(hours=1)
QUARTER = timedelta(minutes=15)
LONGEST = 8 * 7 * 24
"""Hours of the past that are looked at."""
RUN = timedelta(minutes=5)
"""A run takes about so long, if nothing is known about it."""
_LONG, _SHORT = 3 * 7 * 24.0, 3 * 24.0
"""Hours after which the past counts half."""
_FORGIVEN = 0.85
"""Errors of a day count so much of those of the next: habits change."""
_ANY = 0.003
"""Weight of an hour that is like the one that is foretold in nothing."""
_BACKTEST = 14
"""Newest days that are foretold from those before them, to see how well that goes; of the second half errors are
told, and each of its days is foretold in the way that was best for those before."""
_WORTH_WAITING = 0.05
"""By so much a later time must be more likely quiet."""
_NEARLY = 0.15
"""Share of what waiting gains: times that miss no more of it are equally good."""
_PARTITIONS = 200

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class _Way(NamedTuple):
    """How much hours of the past have to say about one to come."""

    half_life: float
    """Hours after which they have to say half as much."""

    week_hour: float
    """The same hour of the same weekday."""
    weekday: float
    """Another hour of the same weekday."""
    hour: float
    """The same hour of another day."""
    other: float = _ANY


_WAYS = (
    _Way(_LONG, 1.0, _ANY, 1.0),
    _Way(_SHORT, 1.0, _ANY, 1.0),
    _Way(_LONG, 1.0, 1.0, 1.0, 1.0),
    _Way(_LONG, 8.0, 0.05, 0.5),
    _Way(_LONG, 1.0, 0.5, _ANY),
)
"""Days are alike; those of this week are; all hours are; weeks are; hours of a weekday are. The first is taken while
nothing is known."""


@dataclass(frozen=True, slots=True)
class _Past:
    """Hours of the past, oldest first."""

    start: datetime
    counts: Floats
    """Commits of each hour."""
    day_hour: Ints
    week_hour: Ints
    moments: Floats
    """Seconds from the start to each commit."""
    zone: tzinfo

    def classes(self, at: datetime) -> tuple[int, int]:
        """The hour of the day and of the week that a moment is in."""
        local = at.astimezone(self.zone)
        return local.hour, local.weekday() * 24 + local.hour

    def upto(self, hours: int) -> "_Past":
        """What was known after so many hours."""
        return _Past(
            self.start,
            self.counts[:hours],
            self.day_hour[:hours],
            self.week_hour[:hours],
            self.moments[self.moments < hours * 3600.0],
            self.zone,
        )

    def weights(self, at: datetime, way: _Way) -> Floats:
        """How much each hour of the past says about a moment."""
        day_hour, week_hour = self.classes(at)
        age = len(self.counts) - 1 - np.arange(len(self.counts))
        like = np.full(len(self.counts), way.other)
        like[self.week_hour // 24 == week_hour // 24] = way.weekday
        like[self.day_hour == day_hour] = way.hour
        like[self.week_hour == week_hour] = way.week_hour
        weights: Floats = like * 0.5 ** (age / way.half_life)
        return weights

    def free(self, length: timedelta) -> Floats:
        """Of each hour: the share of its quarters from which on nothing was committed for so long."""
        span = length.total_seconds()
        starts = np.arange(len(self.counts) * 4) * QUARTER.total_seconds()
        following = np.searchsorted(self.moments, starts, side="left")
        padded = np.append(self.moments, np.inf)
        known = starts + span <= len(self.counts) * 3600.0
        free = np.where(padded[following] - starts >= span, 1.0, 0.0)
        free[~known & (free > 0)] = np.nan  # what came after the last hour is not known
        quarters = free.reshape(-1, 4)
        some = ~np.isnan(quarters)
        share: Floats = np.where(
            some.any(axis=1), np.nansum(quarters, axis=1) / np.maximum(some.sum(axis=1), 1), np.nan
        )
        return share


def forecast(
    activity: Activity,
    zone: tzinfo,
    *,
    hours: int = 24,
    run: timedelta = RUN,
) -> Forecast:
    """What is expected of a table's writers, for so many hours from this one on."""
    past, now = _past(activity, zone), activity.until
    way, error = _backtest(past)
    likely = _quiet_chance(past, run, way)
    found = []
    for ahead in range(hours if len(past.counts) else 0):
        at = hour_of(now) + ahead * HOUR
        middle, high = _quantiles(past.counts, past.weights(at, way), (0.5, 0.9))
        found.append(HourForecast(start=at, commits=middle, high=high, quiet=likely(at)))
    newest_first = sorted(activity.partitions.items(), key=lambda item: item[1][-1], reverse=True)
    return Forecast(
        table=activity.table,
        made_at=now,
        history_hours=max(0.0, (now - activity.since) / HOUR),
        commits=len(activity.commits),
        run_seconds=run.total_seconds(),
        hours=tuple(found),
        partitions=tuple(
            _of_partition(name, moments, now, run) for name, moments in newest_first[:_PARTITIONS] if moments
        ),
        error=error,
    )


def quiet_chance(activity: Activity, zone: tzinfo, run: timedelta) -> Callable[[datetime], float]:
    """How likely nothing is committed during a run that begins at a moment to come."""
    past = _past(activity, zone)
    return _quiet_chance(past, run, _backtest(past)[0])


def _quiet_chance(past: _Past, run: timedelta, way: _Way) -> Callable[[datetime], float]:
    free = past.free(run)
    known = ~np.isnan(free)

    def chance(at: datetime) -> float:
        if not known.any():
            return 0.5
        weights = past.weights(at, way)[known]
        # one hour of which nothing is known stands beside those that are
        return float((weights @ free[known] + 0.5 * _ANY) / (weights.sum() + _ANY))

    return chance


def gap_chance(moments: Sequence[datetime], now: datetime, run: timedelta) -> float:
    """How likely a gap between commits that has lasted since the newest goes on for a run: as often as gaps of that
    length did, drawn towards that what has lasted for long goes on for as long again as likely as not."""
    if not moments:
        return 0.5
    lasted, more = max(0.0, (now - moments[-1]).total_seconds()), run.total_seconds()
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(moments)]
    as_long = sum(gap >= lasted for gap in gaps)
    longer = sum(gap >= lasted + more for gap in gaps)
    usual = lasted / (lasted + more) if lasted + more else 0.0
    return (longer + usual) / (as_long + 1)


def choose_time(
    spans: Iterator[tuple[datetime, datetime]] | Sequence[tuple[datetime, datetime]],
    earliest: datetime,
    latest: datetime,
    chance: Callable[[datetime], float],
    *,
    busy: Mapping[datetime, int] | None = None,
) -> ChosenTime | None:
    """The best time to begin between two moments, inside spans in which that is allowed; `None` if there is none. Of
    equally good ones the first is taken, and of those the one at which fewest others begin: `busy` counts them, by
    quarters of an hour."""
    times = list(_times(spans, earliest, latest))
    if not times:
        return None
    chances = [chance(at) for at in times]
    best = max(chances)
    if best - chances[0] < _WORTH_WAITING:
        why = f"quiet with {chances[0]:.0%}: no time until {latest:%Y-%m-%d %H:%M} is much better"
        return ChosenTime(at=times[0], quiet=chances[0], quiet_at_once=chances[0], why=why)
    good = [number for number, likely in enumerate(chances) if best - likely <= _NEARLY * (best - chances[0])]
    taken = min(good, key=lambda number: ((busy or {}).get(quarter_of(times[number]), 0), number))
    why = (
        f"quiet with {chances[taken]:.0%} instead of {chances[0]:.0%} at once: "
        f"waits for {format_duration((times[taken] - times[0]).total_seconds())}"
    )
    return ChosenTime(at=times[taken], quiet=chances[taken], quiet_at_once=chances[0], why=why)


def hour_of(at: datetime) -> datetime:
    """The hour that a moment is in."""
    return at.replace(minute=0, second=0, microsecond=0)


def quarter_of(at: datetime) -> datetime:
    """The quarter of an hour that a moment is in."""
    return at.replace(minute=at.minute // 15 * 15, second=0, microsecond=0)


def _times(
    spans: Iterator[tuple[datetime, datetime]] | Sequence[tuple[datetime, datetime]],
    earliest: datetime,
    latest: datetime,
) -> Iterator[datetime]:
    for begin, end in spans:
        at = max(begin, earliest)
        while at < end and at <= latest:
            yield at
            at = quarter_of(at) + QUARTER


def _past(activity: Activity, zone: tzinfo) -> _Past:
    """The whole hours before `until`."""
    end = hour_of(activity.until)
    length = min(max(0, int((end - activity.since) / HOUR)), LONGEST)
    start = end - length * HOUR
    seconds = np.array([(at - start).total_seconds() for at in activity.commits if start <= at <= activity.until])
    seconds = np.sort(seconds[seconds < length * 3600.0]) if len(seconds) else np.zeros(0)
    counts = np.bincount((seconds // 3600).astype(np.int64), minlength=length).astype(np.float64)
    local = [(start + n * HOUR).astimezone(zone) for n in range(length)]
    day_hour = np.array([at.hour for at in local], np.int64)
    week_hour = np.array([at.weekday() * 24 + at.hour for at in local], np.int64)
    return _Past(start, counts, day_hour, week_hour, seconds, zone)


def _quantiles(values: Floats, weights: Floats, shares: Sequence[float]) -> list[float]:
    """Weighted quantiles; a value counts from the middle of its weight on."""
    order = np.argsort(values, kind="stable")
    sorted_values, upto = values[order], np.cumsum(weights[order])
    return [float(sorted_values[min(np.searchsorted(upto, share * upto[-1]), len(values) - 1)]) for share in shares]


def _of_partition(name: str, moments: Sequence[datetime], now: datetime, run: timedelta) -> PartitionForecast:
    gaps = [(later - earlier).total_seconds() for earlier, later in pairwise(moments)]
    return PartitionForecast(
        partition=name,
        quiet_since=moments[-1],
        every=float(np.median(gaps)) if gaps else None,
        quiet=gap_chance(moments, now, run),
    )


def _backtest(past: _Past) -> tuple[_Way, ForecastError | None]:
    """Foretell the newest days in each way, each day from what was known before it: the way that did best, and how far
    off those were that seemed best at the time."""
    days = min(_BACKTEST, len(past.counts) // 24 // 2)
    if not days:
        return _WAYS[0], None
    errors = np.array([_errors_of_day(past, len(past.counts) - 24 * ahead) for ahead in range(days, 0, -1)])
    scale = max(float(errors[:, -1, 0].mean()), 1e-9), max(float(errors[:, -1, 1].mean()), 1e-9)
    off = errors[:, :-1, 0] / scale[0] + errors[:, :-1, 1] / scale[1]
    upto = np.zeros_like(off)
    for day in range(days):
        upto[day] = off[day] + (_FORGIVEN * upto[day - 1] if day else 0.0)
    tested = range(days // 2, days)
    taken = [int(upto[day - 1].argmin()) if day else 0 for day in tested]
    commits, quiet = np.array([errors[day, way] for day, way in zip(tested, taken, strict=True)]).mean(axis=0).tolist()
    naive, quiet_naive = errors[days // 2 :, -1].mean(axis=0).tolist()
    error = ForecastError(hours=24 * len(tested), commits=commits, naive=naive, quiet=quiet, quiet_naive=quiet_naive)
    return _WAYS[int(upto[-1].argmin())], error


def _errors_of_day(past: _Past, first: int) -> list[tuple[float, float]]:
    """Errors of each way for the day that begins with an hour, and then those of a naive forecast: of commits, and of
    the probability that an hour is quiet."""
    before = past.upto(first)
    order = np.argsort(before.counts, kind="stable")
    ascending, idle = before.counts[order], before.counts == 0
    mean, usual = float(before.counts.mean()), float(idle.mean())
    real = past.counts[first : first + 24]
    found = []
    for way in _WAYS:
        off, wrong = 0.0, 0.0
        for number, count in enumerate(real.tolist()):
            weights = before.weights(past.start + (first + number) * HOUR, way)
            upto = np.cumsum(weights[order])
            middle = float(ascending[min(np.searchsorted(upto, upto[-1] / 2), len(ascending) - 1)])
            likely = float((weights[idle].sum() + usual * _ANY) / (upto[-1] + _ANY))
            off += abs(middle - count)
            wrong += (likely - (count == 0)) ** 2
        found.append((off / len(real), wrong / len(real)))
    found.append((float(np.abs(mean - real).mean()), float(((usual - (real == 0)) ** 2).mean())))
    return found
