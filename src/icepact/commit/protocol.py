"""The commit protocol: judge at the head, prove, replace in one snapshot, check, or give up a group.

One commit stands on one pin. Groups that are clean at the head are committed together and strictly;
a group that is not clean is given up with its reason, and the others go on.
"""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from icepact.commit.dangling import candidates, dangling, needs_content
from icepact.commit.judge import Answer, Pinned, Verdict, judge
from icepact.iceberg.java import error_line
from icepact.iceberg.replace import COMMIT_ID, find_commit, replace_files, roll_back
from icepact.iceberg.staging import Staging
from icepact.iceberg.table import FACT_PREFIX, HeadView, IcebergTable
from icepact.model.errors import CommitBroken, CommitRefused, CommitUnknown, HeadMoved
from icepact.model.table import DataFile, DeleteFile, DeleteKind

ATTEMPTS = 5
FIRST_WAIT = 0.1
"""Seconds before the second attempt; doubles from there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """A group whose outputs are written and proven."""

    group_id: str
    inputs: Sequence[Pinned]
    unit_ids: Sequence[str]
    rows_in: int
    rows_out: int
    columns_compared: int

    @property
    def paths(self) -> list[str]:
        """Paths of all inputs."""
        return [i.path for i in self.inputs]


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """What one commit stands on."""

    run_id: str
    branch: str
    pinned_snapshot: int
    pinned_version: int
    facts: Mapping[str, str]
    """Told in the snapshot's summary; without the prefix."""
    planned: int
    """Groups in the plan; the run is complete only if all of them are committed."""
    complete: bool
    """True if the plan left nothing over for lack of budget."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Committed:
    """What became of a batch."""

    snapshot_id: int | None
    """Null if nothing was committed."""
    groups: frozenset[str]
    given_up: Mapping[str, Verdict]
    delete_files_removed: int


@dataclass(slots=True)
class _Attempt:
    """One judgement at one head."""

    view: HeadView
    clean: list[Ready]
    given_up: dict[str, Verdict] = field(default_factory=dict)
    commit_id: str = ""
    removed: set[tuple[str, int | None]] = field(default_factory=set)
    """Deletes that go with the commit."""


def commit(
    table: IcebergTable,
    staging: Staging,
    batch: Batch,
    groups: Sequence[Ready],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Committed:
    """Commit all groups that are clean at the head in one snapshot.

    Raises CommitUnknown if the state of the commit cannot be told: then nothing may be deleted.
    """
    given_up: dict[str, Verdict] = {}
    remaining = list(groups)
    why = ""
    for number in range(1, ATTEMPTS + 1):
        attempt = _judge(table, batch, remaining)
        given_up |= attempt.given_up
        remaining = attempt.clean
        if not remaining:
            break
        attempt.commit_id = f"{batch.run_id}/1/{number}"
        try:
            snapshot_id = _replace(table, staging, batch, attempt)
        except HeadMoved as error:
            # a catalog that lost its own answer may report a conflict with itself: look before believing it
            found = find_commit(table, batch.branch, attempt.commit_id, since=attempt.view.snapshot_id)
            if found is None:
                why = str(error)
                sleep(FIRST_WAIT * 2 ** (number - 1) * random.uniform(0.5, 1.5))
                continue
            snapshot_id = found
        except CommitUnknown:
            found = _look_again(table, batch, attempt, sleep)
            if found is None:
                raise
            snapshot_id = found
        _check_after(table, batch, attempt, snapshot_id)
        return Committed(
            snapshot_id=snapshot_id,
            groups=frozenset(g.group_id for g in attempt.clean),
            given_up=given_up,
            delete_files_removed=len(attempt.removed),
        )
    for group in remaining:
        given_up[group.group_id] = Verdict(
            answer=Answer.REPLAN, reason=f"not committed in {ATTEMPTS} attempts, the last time because {why}"
        )
    return Committed(snapshot_id=None, groups=frozenset(), given_up=given_up, delete_files_removed=0)


def _judge(table: IcebergTable, batch: Batch, groups: Sequence[Ready]) -> _Attempt:
    """Judge every group at the head. No attempt is under way, so whatever goes wrong here, nothing landed."""
    try:
        view = table.view(batch.branch, [path for g in groups for path in g.paths])
    except Exception as error:
        raise CommitRefused(f"the head of {table.name} cannot be read: {error_line(error)}") from error
    live: dict[str, list[DataFile]] = {}
    for file in view.files:
        live.setdefault(file.path, []).append(file)
    attempt = _Attempt(view=view, clean=[])
    for group in groups:
        verdict = judge(
            group.inputs,
            pinned_version=batch.pinned_version,
            head_version=view.format_version,
            head_files=[file for path in group.paths for file in live.get(path, ())],
            head_deletes=view.deletes,
        )
        if verdict.answer is Answer.CLEAN:
            attempt.clean.append(group)
        else:
            attempt.given_up[group.group_id] = verdict
    return attempt


def _replace(table: IcebergTable, staging: Staging, batch: Batch, attempt: _Attempt) -> int:
    view, groups = attempt.view, attempt.clean
    inputs = frozenset(path for g in groups for path in g.paths)
    gone = _dangling(table, view, inputs)
    vectors = {d.key for d in view.deletes if d.kind is DeleteKind.DV and d.referenced in inputs}
    attempt.removed = {d.key for d in gone} | vectors
    complete = batch.complete and len(groups) == batch.planned
    facts = {
        **batch.facts,
        "proof-rows": str(sum(g.rows_out for g in groups)),
        "proof-columns": str(sum(g.columns_compared for g in groups)),
        "complete": str(complete).lower(),
    }
    return replace_files(
        table,
        view,
        branch=batch.branch,
        pinned=batch.pinned_snapshot,
        inputs=sorted(inputs),
        outputs=staging.java_files([u for g in groups for u in g.unit_ids]),
        dangling=[d.path for d in gone],
        facts={COMMIT_ID: attempt.commit_id, **{FACT_PREFIX + k: v for k, v in facts.items()}},
    )


def _dangling(table: IcebergTable, view: HeadView, inputs: frozenset[str]) -> list[DeleteFile]:
    specs = table.specs
    some = candidates(inputs, view.files, view.deletes, specs)
    unread = needs_content(inputs, view.files, some)
    return dangling(
        inputs,
        view.files,
        some,
        specs=specs,
        oldest_elsewhere=view.oldest_elsewhere,
        paths_in=table.paths_in_position_deletes(view.snapshot_id, [d.path for d in unread]),
    )


def _check_after(table: IcebergTable, batch: Batch, attempt: _Attempt, snapshot_id: int) -> None:
    """Every delete that was live and should still be, is; the rows add up. Otherwise back at once."""
    pinned = int(batch.facts["pinned-sequence-number"])
    expected = {d.key for d in attempt.view.deletes if d.sequence_number > pinned} - attempt.removed
    lost = expected - table.delete_keys(snapshot_id) if expected else set()
    parent = table.parent_of(snapshot_id)
    rows = None if parent is None else table.total_rows(parent)
    rows_now = table.total_rows(snapshot_id)
    change = sum(g.rows_out - g.rows_in for g in attempt.clean)
    off = 0 if rows is None or rows_now is None else rows_now - rows - change
    if not lost and not off:
        return
    what = f"{len(lost)} deletes were dropped" if lost else f"the row count is off by {off}"
    back = parent is not None and roll_back(table, batch.branch, bad=snapshot_id, good=parent)
    raise CommitBroken(
        f"{what} by the commit of snapshot {snapshot_id}; "
        + ("it was rolled back" if back else "it could not be rolled back because the table moved on: look at it now")
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
