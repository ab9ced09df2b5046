"""How a run ended: its outcome, from what is known about it."""

import time
from collections import Counter
from collections.abc import Sequence

from icepact.commit.judge import Answer
from icepact.execute.run import unit_ids
from icepact.maintain.work import Run
from icepact.model.outcome import GroupOutcome, Outcome
from icepact.model.overhead import overhead_of
from icepact.model.plan import Method, RewriteFiles
from icepact.model.prices import Prices
from icepact.model.rates import READS_PER_FILE, WRITES_PER_FILE, Effort, encoded_share
from icepact.model.rewrite import Written
from icepact.model.run import Status
from icepact.model.words import counted


def _overhead(made: Sequence[GroupOutcome], seconds: float, work: float, cores: int) -> float:
    efforts = [
        (g, Effort(units=g.units, files=g.input_files, copied=g.copied_bytes, encoded=g.encoded_bytes)) for g in made
    ]
    encoded = sum(g.seconds * encoded_share(g.method, effort) for g, effort in efforts) / max(work, 1e-9)
    return overhead_of(
        seconds=seconds, work=work, units=sum(g.units for g in made), cores=cores, encoded=min(1.0, encoded)
    )


def outcome_of(run: Run) -> Outcome:
    """What a run did to its table."""
    committed = run.committed
    tried = tuple(_group_outcome(run, step, committed=step.group_id in committed) for step in run.plan.steps)
    groups = (*tried, *(_group_outcome(run, each.step, committed=False, why=each.reason) for each in run.dropped))
    done = [g for g in groups if g.committed]
    made = [g for g in groups if g.group_id in run.written]
    before, foreseen = run.plan.before, run.plan.predicted
    seconds, work = time.monotonic() - run.clock, sum(g.seconds for g in groups)
    return Outcome(
        run_id=run.run_id,
        table=run.plan.table,
        branch=run.plan.branch,
        status=_status(run, tried),
        snapshot_id=run.landed[-1].snapshot_id if run.landed else run.plan.snapshot_id,
        started_at=run.started_at,
        seconds=seconds,
        files_before=before.files,
        files_after=before.files + sum(g.output_files - g.input_files for g in done),
        rows_before=before.rows,
        rows_after=before.rows + sum(g.rows_out - g.rows_in for g in done),
        rows_deleted=sum(g.rows_in - g.rows_out for g in done),
        bytes_before=before.bytes,
        bytes_after=before.bytes + sum(g.bytes_out - g.bytes_in for g in done),
        delete_files_removed=sum(landed.delete_files_removed for landed in run.landed),
        proof=run.plan.policy.verify.value,
        methods=Counter(g.method for g in done),
        groups=groups,
        snapshots=tuple(landed.snapshot_id for landed in run.landed),
        copied_bytes=sum(g.copied_bytes for g in groups),
        encoded_bytes=sum(g.encoded_bytes for g in groups),
        requests=sum(g.requests for g in groups),
        write_requests=sum(g.write_requests for g in groups),
        transferred_bytes=sum(g.transferred_bytes for g in groups),
        work_seconds=round(work, 3),
        overhead_seconds=0.0  # of work that several processes did it cannot be told
        if run.claim.epoch
        else round(_overhead(made, seconds, work, foreseen.cores), 3),
        first_run=run.first,
        predicted_duration=foreseen.duration,
        predicted_duration_low=foreseen.duration_low,
        predicted_duration_high=foreseen.duration_high,
        output_files=sum(g.output_files for g in made),
        output_bytes=sum(g.bytes_out for g in made),
        predicted_files=sum(g.predicted_files for g in made),
        predicted_bytes=sum(g.predicted_bytes for g in made),
        predicted_seconds=round(sum(g.predicted_seconds for g in made), 3),
        predicted_seconds_low=round(sum(g.predicted_seconds_low for g in made), 3),
        predicted_seconds_high=round(sum(g.predicted_seconds_high for g in made), 3),
        predicted_money=round(sum(g.predicted_money for g in made), 9),
        money=round(sum(g.money for g in groups), 9),
        currency=run.plan.prices.currency,
        complete=run.plan.complete and all(g.committed for g in tried),
        layout=run.plan.policy.fingerprint,
        pinned_sequence_number=run.plan.sequence_number,
        planned_at=run.plan.planned_at,
        reason=None if tried or run.dropped else run.plan.why_nothing,
        error=run.error,
    )


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
    return f"{run} is {outcome.status}{reason}, {done} of {counted(len(outcome.groups), 'group')} committed: {again}"


def _group_outcome(run: Run, step: RewriteFiles, *, committed: bool, why: str = "") -> GroupOutcome:
    written = run.written.get(step.group_id)
    verdict = run.given_up.get(step.group_id)
    reason = why or run.failed.get(step.group_id) or (f"{verdict.answer}: {verdict.reason}" if verdict else "")
    reason = reason or run.not_begun.get(step.group_id, "")
    return GroupOutcome(
        group_id=step.group_id,
        partition=step.partition,
        committed=committed,
        reason="" if committed else reason or run.error or "not reached",
        method="+".join(sorted(written.methods)) if written else step.method.value,
        method_reason=(written.fallback if written else "") or step.method_reason,
        units=len(step.units),
        predicted_files=step.predicted_files,
        predicted_bytes=step.predicted_bytes,
        predicted_rows=step.predicted_rows,
        predicted_gain=step.gain.scan_seconds,
        features=step.features,
        predicted_seconds=step.cost.seconds,
        predicted_seconds_low=step.cost.seconds_low,
        predicted_seconds_high=step.cost.seconds_high,
        baseline_seconds=step.cost.baseline_seconds,
        planned_copied_bytes=step.cost.copied_bytes,
        planned_encoded_bytes=step.cost.encoded_bytes,
        predicted_money=step.cost.money,
        money=_spent(run.plan.prices, step, written, committed=committed)
        if written
        else round(run.plan.prices.compute(_in_vain(run, step)), 9),
        copied_bytes=written.copied_bytes if written else 0,
        encoded_bytes=written.encoded_bytes if written else 0,
        requests=written.requests if written else 0,
        write_requests=written.write_requests if written else 0,
        requests_counted=written is not None and _uncounted(step, written) == 0,
        transferred_bytes=written.transferred_bytes if written else 0,
        input_files=len(step.files),
        output_files=len(written.files) if written else 0,
        rows_in=sum(f.rows for f in step.files),
        rows_out=sum(f.rows for f in written.files) if written else 0,
        bytes_in=step.bytes,
        bytes_out=sum(f.size for f in written.files) if written else 0,
        seconds=round(written.seconds if written else _in_vain(run, step), 3),
    )


def _spent(prices: Prices, step: RewriteFiles, written: Written, *, committed: bool) -> float:
    """What a group really cost. Requests that nobody counted are taken to be as many as without any learning."""
    uncounted = _uncounted(step, written)
    reads = written.requests - written.write_requests + uncounted * READS_PER_FILE * len(step.files)
    writes = written.write_requests + uncounted * WRITES_PER_FILE * len(written.files)
    return round(
        prices.compute(written.seconds)
        + prices.requests(reads=reads, writes=writes)
        + (prices.storage(step.bytes) if committed else 0.0),
        9,
    )


def _uncounted(step: RewriteFiles, written: Written) -> float:
    """Of which share of a group the requests are not known: what method `spark` did; all, if the store is neither this
    machine nor one whose requests are counted."""
    local = step.files[0].path.startswith(("/", "file:"))
    if not written.requests and not local:
        return 1.0
    return written.methods.get(Method.SPARK.value, 0) / max(1, sum(written.methods.values()))


def _in_vain(run: Run, step: RewriteFiles) -> float:
    """Seconds of units that were finished, of a group that was not."""
    return sum(run.results[unit].seconds for unit in unit_ids(step) if unit in run.results)


def _status(run: Run, groups: tuple[GroupOutcome, ...]) -> Status:
    """By the groups that were tried; and by those that were not, unless that says all."""
    if run.status is not None:
        return run.status
    if run.error is not None:
        return Status.FAILED
    if not groups:
        return Status.SUPERSEDED if any(each.overtaken for each in run.dropped) else Status.NOTHING_TO_DO
    done = sum(g.committed for g in groups)
    if done:
        whole = done == len(groups) and not run.dropped
        return Status.COMMITTED if whole else Status.PARTLY_COMMITTED
    given_up = [run.given_up[g.group_id].answer for g in groups if g.group_id in run.given_up]
    tried = sum(g.group_id not in run.not_begun for g in groups)
    overtaken = len(given_up) == tried and all(a is Answer.SUPERSEDED for a in given_up)
    return Status.SUPERSEDED if overtaken else Status.FAILED
