"""The outcome of a run, made from what is known about it when it ends."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from icepact.commit.judge import Answer
from icepact.economics.overhead import overhead_of
from icepact.economics.report import actual_amounts, predicted_amounts
from icepact.economics.speeds import READS_PER_FILE, WRITES_PER_FILE, Workload, encoded_share
from icepact.execute.units import unit_ids
from icepact.maintain.rounds import Run
from icepact.model.costs import Amounts
from icepact.model.effort import Effort, Estimate
from icepact.model.formatting import plural
from icepact.model.methods import METHODS, Method
from icepact.model.outcome import GroupOutcome, Outcome
from icepact.model.plan import RewriteFiles
from icepact.model.prices import Prices
from icepact.model.rewrite import Written
from icepact.model.status import Status


def outcome_of(run: Run) -> Outcome:
    """The outcome of a run: its status, what became of each group, and what it did to the table."""
    plan, committed = run.plan, run.committed
    tried = tuple(
        _group_outcome(run, run.step_now(step), committed=step.group_id in committed) for step in plan.rewrites
    )
    groups = (*tried, *(_group_outcome(run, each.step, committed=False, why=each.reason) for each in run.dropped))
    done = [g for g in groups if g.committed]
    made = [g for g in groups if g.group_id in run.written]
    predicted, actual = Amounts.sum(map(predicted_amounts, made)), Amounts.sum(map(actual_amounts, made))
    steps, seconds = tuple(run.chore_costs), time.monotonic() - run.clock
    effort = Effort.sum([*(g.effort for g in groups), *(step.effort for step in steps)])
    foreseen = Estimate.sum([*(g.predicted_seconds for g in made), *(step.predicted_seconds for step in steps)])
    # of work that several processes did it cannot be told
    several = run.claim.epoch or plan.chores
    overhead = 0.0 if several else _overhead(made, seconds - run.waited, effort.seconds, plan.predicted.cores)
    rows_deleted = sum(g.rows_in - g.rows_out for g in done)
    late = sum(landed.late_deletes for landed in run.landed)
    return Outcome(
        run_id=run.run_id,
        table=plan.table,
        branch=plan.branch,
        status=_status(run, tried),
        snapshot_id=run.landed[-1].snapshot_id if run.landed else plan.snapshot_id,
        started_at=run.started_at,
        seconds=round(seconds, 3),
        files_before=plan.before.files,
        files_after=plan.before.files + sum(g.output_files - g.input_files for g in done),
        rows_before=plan.before.rows,
        rows_after=plan.before.rows - rows_deleted,
        rows_deleted=rows_deleted,
        bytes_before=plan.before.bytes,
        bytes_after=plan.before.bytes + sum(g.bytes_out - g.bytes_in for g in done),
        delete_files_removed=sum(landed.delete_files_removed for landed in run.landed),
        deletes_carried=sum(landed.deletes_carried for landed in run.landed),
        late_deletes=late,
        proof=plan.policy.verify.value,
        methods=Counter(g.method for g in done),
        groups=groups,
        snapshots=tuple(landed.snapshot_id for landed in run.landed),
        effort=replace(effort, seconds=round(effort.seconds, 3)),
        overhead_seconds=round(overhead, 3),
        waited_seconds=round(run.waited, 3),
        wait_reason="; ".join(dict.fromkeys(wait.why for wait in run.waits)),
        first_run=run.first,
        predicted_duration=plan.predicted.duration,
        output_files=actual.files,
        output_bytes=actual.bytes,
        predicted_files=predicted.files,
        predicted_bytes=predicted.bytes,
        predicted_seconds=foreseen.rounded(3),
        predicted_money=round(predicted.money + sum(step.predicted_money for step in steps), 9),
        money=round(sum(g.money for g in groups) + sum(step.money for step in steps), 9),
        currency=plan.prices.currency,
        complete=plan.complete and len(done) == len(tried) and not late,
        layout=plan.policy.fingerprint,
        pinned_sequence_number=plan.sequence_number,
        planned_at=plan.planned_at,
        reason=None if groups or plan.chores else plan.why_nothing,
        error=run.error,
        operation=plan.operation,
        steps=tuple(run.chores_done),
        step_costs=steps,
    )


def _overhead(made: Sequence[GroupOutcome], seconds: float, work: float, cores: int) -> float:
    encoded = sum(g.effort.seconds * encoded_share(g.method, _done(g)) for g in made) / max(work, 1e-9)
    return overhead_of(
        seconds=seconds, work=work, units=sum(g.units for g in made), cores=cores, encoded=min(1.0, encoded)
    )


def _done(group: GroupOutcome) -> Workload:
    copied, encoded = group.effort.copied_bytes, group.effort.encoded_bytes
    return Workload(units=group.units, files=group.input_files, copied=copied, encoded=encoded)


def what_became_of(run: Run) -> str:
    """What is true of a run if its process ends now, and how to go on, in one line."""
    again = f"`icepact compact {run.plan.table}`"
    if run.outcome is not None:
        return _became(run.outcome, again)
    if run.attempts:
        return f"run {run.run_id} was left while a commit was under way: {again} finds out whether it landed"
    tidy = f"`icepact cleanup {run.plan.table} --yes` deletes what it wrote"
    return f"run {run.run_id} was left: {again} goes on with it, {tidy}"


def _became(outcome: Outcome, again: str) -> str:
    run, done = f"run {outcome.run_id}", sum(group.committed for group in outcome.groups)
    match outcome.status:
        case Status.COMMITTED | Status.NOTHING_TO_DO:
            return f"{run} on {outcome.table} is {outcome.status}, nothing of it is left to do"
        case Status.UNKNOWN:
            return f"whether the last commit of {run} landed is not known: {again} finds out, and goes on"
        case Status.CANCELLED if not done:
            return f"{run} is cancelled, {outcome.table} is as it was: {again} begins anew"
    reason = f" ({outcome.error})" if outcome.error and outcome.status is Status.FAILED else ""
    return f"{run} is {outcome.status}{reason}, {done} of {plural(len(outcome.groups), 'group')} committed: {again}"


def _group_outcome(run: Run, step: RewriteFiles, *, committed: bool, why: str = "") -> GroupOutcome:
    written = run.written.get(step.group_id) or _unfinished(run, step)
    cost = step.cost
    return GroupOutcome(
        group_id=step.group_id,
        partition=step.partition,
        committed=committed,
        reason="" if committed else why or _why_not(run, step.group_id),
        method="+".join(sorted(written.methods)) or step.method.value,
        method_reason=written.fallback or step.method_reason,
        units=len(step.units),
        predicted_files=step.predicted_files,
        predicted_bytes=step.predicted_bytes,
        predicted_rows=step.predicted_rows,
        predicted_gain=step.gain.scan_seconds,
        features=step.features,
        predicted_seconds=cost.seconds,
        planned_copied_bytes=cost.copied_bytes,
        planned_encoded_bytes=cost.encoded_bytes,
        predicted_money=cost.money.likely,
        money=_spent(run.plan.prices, step, written, committed=committed),
        requests_counted=bool(written.methods) and _uncounted(step, written) == 0,
        input_files=len(step.files),
        output_files=len(written.files),
        rows_in=sum(f.rows for f in step.files),
        rows_out=sum(f.rows for f in written.files),
        bytes_in=step.bytes,
        bytes_out=sum(f.size for f in written.files),
        effort=replace(written.effort, seconds=round(written.effort.seconds, 3)),
    )


def _unfinished(run: Run, step: RewriteFiles) -> Written:
    """A group of which nothing can be used: only the seconds of units that were finished are known."""
    seconds = sum(run.results[unit].effort.seconds for unit in unit_ids(step) if unit in run.results)
    return Written(
        group_id=step.group_id, inputs=(), rows_observed=0, files=(), methods={}, effort=Effort(seconds=seconds)
    )


def _why_not(run: Run, group_id: str) -> str:
    """Why a group was not committed."""
    verdict = run.given_up.get(group_id)
    given_up = f"{verdict.answer}: {verdict.reason}" if verdict else ""
    return run.failed.get(group_id) or given_up or run.not_begun.get(group_id) or run.error or "not reached"


def _spent(prices: Prices, step: RewriteFiles, written: Written, *, committed: bool) -> float:
    """What a group really cost. Requests that nobody counted are taken to be as many as without any learning."""
    uncounted, effort = _uncounted(step, written), written.effort
    reads = effort.read_requests + uncounted * READS_PER_FILE * len(step.files)
    writes = effort.write_requests + uncounted * WRITES_PER_FILE * len(written.files)
    stored = prices.storage(step.bytes) if committed else 0.0
    return round(prices.compute(effort.seconds) + prices.requests(reads=reads, writes=writes) + stored, 9)


def _uncounted(step: RewriteFiles, written: Written) -> float:
    """The share of a group whose requests are not known: what a method did that does not count them; all, if the store
    is neither this machine nor one whose requests are counted; none, if nothing was written."""
    if not written.methods:
        return 0.0
    if not written.effort.requests and not step.files[0].path.startswith(("/", "file:")):
        return 1.0
    uncounted = sum(n for name, n in written.methods.items() if not METHODS[Method(name)].counts_requests)
    return uncounted / sum(written.methods.values())


def _status(run: Run, groups: tuple[GroupOutcome, ...]) -> Status:
    """The status of a run, by what became of the groups that were tried; a group that was dropped makes it partial."""
    if run.status is not None:
        return run.status
    if run.error is not None:
        return Status.FAILED
    kept_house = any(result.done for result in run.chores_done)
    if run.plan.chores and not groups and not run.dropped:
        return Status.COMMITTED if kept_house else Status.NOTHING_TO_DO
    if not groups:
        return Status.SUPERSEDED if any(each.overtaken for each in run.dropped) else Status.NOTHING_TO_DO
    done = sum(g.committed for g in groups)
    if done or kept_house:
        whole = done == len(groups) and not run.dropped
        return Status.COMMITTED if whole else Status.PARTLY_COMMITTED
    given_up = [run.given_up[g.group_id].answer for g in groups if g.group_id in run.given_up]
    tried = sum(g.group_id not in run.not_begun for g in groups)
    overtaken = len(given_up) == tried and all(a is Answer.SUPERSEDED for a in given_up)
    return Status.SUPERSEDED if overtaken else Status.FAILED
