"""A run under way: rounds of executing, proving and committing, until every group is in the table or given up."""

import json
import logging
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from icepact.commit.batches import CommitBatch, ProvenGroup
from icepact.commit.judge import Answer, DeleteKey, Verdict, moved_on, with_moved
from icepact.commit.proof import prove
from icepact.commit.protocol import commit
from icepact.commit.reconcile import rolled_back
from icepact.commit.waiting import Waited, longest_wait, wait_for_others
from icepact.economics.run_budget import RunBudget
from icepact.execute.assemble.messages import InputFile
from icepact.execute.checkpoint import NOTHING_WRITTEN, to_document
from icepact.execute.convert import DeleteConverter
from icepact.execute.late_deletes import LateDeletes
from icepact.execute.rewriters.base import UnitResult
from icepact.execute.units import (
    Executed,
    GroupDone,
    UnitFailed,
    UnitsDone,
    Waiting,
    execute,
    group_of,
    unit_ids,
    unit_of,
    unit_of_path,
)
from icepact.iceberg.java.bridge import JavaError, error_line, retry_reads
from icepact.iceberg.table.row_checksum import compare_rows
from icepact.iceberg.table.staging import Staging
from icepact.iceberg.table.table import IcebergTable
from icepact.maintain.failures import stop_the_table
from icepact.maintain.losses import lost_inputs
from icepact.maintain.rebase import ReadInputs, Rebased, how_it_is_read, rebase
from icepact.model.errors import IcepactError, ProofFailed, RunLost
from icepact.model.outcome import ChoreResult, Outcome, StepCost
from icepact.model.plan import Plan, RewriteFiles
from icepact.model.policy import CommitWhen, Proofs, Tier
from icepact.model.progress import Progress, UnitDone
from icepact.model.rewrite import Written
from icepact.model.run import Attempt, Checkpoint, Claim, CommittedBatch, groups_of
from icepact.model.saved import DroppedGroup
from icepact.model.schema import every_field
from icepact.model.status import Status
from icepact.record.store import RecordStore
from icepact.record.watch import Watch
from icepact.telemetry import trace

ROUNDS = 3
"""In all: a group is planned again twice at most because the table moved on under it."""
RECALLED_FOR = timedelta(hours=12)
"""After a unit was finished: no removal of orphans takes files that are so young. Older ones are written again."""
COMMITTED_AFTER = 6 * 3600.0
"""Seconds after which a group does not wait for others any more: removals of orphans take files that are days old."""
_AGAIN = (
    Answer.SUPERSEDED,
    Answer.OVERTAKEN,
    Answer.REPLAN,
    Answer.NOT_CARRIED,
    Answer.ONLY_NEW_EQUALITY_DELETES,
    Answer.NEW_POSITION_DELETES,
    Answer.NEW_DELETES_OF_BOTH_KINDS,
    Answer.DELETES_TO_RESOLVE,
    Answer.VANISHED,
)
_NOT_FOR_ITS_DELETES = (Answer.SUPERSEDED, Answer.OVERTAKEN, Answer.VANISHED)
"""Answers after which deletes that reached inputs meanwhile may still be taken along."""
_log = logging.getLogger("icepact")


class Recalled(NamedTuple):
    """A unit that an earlier process has finished, and what it has read."""

    result: UnitResult
    read: ReadInputs


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
    dropped: Sequence[DroppedGroup] = ()
    """Groups that were taken out of the plan before the run began."""
    catalog: str = ""
    """Its name in the record store."""
    first: bool = False
    """True if its process had made no run before."""
    landed: list[CommittedBatch] = field(default_factory=list)
    rebased: dict[str, RewriteFiles] = field(default_factory=dict)
    """Groups as they were planned again, by id: some have lost inputs to others."""
    stale: set[str] = field(default_factory=set)
    """Outputs of units that had to be done again."""
    carried: set[str] = field(default_factory=set)
    """Files of deletes that were taken along, or should have been."""
    delete_files: dict[str, frozenset[str]] = field(default_factory=dict)
    """By group: files of deletes that are in the table with it."""
    moved: dict[DeleteKey, DeleteKey] = field(default_factory=dict)
    """Deletes that commits of this run have put under another key."""
    clean: bool = True
    """False if files may have been written that are not known by name."""
    waits: list[Waited] = field(default_factory=list)
    """For quiet moments."""
    attempt: Attempt | None = None
    """The commit that is under way, or whose end nobody saw."""
    taken_back: set[str] = field(default_factory=set)
    """Groups whose commit somebody has rolled back since."""
    pending: list[Attempt] = field(default_factory=list)
    """Commits of processes that died, as long as they might still get into the table, or have got there unchecked."""
    error: str | None = None
    blamed: bool = False
    """True if the error speaks against the table: it is not just that somebody wanted the run to end."""
    status: Status | None = None
    """How it ended, if that does not follow from its groups."""
    chores_done: list[ChoreResult] = field(default_factory=list)
    chore_costs: list[StepCost] = field(default_factory=list)
    """What steps of housekeeping took, those that failed included."""
    outcome: Outcome | None = None
    """Once it has ended."""

    def accept(self, landed: CommittedBatch) -> None:
        """A commit is in the table: one of those under way, whichever."""
        self.landed.append(landed)
        self.landed.sort(key=lambda commit: commit.sequence_number)
        self.pending = [attempt for attempt in self.pending if attempt.commit_id != landed.commit_id]
        if self.attempt is not None and self.attempt.commit_id == landed.commit_id:
            self.attempt = None

    @property
    def has_unknown_commit(self) -> bool:
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

    def forget(self, unit_ids: Collection[str]) -> None:
        """What was written for these units is of no use any more."""
        for unit_id in self.results.keys() & set(unit_ids):
            self.stale |= self.results.pop(unit_id).paths

    def step_now(self, step: RewriteFiles) -> RewriteFiles:
        """A step of the plan as it was carried out last."""
        return self.rebased.get(step.group_id, step)

    @property
    def waited(self) -> float:
        """Seconds that it waited for quiet moments."""
        return sum(wait.seconds for wait in self.waits)

    @property
    def committed(self) -> frozenset[str]:
        """Groups that are in the table."""
        return groups_of(self.landed) - self.taken_back

    @property
    def outputs(self) -> frozenset[str]:
        """Files that are in the table, or were: somebody may still read a snapshot that was rolled back."""
        done = groups_of(self.landed)
        data = {f.path for group, written in self.written.items() if group in done for f in written.files}
        return frozenset(data.union(*(files for group, files in self.delete_files.items() if group in done)))


class Work:
    """Carries a run out on its table: goes by the events of `execute`, and is the journal of `commit`."""

    def __init__(self, table: IcebergTable, run: Run, store: RecordStore, watch: Watch, progress: Progress) -> None:
        self._table = table
        self._run = run
        self._store = store
        self._watch = watch
        self._progress = progress
        self._schema = json.loads(table.schema)
        self._budget = RunBudget(run.plan)
        self._groups = len(run.plan.rewrites)
        self._round = self._batches = 0
        self._odd: dict[str, Any] = {}
        self._ready: list[ProvenGroup] = []
        self._finished: dict[str, datetime] = {}
        """When units were finished."""
        self._ready_since = 0.0
        """Monotonic seconds when the first of them was proven."""
        self._plan: Plan
        self._reads: Mapping[str, str] = {}
        self._steps: Mapping[str, RewriteFiles] = {}
        self._staging: Staging
        self._columns: frozenset[int] | None = None
        """Field ids that the outputs of all rounds hold."""
        self._interpretations: set[str] = set()
        """How inputs of this round, or of earlier ones that are kept, may have been read."""
        self._read_before: dict[str, ReadInputs] = {}
        """Finished units that were read before the pin of this round, with other deletes."""
        self._here = trace.here()
        """Commits are not parts of the execution that goes on meanwhile."""

    def carry_out(self, plan: Plan, recall: Callable[[Staging], Mapping[str, Recalled]] | None = None) -> None:
        """Execute, prove and commit; groups that the table moved on under are planned again at the new head."""
        for number in range(ROUNDS):
            self._round = number
            plan = self._with_a_pin(plan)
            if not plan.rewrites:
                return
            assert plan.snapshot_id is not None  # a table without a snapshot has no files to plan
            self._plan, self._reads = plan, how_it_is_read(plan, self._table)
            self._steps = {step.group_id: step for step in plan.rewrites}
            self._staging = retry_reads(Staging)(
                self._table,
                snapshot_id=plan.snapshot_id,
                run_id=self._run.run_id,
                unit_of=unit_of_path(plan),
                properties=plan.policy.write_properties,
                round_name=f"-{self._run.claim.epoch}{number}",
                odd=self._odd,
            )
            self._progress.step("staged")
            self._note_schema()
            if recall is not None and number == 0:
                for unit_id, (result, read) in recall(self._staging).items():
                    self._run.results[unit_id] = result
                    self._read_before[unit_id] = read
                    self._finished[unit_id] = datetime.now(UTC)
            with trace.span("execution", groups=len(plan.rewrites), files=sum(s.input_files for s in plan.rewrites)):
                self._execute(plan)
            self._progress.step("executed")
            if self._ready:
                self._commit()
            again = {g for g, verdict in self._run.given_up.items() if verdict.answer in _AGAIN} - self._run.taken_back
            if not again or number + 1 == ROUNDS:
                return
            view = self._table.view(
                plan.branch, [f.path for s in plan.rewrites if s.group_id in again for f in s.files]
            )
            why = {g: self._run.given_up[g] for g in again}
            refused = {g for g, verdict in why.items() if verdict.answer is Answer.NOT_CARRIED}
            planned = rebase(plan, again, view, applied=refused, read=self._read_before)
            lost = self._units_of({path for v in why.values() for path in v.missing | v.useless})
            if self._interpretations != {view.interpretation}:  # what was read may mean something else now
                lost |= {unit_id for step in planned.plan.rewrites for unit_id in unit_ids(step)}
                self._interpretations.clear()
            of_use = {g for g, v in why.items() if v.useless or v.answer in _NOT_FOR_ITS_DELETES}
            self.adopt(planned, groups=of_use, lost=lost)
            if not planned.plan.rewrites:
                return
            for step in planned.plan.rewrites:
                del self._run.given_up[step.group_id]
            plan = planned.plan

    def _with_a_pin(self, plan: Plan) -> Plan:
        """The same plan at the head, if the snapshot that it stands on has expired."""
        self._table.refresh()
        if self._table.has_snapshot(plan.snapshot_id):
            return plan
        view = self._table.view(plan.branch, [f.path for step in plan.rewrites for f in step.files])
        groups = {step.group_id for step in plan.rewrites}
        planned = rebase(plan, groups, view, read=self._read_before)
        self.adopt(planned, groups=groups)
        return planned.plan

    def adopt(self, planned: Rebased, *, groups: Collection[str], lost: Collection[str] = ()) -> None:
        """Go on with groups as they are at a newer head. Finished units that are of use there are kept, but for those
        that are `lost`; those with other deletes only of `groups`."""
        self._run.given_up |= planned.given_up
        steps = {step.group_id: step for step in planned.plan.rewrites}
        self._run.rebased |= steps
        useless = {*planned.changed, *planned.fallen, *lost}
        for unit_id, read in planned.overtaken.items():
            result, group_id = self._run.results.get(unit_id), group_of(unit_id)
            if result is None or group_id not in groups or not may_be_kept(planned.plan, steps[group_id], result):
                useless.add(unit_id)
            else:
                self._read_before[unit_id] = read
        self._run.forget(useless)
        for unit_id in useless & self._read_before.keys():
            del self._read_before[unit_id]
        if planned.fallen:  # nobody may take what was written for them for files of their groups
            self._record(dict.fromkeys(planned.fallen))

    def _note_schema(self) -> None:
        """Remember which columns and which interpretation hold from here on: those of the table as it is loaded now."""
        held = frozenset(every_field(json.loads(self._table.schema)))
        self._columns = held if self._columns is None else self._columns & held
        self._interpretations.add(self._table.interpretation)

    def _units_of(self, paths: Collection[str]) -> set[str]:
        """Finished units that wrote one of these files."""
        return {unit_id for unit_id, result in self._run.results.items() if not result.paths.isdisjoint(paths)}

    def _really_failed(self, plan: Plan, failed: Mapping[str, str]) -> dict[str, str]:
        """Groups that failed by themselves: those of which somebody else replaced files, and expired them, are
        superseded."""
        if not failed:
            return {}
        steps = [step for step in plan.rewrites if step.group_id in failed]
        view = self._table.view(plan.branch, [f.path for step in steps for f in step.files])
        gone = lost_inputs(steps, {file.path for file in view.files})
        self._run.given_up |= gone
        return {group: reason for group, reason in failed.items() if group not in gone}

    def _execute(self, plan: Plan) -> None:
        """Checkpoint what is written, prove what is whole, commit what is proven."""
        failed: dict[str, str] = {}
        with closing(execute(plan, self._staging, done=self._run.results, why_not=self._why_not)) as events:
            for event in events:
                match event:
                    case Waiting():
                        self._watch.check()
                    case UnitsDone(units=units):
                        self._checkpoint(units)
                    case UnitFailed(unit_id=unit_id, reason=reason):
                        failed.setdefault(group_of(unit_id), reason)
                        self._advance(unit_id)
                    case GroupDone(written=written):
                        if self._prove(written) and self._is_enough():
                            self._commit()
                    case Executed(clean=clean):
                        self._run.clean = self._run.clean and clean
                    case _:
                        assert_never(event)
        self._run.failed |= self._really_failed(plan, failed)

    def _why_not(self, step: RewriteFiles) -> str | None:
        """Why a group must not be begun: time or money is spent."""
        reason = self._budget.admit(step, time.monotonic() - self._run.clock)
        if reason is not None:
            self._run.not_begun[step.group_id] = reason
        return reason

    def _advance(self, unit_id: str) -> None:
        step = self._steps[group_of(unit_id)]
        unit = unit_of(step, unit_id)
        self._progress.advance(UnitDone(partition=step.partition, files=len(unit.files), bytes=unit.bytes))

    def _checkpoint(self, units: Mapping[str, UnitResult]) -> None:
        """Remember finished units, so that nobody has to do them again."""
        self._progress.step("written")
        for unit_id, result in units.items():
            step = self._steps[group_of(unit_id)]
            self._budget.finished(step.group_id, unit_id, unit_of(step, unit_id), result.effort.seconds)
            self._finished[unit_id] = datetime.now(UTC)
        self._run.results |= units
        self._record(units)
        self._progress.step("checkpointed")
        for unit_id in units:
            self._advance(unit_id)

    def _record(self, units: Mapping[str, UnitResult | None]) -> None:
        """Write down what is finished; `None` for what is not needed any more."""
        try:
            at = self._store.now().isoformat()
            documents = {
                unit_id: NOTHING_WRITTEN if result is None else self._document(unit_id, result, at)
                for unit_id, result in units.items()
            }
            checkpoints = [Checkpoint(unit_id=name, document=document) for name, document in documents.items()]
            self._store.checkpoint(self._run.claim, checkpoints)
        except RunLost:
            raise
        except IcepactError as error:  # worth a warning, not the work
            _log.warning("units of run %s could not be recorded: %s", self._run.run_id, error)

    def _document(self, unit_id: str, result: UnitResult, at: str) -> dict[str, Any]:
        how, inputs = self._reads[unit_id], self._read(unit_id).to_text()
        return {**to_document(result), "read": how, "inputs": inputs, "at": at}

    def _read(self, unit_id: str) -> ReadInputs:
        """What a unit of this round has read."""
        unit = unit_of(self._steps[group_of(unit_id)], unit_id)
        return self._read_before.get(unit_id) or ReadInputs(unit.files, self._plan.deletes)

    def _prove(self, written: Written) -> bool:
        """Prove a group; false if it is given up."""
        step = self._steps[written.group_id]
        self._run.written[step.group_id] = written
        try:
            self._ready.append(self._proven(step, written))
        except (ProofFailed, *JavaError) as error:
            reason = f"proof failed: {error_line(error)}"
            self._run.given_up[step.group_id] = Verdict(answer=Answer.REFUSED, reason=reason)
            return False
        self._progress.step("proven")
        if len(self._ready) == 1:
            self._ready_since = time.monotonic()
        return True

    def _is_enough(self) -> bool:
        """Whether what is proven is to be committed now: a share of the groups, or it has waited for long."""
        enough = len(self._ready) >= math.ceil(self._groups / self._plan.policy.max_commits)
        return enough or time.monotonic() - self._ready_since > COMMITTED_AFTER

    def _proven(self, step: RewriteFiles, written: Written) -> ProvenGroup:
        rows_in, rows_out = sum(f.rows for f in step.files), sum(f.rows for f in written.files)
        read = ReadInputs.together(map(self._read, unit_ids(step)))
        compared, row_sum = 0, None
        if self._plan.policy.verify is not Proofs.OFF:
            compared = prove(written, read.files, read.deletes, self._schema)
        results = [self._run.results[unit_id] for unit_id in unit_ids(step)]
        documents = [d for result in results for d in result.documents]
        deletes = [d for result in results for d in result.deletes]
        if self._plan.policy.verify is Proofs.FULL:
            row_sum = compare_rows(
                self._table, f"group {step.group_id}", self._staging.tasks(unit_ids(step)), documents, deletes
            )
        return ProvenGroup(
            group_id=step.group_id,
            inputs=with_moved(read.at_pin, self._run.moved),
            outputs=documents,
            deletes=deletes,
            regroup=step.regroup,
            rows_in=rows_in,
            rows_out=rows_out,
            columns_compared=compared,
            row_sum=row_sum,
        )

    # -- committing -------------------------------------------------------------------------------

    def wait(self) -> None:
        """Wait for a moment at which a commit disturbs others least, as long as the policy and the run's time allow."""
        run = self._run
        if run.plan.policy.commit_when is not CommitWhen.QUIET or self._round:
            return  # the others have just been here: whoever waits for them again is overtaken again
        self._progress.step("waiting")
        longest = longest_wait(run.plan.policy, waited=run.waited, elapsed=time.monotonic() - run.clock)
        run.waits.append(wait_for_others(self._table, run.plan.branch, longest=longest, check=self._watch.check))

    def _commit(self) -> None:
        self.wait()
        groups, self._ready = self._young(self._ready), []
        if not groups:
            return
        self._batches += 1
        carrier = LateDeletes(
            self._staging, self._plan, self._run.results, self._run.carried.add, find_by_key=self._rows_by_key
        )
        files = sum(len(group.inputs) for group in groups)
        with trace.span("commit", within=self._here, batch=self._batches, groups=len(groups), files=files):
            committed = commit(self._table, self._staging, self._batch(), groups, self, carrier)
        self._run.given_up |= committed.given_up
        self._run.delete_files |= committed.delete_files
        self._run.moved = moved_on(self._run.moved, committed.moved)
        for group in committed.groups & self._run.given_up.keys():  # it had landed already
            del self._run.given_up[group]

    def _rows_by_key(self, files: Sequence[InputFile]) -> Mapping[str, NDArray[np.int64]]:
        """Rows of inputs that equality deletes delete."""
        name = f"{self._run.run_id}/keys-{self._run.claim.epoch}"
        converter = DeleteConverter(self._table, self._plan.policy, name, self._watch.check)
        try:
            return converter.rows_by_key(files, self._plan.format_version)
        finally:
            converter.close()
            self._run.clean = self._run.clean and converter.clean

    def _young(self, groups: Sequence[ProvenGroup]) -> list[ProvenGroup]:
        """Groups whose files nobody can take for orphans yet; a process may have stood still for days. The others are
        written again."""
        oldest = datetime.now(UTC) - RECALLED_FOR
        young = []
        for group in groups:
            units = unit_ids(self._steps[group.group_id])
            if all(self._finished.get(unit_id, oldest) > oldest for unit_id in units):
                young.append(group)
            else:
                paths = frozenset(str(document["file-path"]) for document in group.outputs)
                verdict = Verdict(answer=Answer.VANISHED, reason="its new files are old by now", missing=paths)
                self._run.given_up[group.group_id] = verdict
        return young

    def _batch(self) -> CommitBatch:
        plan, run = self._plan, self._run
        assert plan.snapshot_id is not None
        self._note_schema()  # an earlier commit of this round may have loaded the table anew
        self._note_taken_back()
        tiers = {step.tier for step in plan.rewrites}
        whole = run.plan.complete and not run.failed and not run.given_up and not run.not_begun
        whole = whole and not any(landed.late_deletes for landed in run.landed)
        return CommitBatch(
            run_id=run.run_id,
            number=f"{run.claim.epoch}.{self._batches}",
            branch=plan.branch,
            pinned_snapshot=plan.snapshot_id,
            pinned_sequence=plan.sequence_number,
            pinned_version=plan.format_version,
            columns=self._columns or frozenset(),
            interpretation=next(iter(self._interpretations)) if len(self._interpretations) == 1 else None,
            last=frozenset(step.group_id for step in run.plan.rewrites) - run.committed if whole else frozenset(),
            earlier=[landed.sequence_number for landed in run.landed],
            may_be_rolled_back=plan.policy.may_be_rolled_back,
            facts={
                "run-id": run.run_id,
                "strategy": str(plan.policy.strategy),
                "layout": plan.policy.fingerprint,
                "pinned-snapshot-id": str(plan.snapshot_id),
                "pinned-sequence-number": str(run.plan.sequence_number),
                "proof": plan.policy.verify.value,
                **({"tier": min(tiers, key=list(Tier).index).value} if tiers else {}),
                **({"planned-at": run.plan.planned_at.isoformat()} if run.plan.planned_at else {}),
                **({"waited-seconds": f"{run.waited:.1f}"} if run.waited else {}),
            },
        )

    def _note_taken_back(self) -> None:
        """Earlier commits of the run that somebody has rolled back: the run is not complete, and must not say so."""
        run, table = self._run, self._table
        if not run.landed:
            return
        table.refresh()
        ancestry = table.ancestry(run.plan.branch) if table.has_branch(run.plan.branch) else []
        for landed in run.landed:
            if rolled_back(table, landed, ancestry):
                verdict = Verdict(answer=Answer.SUPERSEDED, reason=f"snapshot {landed.snapshot_id} was rolled back")
                run.taken_back |= {*landed.groups}
                run.given_up |= dict.fromkeys(landed.groups, verdict)

    # -- what commit tells ------------------------------------------------------------------------

    def now(self) -> datetime:
        """The time by the clock of the record store, which whoever cleans up goes by, too."""
        return self._store.now()

    def judged(self) -> None:
        """Groups were compared with the head: a step of the progress."""
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
        self._note_state()

    def unanswered(self) -> None:
        """The attempt may have landed, or still land."""
        assert self._run.attempt is not None
        self._run.pending.append(replace(self._run.attempt, ended=True))
        self._run.attempt = None
        self._note_state()

    def landed(self, landed: CommittedBatch) -> None:
        """The attempt is in the table, whether or not that can be recorded."""
        self._run.accept(landed)
        self._progress.step("landed")
        self._note_state()
        self._progress.step("committed")

    def broken(self, why: str) -> None:
        """Stop the table: nobody touches it until a person has looked."""
        stop_the_table(self._table, self._store, why)

    def _note_state(self) -> None:
        run = self._run
        try:
            self._store.move(run.claim, Status.RUNNING, attempts=run.pending, landed=run.landed)
        except IcepactError as error:
            _log.warning("the state of run %s could not be recorded: %s", run.run_id, error)


def may_be_kept(plan: Plan, step: RewriteFiles, result: UnitResult) -> bool:
    """Whether a unit to whose inputs other deletes apply than when it read them can be of use: if it is known where its
    rows are, and nobody wants its rows compared with those of the pin."""
    return result.row_map is not None and not step.regroup and plan.policy.verify is not Proofs.FULL
