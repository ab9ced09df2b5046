"""Schedules: when a table is inspected again: a cron expression, or a length of time between two looks."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from cronsim import CronSim, CronSimError

from icepact.model.errors import BadInput
from icepact.policy.units import parse_duration

_MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_FIELDS = {
    "minute": "0 to 59",
    "hour": "0 to 23",
    "day of month": "1 to 31",
    "month": "1 to 12, or JAN to DEC",
    "day of week": "0 to 7, or SUN to SAT",
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHORT = timedelta(minutes=5)
"""So far back is searched first for what should have fired; then further and further."""
_INTERVAL = re.compile(r"\s*(?:every\s+)?(\d+(?:\.\d+)?\s*[a-z]+)\s*", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """A schedule as it was written, and what it means: a cron expression or an interval."""

    text: str
    cron: str | None = None
    """Five fields. If both kinds of days are limited, either of them is enough, as cron has it."""
    interval: timedelta | None = None

    def after(self, moment: datetime, zone: tzinfo, shift: float = 0.0) -> datetime:
        """The first moment after this one at which it fires. `shift`, between 0 and 1, is where in an interval: it
        counts from the same moment for all, so that it does not matter who asks and since when."""
        if self.interval is not None:
            first = _EPOCH + self.interval * shift
            return first + ((moment - first) // self.interval + 1) * self.interval
        assert self.cron is not None
        fires = CronSim(self.cron, moment.astimezone(zone))
        # in an hour that comes twice, those of the first one are told again
        return next(at for at in (fire.astimezone(UTC) for fire in fires) if at > moment)

    def latest(self, since: datetime, until: datetime, zone: tzinfo, shift: float = 0.0) -> datetime | None:
        """The last moment after `since`, and up to `until`, at which it fires; `None` if there is none."""
        if self.interval is not None:
            first = _EPOCH + self.interval * shift
            last = first + (until - first) // self.interval * self.interval
            return last if last > since else None
        back = _SHORT
        while since < until:
            at, found = max(since, until - back), None
            start = at
            while (at := self.after(at, zone, shift)) <= until:
                found = at
            if found is not None or start == since:
                return found
            back *= 24
        return None


def parse_schedule(text: str) -> Schedule:
    """A schedule such as `0 3 * * *`, `@daily` or `6h`, or one line that says what is wrong with it."""
    if match := _INTERVAL.fullmatch(text):
        interval = parse_duration(match[1])
        if not interval:
            raise BadInput(f"schedule {text!r}: the time between two looks must be above zero")
        return Schedule(text=text, interval=interval)
    fields = _MACROS.get(text.strip().lower(), text).split()
    if len(fields) != len(_FIELDS):
        raise BadInput(
            f"schedule {text!r}: write five fields ({', '.join(_FIELDS)}) as in"
            f" '0 3 * * *', a time between two looks as in 6h, or one of {', '.join(_MACROS)}"
        )
    for at, (name, numbers) in enumerate(_FIELDS.items()):
        alone = [field if at == number else "*" for number, field in enumerate(fields)]
        if not _fires(alone):
            raise BadInput(f"schedule {text!r}: {fields[at]!r} is no {name}: it is {numbers}, as in 5, 1-5, 1,3 or */2")
    if not _fires(fields):
        raise BadInput(f"schedule {text!r} never fires: there is no such day in these months")
    return Schedule(text=text, cron=" ".join(fields))


def _fires(fields: list[str]) -> bool:
    """Whether there is any time at which a cron expression fires; false if it is none."""
    try:
        return next(CronSim(" ".join(fields), datetime(2024, 1, 1, tzinfo=UTC)), None) is not None
    except CronSimError:
        return False
