"""Data TTL: old data leaves a branch as whole files, and if asked for the old rows of others, too; planned without side
effects, and judged again at the head."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from icepact.housekeeping.data_age import PROVING, Aged, AgeRule, FileAge, age, time_fields
from icepact.housekeeping.event_time import EventTime, event_time
from icepact.housekeeping.old_rows import in_sql, old_values, refuse_rows
from icepact.iceberg.commit.delete import check_deleted, delete_data_files, paths_of
from icepact.iceberg.commit.delete_rows import delete_rows
from icepact.iceberg.commit.replace import roll_back
from icepact.iceberg.names import quote
from icepact.iceberg.table.file_ages import FileAges, TopColumn, last_write, spec_fields, top_columns
from icepact.iceberg.table.staged_rows import RowCount, count_rows
from icepact.iceberg.table.table import IcebergTable
from icepact.model.cost import Cost
from icepact.model.effort import Estimate
from icepact.model.errors import BadInput, CommitBroken, HeadMoved
from icepact.model.formatting import format_duration
from icepact.model.snapshot import PinnedSnapshot
from icepact.model.ttl import MOST_PARTITIONS, ExpireData, ExpireDataResult, MeasuredFrom, TtlLevel

LEVELS = ("partition", "file")
MEASURED_FROM = ("now", "last-commit")
ATTEMPTS = 5
FIRST_WAIT = 0.1
"""Seconds before the second attempt; doubles from there."""
_NOTHING = "nothing is old enough any more: others took it out, or moved the table"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SECONDS_PER_FILE = 50e-6
_SECONDS_PER_COMMIT = 0.5
_REQUESTS_PER_COMMIT = 5
_ROWS_PER_STATEMENT = 1.0
"""Seconds of a statement of Spark's, besides its work."""
_BYTES_PER_SECOND = 13 * 1024**2
"""Of files that Spark reads and writes anew, on one core."""
_REQUESTS_PER_FILE = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class _Judged:
    """What is old at one head."""

    pin: PinnedSnapshot
    head: int
    interpretation: str
    """What files meant before anything was read: `IcebergTable.interpretation`."""
    files: FileAges
    aged: Aged
    time: EventTime
    vectors: int
    """Deletion vectors that go."""
    column: TopColumn
    condition: str | None
    """Of Spark's SQL, for rows that are old by themselves; `None` if nobody asks for rows, or none can be old."""

    def shown(self) -> tuple[str | None, str | None]:
        """Oldest and newest value of what goes."""
        span = self.aged.span
        return (None, None) if span is None else (self.time.shown(span.start), self.time.shown(span.end - 1))

    def old_rows(self, table: IcebergTable, numbers: Sequence[int]) -> RowCount:
        """The rows of some files that are old by themselves."""
        return (
            RowCount(0, 0) if self.condition is None else count_rows(table, self.files.tasks(numbers), self.condition)
        )


def plan_ttl(
    table: IcebergTable,
    *,
    column: str,
    keep: timedelta,
    level: TtlLevel = "partition",
    pattern: str | None = None,
    zone: str = "UTC",
    since: MeasuredFrom = "now",
    rows: bool = False,
    branch: str = "main",
    now: datetime,
) -> ExpireData | str:
    """The step that takes data out which is older than `keep`, or why there is nothing to do: whole files, and with
    `rows` those rows of others that are old by themselves."""
    _check(keep, level, since)
    found = _column(table, column)
    clock = event_time(found.name, found.kind, pattern=pattern, zone=zone)
    if rows:
        refuse_rows(clock, found.name)
    cutoff = _cutoff(table, branch, since, now, keep)
    if cutoff is None:
        return f"branch {branch} has no commit on record that was not maintenance: nobody knows from when to measure"
    judged = _judge(table, found, clock, level, cutoff, branch, rows=rows)
    if judged is None:
        return f"branch {branch} has no snapshot yet"
    kept_for = format_duration(keep.total_seconds())
    mixed = judged.old_rows(table, judged.aged.mixed)
    if not judged.aged.numbers and not mixed.rows:
        whole = "partition" if level == "partition" else "file"
        stays = "; ".join(f"{entry.what} stays: {entry.why}" for entry in judged.aged.kept)
        none = f"no {whole} is older than {kept_for} as a whole{', and no row' if rows else ''}"
        return f"{none}{f' ({stays})' if stays else ''}"
    step = _step(
        judged,
        cutoff=cutoff,
        keep=keep,
        level=level,
        pattern=pattern,
        zone=zone,
        since=since,
        column=found.name,
        reason=f"all their rows are older than {kept_for} on {cutoff + keep:%Y-%m-%d %H:%M:%S} UTC",
    )
    return _with_rows(step, mixed, judged.aged) if rows else step


def carry_out_ttl(
    table: IcebergTable,
    step: ExpireData,
    *,
    commit_id: str,
    check: Callable[[], None],
    sleep: Callable[[float], None] = time.sleep,
) -> ExpireDataResult:
    """Take out what is old at the head by the step's cutoff, whatever became of the files that were planned."""
    result = _take_files_out(table, step, commit_id, check, sleep)
    if not step.row_level or result.reason not in ("", _NOTHING):
        return result
    return _take_rows_out(table, step, result, f"{commit_id}/rows", check, sleep)


def _take_files_out(
    table: IcebergTable,
    step: ExpireData,
    commit_id: str,
    check: Callable[[], None],
    sleep: Callable[[float], None],
) -> ExpireDataResult:
    """Whole files, by one commit of metadata."""
    began, why = time.monotonic(), ""
    for number in range(ATTEMPTS):
        if number:
            sleep(FIRST_WAIT * 2**number)
        check()
        table.refresh()
        judged = _judged_again(table, step)
        if judged is None or not judged.aged.numbers:
            return _result(step, began, reason=_NOTHING)
        chosen = judged.files.chosen(judged.aged.numbers)
        check()
        try:
            snapshot_id = delete_data_files(
                table,
                branch=step.branch,
                head=judged.head,
                interpretation=judged.interpretation,
                files=chosen,
                commit_id=commit_id,
                sleep=sleep,
            )
        except HeadMoved as error:
            why = str(error)
            continue
        rows, paths = judged.aged.rows, paths_of(table, chosen)
        check_deleted(table, branch=step.branch, snapshot_id=snapshot_id, paths=paths, rows=rows)
        return _result(step, began, judged=judged, snapshot_id=snapshot_id)
    return _result(step, began, reason=f"not committed in {ATTEMPTS} attempts, the last time because {why}")


def _take_rows_out(
    table: IcebergTable,
    step: ExpireData,
    so_far: ExpireDataResult,
    commit_id: str,
    check: Callable[[], None],
    sleep: Callable[[float], None],
) -> ExpireDataResult:
    """Rows that are old by themselves, by a statement of Spark's; `so_far` is what became of whole files."""
    began, why = time.monotonic(), ""
    for number in range(ATTEMPTS):
        if number:
            sleep(FIRST_WAIT * 2**number)
        check()
        table.refresh()
        judged = _judged_again(table, step)
        if judged is None or judged.condition is None:
            return so_far
        found = judged.old_rows(table, [*judged.aged.numbers, *judged.aged.mixed])
        if not found.rows:
            return so_far
        check()
        try:
            landed = delete_rows(
                table,
                branch=step.branch,
                head=judged.head,
                condition=judged.condition,
                commit_id=commit_id,
                sleep=sleep,
            )
        except HeadMoved as error:
            why = str(error)
            continue
        if landed is None:
            continue
        _check_column(table, judged, landed)
        found = _found_at(table, step, judged, landed) or found
        return replace(
            so_far,
            mixed_files=found.files,
            mixed_rows=found.rows,
            rows_snapshot_id=landed,
            reason="",
            seconds=so_far.seconds + time.monotonic() - began,
        )
    reason = f"rows were not deleted in {ATTEMPTS} attempts, the last time because {why or 'they were gone'}"
    return replace(so_far, reason=reason, seconds=so_far.seconds + time.monotonic() - began)


def _found_at(table: IcebergTable, step: ExpireData, judged: _Judged, landed: int) -> RowCount | None:
    """The rows that a statement met, if somebody committed between the judgement and its commit; `None` if nobody did,
    or nobody can tell any more."""
    parent = table.parent_of(landed)
    if parent is None or parent == judged.head or not table.has_snapshot(parent):
        return None
    met = _judged_again(table, step, at=parent)
    return None if met is None else met.old_rows(table, [*met.aged.numbers, *met.aged.mixed])


def _check_column(table: IcebergTable, judged: _Judged, landed: int) -> None:
    """Raise CommitBroken if another column has the name by now by which Spark was told what to delete: perhaps it went
    by that one. It is rolled back if nothing came since."""
    table.refresh()
    now = next((column for column in top_columns(table.schema) if column.name == judged.column.name), None)
    if now is not None and (now.id, now.kind) == (judged.column.id, judged.column.kind):
        return
    parent = table.parent_of(landed)
    back = parent is not None and roll_back(table, judged.pin.branch, bad=landed, good=parent)
    raise CommitBroken(
        f"column {judged.column.name} became another one while its old rows were deleted in snapshot {landed}; "
        + ("it was rolled back" if back else "it could not be rolled back: look at the table now")
    )


def _check(keep: timedelta, level: str, since: str) -> None:
    if keep <= timedelta(0):
        raise BadInput(f"keep={format_duration(keep.total_seconds())}: a length of time above zero is wanted")
    if level not in LEVELS:
        raise BadInput(f"unknown level {level!r}; there is: {', '.join(LEVELS)}")
    if since not in MEASURED_FROM:
        raise BadInput(f"since={since!r} is not known; there is: {', '.join(MEASURED_FROM)}")


def _column(table: IcebergTable, name: str) -> TopColumn:
    columns = {column.name: column for column in top_columns(table.schema)}
    if name in columns:
        return columns[name]
    if name.split(".")[0] in columns and "." in name:
        raise BadInput(f"column {name} of {table.name} is inside another one: only columns of their own can tell age")
    raise BadInput(f"{table.name} has no column {name!r}; there is: {', '.join(columns)}")


def _cutoff(table: IcebergTable, branch: str, since: MeasuredFrom, now: datetime, keep: timedelta) -> datetime | None:
    """Before which rows are too old; `None` if nobody knows from when to measure."""
    base: datetime | None = now.astimezone(UTC)
    if since == "last-commit":
        written = last_write(table, branch)
        base = None if written is None else min(now.astimezone(UTC), written)
    try:
        return None if base is None else base - keep
    except OverflowError:
        raise BadInput(f"keep={format_duration(keep.total_seconds())}: nothing can be that old") from None


def _judge(
    table: IcebergTable,
    column: TopColumn,
    clock: EventTime,
    level: TtlLevel,
    cutoff: datetime,
    branch: str,
    *,
    rows: bool,
    at: int | None = None,
) -> _Judged | None:
    """What is old at the head of a branch, or at an earlier snapshot of it; `None` if it has none. With `rows`, what
    holds rows that are old by themselves, too."""
    interpretation, pin = table.interpretation, table.pinned(branch, at)
    if pin.snapshot_id is None:
        return None
    fields = time_fields(spec_fields(table), column.id)
    if level == "partition" and not any(fields.values()):
        raise BadInput(
            f"no partition of {table.name} is made of {column.name} by {', '.join(PROVING[:-1])} or {PROVING[-1]}:"
            " use level=file"
        )
    if level == "file" and not clock.bounded and not any(fields.values()):
        raise BadInput(
            f"texts of column {column.name} do not sort as their times do, so that bounds of files tell nothing:"
            " year, month and day must stand in this order"
        )
    moment = (cutoff - _EPOCH) // _MICROSECOND
    old = old_values(clock, moment) if rows else ()
    rule = AgeRule(time=clock, level=level, cutoff=moment, fields=fields, required=column.required, old_values=old)
    files = FileAges(table, pin.snapshot_id, column, clock.literal(moment))
    aged = age((FileAge(*line) for line in files), rule)
    vectors = len(aged.freed_deletes & files.vectors())
    return _Judged(
        pin=pin,
        head=pin.snapshot_id,
        interpretation=interpretation,
        files=files,
        aged=aged,
        time=clock,
        vectors=vectors,
        column=column,
        condition=in_sql(clock, quote((column.name,)), old) if old else None,
    )


def _judged_again(table: IcebergTable, step: ExpireData, *, at: int | None = None) -> _Judged | None:
    """What is old by a step at the head, or at an earlier snapshot; never more than by its own cutoff."""
    column = _column(table, step.column)
    clock = event_time(column.name, column.kind, pattern=step.pattern, zone=step.zone)
    keep, cutoff = timedelta(seconds=step.keep_seconds), step.cutoff
    if step.since == "last-commit":  # a branch that was rolled back has an earlier one
        again = _cutoff(table, step.branch, step.since, step.cutoff + keep, keep)
        if again is None:
            return None
        cutoff = min(cutoff, again)
    return _judge(table, column, clock, step.level, cutoff, step.branch, rows=step.row_level, at=at)


def _step(
    judged: _Judged,
    *,
    cutoff: datetime,
    keep: timedelta,
    level: TtlLevel,
    pattern: str | None,
    zone: str,
    since: MeasuredFrom,
    column: str,
    reason: str,
) -> ExpireData:
    aged, pin = judged.aged, judged.pin
    oldest, newest = judged.shown()
    names = [pin.show_partition(spec_id, partition) for spec_id, partition in aged.oldest_partitions(MOST_PARTITIONS)]
    seconds = _SECONDS_PER_COMMIT + _SECONDS_PER_FILE * len(aged.numbers)
    return ExpireData(
        column=column,
        level=level,
        keep_seconds=keep.total_seconds(),
        since=since,
        cutoff=cutoff,
        pattern=pattern,
        zone=zone,
        branch=pin.branch,
        snapshot_id=judged.head,
        files=len(aged.numbers),
        rows=aged.rows,
        bytes=aged.size,
        delete_files=judged.vectors,
        dangling_deletes=len(aged.freed_deletes) - judged.vectors,
        oldest=oldest,
        newest=newest,
        partitions=tuple(names),
        partition_count=len(aged.partitions),
        reason=reason,
        kept=aged.kept,
        cost=Cost(
            seconds=Estimate(likely=seconds, low=seconds / 3, high=seconds * 3),
            requests=2 * pin.manifests + _REQUESTS_PER_COMMIT,
            write_requests=pin.manifests + _REQUESTS_PER_COMMIT,
        ),
    )


def _with_rows(step: ExpireData, mixed: RowCount, aged: Aged) -> ExpireData:
    """A step that takes single rows out, too."""
    cost, files = step.cost, mixed.files
    size = aged.mixed_size * files / max(1, len(aged.mixed))
    seconds = (_ROWS_PER_STATEMENT + size / _BYTES_PER_SECOND) if files else 0.0
    return replace(
        step,
        row_level=True,
        mixed_files=files,
        mixed_rows=mixed.rows,
        cost=replace(
            cost,
            seconds=cost.seconds + Estimate(likely=seconds, low=seconds / 3, high=seconds * 3),
            encoded_bytes=int(size),
            requests=cost.requests + _REQUESTS_PER_FILE * files,
            write_requests=cost.write_requests + files,
        ),
    )


def _result(
    step: ExpireData, began: float, *, judged: _Judged | None = None, snapshot_id: int | None = None, reason: str = ""
) -> ExpireDataResult:
    oldest, newest = (None, None) if judged is None else judged.shown()
    return ExpireDataResult(
        column=step.column,
        branch=step.branch,
        cutoff=step.cutoff,
        files=0 if judged is None else len(judged.aged.numbers),
        rows=0 if judged is None else judged.aged.rows,
        bytes=0 if judged is None else judged.aged.size,
        oldest=oldest,
        newest=newest,
        snapshot_id=snapshot_id,
        reason=reason,
        seconds=time.monotonic() - began,
    )
