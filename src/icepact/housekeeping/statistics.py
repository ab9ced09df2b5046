"""Statistics of a table: planned where they are stale, computed by Iceberg, and carried over where no row changed."""

import json
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import NamedTuple

from icepact.housekeeping.staleness import (
    Event,
    Sketchable,
    Verdict,
    age_of,
    checked_share,
    event_of,
    judge_partitions,
    judge_sketches,
    sketchable,
)
from icepact.iceberg.commit.run_files import delete_files, missing_files
from icepact.iceberg.commit.statistics import register_statistics
from icepact.iceberg.properties import refuse_odd_properties
from icepact.iceberg.table.statistics import (
    NewStatistics,
    SketchFile,
    carried_sketches,
    compute_partitions,
    compute_sketches,
    manifest_bytes,
    no_partitions,
    partition_files,
    schema_of,
    sketch_files,
    snapshot_documents,
)
from icepact.iceberg.table.table import IcebergTable
from icepact.model.cost import Cost
from icepact.model.effort import Estimate
from icepact.model.errors import CommitUnknown, HeadMoved
from icepact.model.housekeeping import Kept
from icepact.model.schema import every_field
from icepact.model.statistics import ComputeStatistics, StatisticsAge, StatisticsResult

STALE_AFTER = 0.1
_UNWANTED = Verdict("keep", "")
_BYTES_PER_SECOND = 20 * 1024**2
"""Of data files that one core makes sketches of; measured with five columns."""
_MANIFEST_BYTES_PER_SECOND = 5 * 1024**2
_DOUBT = 4.0
"""An estimate may be so many times too high or too low."""


class _Part(NamedTuple):
    """One kind of statistics, judged."""

    verdict: Verdict = _UNWANTED
    age: StatisticsAge | None = None
    columns: Sketchable = Sketchable({}, ())
    kept: tuple[Kept, ...] = ()


def has_statistics(table: IcebergTable) -> tuple[bool, bool]:
    """Whether any snapshot of a table has sketches, and whether any has statistics by partition."""
    return not table.table.statisticsFiles().isEmpty(), not table.table.partitionStatisticsFiles().isEmpty()


def statistics_age(table: IcebergTable, branch: str = "main") -> StatisticsAge | None:
    """How old the sketches of a branch are; `None` if it has none."""
    head = table.head_id(branch)
    return None if head is None else _sketches_age(sketch_files(table), _history(table, head))


def _history(table: IcebergTable, head: int) -> list[Event]:
    return [event_of(document) for document in snapshot_documents(table, head)]


def _sketches_age(files: dict[int, SketchFile], history: Sequence[Event]) -> StatisticsAge | None:
    return age_of(history, {snapshot_id: file.sources for snapshot_id, file in files.items() if file.columns})


# -- planning -------------------------------------------------------------------------------------


def plan_statistics(
    table: IcebergTable,
    *,
    columns: Sequence[str] | None = None,
    table_statistics: bool = True,
    partition_statistics: bool = True,
    stale_after: float = STALE_AFTER,
    branch: str = "main",
    now: datetime,
) -> ComputeStatistics | str:
    """What is to be computed for the head of a branch, or why nothing is."""
    checked_share(stale_after)
    table.refresh()
    head = table.head_id(branch)
    if columns is not None:
        sketchable(table.name, json.loads(table.schema), json.loads(table.schema), columns)
    if head is None:
        return f"{table.name} has no snapshot yet"
    if not table_statistics and not partition_statistics:
        return "neither table nor partition statistics are wanted"
    history = _history(table, head)
    if history[0].rows == 0:
        return f"there are no rows in snapshot {head}"
    sketches = _judged_sketches(table, head, history, columns, stale_after) if table_statistics else _Part()
    partitions = _judged_partitions(table, head, history, stale_after) if partition_statistics else _Part()
    verdicts = (sketches.verdict, partitions.verdict)
    if all(verdict.work == "keep" for verdict in verdicts):
        return "; ".join(why for _, why in verdicts if why)
    bytes_to_read, cost = _price(table, head, history, sketches, partitions)
    return ComputeStatistics(
        branch=branch,
        snapshot_id=head,
        table=sketches.verdict.work,
        partitions=partitions.verdict.work,
        columns=tuple(sketches.columns.names.values()) if sketches.verdict.work == "compute" else (),
        table_age=sketches.age,
        partition_age=partitions.age,
        bytes_to_read=bytes_to_read,
        wanted_columns=None if columns is None else tuple(columns),
        wants_table=table_statistics,
        wants_partitions=partition_statistics,
        stale_after=stale_after,
        planned_at=now,
        reason="; ".join(why for work, why in verdicts if work != "keep"),
        kept=sketches.kept + partitions.kept,
        cost=cost,
    )


def _judged_sketches(
    table: IcebergTable, head: int, history: Sequence[Event], columns: Sequence[str] | None, stale_after: float
) -> _Part:
    then = schema_of(table, head)
    if then is None:
        return _Part(Verdict("keep", f"snapshot {head} does not tell its schema: write once with a newer Iceberg"))
    schema = json.loads(table.schema)
    chosen = sketchable(table.name, schema, json.loads(then), columns)
    if not chosen.names:
        return _Part(Verdict("keep", f"no column of snapshot {head} can have sketches"), kept=chosen.kept)
    files = sketch_files(table)
    age = _sketches_age(files, history)
    if age is None:
        verdict = judge_sketches(None, head=head, missing=(), strays=0, stale_after=stale_after)
        return _Part(verdict, None, chosen, chosen.kept)
    file = files[age.snapshot_id]
    verdict = judge_sketches(
        age,
        head=head,
        missing=[name for number, name in chosen.names.items() if number not in file.columns],
        strays=len(file.fields - every_field(schema).keys()),
        stale_after=stale_after,
    )
    if verdict.work != "compute" and missing_files(table, [file.path]):
        verdict = Verdict("compute", "the file of the sketches is gone from storage")
    return _Part(verdict, age, chosen, chosen.kept)


def _judged_partitions(table: IcebergTable, head: int, history: Sequence[Event], stale_after: float) -> _Part:
    why_not = no_partitions(table)
    if why_not is not None:
        return _Part(Verdict("keep", f"it has no partition statistics: {why_not}"))
    age = age_of(history, {snapshot_id: frozenset([snapshot_id]) for snapshot_id in partition_files(table)})
    return _Part(judge_partitions(age, head=head, stale_after=stale_after), age)


def _price(
    table: IcebergTable, head: int, history: Sequence[Event], sketches: _Part, partitions: _Part
) -> tuple[int, Cost]:
    """Bytes to be read, and what that is predicted to take."""
    data, files, manifests, manifest_size = 0, 0, 0, 0
    if sketches.verdict.work == "compute":
        data, files = history[0].bytes or 0, history[0].files or 0
    if partitions.verdict.work == "compute":
        since = None if partitions.age is None else [e.snapshot_id for e in history[: partitions.age.snapshots]]
        manifests, manifest_size = manifest_bytes(table, head, since)
    seconds = data / _BYTES_PER_SECOND + manifest_size / _MANIFEST_BYTES_PER_SECOND + 1.0
    written = 1 + (sketches.verdict.work == "compute") + (partitions.verdict.work == "compute")
    cost = Cost(
        seconds=Estimate(likely=seconds, low=seconds / _DOUBT, high=seconds * _DOUBT),
        requests=2 * files + manifests + written,
        write_requests=written,
    )
    return data + manifest_size, cost


# -- carrying out ---------------------------------------------------------------------------------


def carry_out_statistics(
    table: IcebergTable,
    step: ComputeStatistics,
    *,
    commit_id: str,  # noqa: ARG001 - there is no snapshot that could carry it
    check: Callable[[], None],
) -> StatisticsResult:
    """Judge a step again at the head of its branch, compute what is stale there, and register it in one commit."""
    started = time.monotonic()
    refuse_odd_properties(table)
    check()
    current = plan_statistics(
        table,
        columns=step.wanted_columns,
        table_statistics=step.wants_table and step.table != "keep",
        partition_statistics=step.wants_partitions and step.partitions != "keep",
        stale_after=step.stale_after,
        branch=step.branch,
        now=step.planned_at,
    )
    if isinstance(current, str):
        return StatisticsResult(reason=current, seconds=time.monotonic() - started)
    new = NewStatistics(current.snapshot_id)
    try:
        for part in (_with_sketches, _with_partitions):
            check()
            new = part(table, current, new)
        register_statistics(table, new, check=check)
    except CommitUnknown:
        raise  # the catalog may have the files
    except HeadMoved as moved:
        delete_files(table, new.written())
        return StatisticsResult(reason=str(moved), seconds=time.monotonic() - started)
    except BaseException:
        delete_files(table, new.written())
        raise
    return _result(table, current, new, time.monotonic() - started)


def _with_sketches(table: IcebergTable, step: ComputeStatistics, new: NewStatistics) -> NewStatistics:
    if step.table == "compute":
        return new._replace(sketches=compute_sketches(table, step.snapshot_id, step.columns))
    if step.table == "carry over" and step.table_age is not None:
        source = step.table_age.snapshot_id
        file = carried_sketches(table, step.snapshot_id, registered_for=source)
        return new._replace(sketches=file, carried=str(file.path()))
    return new


def _with_partitions(table: IcebergTable, step: ComputeStatistics, new: NewStatistics) -> NewStatistics:
    if step.partitions != "compute":
        return new
    file = compute_partitions(table, step.snapshot_id)
    known = file is None or str(file.path()) in partition_files(table).values()  # somebody was faster
    return new if known else new._replace(partitions=file)


def _result(table: IcebergTable, step: ComputeStatistics, new: NewStatistics, seconds: float) -> StatisticsResult:
    file = sketch_files(table).get(step.snapshot_id)
    return StatisticsResult(
        table=step.table,
        partitions="keep" if new.partitions is None else "compute",
        columns=0 if new.sketches is None or file is None else len(file.columns),
        of_snapshot=step.snapshot_id if new.paths() else None,
        files=new.paths(),
        bytes_written=new.bytes_written(),
        reason="" if new.paths() else "somebody else has computed them meanwhile",
        seconds=seconds,
    )
