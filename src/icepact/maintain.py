"""One run, on one page: pin and assess, or pin and plan; then execute, prove, commit, record."""

import json
import logging
import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime

from icepact.assess.health import assess
from icepact.commit.judge import Answer, Verdict, pinned_inputs
from icepact.commit.proof import prove
from icepact.commit.protocol import Batch, Committed, Ready, commit
from icepact.execute.run import Executed, execute, unit_ids, unit_of_path
from icepact.iceberg.java import error_line
from icepact.iceberg.lake import Lake
from icepact.iceberg.staging import Staging, delete_files, delete_leftovers
from icepact.iceberg.table import IcebergTable
from icepact.model.errors import BadInput, CommitRefused, IcepactError, ProofFailed
from icepact.model.health import Health
from icepact.model.outcome import GroupOutcome, Outcome, RunRecord, Status
from icepact.model.plan import Plan, RewriteFiles
from icepact.model.policy import Options, Policy, resolve
from icepact.model.progress import Progress
from icepact.model.rates import Rates, measurements
from icepact.plan.planner import make_plan
from icepact.record.store import RecordStore

_RUNS_REMEMBERED = 50


def look(lake: Lake, name: str, request: Options, configuration: Options) -> Health:
    """Pin a table and assess it."""
    table, policy = _settle(lake, name, request, configuration)
    return assess(table.pin(branch=policy.branch), policy)


def plan(lake: Lake, name: str, request: Options, configuration: Options, store: RecordStore) -> Plan:
    """Pin a table and plan; nothing is written."""
    table, policy = _settle(lake, name, request, configuration)
    return make_plan(table.pin(branch=policy.branch, where=policy.where), policy, _rates(lake, store))


def _rates(lake: Lake, store: RecordStore) -> Rates:
    """How fast methods are, after what runs on this catalog took."""
    outcomes = [run.outcome for run in store.runs(catalog=lake.catalog, limit=_RUNS_REMEMBERED) if run.outcome]
    return Rates().corrected(measured for outcome in outcomes for measured in measurements(outcome))


def _settle(lake: Lake, name: str, request: Options, configuration: Options) -> tuple[IcebergTable, Policy]:
    table = lake.table(name)
    table.refresh()
    return table, resolve(request, table.properties, configuration)


@dataclass(slots=True)
class _Run:
    """A run under way."""

    plan: Plan
    run_id: str
    started_at: datetime
    clock: float
    executed: Executed = field(default_factory=lambda: Executed(written={}, failed={}))
    given_up: dict[str, Verdict] = field(default_factory=dict)
    committed: Committed | None = None
    error: str | None = None


def apply(lake: Lake, plan: Plan, store: RecordStore, progress: Progress) -> Outcome:
    """Carry out a plan. Whatever happens, the table is left correct and the outcome is recorded."""
    table = lake.table(plan.table)
    if table.uuid != plan.uuid:
        raise BadInput(f"{plan.table} is not the table that was planned: plan again")
    table.refresh()
    if plan.steps and not table.has_snapshot(plan.snapshot_id):
        raise BadInput(f"snapshot {plan.snapshot_id} of {plan.table} has expired: plan again")
    started = datetime.now(UTC)
    run_id = f"{started:%Y%m%d%H%M%S}-{secrets.token_hex(4)}"
    run = _Run(plan=plan, run_id=run_id, started_at=started, clock=time.monotonic())
    store.begin(
        RunRecord(
            run_id=run_id,
            catalog=lake.catalog,
            table=plan.table,
            branch=plan.branch,
            status=Status.RUNNING,
            started_at=started,
            finished_at=None,
            outcome=None,
        )
    )
    try:
        if plan.steps:
            _work(table, run, progress)
    except BaseException as error:
        run.error = (
            error_line(error) if isinstance(error, IcepactError) else f"{type(error).__name__}: {error_line(error)}"
        )
        if not isinstance(error, IcepactError):
            _finish(store, run)
            raise
    return _finish(store, run)


def _finish(store: RecordStore, run: _Run) -> Outcome:
    """The table is as it is by now: a history that cannot be written does not change how the run ended."""
    outcome = _outcome(run)
    try:
        store.finish(outcome)
    except Exception as error:
        logging.getLogger("icepact").warning("the end of run %s could not be recorded: %s", run.run_id, error)
    return outcome


def _work(table: IcebergTable, run: _Run, progress: Progress) -> None:
    """Execute, prove and commit. What was written and not committed is deleted, but only where it is certain
    that no snapshot refers to it: not after a commit whose end is unknown, nor after one that was rolled back."""
    plan = run.plan
    assert plan.snapshot_id is not None  # a table without a snapshot has no files to plan
    keep: frozenset[str] = frozenset()
    certain = True
    try:
        staging = Staging(
            table,
            snapshot_id=plan.snapshot_id,
            run_id=run.run_id,
            unit_of=unit_of_path(plan),
            properties=plan.policy.write_properties,
        )
        run.executed = execute(plan, staging, progress)
        ready = _proven(table, run)
        certain = False
        if ready:
            run.committed = commit(table, staging, _batch(run), ready)
            run.given_up |= run.committed.given_up
            keep = frozenset(f.path for g in run.committed.groups for f in run.executed.written[g].files)
        certain = True
    except CommitRefused:
        certain = True
        raise
    finally:
        if certain:
            _clean_up(table, run, keep)


def _clean_up(table: IcebergTable, run: _Run, keep: frozenset[str]) -> None:
    """Delete what was written for nothing. A nuisance if it fails, never a reason to call a committed run failed."""
    known = {f.path for w in run.executed.written.values() for f in w.files} - keep
    # a unit failed, or a task died on the way: its files are not known by name
    incomplete = len(run.executed.written) < len(run.plan.steps) or not run.executed.clean
    try:
        delete_files(table, sorted(known))
        if incomplete:
            delete_leftovers(table, run.run_id, keep=keep)
    except Exception as error:
        logging.getLogger("icepact").warning("leftovers of run %s could not be deleted: %s", run.run_id, error)


def _proven(table: IcebergTable, run: _Run) -> list[Ready]:
    """Groups whose new files hold what readers saw; the others are given up."""
    schema = json.loads(table.schema)
    ready = []
    for step in run.plan.steps:
        written = run.executed.written.get(step.group_id)
        if written is None:
            continue
        try:
            proof = prove(written, step.files, run.plan.deletes, schema)
        except ProofFailed as error:
            run.given_up[step.group_id] = Verdict(answer=Answer.REFUSED, reason=f"proof failed: {error}")
            continue
        ready.append(
            Ready(
                group_id=step.group_id,
                inputs=pinned_inputs(step.files, run.plan.deletes),
                unit_ids=unit_ids(step),
                rows_in=proof.rows_in,
                rows_out=proof.rows_out,
                columns_compared=proof.columns_compared,
            )
        )
    return ready


def _batch(run: _Run) -> Batch:
    plan = run.plan
    assert plan.snapshot_id is not None
    return Batch(
        run_id=run.run_id,
        branch=plan.branch,
        pinned_snapshot=plan.snapshot_id,
        pinned_version=plan.format_version,
        planned=len(plan.steps),
        complete=plan.complete,
        facts={
            "run-id": run.run_id,
            "strategy": plan.policy.strategy.value,
            "layout": plan.policy.fingerprint,
            "pinned-snapshot-id": str(plan.snapshot_id),
            "pinned-sequence-number": str(plan.sequence_number),
            "proof": "footers",
        },
    )


def _outcome(run: _Run) -> Outcome:
    groups = tuple(_group_outcome(run, step) for step in run.plan.steps)
    done = [g for g in groups if g.committed]
    before = run.plan.before
    return Outcome(
        run_id=run.run_id,
        table=run.plan.table,
        branch=run.plan.branch,
        status=_status(run, groups),
        snapshot_id=run.committed.snapshot_id if run.committed and done else run.plan.snapshot_id,
        started_at=run.started_at,
        seconds=time.monotonic() - run.clock,
        files_before=before.files,
        files_after=before.files + sum(g.output_files - g.input_files for g in done),
        rows_before=before.rows,
        rows_after=before.rows + sum(g.rows_out - g.rows_in for g in done),
        rows_deleted=sum(g.rows_in - g.rows_out for g in done),
        bytes_before=before.bytes,
        bytes_after=before.bytes + sum(g.bytes_out - g.bytes_in for g in done),
        delete_files_removed=run.committed.delete_files_removed if run.committed else 0,
        proof="footers",
        methods=Counter(g.method for g in done),
        groups=groups,
        copied_bytes=sum(g.copied_bytes for g in groups),
        encoded_bytes=sum(g.encoded_bytes for g in groups),
        requests=sum(g.requests for g in groups),
        transferred_bytes=sum(g.transferred_bytes for g in groups),
        error=run.error,
    )


def _group_outcome(run: _Run, step: RewriteFiles) -> GroupOutcome:
    written = run.executed.written.get(step.group_id)
    committed = run.committed is not None and step.group_id in run.committed.groups
    verdict = run.given_up.get(step.group_id)
    reason = run.executed.failed.get(step.group_id) or (f"{verdict.answer}: {verdict.reason}" if verdict else "")
    return GroupOutcome(
        group_id=step.group_id,
        partition=step.partition,
        committed=committed,
        reason="" if committed else reason or run.error or "not reached",
        method="+".join(sorted(written.methods)) if written else step.method.value,
        method_reason=(written.fallback if written else "") or step.method_reason,
        predicted_seconds=step.cost.seconds,
        baseline_seconds=step.cost.baseline_seconds,
        copied_bytes=written.copied_bytes if written else 0,
        encoded_bytes=written.encoded_bytes if written else 0,
        requests=written.requests if written else 0,
        transferred_bytes=written.transferred_bytes if written else 0,
        input_files=len(step.files),
        output_files=len(written.files) if written else 0,
        rows_in=sum(f.rows for f in step.files),
        rows_out=sum(f.rows for f in written.files) if written else 0,
        bytes_in=step.bytes,
        bytes_out=sum(f.size for f in written.files) if written else 0,
        seconds=round(written.seconds, 3) if written else 0.0,
    )


def _status(run: _Run, groups: tuple[GroupOutcome, ...]) -> Status:
    done = sum(g.committed for g in groups)
    if run.error is not None:
        return Status.FAILED
    if not groups:
        return Status.NOTHING_TO_DO
    if done == len(groups):
        return Status.COMMITTED
    if done:
        return Status.PARTLY_COMMITTED
    given_up = [run.given_up[g.group_id].answer for g in groups if g.group_id in run.given_up]
    if given_up and len(given_up) == len(groups) and all(a is Answer.SUPERSEDED for a in given_up):
        return Status.SUPERSEDED
    return Status.FAILED
