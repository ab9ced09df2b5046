"""The commit protocol: judge at the head, replace in one snapshot, check, or give up a group.

One commit stands on one pin. Groups that are clean at the head are committed together and strictly. Groups to
which only equality deletes were added meanwhile are late: their outputs keep the pin's sequence number, so that
the news apply to them too. Any other group is given up with its reason, and the others go on.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from icepact.commit.after import check_after, told
from icepact.commit.dangling import candidates, dangling, needs_content
from icepact.commit.judge import Answer, Pinned, Verdict, judge
from icepact.commit.settle import window
from icepact.iceberg.java import error_line
from icepact.iceberg.replace import COMMIT_ID, find_commit, mark_of, replace_files, was_taken_back
from icepact.iceberg.staging import FileDocument, Staging
from icepact.iceberg.table import FACT_PREFIX, HeadView, IcebergTable
from icepact.model.errors import CommitRefused, CommitUnknown, HeadMoved, IcepactError
from icepact.model.run import Attempt, Landed, groups_of, this_process
from icepact.model.table import DataFile, DeleteFile, DeleteKind

ATTEMPTS = 5
UNANSWERED = 2
"""Attempts without an answer after which another one may be made."""
FIRST_WAIT = 0.1
"""Seconds before the second attempt; doubles from there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """A group whose outputs are written and proven."""

    group_id: str
    inputs: Sequence[Pinned]
    outputs: Sequence[FileDocument]
    regroup: bool
    """True if the outputs are in other partitions than the inputs: later deletes of those would miss them."""
    rows_in: int
    rows_out: int
    columns_compared: int
    row_sum: int | None = None
    """Sum of the hashes of all rows, if the proof made one."""

    @property
    def paths(self) -> list[str]:
        """Paths of all inputs."""
        return [i.path for i in self.inputs]


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """What one commit stands on."""

    run_id: str
    number: str
    """Of the batch within the run."""
    branch: str
    pinned_snapshot: int
    pinned_sequence: int
    pinned_version: int
    facts: Mapping[str, str]
    """Told in the snapshot's summary; without the prefix."""
    last: frozenset[str]
    """Groups that the plan still waits for: once all of them are committed, the run is complete. Empty if it will not
    be, because the plan left something over or a group was given up."""
    earlier: Sequence[int] = ()
    """Sequence numbers of the run's commits so far."""


class Journal(Protocol):
    """Hears of every attempt before it is made, and of its end."""

    def judged(self) -> None:
        """Groups were compared with the head."""
        ...

    def attempting(self, attempt: Attempt) -> None:
        """A commit is about to be tried. Raises if this process must not commit any more."""
        ...

    def refused(self) -> None:
        """The last attempt certainly did not land, and never will."""
        ...

    def unanswered(self) -> None:
        """Nobody knows what became of the last attempt: it stays on record."""
        ...

    def landed(self, landed: Landed) -> None:
        """The last attempt is in the table, or one before it that was not answered."""
        ...

    def broken(self, why: str) -> None:
        """The last attempt is in the table and did something else than it should; it is rolled back next."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Committed:
    """What became of a batch."""

    landed: Sequence[Landed]
    given_up: Mapping[str, Verdict]

    @property
    def groups(self) -> frozenset[str]:
        """Groups that are in the table."""
        return groups_of(self.landed)


@dataclass(slots=True)
class _Attempt:
    """One judgement at one head."""

    view: HeadView
    groups: list[Ready] = field(default_factory=list)
    """Those that are tried now."""
    late: bool = False
    """True if they keep the pin's sequence number."""
    waiting: list[Ready] = field(default_factory=list)
    """Those whose turn comes with the next commit."""
    given_up: dict[str, Verdict] = field(default_factory=dict)
    commit_id: str = ""
    dangling: list[DeleteFile] = field(default_factory=list)
    """Deletes that are taken out by name."""
    removed: set[tuple[str, int | None]] = field(default_factory=set)
    """All deletes that go with the commit."""
    outputs: Any = None
    """Java's own data files."""
    rewrite: Any = None
    """Java's own commit, not yet made."""
    mark: str = ""
    """Of what it writes."""
    recorded: Attempt | None = None
    """As it was written down."""

    @property
    def inputs(self) -> frozenset[str]:
        """Paths of everything that is replaced."""
        return frozenset(path for g in self.groups for path in g.paths)


def commit(
    table: IcebergTable,
    staging: Staging,
    batch: Batch,
    groups: Sequence[Ready],
    journal: Journal,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Committed:
    """Commit all groups that may be at the head: the late ones in one snapshot or two, the clean ones in another.

    Raises CommitUnknown if the state of the commit cannot be told: then nothing may be deleted.
    """
    given_up: dict[str, Verdict] = {}
    landed: list[Landed] = []
    remaining = list(groups)
    tries = number = 0
    why = ""
    unanswered: list[_Attempt] = []
    while remaining and tries < ATTEMPTS:
        for earlier in list(unanswered):
            snapshot_id = _found(table, batch, earlier)
            if snapshot_id is not None:
                unanswered.remove(earlier)
                landed.append(_accepted(table, batch, earlier, snapshot_id, journal))
                remaining = [g for g in remaining if g not in earlier.groups]
        if not remaining:
            break
        attempt = _judge(table, batch, remaining)
        journal.judged()
        given_up |= attempt.given_up
        remaining = [*attempt.groups, *attempt.waiting]
        if not attempt.groups:
            break
        number, tries = number + 1, tries + 1
        attempt.commit_id = f"{batch.run_id}/{batch.number}/{number}"
        _prepare(table, staging, batch, attempt)
        attempt.recorded = _recorded(table, batch, attempt)
        journal.attempting(attempt.recorded)
        try:
            snapshot_id = _try(table, _after(batch, landed), attempt, sleep)
        except HeadMoved as error:
            journal.refused()
            why = str(error)
            sleep(FIRST_WAIT * 2 ** (tries - 1) * random.uniform(0.5, 1.5))
            continue
        except CommitUnknown as error:
            # of two commits that replace the same files one lands at most, so that trying again is safe
            if len(unanswered) == UNANSWERED:
                raise
            journal.unanswered()
            unanswered.append(attempt)
            why = str(error)
            continue
        except CommitRefused:
            journal.refused()
            raise
        landed.append(_accepted(table, batch, attempt, snapshot_id, journal))
        remaining, tries = attempt.waiting, 0
    if unanswered and remaining:
        raise CommitUnknown(why)
    for group in remaining:
        given_up[group.group_id] = Verdict(
            answer=Answer.REPLAN, reason=f"not committed in {ATTEMPTS} attempts, the last time because {why}"
        )
    return Committed(landed=landed, given_up=given_up)


def _after(batch: Batch, landed: Sequence[Landed]) -> Batch:
    """The same batch once some of it is in the table."""
    numbers = [commit.sequence_number for commit in landed]
    return replace(batch, last=batch.last - groups_of(landed), earlier=[*batch.earlier, *numbers])


def _accepted(
    table: IcebergTable,
    batch: Batch,
    attempt: _Attempt,
    snapshot_id: int,
    journal: Journal,
) -> Landed:
    """A commit that is in the table, once it is checked."""
    assert attempt.recorded is not None
    check_after(table, batch.branch, attempt.recorded, snapshot_id, stop=journal.broken)
    landed = Landed(
        commit_id=attempt.commit_id,
        snapshot_id=snapshot_id,
        parent_id=table.parent_of(snapshot_id),
        sequence_number=table.sequence_number_of(snapshot_id),
        groups=[g.group_id for g in attempt.groups],
        delete_files_removed=len(attempt.removed),
    )
    journal.landed(landed)
    return landed


def _judge(table: IcebergTable, batch: Batch, groups: Sequence[Ready]) -> _Attempt:
    """Judge every group at the head. No attempt is under way, so whatever goes wrong here, nothing landed."""
    try:
        view = table.view(batch.branch, [path for g in groups for path in g.paths])
    except Exception as error:
        raise CommitRefused(f"the head of {table.name} cannot be read: {error_line(error)}") from error
    attempt = _Attempt(view=view)
    clean: list[Ready] = []
    late: dict[str, tuple[Ready, Verdict]] = {}
    for group, verdict in judged(view, groups, pinned_version=batch.pinned_version):
        match verdict.answer:
            case Answer.CLEAN:
                clean.append(group)
            case Answer.LATE if not group.regroup:
                late[group.group_id] = group, verdict
            case _:
                attempt.given_up[group.group_id] = verdict
    if late:  # before the clean ones, whose inputs are old enough to keep late deletes alive
        attempt.late = True
        attempt.groups, rest = _safely_late(view, batch.pinned_sequence, [group for group, _ in late.values()])
        if attempt.groups:
            attempt.waiting = [*rest, *clean]
            return attempt
        attempt.given_up |= {group_id: verdict for group_id, (_, verdict) in late.items()}
    attempt.late = False
    attempt.groups = clean
    return attempt


def judged(view: HeadView, groups: Sequence[Ready], *, pinned_version: int) -> list[tuple[Ready, Verdict]]:
    """Every group with what is to be said of it at the head."""
    live: dict[str, list[DataFile]] = {}
    for file in view.files:
        live.setdefault(file.path, []).append(file)
    return [
        (
            group,
            judge(
                group.inputs,
                pinned_version=pinned_version,
                head_version=view.format_version,
                head_files=[file for path in group.paths for file in live.get(path, ())],
                head_deletes=view.deletes,
            ),
        )
        for group in groups
    ]


def _safely_late(view: HeadView, pinned: int, late: Sequence[Ready]) -> tuple[list[Ready], list[Ready]]:
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


def _prepare(table: IcebergTable, staging: Staging, batch: Batch, attempt: _Attempt) -> None:
    """Everything that needs a look at table or storage, before the attempt counts as one."""
    view, inputs = attempt.view, attempt.inputs
    try:
        keep_after = batch.pinned_sequence if attempt.late else None
        attempt.dangling = _dangling(table, view, inputs, keep_after=keep_after)
        attempt.outputs = staging.java_files([document for g in attempt.groups for document in g.outputs])
        attempt.rewrite = table.table.newRewrite()
        attempt.mark = mark_of(table, attempt.rewrite)
    except IcepactError:
        raise
    except Exception as error:
        raise CommitRefused(f"the commit on {table.name} cannot be prepared: {error_line(error)}") from error
    attempt.removed = {d.key for d in attempt.dangling} | {d.key for d in view.deletes if d.referenced in inputs}


def _recorded(table: IcebergTable, batch: Batch, attempt: _Attempt) -> Attempt:
    """The attempt as it is written down, with all that is needed to check it later."""
    stay = [d for d in attempt.view.deletes if d.key not in attempt.removed]
    since = _needed_since(batch, attempt, stay)
    now = datetime.now(UTC)
    return Attempt(
        commit_id=attempt.commit_id,
        head=attempt.view.snapshot_id,
        groups=[g.group_id for g in attempt.groups],
        started_at=now,
        until=now + window(table.properties),
        maker=this_process(),
        mark=attempt.mark,
        deletes_since=since,
        deletes=told(stay, since=since),
        added_rows=sum(g.rows_out - g.rows_in for g in attempt.groups),
    )


def _needed_since(batch: Batch, attempt: _Attempt, stay: Sequence[DeleteFile]) -> int:
    """From which sequence number on a commit must not lose a delete: what came after the pin, except what is older
    than every data file once it has landed. That applies to nothing, and Iceberg may drop it."""
    since = batch.pinned_sequence + 1
    if attempt.late or all(d.sequence_number < since for d in stay):
        return since
    inputs, view = attempt.inputs, attempt.view
    numbers = [f.sequence_number for f in view.files if f.path not in inputs]
    elsewhere = view.oldest_elsewhere()
    return max(since, min([*numbers, view.sequence_number + 1 if elsewhere is None else elsewhere]))


def _try(table: IcebergTable, batch: Batch, attempt: _Attempt, sleep: Callable[[float], None]) -> int:
    """One attempt; returns the new snapshot. HeadMoved and CommitRefused mean that it certainly did not land."""
    try:
        return _replace(table, batch, attempt)
    except (HeadMoved, CommitRefused):
        # a catalog that lost its own answer may report a conflict with itself, or a token that has expired since: look
        found = _found(table, batch, attempt)
        if found is None:
            raise
        return found
    except CommitUnknown:
        found = _look_again(table, batch, attempt, sleep)
        if found is None:
            raise
        return found


def _found(table: IcebergTable, batch: Batch, attempt: _Attempt) -> int | None:
    try:
        found = find_commit(table, batch.branch, attempt.commit_id, since=attempt.view.snapshot_id)
        back = found is None and was_taken_back(table, attempt.commit_id, since=attempt.view.snapshot_id)
    except Exception as error:
        raise CommitUnknown(f"refused, but the table cannot be read: {error_line(error)}") from error
    if back:
        raise CommitUnknown("it landed, and somebody rolled it back at once")
    return found


def _replace(table: IcebergTable, batch: Batch, attempt: _Attempt) -> int:
    groups = attempt.groups
    sums = [g.row_sum for g in groups]
    facts = {
        **batch.facts,
        "proof-rows": str(sum(g.rows_out for g in groups)),
        "proof-columns": str(sum(g.columns_compared for g in groups)),
        "complete": str(bool(batch.last) and batch.last <= {g.group_id for g in groups}).lower(),
    }
    if batch.earlier:
        facts["earlier-sequence-numbers"] = ",".join(map(str, batch.earlier))
    if None not in sums:
        facts["proof-row-sum"] = str(sum(s for s in sums if s is not None))
    return replace_files(
        table,
        attempt.view,
        attempt.rewrite,
        branch=batch.branch,
        pinned=batch.pinned_snapshot,
        inputs=sorted(attempt.inputs),
        outputs=attempt.outputs,
        dangling=[d.path for d in attempt.dangling],
        sequence=batch.pinned_sequence if attempt.late else None,
        facts={COMMIT_ID: attempt.commit_id, **{FACT_PREFIX + k: v for k, v in facts.items()}},
    )


def _dangling(
    table: IcebergTable, view: HeadView, inputs: frozenset[str], *, keep_after: int | None
) -> list[DeleteFile]:
    """What no live row needs after the commit; equality deletes after `keep_after` apply to the outputs themselves."""
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


def _look_again(table: IcebergTable, batch: Batch, attempt: _Attempt, sleep: Callable[[float], None]) -> int | None:
    """After an unknown answer, look for the commit id a few times before giving up."""
    for number in range(ATTEMPTS):
        sleep(FIRST_WAIT * 2**number)
        try:
            found = find_commit(table, batch.branch, attempt.commit_id, since=attempt.view.snapshot_id)
        except Exception:  # whatever keeps us from looking, the answer is still unknown
            continue
        if found is not None:
            return found
    return None
