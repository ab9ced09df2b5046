"""The commit protocol: judge at the head, replace in one snapshot, check, or give up a group.

One commit stands on one pin. Groups that are clean at the head are committed together and strictly. Groups to
which only equality deletes were added meanwhile are late: their outputs keep the pin's sequence number, so that
the news apply to them too. Other new deletes are written anew as deletes of the outputs. Any other group is given up
with its reason, and the others go on.
"""

import logging
import random
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from icepact.commit.batches import (
    Carrier,
    CommitBatch,
    Committed,
    Journal,
    ProvenGroup,
)
from icepact.commit.dangling import candidates, dangling, needs_content
from icepact.commit.judge import Answer, DeleteKey, ReadPoint, Verdict, judge, moved_on, with_moved
from icepact.commit.post_commit import check_after, delete_digest
from icepact.commit.reconcile import commit_window
from icepact.commit.taking_along import TakenAlong, take_along
from icepact.iceberg.commit.orphan_metadata import orphan_metadata
from icepact.iceberg.commit.replace import (
    CARRIED_DELETES,
    COMMIT_ID,
    LATE_DELETES,
    MAY_BE_ROLLED_BACK,
    HistoryCut,
    UnusedFiles,
    find_commit,
    manifest_prefix_of,
    manifests_of,
    replace_files,
    was_taken_back,
)
from icepact.iceberg.commit.run_files import delete_files, unknown_files, vanished
from icepact.iceberg.java.bridge import error_line
from icepact.iceberg.table.staging import FileDocument, Staging
from icepact.iceberg.table.table import FACT_PREFIX, HeadView, IcebergTable
from icepact.model.errors import CommitRefused, CommitUnknown, HeadMoved, IcepactError, StorageFull
from icepact.model.files import DataFile, DeleteFile, DeleteKind
from icepact.model.run import Attempt, CommittedBatch, groups_of
from icepact.record.process import this_process

ATTEMPTS = 5
UNANSWERED = 2
"""Attempts without an answer after which another one may be made."""
FIRST_WAIT = 0.1
"""Seconds before the second attempt; doubles from there."""
_log = logging.getLogger("icepact")


class _TakenBack(CommitUnknown):
    """The commit landed, and somebody took it back."""


@dataclass(slots=True)
class _Attempt:
    """One judgement at one head, and the commit that is attempted because of it."""

    view: HeadView
    groups: list[ProvenGroup] = field(default_factory=list)
    """Those that are tried now."""
    late: bool = False
    """True if they keep the pin's sequence number."""
    waiting: list[ProvenGroup] = field(default_factory=list)
    """Those whose turn comes with the next commit."""
    given_up: dict[str, Verdict] = field(default_factory=dict)
    commit_id: str = ""
    dangling: list[DeleteFile] = field(default_factory=list)
    """Deletes that are taken out by name."""
    removed: set[tuple[str, int | None]] = field(default_factory=set)
    """All deletes that go with the commit."""
    carry: set[str] = field(default_factory=set)
    """Groups whose inputs have new deletes that will not reach the outputs."""
    resolve: set[str] = field(default_factory=set)
    """Those of them that have equality deletes among these."""
    along: TakenAlong = field(default_factory=TakenAlong)
    """New deletes of their outputs."""
    outputs: Any = None
    """Java's own data files."""
    added_deletes: Any = None
    """Java's own delete files."""
    rewrite: Any = None
    """Java's own commit, not yet made."""
    unused: UnusedFiles | None = None
    """What Iceberg would have deleted at its end."""
    manifest_prefix: str = ""
    """Folder and common word of the manifests that it writes."""
    recorded: Attempt | None = None
    """As the store has it."""

    @property
    def inputs(self) -> frozenset[str]:
        """Paths of everything that is replaced."""
        return frozenset(path for g in self.groups for path in g.paths)

    @property
    def documents(self) -> list[FileDocument]:
        """All outputs."""
        return [document for g in self.groups for document in g.outputs]


def commit(
    table: IcebergTable,
    staging: Staging,
    batch: CommitBatch,
    groups: Sequence[ProvenGroup],
    journal: Journal,
    carrier: Carrier,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Committed:
    """Commit all groups that may be at the head: the late ones in one snapshot or two, the clean ones in another.

    Raises CommitUnknown if the state of the commit cannot be told: then nothing may be deleted.
    """
    return _Committing(table, staging, batch, list(groups), journal, carrier, sleep).carry_out()


@dataclass(slots=True)
class _Committing:
    """One batch on its way into the table."""

    table: IcebergTable
    staging: Staging
    batch: CommitBatch
    remaining: list[ProvenGroup]
    journal: Journal
    carrier: Carrier
    sleep: Callable[[float], None]
    landed: list[CommittedBatch] = field(default_factory=list)
    given_up: dict[str, Verdict] = field(default_factory=dict)
    ended: list[_Attempt] = field(default_factory=list)
    """Not in the table as far as anybody knows."""
    number: int = 0
    tries: int = 0
    unanswered: int = 0
    why: str = ""
    """The last attempt came to nothing."""
    delete_files: dict[str, frozenset[str]] = field(default_factory=dict)
    """By group: files of deletes that are in the table with it."""
    moved: dict[DeleteKey, DeleteKey] = field(default_factory=dict)
    """Deletes that are in the table under another key now."""

    def carry_out(self) -> Committed:
        """Try until every group is in the table or given up."""
        while self.tries < ATTEMPTS:
            self._look_for_ended()
            try:
                attempt = self._next() if self.remaining else None
            except CommitRefused as error:
                if not self.unanswered:
                    raise
                raise CommitUnknown(f"{self.why}; {error}") from error  # of the one before
            if attempt is None:
                break
            self._make(attempt)
        self._look_for_ended()
        if self.unanswered and self.remaining:
            raise CommitUnknown(self.why)
        reason = f"not committed in {ATTEMPTS} attempts, the last time because {self.why}"
        self.given_up |= {g.group_id: Verdict(answer=Answer.OVERTAKEN, reason=reason) for g in self.remaining}
        return Committed(landed=self.landed, given_up=self.given_up, delete_files=self.delete_files, moved=self.moved)

    def _look_for_ended(self) -> None:
        """Commits may turn out to be in the table although nobody said so, or somebody said that they were not."""
        for attempt in list(self.ended):
            try:
                snapshot_id = _landed_snapshot(self.table, self.batch, attempt)
            except _TakenBack as error:
                self._write_again(attempt, str(error))
                continue
            except CommitUnknown:
                continue
            if snapshot_id is not None:
                self._accept(attempt, snapshot_id)

    def _write_again(self, attempt: _Attempt, why: str) -> None:
        """Files of a snapshot that was taken back are not committed once more: its expiry may delete them."""
        self.ended.remove(attempt)
        for group in attempt.groups:
            self.given_up[group.group_id] = Verdict(answer=Answer.VANISHED, reason=why, missing=group.written)
        self._without(attempt)

    def _without(self, attempt: _Attempt) -> None:
        done = {group.group_id for group in attempt.groups}
        self.remaining = [group for group in self.remaining if group.group_id not in done]

    def _next(self) -> _Attempt | None:
        """What can be committed at the head as it is now; `None` if that is nothing."""
        while self.remaining:
            attempt = _judge(self.table, self.batch, self.remaining)
            self.journal.judged()
            self.given_up |= attempt.given_up
            self.remaining = [*attempt.groups, *attempt.waiting]
            if not attempt.groups:
                return None
            _prepare(self.table, self.staging, self.batch, attempt)
            fallen = self._take_along(attempt) or _vanished(self.table, self.batch, attempt)
            if not fallen:
                return attempt
            self.given_up |= fallen
            self.remaining = [g for g in self.remaining if g.group_id not in fallen]
        return None

    def _take_along(self, attempt: _Attempt) -> dict[str, Verdict]:
        """Make ready the deletes of the outputs. Returns groups for which that cannot be done."""
        attempt.along, fallen = take_along(
            self.carrier,
            attempt.view,
            attempt.groups,
            changed=attempt.carry,
            resolved=attempt.resolve,
            removed=attempt.removed,
        )
        if fallen:
            return fallen
        try:
            attempt.added_deletes = self.staging.java_deletes(attempt.along.all)
        except Exception as error:
            reason = f"Iceberg does not take the deletes of its outputs: {error_line(error)}"
            verdict = Verdict(answer=Answer.NOT_CARRIED, reason=reason)
            return {group.group_id: verdict for group in attempt.groups if attempt.along.documents[group.group_id]}
        return {}

    def _make(self, attempt: _Attempt) -> None:
        self.number, self.tries = self.number + 1, self.tries + 1
        attempt.commit_id = f"{self.batch.run_id}/{self.batch.number}/{self.number}"
        attempt.recorded = _recorded(self.table, attempt, self.journal.now())
        self.journal.attempting(attempt.recorded)
        self.ended.append(attempt)
        try:
            snapshot_id = _try(self.table, _after(self.batch, self.landed), attempt, self.journal.now, self.sleep)
        except HeadMoved as error:
            _tidy(self.table, attempt, None)  # as long as it is on record: whoever dies here is tidied up after
            self.journal.refused()
            self.why = str(error)
            self.sleep(FIRST_WAIT * 2 ** (self.tries - 1) * random.uniform(0.5, 1.5))
        except CommitUnknown as error:
            # of two commits that replace the same files one lands at most, so that trying again is safe
            if self.unanswered == UNANSWERED:
                raise
            self.journal.unanswered()
            self.unanswered += 1
            self.why = str(error)
        except StorageFull:
            _tidy(self.table, attempt, None)
            # what was written before storage was full: Iceberg does not even name it
            delete_leftovers(self.table, attempt.recorded, lost=[attempt.commit_id])
            self.journal.refused()
            raise
        except CommitRefused:
            self.journal.unanswered()  # an earlier request of it, which a gateway repeated, may still be on its way
            raise
        else:
            self._accept(attempt, snapshot_id)
            self.tries = 0

    def _accept(self, attempt: _Attempt, snapshot_id: int) -> None:
        """A commit that is in the table, once it is checked."""
        assert attempt.recorded is not None
        table = self.table
        self.ended.remove(attempt)
        check_after(
            table,
            self.batch.branch,
            attempt.recorded,
            snapshot_id,
            missing=lambda: vanished(table, self.batch.run_id, [*attempt.documents, *attempt.along.files]),
            stop=self.journal.broken,
        )
        landed = CommittedBatch(
            commit_id=attempt.commit_id,
            snapshot_id=snapshot_id,
            parent_id=table.parent_of(snapshot_id),
            sequence_number=table.sequence_number_of(snapshot_id),
            groups=[g.group_id for g in attempt.groups],
            delete_files_removed=len(attempt.removed),
            deletes_carried=attempt.along.rows,
            late_deletes=attempt.along.late,
        )
        _tidy(table, attempt, snapshot_id)
        self.journal.landed(landed)
        self.landed.append(landed)
        self._without(attempt)
        self.delete_files |= {g.group_id: attempt.along.files_of(g.group_id) for g in attempt.groups}
        if attempt.along.moved is not None:
            keys = attempt.along.moved.keys
            self.moved = moved_on(self.moved, keys)
            self.remaining = [replace(g, inputs=with_moved(g.inputs, keys)) for g in self.remaining]


def _after(batch: CommitBatch, landed: Sequence[CommittedBatch]) -> CommitBatch:
    """The same batch once some of it is in the table."""
    numbers = [commit.sequence_number for commit in landed]
    whole = not any(commit.late_deletes for commit in landed)
    last = batch.last - groups_of(landed) if whole else frozenset[str]()
    return replace(batch, last=last, earlier=[*batch.earlier, *numbers])


def _tidy(table: IcebergTable, attempt: _Attempt, landed: int | None) -> None:
    """Delete manifests that were written for nothing; all of them if the attempt did not land. No harm if it fails."""
    try:
        unused = attempt.unused.paths() if attempt.unused else []
        if unused:
            needed = frozenset[str]() if landed is None else manifests_of(table, landed)
            delete_files(table, unknown_files(unused, needed))
    except Exception as error:
        _log.warning("manifests of commit %s could not be deleted: %s", attempt.commit_id, error_line(error))


def delete_leftovers(table: IcebergTable, attempt: Attempt, *, lost: Collection[str]) -> None:
    """Delete what an attempt left in the table's metadata; its id is `lost` if it never landed. No harm if it fails."""
    try:
        delete_files(table, list(orphan_metadata(table, [attempt], lost=lost)))
    except Exception as error:
        _log.warning("leftovers of commit %s could not be deleted: %s", attempt.commit_id, error_line(error))


def _judge(table: IcebergTable, batch: CommitBatch, groups: Sequence[ProvenGroup]) -> _Attempt:
    """Judge every group at the head. No attempt is under way, so whatever goes wrong here, nothing landed."""
    try:
        view = table.view(batch.branch, [path for g in groups for path in g.paths])
        pin = ReadPoint(
            sequence_number=batch.pinned_sequence,
            version=batch.pinned_version,
            columns=batch.columns,
            interpretation=batch.interpretation,
            in_history=bool(view.snapshot_id) and table.is_ancestor(batch.pinned_snapshot, of=view.snapshot_id),
        )
    except Exception as error:
        raise CommitRefused(f"the head of {table.name} cannot be read: {error_line(error)}") from error
    attempt = _Attempt(view=view)
    clean: list[ProvenGroup] = []
    late: list[ProvenGroup] = []
    for group, verdict in judge_groups(view, groups, pin):
        match verdict.answer:
            case Answer.CLEAN:
                clean.append(group)
            case Answer.NEW_POSITION_DELETES if not group.regroup:
                attempt.carry.add(group.group_id)
                clean.append(group)
            case Answer.ONLY_NEW_EQUALITY_DELETES if not group.regroup:
                late.append(group)
            case Answer.NEW_DELETES_OF_BOTH_KINDS if not group.regroup:
                attempt.carry.add(group.group_id)
                late.append(group)
            case Answer.DELETES_TO_RESOLVE if not group.regroup:
                attempt.carry.add(group.group_id)
                attempt.resolve.add(group.group_id)
                clean.append(group)
            case _:
                attempt.given_up[group.group_id] = verdict
    if late:  # before the clean ones, whose inputs are old enough to keep late deletes alive
        attempt.late = True
        attempt.groups, rest = _safely_late(view, batch.pinned_sequence, late)
        if attempt.groups:
            attempt.waiting = [*rest, *clean]
            return attempt
        alone = {group.group_id for group in late}  # equality deletes that would be dropped with them are resolved
        attempt.carry |= alone
        attempt.resolve |= alone
        clean += late
    attempt.late = False
    attempt.groups = clean
    return attempt


def judge_groups(view: HeadView, groups: Sequence[ProvenGroup], pin: ReadPoint) -> list[tuple[ProvenGroup, Verdict]]:
    """Every group with the verdict on it at the head."""
    live: dict[str, list[DataFile]] = {}
    for file in view.files:
        live.setdefault(file.path, []).append(file)
    return [
        (
            group,
            judge(
                group.inputs,
                pin,
                head_version=view.format_version,
                head_interpretation=view.interpretation,
                head_files=[file for path in group.paths for file in live.get(path, ())],
                head_deletes=view.deletes,
            ),
        )
        for group in groups
    ]


def _safely_late(
    view: HeadView, pinned: int, late: Sequence[ProvenGroup]
) -> tuple[list[ProvenGroup], list[ProvenGroup]]:
    """Which late groups can be committed now, and which with a further commit.

    Iceberg forgets deletes that are older than every data file it knows of, and does not look at the number that
    new files are given: so a file must remain that is at least as old as the pin. That can be an input of the last
    group, whose turn then comes after the others' outputs are in the table with that very number.
    """
    inputs = {path for group in late for path in group.paths}
    remains = any(f.sequence_number <= pinned for f in view.files if f.path not in inputs)
    if late and not remains:
        elsewhere = view.oldest_elsewhere()
        remains = elsewhere is not None and elsewhere <= pinned
    if remains:
        return list(late), []
    return list(late[:-1]), list(late[-1:])


def _prepare(table: IcebergTable, staging: Staging, batch: CommitBatch, attempt: _Attempt) -> None:
    """Make ready all of a commit that needs table or storage, before it is recorded as an attempt."""
    view, inputs = attempt.view, attempt.inputs
    try:
        keep_after = batch.pinned_sequence if attempt.late else None
        attempt.dangling = _dangling(table, view, inputs, keep_after=keep_after)
        attempt.outputs = staging.java_files(attempt.documents)
        attempt.rewrite = table.new_commit()
        attempt.unused = UnusedFiles(table.java, attempt.rewrite)
        attempt.manifest_prefix = manifest_prefix_of(table, attempt.rewrite)
    except IcepactError:
        raise
    except Exception as error:
        raise CommitRefused(f"the commit on {table.name} cannot be prepared: {error_line(error)}") from error
    attempt.removed = {d.key for d in attempt.dangling} | {d.key for d in view.deletes if d.referenced in inputs}


def _vanished(table: IcebergTable, batch: CommitBatch, attempt: _Attempt) -> dict[str, Verdict]:
    """Groups with outputs that a removal of orphan files took, as no snapshot has them yet; the last look at them."""
    try:
        gone = vanished(table, batch.run_id, [*attempt.documents, *attempt.along.files])
    except Exception as error:
        raise CommitRefused(f"the new files of {table.name} cannot be looked at: {error_line(error)}") from error
    verdicts = {}
    for group in attempt.groups:
        missing = gone & (group.written | group.delete_files)
        if missing:
            reason = f"{len(missing)} of its new files are not on storage any more, first {min(missing)}"
            verdicts[group.group_id] = Verdict(answer=Answer.VANISHED, reason=reason, missing=missing)
    if gone and not verdicts:
        reason = f"{len(gone)} of the deletes that were taken along are not on storage any more, first {min(gone)}"
        verdict = Verdict(answer=Answer.VANISHED, reason=reason)
        verdicts = {g.group_id: verdict for g in attempt.groups if attempt.along.documents[g.group_id]}
    return verdicts


def _recorded(table: IcebergTable, attempt: _Attempt, now: datetime) -> Attempt:
    """The attempt as the store records it, with all that is needed to check it later."""
    stay = [d for d in attempt.view.deletes if d.key not in attempt.removed]
    added = [(str(document["file-path"]), document.get("content-offset")) for document in attempt.along.all]
    renamed = attempt.along.moved.keys if attempt.along.moved else {}
    since = _needed_since(attempt) if stay else 0
    return Attempt(
        commit_id=attempt.commit_id,
        head=attempt.view.snapshot_id,
        head_sequence=attempt.view.sequence_number,
        groups=[g.group_id for g in attempt.groups],
        started_at=now,
        until=now + commit_window(table.properties),
        maker=this_process(),
        mark=attempt.manifest_prefix,
        deletes_since=since,
        deletes=delete_digest([renamed.get(d.key, d.key) for d in stay if d.sequence_number >= since] + added),
        added_rows=sum(g.rows_out - g.rows_in for g in attempt.groups),
    )


def _needed_since(attempt: _Attempt) -> int:
    """From which sequence number on a commit must not lose a delete: what is older than every data file that stays
    applies to nothing, and Iceberg may drop it."""
    view = attempt.view
    oldest = view.oldest_without(attempt.inputs)
    return view.sequence_number + 1 if oldest is None else oldest


def _try(
    table: IcebergTable,
    batch: CommitBatch,
    attempt: _Attempt,
    now: Callable[[], datetime],
    sleep: Callable[[float], None],
) -> int:
    """One attempt; returns the new snapshot. HeadMoved and CommitRefused mean that it is not in the table."""
    try:
        return _replace(table, batch, attempt, now)
    except (HeadMoved, CommitRefused, StorageFull):
        # a catalog that lost its own answer may report a conflict with itself, or a token that has expired since: look
        snapshot_id = _landed_snapshot(table, batch, attempt)
        if snapshot_id is None:
            raise
        return snapshot_id
    except CommitUnknown:
        snapshot_id = _look_again(table, batch, attempt, sleep)
        if snapshot_id is None:
            raise
        return snapshot_id


def _landed_snapshot(table: IcebergTable, batch: CommitBatch, attempt: _Attempt) -> int | None:
    """The snapshot that an attempt has become; `None` if it is not in the table, CommitUnknown if nobody can tell."""
    try:
        snapshot_id = find_commit(table, batch.branch, attempt.commit_id, since=attempt.view.snapshot_id)
        back = snapshot_id is None and was_taken_back(table, attempt.commit_id, since=attempt.view.snapshot_id)
    except HistoryCut as error:
        raise CommitUnknown(f"it may have landed and expired: {error}") from error
    except Exception as error:
        raise CommitUnknown(f"the table cannot be read: {error_line(error)}") from error
    if back:
        raise _TakenBack("it landed, and somebody rolled it back at once")
    return snapshot_id


def _replace(table: IcebergTable, batch: CommitBatch, attempt: _Attempt, now: Callable[[], datetime]) -> int:
    assert attempt.recorded is not None
    groups, until = attempt.groups, attempt.recorded.until
    sums = [g.row_sum for g in groups]
    facts = {
        **batch.facts,
        "proof-rows": str(sum(g.rows_out for g in groups)),
        "proof-columns": str(sum(g.columns_compared for g in groups)),
        "complete": str(_completes(batch, attempt)).lower(),
    }
    if attempt.along.rows:
        facts[CARRIED_DELETES] = str(attempt.along.rows)
    if attempt.along.late:
        facts[LATE_DELETES] = str(attempt.along.late)
    if batch.earlier:
        facts["earlier-sequence-numbers"] = ",".join(map(str, batch.earlier))
    if None not in sums:
        facts["proof-row-sum"] = str(sum(s for s in sums if s is not None))
    return replace_files(
        table,
        attempt.view,
        attempt.rewrite,
        branch=batch.branch,
        inputs=sorted(attempt.inputs),
        outputs=attempt.outputs,
        added_deletes=attempt.added_deletes,
        written=frozenset().union(*(g.written for g in groups)),
        dangling=[d.path for d in attempt.dangling],
        moved=attempt.along.moved.paths if attempt.along.moved else None,
        sequence=batch.pinned_sequence if attempt.late else None,
        facts={
            COMMIT_ID: attempt.commit_id,
            **{FACT_PREFIX + k: v for k, v in facts.items()},
            **(MAY_BE_ROLLED_BACK if batch.may_be_rolled_back else {}),
        },
        in_time=lambda: until is None or now() <= until,
    )


def _completes(batch: CommitBatch, attempt: _Attempt) -> bool:
    """Whether nothing of the run is left to do with this commit. Deletes that came late are: no plan has judged
    them."""
    return bool(batch.last) and batch.last <= {g.group_id for g in attempt.groups} and not attempt.along.late


def _dangling(
    table: IcebergTable, view: HeadView, inputs: frozenset[str], *, keep_after: int | None
) -> list[DeleteFile]:
    """Delete files that no live row needs after the commit; equality deletes after `keep_after` apply to the outputs,
    too."""
    specs = table.specs
    some = [
        d
        for d in candidates(inputs, view.files, view.deletes, specs)
        if keep_after is None or d.kind is not DeleteKind.EQUALITY or d.sequence_number <= keep_after
    ]
    unread = needs_content(inputs, view.files, some)
    return dangling(
        inputs,
        view.files,
        some,
        specs=specs,
        oldest_elsewhere=view.oldest_elsewhere() if any(d.is_global(specs) for d in some) else None,
        paths_in=table.paths_in_position_deletes(view.snapshot_id, [d.path for d in unread]),
    )


def _look_again(
    table: IcebergTable, batch: CommitBatch, attempt: _Attempt, sleep: Callable[[float], None]
) -> int | None:
    """After an unknown answer, look for the commit id a few times before giving up."""
    for number in range(ATTEMPTS):
        sleep(FIRST_WAIT * 2**number)
        try:
            snapshot_id = find_commit(table, batch.branch, attempt.commit_id, since=attempt.view.snapshot_id)
        except Exception:  # whatever keeps us from looking, the answer is still unknown
            continue
        if snapshot_id is not None:
            return snapshot_id
    return None
