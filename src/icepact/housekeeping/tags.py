"""Automatic tags: those that are due are made, each once."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta

from icepact.housekeeping.tag_schedule import Commit, due_tag, tag_schedule
from icepact.iceberg.table.refs import create_tag, history_of, refs_of
from icepact.iceberg.table.table import IcebergTable
from icepact.model.cost import Cost
from icepact.model.effort import Estimate
from icepact.model.errors import CommitUnknown, HeadMoved
from icepact.model.tags import CreateTags, DueTag, TagPeriod, TagsResult

BRANCH = "main"
"""Whose snapshots get tags."""
ATTEMPTS = 5
FIRST_WAIT = 0.1
"""Seconds before the second attempt; doubles from there."""
MAX_DELAY = timedelta(minutes=60)
"""As Amoro has it."""


def plan_tags(
    table: IcebergTable,
    *,
    period: TagPeriod = "daily",
    offset: timedelta = timedelta(0),
    max_delay: timedelta | None = MAX_DELAY,
    pattern: str | None = None,
    max_age: timedelta | None = None,
    zone: str = "UTC",
    now: datetime,
) -> CreateTags | str:
    """The step that makes the tag that is due, or why there is none."""
    schedule = tag_schedule(
        period=period, offset=offset, max_delay=max_delay, pattern=pattern, max_age=max_age, zone=zone
    )
    history = [Commit(*entry) for entry in history_of(table, BRANCH)]
    due = due_tag(schedule, now=now, history=history, refs=refs_of(table).keys())
    if isinstance(due, str):
        return due
    return CreateTags(
        period=schedule.period,
        tags=(due,),
        reason=f"{due.name} is due since {due.trigger.isoformat(timespec='seconds')}",
        cost=Cost(seconds=Estimate(likely=0.2, low=0.05, high=2.0), requests=3, write_requests=1),
    )


def carry_out_tags(
    table: IcebergTable,
    step: CreateTags,
    *,
    commit_id: str,  # noqa: ARG001  # tags make no snapshot that could carry it
    check: Callable[[], None],
    sleep: Callable[[float], None] = time.sleep,
) -> TagsResult:
    """Make the tags of a step that are not there yet; those that are, stay as they are."""
    began = time.monotonic()
    created: list[DueTag] = []
    reasons: list[str] = []
    for tag in step.tags:
        why = _make(table, tag, check, sleep)
        if why is None:
            created.append(tag)
        else:
            reasons.append(why)
    return TagsResult(created=tuple(created), reason="; ".join(reasons), seconds=time.monotonic() - began)


def _make(table: IcebergTable, tag: DueTag, check: Callable[[], None], sleep: Callable[[float], None]) -> str | None:
    """Make one tag; why it was not made, if it was not."""
    max_age_ms = None if tag.max_age_seconds is None else round(1000 * tag.max_age_seconds)
    why = ""
    for number in range(ATTEMPTS):
        if number:
            sleep(FIRST_WAIT * 2**number)
        check()
        table.refresh()
        refused = _refused(table, tag)
        if refused is not None:
            return refused
        try:
            create_tag(table, tag.name, tag.snapshot_id, max_age_ms=max_age_ms)
        except HeadMoved as error:
            why = str(error)
        except CommitUnknown:
            if _there(table, tag, sleep):
                return None
            raise
        else:
            return None
    return f"{tag.name} was not made in {ATTEMPTS} attempts, the last time because {why}"


def _refused(table: IcebergTable, tag: DueTag) -> str | None:
    """Why a tag is not to be made at the head; `None` if it is."""
    refs = refs_of(table)
    if tag.name in refs:
        what = "tag" if refs[tag.name].is_tag else "branch"
        return f"there is a {what} {tag.name} by now, on snapshot {refs[tag.name].snapshot_id}"
    if not table.has_snapshot(tag.snapshot_id):
        return f"snapshot {tag.snapshot_id} has expired since {tag.name} was planned"
    head = table.head_id(BRANCH)
    if head is None or not table.is_ancestor(tag.snapshot_id, of=head):
        return f"snapshot {tag.snapshot_id} is not in the history of {BRANCH} any more"
    return None


def _there(table: IcebergTable, tag: DueTag, sleep: Callable[[float], None]) -> bool:
    """After an unknown answer, whether the tag is there after all."""
    for number in range(ATTEMPTS):
        sleep(FIRST_WAIT * 2**number)
        try:
            table.refresh()
        except Exception:  # whatever keeps us from looking, the answer is still unknown
            continue
        found = refs_of(table).get(tag.name)
        if found is not None and found.is_tag and found.snapshot_id == tag.snapshot_id:
            return True
    return False
