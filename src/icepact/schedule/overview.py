"""What people want to know of schedules: when a table is next, why, what is expected of its writers, who leads."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from icepact.model.documents import Document, Moment
from icepact.model.errors import BadInput
from icepact.policy.windows import open_spans
from icepact.record.store import RecordStore
from icepact.schedule.fleet import CatalogFleet
from icepact.schedule.forecast import ChosenTime, Forecast, choose_time
from icepact.schedule.state import SCHEDULES, Chosen, Fired, TableSchedule, key_of, value_of
from icepact.schedule.triggers import Due, Past, Timing, next_due

_MOMENT = timedelta(seconds=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduleView(Document):
    """The schedule of one table."""

    table: str
    schedule: str | None
    """As it was written; `None` if there is none."""
    check_interval: int | None
    operation: str
    timezone: str
    windows: str | None
    blackouts: str | None
    slack_seconds: float
    priority: int
    off: str | None
    """Why nothing is ever done by itself; `None` if something is."""
    next: Due | None
    """`None` while that depends on commits."""
    at: Moment | None
    """When the next job is begun, as far as that is known."""
    why: str
    """Of that time."""
    commits: int
    """By writers since the last job."""
    failures: int
    held_back: str
    last: Fired | None
    """The newest job that a schedule has made."""
    forecast: Forecast | None = None
    """`None` if it was not asked for, or if nothing is known about writers."""


def view_of(store: RecordStore, fleet: CatalogFleet, catalog: str, table: str, *, now: datetime) -> ScheduleView:
    """The schedule of a table, with a forecast; `catalog` is its name in the record store."""
    return _view(store, fleet, catalog, table, now, deep=True)


def brief_of(store: RecordStore, fleet: CatalogFleet, catalog: str, table: str, *, now: datetime) -> ScheduleView:
    """The schedule of a table among others: without a forecast."""
    return _view(store, fleet, catalog, table, now, deep=False)


def _view(
    store: RecordStore, fleet: CatalogFleet, catalog: str, table: str, now: datetime, *, deep: bool
) -> ScheduleView:
    stored = store.document(SCHEDULES, key_of(catalog, table))
    if stored is None:
        schedule = TableSchedule(table=table, past=Past(since=now), properties=fleet.properties(table))
    else:
        schedule = value_of(TableSchedule, stored)
    try:
        timing = fleet.timing(schedule)
    except BadInput as error:
        timing = Timing(off=str(error))
    due = next_due(table, timing, schedule.past, now)
    expected = fleet.forecast(table, timing, now) if deep else None
    chosen, best = schedule.chosen, None
    if chosen is None and due is not None and timing.slack and deep:
        best = _best(fleet, table, timing, due, now)
        expected = None if expected is None else replace(expected, chosen=best)
    at, why = _when(due, chosen, best)
    return ScheduleView(
        table=table,
        schedule=None if timing.schedule is None else timing.schedule.text,
        check_interval=timing.check_interval,
        operation=timing.operation.value,
        timezone=str(timing.zone),
        windows=None if timing.windows is None else timing.windows.text,
        blackouts=None if timing.blackouts is None else timing.blackouts.text,
        slack_seconds=timing.slack.total_seconds(),
        priority=timing.priority,
        off=timing.off or (None if timing.wanted else "its policy has no schedule and no check_interval"),
        next=due if chosen is None else chosen.due,
        at=at,
        why=why,
        commits=schedule.past.commits.count,
        failures=schedule.past.failures,
        held_back=schedule.held_back,
        last=schedule.fired,
        forecast=expected,
    )


def _best(fleet: CatalogFleet, table: str, timing: Timing, due: Due, now: datetime) -> ChosenTime | None:
    """What would be chosen by what is known now."""
    chance = fleet.chance(table, timing, now)
    if chance is None:
        return None
    earliest = max(due.earliest, now)
    latest = max(due.latest, earliest)
    spans = open_spans(timing.windows, timing.blackouts, timing.zone, earliest, latest + _MOMENT)
    return choose_time(spans, earliest, latest, chance)


def _when(due: Due | None, chosen: Chosen | None, best: ChosenTime | None) -> tuple[datetime | None, str]:
    if chosen is not None:
        return chosen.at, chosen.why
    if best is not None:
        return best.at, best.why
    return (None, "it depends on commits") if due is None else (due.earliest, due.why)
