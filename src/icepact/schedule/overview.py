"""What people want to know of schedules: when a table is next, why, what is expected of its writers, who leads."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from icepact.model.errors import BadInput, StoreUnusable
from icepact.model.schedule import Chosen, ChosenTime, Due, ScheduleView
from icepact.policy.windows import open_spans
from icepact.record.store import RecordStore
from icepact.schedule.fleet import CatalogFleet
from icepact.schedule.forecast import choose_time
from icepact.schedule.state import SCHEDULES, TableSchedule, key_of, value_of
from icepact.schedule.triggers import Past, Timing, next_due

_MOMENT = timedelta(seconds=1)
_PAGE = 200


def view_of(store: RecordStore, fleet: CatalogFleet, catalog: str, table: str, *, now: datetime) -> ScheduleView:
    """The schedule of a table, with a forecast; TableNotFound if there is no such table. `catalog` is its name in the
    record store."""
    stored = store.document(SCHEDULES, key_of(catalog, table))
    if stored is None:
        schedule = TableSchedule(table=table, past=Past(since=now), properties=fleet.properties(table))
    else:
        schedule = value_of(TableSchedule, stored)
    return _view(fleet, schedule, now, deep=True)


def views(
    store: RecordStore, fleet: CatalogFleet, catalog: str, *, now: datetime, after: str = ""
) -> Iterator[ScheduleView]:
    """The schedules of tables that are looked after by themselves, without forecasts: those after one, as their names
    are sorted in the record store."""
    prefix = key_of(catalog, "")
    last = key_of(catalog, after) if after else ""
    while page := store.documents(SCHEDULES, prefix=prefix, after=last, limit=_PAGE):
        for stored in page:
            try:
                schedule = value_of(TableSchedule, stored)
            except StoreUnusable as error:  # of another version
                unread = TableSchedule(table=stored.key.removeprefix(prefix), past=Past(since=now))
                yield replace(_view(fleet, unread, now, deep=False), off=str(error), next=None, at=None)
                continue
            yield _view(fleet, schedule, now, deep=False)
        last = page[-1].key


def _view(fleet: CatalogFleet, schedule: TableSchedule, now: datetime, *, deep: bool) -> ScheduleView:
    table = schedule.table
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
    at, why = _when(due, chosen, best) if timing.wanted else (None, "")
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
