"""Carrying out a plan, and carrying on with a run that died. Whatever happens, the table is left correct."""

import logging
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import Any

from icepact.commit.judge import Answer
from icepact.commit.post_commit import check_after
from icepact.commit.protocol import delete_leftovers
from icepact.commit.reconcile import EXPIRED, Fate, cannot_land, reconcile
from icepact.execute.checkpoint import outputs_by_group, recall, written_of
from icepact.execute.rewriters.job import start_workers
from icepact.execute.units import group_of, unit_of
from icepact.iceberg.commit.run_files import delete_files, delete_run_files, missing_files, referenced, run_folder
from icepact.iceberg.disk import folders_of, full_disk_remedy
from icepact.iceberg.java.bridge import describe_error, error_line, to_icepact_error
from icepact.iceberg.properties import refuse_odd_properties
from icepact.iceberg.spark.catalog import SparkCatalog
from icepact.iceberg.table.staging import Staging
from icepact.iceberg.table.table import IcebergTable
from icepact.maintain.failures import BROKEN, failure_of, stop_the_table
from icepact.maintain.first_run import is_first, runs_now
from icepact.maintain.inspect import SET_ASIDE_AFTER
from icepact.maintain.interrupts import UnderWay, stopped_in_order
from icepact.maintain.outcomes import outcome_of, what_became_of
from icepact.maintain.rebase import ReadInputs, how_it_is_read, rebase
from icepact.maintain.rounds import RECALLED_FOR, Recalled, Run, Work, may_be_kept
from icepact.maintain.steps import carry_out_chores, keep_statistics
from icepact.model.delete_files import ConvertDeletes
from icepact.model.errors import (
    BadInput,
    Cancelled,
    CommitBroken,
    CommitRefused,
    CommitUnknown,
    IcepactError,
    RunLost,
    TableBusy,
    TablePaused,
    Unfinished,
    is_full,
)
from icepact.model.files import signature
from icepact.model.methods import METHODS
from icepact.model.outcome import Outcome
from icepact.model.plan import Plan
from icepact.model.progress import Progress
from icepact.model.run import Attempt, CommittedBatch, Lease, RunRecord, groups_of
from icepact.model.saved import DroppedGroup
from icepact.model.status import Status
from icepact.record.liveness import dead
from icepact.record.process import is_gone, this_process
from icepact.record.store import ClockStore, FailureStore, LeaseStore, RecordStore, RunsAndLeases, RunStore
from icepact.record.watch import LEASE_SECONDS, Watch
from icepact.telemetry import metrics
from icepact.telemetry.ids import about

WHOLE_TABLE = "(table)"
"""Signature of the failure that counts runs on the table that failed one after the other."""
CHECKPOINTS_KEPT = timedelta(days=7)
"""After the end of a run."""
_FIRST_PAUSE = timedelta(minutes=5)
_LONGEST_PAUSE = timedelta(hours=6)
_FINISH_ATTEMPTS = 5
"""How often a store that fails is asked to record the end of a run: until then it counts as under way."""
_FIRST_WAIT = 0.2
"""Seconds before the second time; doubles from there."""
_NOTHING_IS_DELETED_AFTER = (CommitUnknown, CommitBroken, RunLost, Unfinished)
_NOT_THE_TABLES_FAULT = (Cancelled, RunLost, TableBusy, Unfinished)
_log = logging.getLogger("icepact")


@stopped_in_order
def apply(
    under: UnderWay,
    spark_catalog: SparkCatalog,
    plan: Plan,
    store: RecordStore,
    progress: Progress,
    *,
    dropped: Sequence[DroppedGroup] = (),
) -> Outcome:
    """Carry out a plan. The outcome tells of groups that were `dropped` from it, too.

    Ctrl-C cancels the run; KeyboardInterrupt is raised when it has ended.
    """
    clock = time.monotonic()
    table = spark_catalog.table(plan.table)
    if table.uuid != plan.uuid:
        raise BadInput(f"{plan.table} is not the table that was planned: plan again")
    table.refresh()
    if plan.rewrites and not table.has_snapshot(plan.snapshot_id):
        raise BadInput(f"snapshot {plan.snapshot_id} of {plan.table} has expired: plan again")
    started = datetime.now(UTC)
    run_id = f"{started:%Y%m%d%H%M%S}-{secrets.token_hex(4)}"
    record = RunRecord(
        run_id=run_id,
        catalog=spark_catalog.recorded_as,
        table=plan.table,
        branch=plan.branch,
        status=Status.RUNNING,
        started_at=started,
        uuid=plan.uuid,
        owner=this_process(),
        folder=run_folder(table, run_id),
    )
    new_run = partial(
        Run, plan=plan, run_id=run_id, started_at=started, clock=clock, dropped=dropped, catalog=record.catalog
    )
    if not plan.steps:
        run = new_run(claim=store.begin(record))
        run.outcome = outcome_of(run)
        _finish(store, run, run.outcome)
        return run.outcome
    refuse_broken(store, table)
    spark = table.session.sparkContext
    converts = any(isinstance(step, ConvertDeletes) for step in plan.chores)
    if converts or any(METHODS[step.method].needs_workers for step in plan.rewrites):
        start_workers(spark)
    with about(run=run_id), lease_held(store, table, record.run_id, under) as watch:
        progress.step("held")
        run = new_run(claim=store.begin(record, plan.to_json()), first=is_first(spark))
        runs_now(spark)
        under.so_far = lambda: what_became_of(run)
        progress.step("recorded")
        work = Work(table, run, store, watch, progress)

        def do() -> None:
            if plan.rewrites:
                reconcile_commits(table, run, store, lambda: work.carry_out(plan))
            carry_out_chores(spark_catalog, table, run, store, watch, progress)
            if run.landed:
                keep_statistics(table, plan.branch, run_id, watch.check)

        return finalize(table, run, store, progress, do)


@stopped_in_order
def resume(
    under: UnderWay, spark_catalog: SparkCatalog, record: RunRecord, store: RecordStore, progress: Progress
) -> Outcome:
    """Carry on with a run whose process died: what is finished and still fits is not done again.

    Ctrl-C cancels the run; KeyboardInterrupt is raised when it has ended.
    """
    document = store.plan(record.run_id)
    if not record.status.open or record.status is Status.FENCED:
        raise BadInput(f"run {record.run_id} has ended ({record.status}): there is nothing to resume")
    if not document:
        raise BadInput(f"run {record.run_id} left no plan: clean up and plan again")
    try:
        plan = Plan.from_json(document)
    except ValueError:
        raise BadInput(f"the plan of run {record.run_id} is of another version: clean up and plan again") from None
    table = spark_catalog.table(record.table)
    if table.uuid != record.uuid:
        if plan.rewrites:
            raise BadInput(f"{record.table} is not the table that run {record.run_id} worked on")
        return end_of_former_table(record, plan, store)
    refuse_broken(store, table)
    with about(run=record.run_id), lease_held(store, table, record.run_id, under) as watch:
        progress.step("held")
        fates = fates_of(table, store, record.attempts, record.branch, record.landed)
        for attempt, end in fates:
            if end is Fate.UNKNOWN:
                raise CommitUnknown(
                    f"commit {attempt.commit_id} may still land, and {attempt.maker or record.owner} may still live: "
                    "try again later"
                )
            if end is Fate.BEHIND:
                raise CommitUnknown(f"commit {attempt.commit_id} is not in the table, and {end}")
        claim = store.take(record, this_process(), to=Status.RUNNING)
        run = Run(
            plan=plan,
            run_id=record.run_id,
            started_at=record.started_at,
            clock=time.monotonic(),
            claim=claim,
            catalog=record.catalog,
            clean=False,  # whoever died may have left files that nobody knows by name
            landed=list(record.landed),
            pending=[attempt for attempt, end in fates if end is not Fate.TAKEN_BACK],
        )
        under.so_far = lambda: what_became_of(run)
        progress.step("recorded")
        work = Work(table, run, store, watch, progress)

        def carry_on() -> None:
            for attempt, end in fates:
                if isinstance(end, CommittedBatch):
                    _accept(table, run, store, attempt, end)
            back = groups_of(attempt for attempt, end in fates if end is Fate.TAKEN_BACK)
            reconcile_commits(table, run, store, lambda: _carry_on(table, run, store, work, not_again=back))
            carry_out_chores(spark_catalog, table, run, store, watch, progress)

        return finalize(table, run, store, progress, carry_on)


def end_of_former_table(record: RunRecord, plan: Plan, store: RecordStore) -> Outcome:
    """End a dead run of housekeeping on a table whose name another one has by now. What it had written down is not
    deleted: nobody can say any more who needs it, and the new table may have taken up some."""
    if dead(record, store) is None:
        raise BadInput(f"{record.table} is not the table that run {record.run_id} works on, and {record.owner} lives")
    claim = store.take(record, this_process(), to=Status.RUNNING)
    run = Run(
        plan=plan,
        run_id=record.run_id,
        started_at=record.started_at,
        clock=time.monotonic(),
        claim=claim,
        catalog=record.catalog,
        clean=False,
    )
    run.status = Status.SUPERSEDED
    reason = (
        f"{record.table} is another table by now: the one that run {record.run_id} worked on was dropped, or has "
        "another name, where `icepact orphans` finds what it left; nothing was deleted"
    )
    outcome = run.outcome = replace(outcome_of(run), reason=reason)
    _finish(store, run, outcome)
    return outcome


def reconcile_commits(table: IcebergTable, run: Run, store: RecordStore, work: Callable[[], None]) -> None:
    """Do the work; then, however it ended, find out what became of commits that got no answer."""
    try:
        work()
    except (CommitUnknown, Cancelled) as error:
        _reconcile_pending(table, run, store, own=isinstance(error, CommitUnknown))
        if not run.committed >= {step.group_id for step in run.plan.rewrites}:
            raise
    except BaseException:
        _reconcile_pending(table, run, store)
        raise
    else:
        _reconcile_pending(table, run, store)


def _reconcile_pending(table: IcebergTable, run: Run, store: RecordStore, *, own: bool = False) -> None:
    """Commits of those who died, and our own without an answer, may have landed after all. If that cannot be found out,
    they stay on record and keep their files. `own` if the last attempt has ended, too."""
    if not run.attempts:
        return
    try:
        for attempt, end in fates_of(table, store, run.attempts, run.plan.branch, run.landed):
            if isinstance(end, CommittedBatch) and (own or attempt is not run.attempt):
                _accept(table, run, store, attempt, end)
                _recall_committed(run, {c.unit_id: c.document for c in store.checkpoints(run.run_id)})
                run.given_up = {group: verdict for group, verdict in run.given_up.items() if group not in end.groups}
    except CommitBroken:
        raise
    except Exception as error:
        _log.warning("what became of the last commits of run %s is not known: %s", run.run_id, error_line(error))


def _accept(table: IcebergTable, run: Run, store: RecordStore, attempt: Attempt, landed: CommittedBatch) -> None:
    """A commit that landed unseen is one of the run's, once it is checked."""
    check_unseen(table, store, run.plan.branch, attempt, landed)
    delete_leftovers(table, attempt, lost=())  # whoever made it did not live to delete what it tried before
    run.accept(landed)
    status = Status.COMMITTING if run.attempt else Status.RUNNING
    store.move(run.claim, status, attempts=run.attempts, landed=run.landed)


def check_unseen(
    table: IcebergTable, store: RecordStore, branch: str, attempt: Attempt, landed: CommittedBatch
) -> None:
    """The check after a commit, for one whose maker did not live to do it; raises CommitBroken."""
    if landed.snapshot_id != EXPIRED:
        check_after(
            table,
            branch,
            attempt,
            landed.snapshot_id,
            missing=lambda: missing_files(table, table.added_paths(landed.snapshot_id)),
            stop=partial(stop_the_table, table, store),
        )


def fates_of(
    table: IcebergTable, store: RunStore, attempts: Sequence[Attempt], branch: str, landed: Sequence[CommittedBatch]
) -> list[tuple[Attempt, CommittedBatch | Fate]]:
    """What became of attempts of one run, which is known to have made these commits."""
    if not attempts:
        return []
    outputs = outputs_by_group(store.checkpoints(attempts[0].run_id))
    return reconcile(table, attempts, branch=branch, landed=landed, outputs=outputs)


def _carry_on(
    table: IcebergTable, run: Run, store: RecordStore, work: Work, *, not_again: Collection[str] = ()
) -> None:
    """Compare all groups with the head first: what changed since is planned again, what is gone is given up. Finished
    units are kept, also if other deletes apply to their inputs by now: these are taken along.

    Files of the groups in `not_again` are part of a snapshot that was taken back: they get new ones, because that
    snapshot's expiry may delete the old.
    """
    plan = run.plan
    checkpoints = {c.unit_id: c.document for c in store.checkpoints(run.run_id)}
    _recall_committed(run, checkpoints)
    groups = {step.group_id for step in plan.rewrites} - run.committed
    if not groups:
        return
    view = table.view(plan.branch, [f.path for s in plan.rewrites if s.group_id in groups for f in s.files])
    again = rebase(plan, groups, view)
    work.adopt(again, groups=groups)
    if not again.plan.steps:
        return

    def finished(staging: Staging) -> Mapping[str, Recalled]:
        found = {}
        steps = {step.group_id: step for step in again.plan.rewrites if step.group_id not in not_again}
        reads = how_it_is_read(replace(again.plan, steps=tuple(steps.values())), table)
        oldest = (store.now() - RECALLED_FOR).isoformat()
        for unit_id, document in checkpoints.items():
            if unit_id not in reads or document.get("read") != reads[unit_id] or document.get("at", "") <= oldest:
                continue
            step = steps[group_of(unit_id)]
            now = ReadInputs(unit_of(step, unit_id).files, again.plan.deletes)
            read = ReadInputs.of_text(document.get("inputs", ""), now)
            result = recall(document, staging)
            if read is None or result is None:
                continue
            if read.at_pin == now.at_pin or may_be_kept(again.plan, step, result):
                found[unit_id] = Recalled(result, read)
        return found

    work.carry_out(again.plan, finished)


def _recall_committed(run: Run, checkpoints: Mapping[str, Mapping[str, Any]]) -> None:
    """What was committed before the crash, for the outcome and for the clean-up, which must not touch it."""
    committed = run.committed - run.written.keys()
    for step in run.plan.rewrites:
        if step.group_id in committed:
            run.written[step.group_id] = written_of(step, checkpoints)


# -- holding, ending ------------------------------------------------------------------------------


@contextmanager
def lease_held(store: RunsAndLeases, table: IcebergTable, run_id: str, under: UnderWay) -> Iterator[Watch]:
    """Hold the table's lease as long as the work goes on; Ctrl-C stops the watch over it, and with it the work."""
    with Watch(store, hold(store, table, run_id)) as watch:
        under.on_press(partial(watch.stop, f"run {run_id} was interrupted"))
        yield watch


def hold(store: LeaseStore, table: IcebergTable, run_id: str) -> Lease:
    """Acquire the table's lease, or raise TableBusy; a holder whose process is certainly gone is not waited for."""
    owner = this_process()
    try:
        return store.acquire(table.uuid, run_id, owner, seconds=LEASE_SECONDS)
    except TableBusy as busy:
        holder = store.lease(table.uuid)
        if holder is None or not is_gone(holder.owner):
            raise TableBusy(f"{table.name}: {busy}") from None
        return store.acquire(table.uuid, run_id, owner, seconds=LEASE_SECONDS, over=holder)


def refuse_broken(store: FailureStore, table: IcebergTable) -> None:
    """The circuit breaker: a table that fails again and again, or once badly, is left alone; so is one that nobody can
    commit to."""
    refuse_odd_properties(table)
    now = datetime.now(UTC)
    for failure in store.failures(table.uuid):
        if failure.signature == BROKEN:
            raise BadInput(
                f"{table.name} was stopped: {failure.reason}; look at it, then say `icepact unblock {table.name}`"
            )
        if failure.signature == WHOLE_TABLE and failure.count >= SET_ASIDE_AFTER:
            until = failure.last_at + _pause(failure.count)
            if now < until:
                raise TablePaused(
                    f"{failure.count} runs on {table.name} failed one after the other, the last: {failure.reason}; "
                    f"paused until {until:%Y-%m-%d %H:%M} UTC, or until `icepact unblock {table.name}`"
                )


def _pause(failures: int) -> timedelta:
    doubled: int = 1 << min(failures - SET_ASIDE_AFTER, 10)
    return min(_FIRST_PAUSE * doubled, _LONGEST_PAUSE)


def finalize(
    table: IcebergTable, run: Run, store: RecordStore, progress: Progress, work: Callable[[], None]
) -> Outcome:
    """Do the work, and end the run: its outcome is recorded, and what was written and not committed is deleted, but
    only where it is certain that no snapshot refers to it: not after a commit whose end is unknown, nor after one that
    was rolled back."""
    certain = True
    try:
        work()
    except BaseException as error:
        certain = (
            not isinstance(error, CommitUnknown | CommitBroken | RunLost | Unfinished) and not run.has_unknown_commit
        )
        ours = to_icepact_error(error)
        run.error = str(ours or describe_error(error))
        if full := is_full(run.error) and isinstance(error, Exception) and not isinstance(error, IcepactError):
            run.error = full_disk_remedy(run.error, folders_of(table))
        run.blamed = isinstance(error, Exception) and not isinstance(
            error, Cancelled | RunLost | TableBusy | Unfinished
        )
        if isinstance(error, Cancelled):
            run.status = Status.CANCELLED
        elif isinstance(error, CommitRefused) and run.has_unknown_commit:
            run.error += "; its files stay until `icepact cleanup` has seen that no earlier request of it landed"
        elif not certain and not isinstance(error, CommitBroken | RunLost):
            run.status = Status.UNKNOWN
        if isinstance(error, CommitBroken):
            stop_the_table(table, store, run.error)
        if ours is None and not full and not isinstance(error, IcepactError):
            _end(table, run, store, progress, certain=certain)
            raise
    return _end(table, run, store, progress, certain=certain)


def _end(table: IcebergTable, run: Run, store: RecordStore, progress: Progress, *, certain: bool) -> Outcome:
    """The run ends first, and its files go after that: whoever has lost the run meanwhile has no right to them, and
    an ended run is taken over by nobody."""
    outcome = run.outcome = outcome_of(run)
    ended = _finish(store, run, outcome, make_room=partial(_make_room, table, run, store) if certain else None)
    progress.step("finished")
    if certain and ended:
        _clean_up(table, run, store)
        progress.step("cleaned")
    try:
        _remember_failures(table, run, store)
        _set_clocks(table, run, store)
    except Exception as error:  # a table that was dropped meanwhile cannot be asked; the run has ended all the same
        _log.warning("what became of run %s could not be recorded: %s", run.run_id, error_line(error))
    return outcome


def _set_clocks(table: IcebergTable, run: Run, store: ClockStore) -> None:
    """Record that partition groups of which nothing was left were compacted, as they were when the plan was made: what
    came later did not take part. Format version 1 cannot tell what came later."""
    plan, done = run.plan, run.committed
    missing = {step.partition for step in plan.rewrites if step.group_id not in done}
    missing |= {*plan.held_back, *(dropped.step.partition for dropped in run.dropped)}
    tiers = {step.last_compacted_key: step.tier.value for step in plan.rewrites if step.partition not in missing}
    if tiers:
        pinned = None if plan.format_version == 1 else table.committed_at(plan.snapshot_id)
        store.mark_compacted(plan.uuid, plan.branch, tiers, pinned or datetime.now(UTC))


def _finish(store: RunStore, run: Run, outcome: Outcome, *, make_room: Callable[[], None] | None = None) -> bool:
    """Record the end of a run, several times if the store fails; false if it could not be recorded. The table is as it
    is by now: a history that cannot be written does not change how the run ended."""
    ended = [replace(attempt, ended=True) for attempt in ([run.attempt] if run.attempt else [])]
    for number in count():
        try:
            store.finish(run.claim, outcome, landed=run.landed, attempts=[*run.pending, *ended])
            break
        except Exception as error:
            if isinstance(error, RunLost) and number and _has_ended(store, run, outcome):
                break  # it had heard of it, and its answer was lost
            if isinstance(error, RunLost) or number == _FINISH_ATTEMPTS - 1:
                _log.warning("the end of run %s could not be recorded: %s", run.run_id, error_line(error))
                return False
            if make_room is not None and not number and is_full(str(error)):
                with suppress(IcepactError):
                    make_room()
            time.sleep(_FIRST_WAIT * 2**number)
    made = run.committed & run.written.keys()
    metrics.run_ended(
        outcome,
        catalog=run.catalog,
        strategy=run.plan.policy.strategy,
        file_sizes=[file.size for group in made for file in run.written[group].files],
    )
    with suppress(IcepactError):
        store.forget(before=datetime.now(UTC) - CHECKPOINTS_KEPT)
    return True


def _make_room(table: IcebergTable, run: Run, store: RunsAndLeases) -> None:
    """Delete what a run wrote although its end is not recorded, because there is no room to record it: nobody can take
    the run over without writing that down. Not where the end of a commit is not known."""
    record = store.run(run.run_id)
    if record is not None and record.epoch == run.claim.epoch and not run.attempts:
        _clean_up(table, run, store)


def _has_ended(store: RunStore, run: Run, outcome: Outcome) -> bool:
    """Whether the end of a run is on record, as this process recorded it."""
    record = store.run(run.run_id)
    return record is not None and (record.epoch, record.status) == (run.claim.epoch, outcome.status)


def _remember_failures(table: IcebergTable, run: Run, store: FailureStore) -> None:
    """Record groups that failed by themselves, not because somebody else was faster, nor for want of room; and the run,
    if nothing came of it. Groups that are committed have their failures forgotten."""
    refused = {g: v.reason for g, v in run.given_up.items() if v.answer is Answer.REFUSED}
    failed = {group: why for group, why in {**refused, **run.failed}.items() if not is_full(why)}
    well = []
    committed = run.committed
    for step in run.plan.rewrites:
        name = signature(step.files, run.plan.deletes)
        if step.group_id in failed:
            store.failed(table.uuid, failure_of(name, failed[step.group_id], step.partition))
        elif step.group_id in committed:
            well.append(name)
    if run.landed:
        store.forget_failures(table.uuid, [*well, WHOLE_TABLE])
    elif run.error is not None and run.blamed and not is_full(run.error):
        store.failed(table.uuid, failure_of(WHOLE_TABLE, run.error))


def _clean_up(table: IcebergTable, run: Run, store: RunsAndLeases) -> None:
    """Delete what was written for nothing. A nuisance if it fails, never a reason to call a committed run failed."""
    keep = run.outputs
    known = {f.path for w in run.written.values() for f in w.files}
    known = known.union(run.stale, run.carried, *(result.paths for result in run.results.values()))
    # a unit failed, or a task died on the way: its files are not known by name
    incomplete = len(run.written) < len(run.plan.rewrites) or not run.clean
    try:
        # a commit may be on its way, and makes our files part of the table when it arrives
        for attempt, end in fates_of(table, store, run.pending, run.plan.branch, run.landed):
            if isinstance(end, CommittedBatch) or not cannot_land(end, attempt, store.now()):
                return  # left for `icepact cleanup`
        if not known - keep and not incomplete:
            return
        # asked, not remembered: whoever has a copy of the record store may have taken the run for dead and committed it
        keep |= referenced(table, run.run_id)
        delete_files(table, sorted(known - keep))
        if incomplete:
            delete_run_files(table, run_folder(table, run.run_id), keep=keep)
    except Exception as error:
        _log.warning("leftovers of run %s could not be deleted: %s", run.run_id, error_line(error))
