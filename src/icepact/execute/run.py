"""Carrying out the steps of a plan: all units of all groups, several at a time in one Spark application."""

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import assert_never

from icepact.execute.rewriters.base import Rewriter, UnitResult
from icepact.execute.rewriters.spark import SparkRewriter
from icepact.iceberg.java import error_line
from icepact.iceberg.staging import Staging
from icepact.model.plan import Method, Plan, RewriteFiles, Unit
from icepact.model.policy import Policy
from icepact.model.progress import Progress, UnitDone
from icepact.model.rewrite import Written


@dataclass(frozen=True, kw_only=True, slots=True)
class Executed:
    """What came of the steps: groups that were written, and groups that failed with the reason."""

    written: Mapping[str, Written]
    failed: Mapping[str, str]


def unit_ids(step: RewriteFiles) -> list[str]:
    """Names of a group's units, unique within the run; they are used as paths."""
    return [f"{step.group_id}-{n}" for n in range(len(step.units))]


def unit_of_path(plan: Plan) -> dict[str, str]:
    """Which unit each input belongs to."""
    return {
        file.path: unit_id
        for step in plan.steps
        for unit_id, unit in zip(unit_ids(step), step.units, strict=True)
        for file in unit.files
    }


def execute(plan: Plan, staging: Staging, progress: Progress) -> Executed:
    """Run every unit; a unit that fails costs its group, never the run."""
    cores = staging.table.session.sparkContext.defaultParallelism
    units = [
        (step, unit, unit_id) for step in plan.steps for unit, unit_id in zip(step.units, unit_ids(step), strict=True)
    ]
    results: dict[str, UnitResult] = {}
    seconds: dict[str, float] = {}
    failed: dict[str, str] = {}
    pool = ThreadPoolExecutor(max_workers=max(1, min(len(units), 2 * cores)), thread_name_prefix="icepact")
    try:
        running: dict[Future[tuple[UnitResult, float]], tuple[RewriteFiles, Unit, str]] = {}
        for step, unit, unit_id in units:
            work = _rewriter(step, staging)
            running[pool.submit(_timed, staging, work, step, unit, unit_id, plan.policy, failed)] = (
                step,
                unit,
                unit_id,
            )
        for future in as_completed(running):
            step, unit, unit_id = running[future]
            error = future.exception()
            if error is not None:
                failed.setdefault(step.group_id, error_line(error))
            else:
                results[unit_id], took = future.result()
                seconds[step.group_id] = seconds.get(step.group_id, 0.0) + took
            progress.advance(UnitDone(partition=step.partition, files=len(unit.files), bytes=unit.bytes))
    except BaseException:  # interrupted: the jobs must not go on writing behind our back
        pool.shutdown(wait=False, cancel_futures=True)
        staging.cancel()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
    written = {step.group_id: _of_group(step, results, seconds) for step in plan.steps if step.group_id not in failed}
    return Executed(written=written, failed=failed)


def _rewriter(step: RewriteFiles, staging: Staging) -> Rewriter:
    match step.method:
        case Method.SPARK:
            return SparkRewriter(staging)
        case _:
            assert_never(step.method)


def _timed(
    staging: Staging,
    rewriter: Rewriter,
    step: RewriteFiles,
    unit: Unit,
    unit_id: str,
    policy: Policy,
    failed: Mapping[str, str],
) -> tuple[UnitResult, float]:
    if step.group_id in failed:
        raise RuntimeError("another unit of this group failed")
    staging.tag_jobs()
    started = time.monotonic()
    result = rewriter.rewrite(step, unit, unit_id, policy)
    return result, time.monotonic() - started


def _of_group(step: RewriteFiles, results: Mapping[str, UnitResult], seconds: Mapping[str, float]) -> Written:
    units = [results[unit_id] for unit_id in unit_ids(step)]
    return Written(
        group_id=step.group_id,
        inputs=tuple(i for u in units for i in u.inputs),
        rows_observed=sum(u.rows_observed for u in units),
        files=tuple(f for u in units for f in u.files),
        seconds=seconds[step.group_id],
    )
