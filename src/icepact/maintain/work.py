"""A run under way: rounds of executing, proving and committing, until every group is in the table or given up."""

import json
import logging
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from icepact.commit.judge import Answer, Pinned, Verdict, pinned_inputs
from icepact.commit.proof import prove
from icepact.commit.protocol import Batch, Ready, commit
from icepact.execute.checkpoint import to_document
from icepact.execute.rewriters.base import UnitResult
from icepact.execute.run import execute, group_of, unit_ids, unit_of, unit_of_path
from icepact.iceberg.java import patient
from icepact.iceberg.rows import compare_rows
from icepact.iceberg.staging import Staging
from icepact.iceberg.table import HeadView, IcebergTable
from icepact.model.errors import IcepactError, ProofFailed, RunLost
from icepact.model.plan import Plan, RewriteFiles, Unit
from icepact.model.policy import Proofs
from icepact.model.progress import Progress
from icepact.model.purse import Purse
from icepact.model.rewrite import Written
from icepact.model.run import Attempt, Checkpoint, Claim, Failure, Landed, Status, groups_of
from icepact.model.saved import Dropped
from icepact.model.table import DataFile, signature
from icepact.record.store import RecordStore
from icepact.record.watch import Watch

ROUNDS = 3
"""In all: a group is planned again twice at most because the table moved on under it."""
BROKEN = "(broken)"
"""Stands in the failures for a commit that was not as it should be: somebody must look before the table is touched."""
_AGAIN = (Answer.REPLAN, Answer.LATE)
_log = logging.getLogger("icepact")


@dataclass(slots=True)
class Run:
    """What is known about a run while it goes on."""

    plan: Plan
    """As it was made."""
    run_id: str
    started_at: datetime
    clock: float
    """Monotonic seconds at its start."""
    claim: Claim
    results: dict[str, UnitResult] = field(default_factory=dict)
    """Finished units."""
    written: dict[str, Written] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    given_up: dict[str, Verdict] = field(default_factory=dict)
    not_begun: dict[str, str] = field(default_factory=dict)
    """Groups for which the budget did not last, and which part of it."""
    dropped: Sequence[Dropped] = ()
    """Groups that were taken out of the plan before the run began."""
    landed: list[Landed] = field(default_factory=list)
    stale: set[str] = field(default_factory=set)
    """Outputs of units that had to be done again."""
    clean: bool = True
    """False if files may have been written that are not known by name."""
    attempt: Attempt | None = None
    """The commit that is under way, or whose end nobody saw."""
    pending: list[Attempt] = field(default_factory=list)
    """Commits of processes that died, as long as they might still get into the table, or have got there unchecked."""
    unheard: bool = False
    """True if a commit of this process was not answered: what is in the table must be asked, not remembered."""
    error: str | None = None
    blamed: bool = False
    """True if the error speaks against the table: it is not just that somebody wanted the run to end."""
    status: Status | None = None
    """How it ended, if that does not follow from its groups."""

    def accept(self, landed: Landed) -> None:
        """A commit is in the table: one of those under way, whichever."""
        self.landed.append(landed)
        self.landed.sort(key=lambda commit: commit.sequence_number)
        self.pending = [attempt for attempt in self.pending if attempt.commit_id != landed.commit_id]
        if self.attempt is not None and self.attempt.commit_id == landed.commit_id:
            self.attempt = None

    @property
    def unsettled(self) -> bool:
        """True if a commit of this very process may be in the table without anybody knowing."""
        own = f"{self.run_id}/{self.claim.epoch}."
        done = self.committed
        return self.attempt is not None or any(
            a.commit_id.startswith(own) and done.isdisjoint(a.groups) for a in self.pending
        )

    @property
    def attempts(self) -> list[Attempt]:
        """All commits whose end is not known."""
        return [*self.pending, *([self.attempt] if self.attempt else [])]

    @property
    def committed(self) -> frozenset[str]:
        """Groups that are in the table."""
        return groups_of(self.landed)

    @property
    def outputs(self) -> frozenset[str]:
        """Files that are in the table."""
        done = self.committed
        return frozenset(f.path for group, written in self.written.items() if group in done for f in written.files)


class Work:
    """Carries a run out on its table."""

    def __init__(self, table: IcebergTable, run: Run, store: RecordStore, watch: Watch, progress: Progress) -> None:
        self._table = table
        self._run = run
        self._store = store
        self._watch = watch
        self._progress = progress
        self._schema = json.loads(table.schema)
        self._purse = Purse(run.plan)
        self._batches = 0
        self._odd: dict[str, Any] = {}
        self._ready: list[Ready] = []
        self._plan: Plan
        self._reads: Mapping[str, str] = {}
        self._steps: Mapping[str, RewriteFiles] = {}
        self._staging: Staging

    def carry_out(self, plan: Plan, recall: Callable[[Staging], Mapping[str, UnitResult]] | None = None) -> None:
        """Execute, prove and commit; groups that the table moved on under are planned again at the new head."""
        for number in range(ROUNDS):
            assert plan.snapshot_id is not None  # a table without a snapshot has no files to plan
            self._plan, self._reads = plan, what_is_read(plan)
            self._steps = {step.group_id: step for step in plan.steps}
            self._staging = patient(Staging)(
                self._table,
                snapshot_id=plan.snapshot_id,
                run_id=self._run.run_id,
                unit_of=unit_of_path(plan),
                properties=plan.policy.write_properties,
                round_name=f"-{self._run.claim.epoch}{number}",
                odd=self._odd,
            )
            self._progress.step("staged")
            if recall is not None and number == 0:
                self._run.results |= recall(self._staging)
            executed = execute(plan, self._staging, self._progress, self, self._run.results)
            self._run.failed |= self._really_failed(plan, executed.failed)
            self._run.clean = self._run.clean and executed.clean
            self._progress.step("executed")
            if self._ready:
                self._commit()
            again = {g for g, verdict in self._run.given_up.items() if verdict.answer in _AGAIN}
            if not again or number + 1 == ROUNDS:
                return
            view = self._table.view(plan.branch, [f.path for s in plan.steps if s.group_id in again for f in s.files])
            planned = planned_again(plan, again, view)
            self._run.given_up |= planned.given_up
            if not planned.plan.steps:
                return
            for step in planned.plan.steps:
                del self._run.given_up[step.group_id]
            for unit_id in planned.changed & self._run.results.keys():
                self._run.stale |= {f.path for f in self._run.results.pop(unit_id).files}
            plan = planned.plan

    def _really_failed(self, plan: Plan, failed: Mapping[str, str]) -> dict[str, str]:
        """Groups that failed by themselves: those whose files somebody else replaced, and expired, are superseded."""
        if not failed:
            return {}
        paths = [f.path for step in plan.steps if step.group_id in failed for f in step.files]
        gone = planned_again(plan, failed, self._table.view(plan.branch, paths)).given_up
        self._run.given_up |= gone
        return {group: reason for group, reason in failed.items() if group not in gone}

    # -- what execute tells -----------------------------------------------------------------------

    def going_on(self) -> None:
        """Raise if the run must stop."""
        self._watch.check()

    def refusal(self, step: RewriteFiles) -> str | None:
        """Why a group must not be begun: time or money is spent."""
        reason = self._purse.refusal(step, time.monotonic() - self._run.clock)
        if reason is not None:
            self._run.not_begun[step.group_id] = reason
        return reason

    def units_done(self, units: Mapping[str, UnitResult]) -> None:
        """Remember finished units, so that nobody has to do them again."""
        self._progress.step("written")
        for unit_id, result in units.items():
            step = self._steps[group_of(unit_id)]
            self._purse.finished(step.group_id, unit_id, unit_of(step, unit_id), result.seconds)
        self._run.results |= units
        read = self._reads
        try:
            self._store.checkpoint(
                self._run.claim,
                [
                    Checkpoint(unit_id=unit_id, document={**to_document(result), "read": read[unit_id]})
                    for unit_id, result in units.items()
                ],
            )
        except RunLost:
            raise
        except IcepactError as error:  # worth a warning, not the work
            _log.warning("units of run %s could not be recorded: %s", self._run.run_id, error)
        self._progress.step("checkpointed")

    def group_done(self, written: Written) -> None:
        """Prove a group; commit once enough are proven."""
        step = self._steps[written.group_id]
        self._run.written[step.group_id] = written
        try:
            self._ready.append(self._proven(step, written))
        except ProofFailed as error:
            self._run.given_up[step.group_id] = Verdict(answer=Answer.REFUSED, reason=f"proof failed: {error}")
            return
        self._progress.step("proven")
        if len(self._ready) >= math.ceil(len(self._run.plan.steps) / self._plan.policy.max_commits):
            self._commit()

    def _proven(self, step: RewriteFiles, written: Written) -> Ready:
        rows_in, rows_out = sum(f.rows for f in step.files), sum(f.rows for f in written.files)
        compared, row_sum = 0, None
        if self._plan.policy.verify is not Proofs.OFF:
            compared = prove(written, step.files, self._plan.deletes, self._schema).columns_compared
        documents = [d for unit_id in unit_ids(step) for d in self._run.results[unit_id].documents]
        if self._plan.policy.verify is Proofs.FULL:
            row_sum = compare_rows(
                self._table, f"group {step.group_id}", self._staging.tasks(unit_ids(step)), documents
            )
        return Ready(
            group_id=step.group_id,
            inputs=pinned_inputs(step.files, self._plan.deletes),
            outputs=documents,
            regroup=step.regroup,
            rows_in=rows_in,
            rows_out=rows_out,
            columns_compared=compared,
            row_sum=row_sum,
        )

    # -- committing -------------------------------------------------------------------------------

    def _commit(self) -> None:
        groups, self._ready = self._ready, []
        self._batches += 1
        committed = commit(self._table, self._staging, self._batch(), groups, self)
        self._run.given_up |= committed.given_up
        for group in committed.groups & self._run.given_up.keys():  # it had landed already
            del self._run.given_up[group]

    def _batch(self) -> Batch:
        plan, run = self._plan, self._run
        assert plan.snapshot_id is not None
        whole = run.plan.complete and not run.failed and not run.given_up and not run.not_begun
        return Batch(
            run_id=run.run_id,
            number=f"{run.claim.epoch}.{self._batches}",
            branch=plan.branch,
            pinned_snapshot=plan.snapshot_id,
            pinned_sequence=plan.sequence_number,
            pinned_version=plan.format_version,
            last=frozenset(step.group_id for step in run.plan.steps) - run.committed if whole else frozenset(),
            earlier=[landed.sequence_number for landed in run.landed],
            facts={
                "run-id": run.run_id,
                "strategy": str(plan.policy.strategy),
                "layout": plan.policy.fingerprint,
                "pinned-snapshot-id": str(plan.snapshot_id),
                "pinned-sequence-number": str(run.plan.sequence_number),
                "proof": plan.policy.verify.value,
                **({"planned-at": run.plan.planned_at.isoformat()} if run.plan.planned_at else {}),
            },
        )

    # -- what commit tells ------------------------------------------------------------------------

    def judged(self) -> None:
        """Groups were compared with the head."""
        self._progress.step("judged")

    def attempting(self, attempt: Attempt) -> None:
        """From here on the files may become part of the table any moment."""
        self._watch.check()
        run = self._run
        self._store.move(run.claim, Status.COMMITTING, attempts=[*run.pending, attempt], landed=run.landed)
        self._run.attempt = attempt
        self._progress.step("attempting")

    def refused(self) -> None:
        """The attempt is over, and nothing came of it."""
        self._run.attempt = None
        self._note(lambda: self._store.move(self._run.claim, Status.RUNNING, attempts=self._run.pending))

    def unanswered(self) -> None:
        """The attempt may have landed, or still land."""
        assert self._run.attempt is not None
        self._run.pending.append(replace(self._run.attempt, ended=True))
        self._run.attempt = None
        self._run.unheard = True
        self._note(lambda: self._store.move(self._run.claim, Status.RUNNING, attempts=self._run.pending))

    def landed(self, landed: Landed) -> None:
        """The attempt is in the table, whether or not that can be recorded."""
        self._run.accept(landed)
        self._progress.step("landed")
        self._note(
            lambda: self._store.move(
                self._run.claim, Status.RUNNING, attempts=self._run.pending, landed=self._run.landed
            )
        )
        self._progress.step("committed")

    def broken(self, why: str) -> None:
        """Nobody touches the table until a person has looked."""
        stop_the_table(self._table, self._store, why)

    def _note(self, write: Callable[[], None]) -> None:
        try:
            write()
        except IcepactError as error:
            _log.warning("the state of run %s could not be recorded: %s", self._run.run_id, error)


def stop_the_table(table: IcebergTable, store: RecordStore, why: str) -> None:
    """Nobody touches it until a person has looked."""
    try:
        store.failed(
            table.uuid, Failure(signature=BROKEN, partition="", reason=why, count=0, last_at=datetime.now(UTC))
        )
    except IcepactError as error:
        _log.error("%s must not be touched (%s), and that could not be recorded: %s", table.name, why, error)


def what_is_read(plan: Plan) -> dict[str, str]:
    """Of every unit, the files and what applies to them at the plan's pin, as one word: another one if any of it
    changes. A unit is good for another pin only if that reads the same."""
    return {
        unit_id: f"{plan.format_version}-{signature(unit.files, plan.deletes)}-{_numbered(unit)}"
        for step in plan.steps
        for unit_id, unit in zip(unit_ids(step), step.units, strict=True)
    }


def _numbered(unit: Unit) -> int:
    return sum(file.first_row_id is not None for file in unit.files)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedAgain:
    """Groups at a newer head."""

    plan: Plan
    changed: frozenset[str]
    """Units whose inputs gained or lost a delete: what was written for them is of no use any more."""
    given_up: Mapping[str, Verdict]


def planned_again(plan: Plan, group_ids: Collection[str], view: HeadView) -> PlannedAgain:
    """The same files, as they are at a newer head; groups of which files are gone are superseded."""
    live: dict[str, DataFile] = {file.path: file for file in view.files}
    steps: list[RewriteFiles] = []
    changed: set[str] = set()
    given_up: dict[str, Verdict] = {}
    for step in plan.steps:
        if step.group_id not in group_ids:
            continue
        gone = [f.path for f in step.files if f.path not in live]
        if gone:
            reason = f"{len(gone)} inputs are gone, first {gone[0]}"
            given_up[step.group_id] = Verdict(answer=Answer.SUPERSEDED, reason=reason)
            continue
        units = tuple(replace(unit, files=tuple(live[f.path] for f in unit.files)) for unit in step.units)
        steps.append(replace(step, units=units))
        for unit_id, before, now in zip(unit_ids(step), step.units, units, strict=True):
            then = _pinned(before.files, plan)
            if plan.format_version != view.format_version or then != pinned_inputs(now.files, view.deletes):
                changed.add(unit_id)
    again = replace(
        plan,
        snapshot_id=view.snapshot_id,
        sequence_number=view.sequence_number,
        format_version=view.format_version,
        steps=tuple(steps),
        deletes=view.deletes,
    )
    return PlannedAgain(plan=again, changed=frozenset(changed), given_up=given_up)


def _pinned(files: Sequence[DataFile], plan: Plan) -> list[Pinned]:
    return pinned_inputs(files, plan.deletes)
