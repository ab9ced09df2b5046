"""Schedules and forecasts in words."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.markup import escape

from icepact.entrypoints.cli.columns import Column
from icepact.model.formatting import format_duration, format_seconds, plural
from icepact.model.schedule import Forecast, ScheduleView

_PARTITIONS = 5
_BARS = " ▁▂▃▄▅▆▇█"


def schedule_columns(found: Sequence[ScheduleView]) -> list[Column]:
    """Tables that are looked after by themselves; what matters least has the highest rank."""
    return [
        Column("table", [escape(view.table) for view in found], left=True),
        Column("next", [_moment(view.at) for view in found], left=True),
        Column("what", [view.operation for view in found], rank=5, left=True),
        Column("when", [escape(_wish(view)) for view in found], rank=3, left=True),
        Column("commits", [f"{view.commits:,}" for view in found], rank=4),
        Column("last", [_moment(view.last.at) if view.last else "" for view in found], rank=6, left=True),
        Column("how it ended", [view.last.status if view.last else "" for view in found], rank=7, left=True),
        Column("held back", [escape(view.held_back or view.off or "") for view in found], rank=8, left=True),
    ]


def schedule_lines(view: ScheduleView) -> Iterator[str]:
    """One schedule, and what is expected of the table's writers."""
    yield f"{view.table}: {view.operation}, {_wish(view)}" if view.off is None else f"{view.table}: {view.off}"
    if view.off is None:
        yield f"  next: {_moment(view.at) if view.at else 'not known'}{f' ({view.why})' if view.why else ''}"
    for name, spans in (("only in", view.windows), ("never in", view.blackouts)):
        if spans is not None:
            yield f"  {name} {spans} ({view.timezone})"
    if view.commits:
        yield f"  {plural(view.commits, 'commit')} since the last job"
    if view.failures:
        yield f"  {plural(view.failures, 'job')} failed one after the other"
    if view.held_back:
        yield f"  held back: {view.held_back}"
    if view.last is not None:
        ended = view.last.status or "not ended"
        yield f"  last: {_moment(view.last.at)}, job {view.last.job_id or '(not submitted yet)'}: {ended}"
    if view.forecast is not None:
        yield from _forecast_lines(view.forecast)


def _forecast_lines(forecast: Forecast) -> Iterator[str]:
    hours = forecast.history_hours
    history = format_duration(round(hours) * 3600) if hours >= 1 else format_seconds(hours * 3600)
    yield f"  writers: {plural(forecast.commits, 'commit')} in {history}"
    if forecast.hours:
        most = max(hour.commits for hour in forecast.hours)
        bars = "".join(_BARS[round(hour.commits / most * 8)] if most else " " for hour in forecast.hours)
        quiet = "".join(_BARS[round(hour.quiet * 8)] for hour in forecast.hours)
        yield f"  commits an hour, from {forecast.hours[0].start:%H:%M} UTC on, up to {most:g}: |{bars}|"
        run = format_seconds(forecast.run_seconds)
        yield f"  how likely {run} are quiet, up to 100%:        |{quiet}|"
    if forecast.error is not None:
        error = forecast.error
        yield (
            f"  such forecasts were off by {error.commits:.2g} commits an hour in the last "
            f"{format_duration(error.hours * 3600)}; the mean of before by {error.naive:.2g}"
        )
    for one in forecast.partitions[:_PARTITIONS]:
        every = "" if one.every is None else f", every {format_duration(round(one.every) or 1)}"
        yield f"  {one.partition}: last {_moment(one.quiet_since)}{every}; quiet with {one.quiet:.0%}"
    if len(forecast.partitions) > _PARTITIONS:
        yield f"  and {plural(len(forecast.partitions) - _PARTITIONS, 'more partition')}"


def _wish(view: ScheduleView) -> str:
    wishes = [view.schedule] if view.schedule else []
    if view.check_interval is not None:
        wishes.append(f"after {plural(view.check_interval, 'commit')}")
    if view.slack_seconds:
        wishes.append(f"at a quiet time within {format_duration(view.slack_seconds)}")
    return ", ".join(wishes)


def _moment(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M} UTC"
