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
from icepact.iceberg.replace import COMMIT_ID, find_commit, replace_files, roll_back
from icepact.iceberg.staging import Staging
from icepact.iceberg.table import FACT_PREFIX, HeadView, IcebergTable
from icepact.model.errors import CommitBroken, CommitUnknown, HeadMoved
from icepact.model.table import DeleteFile, DeleteKind

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
    removed: int = 0
    """Delete files that go with the commit."""


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
    for number in range(1, ATTEMPTS + 1):
        attempt = _judge(table, batch, remaining)
        given_up |= attempt.given_up
        remaining = attempt.clean
        if not remaining:
            break
        commit_id = f"{batch.run_id}/1/{number}"
        try:
            return _replace(table, staging, batch, attempt, commit_id, given_up)
        except HeadMoved:
            sleep(FIRST_WAIT * 2 ** (number - 1) * random.uniform(0.5, 1.5))
        except CommitUnknown:
            found = _look_again(table, batch, commit_id, attempt.view, sleep)
            if found is None:
                raise
            return _committed(found, attempt, given_up)
    for group in remaining:
        given_up[group.group_id] = Verdict(
            answer=Answer.REPLAN, reason=f"the table kept changing during {ATTEMPTS} attempts"
        )
    return Committed(snapshot_id=None, groups=frozenset(), given_up=given_up, delete_files_removed=0)


def _judge(table: IcebergTable, batch: Batch, groups: Sequence[Ready]) -> _Attempt:
    view = table.view(batch.branch, [path for g in groups for path in g.paths])
    attempt = _Attempt(view=view, clean=[])
    for group in groups:
        verdict = judge(
            group.inputs,
            pinned_version=batch.pinned_version,
            head_version=view.format_version,
            head_files=view.files,
            head_deletes=view.deletes,
        )
        if verdict.answer is Answer.CLEAN:
            attempt.clean.append(group)
        else:
            attempt.given_up[group.group_id] = verdict
    return attempt


def _replace(
    table: IcebergTable,
    staging: Staging,
    batch: Batch,
    attempt: _Attempt,
    commit_id: str,
    given_up: Mapping[str, Verdict],
) -> Committed:
    view, groups = attempt.view, attempt.clean
    inputs = [path for g in groups for path in g.paths]
    gone = _dangling(table, view, frozenset(inputs))
    vectors = {d.key for d in view.deletes if d.kind is DeleteKind.DV and d.referenced in frozenset(inputs)}
    attempt.removed = len(gone) + len(vectors)
    complete = batch.complete and len(groups) == batch.planned
    facts = {
        **batch.facts,
        "proof-rows": str(sum(g.rows_out for g in groups)),
        "proof-columns": str(sum(g.columns_compared for g in groups)),
        "complete": str(complete).lower(),
    }
    snapshot_id = replace_files(
        table,
        view,
        branch=batch.branch,
        pinned=batch.pinned_snapshot,
        inputs=inputs,
        outputs=staging.java_files([u for g in groups for u in g.unit_ids]),
        dangling=[d.path for d in gone],
        facts={COMMIT_ID: commit_id, **{FACT_PREFIX + k: v for k, v in facts.items()}},
    )
    _check_after(table, batch, attempt, snapshot_id, {d.key for d in gone})
    return _committed(snapshot_id, attempt, given_up)


def _committed(snapshot_id: int, attempt: _Attempt, given_up: Mapping[str, Verdict]) -> Committed:
    return Committed(
        snapshot_id=snapshot_id,
        groups=frozenset(g.group_id for g in attempt.clean),
        given_up=given_up,
        delete_files_removed=attempt.removed,
    )


def _dangling(table: IcebergTable, view: HeadView, inputs: frozenset[str]) -> list[DeleteFile]:
    some = candidates(inputs, view.files, view.deletes)
    unread = needs_content(inputs, view.files, some)
    return dangling(
        inputs,
        view.files,
        some,
        specs=table.specs,
        oldest_elsewhere=view.oldest_elsewhere,
        paths_in=table.paths_in_position_deletes(view.snapshot_id, [d.path for d in unread]),
    )


def _check_after(
    table: IcebergTable,
    batch: Batch,
    attempt: _Attempt,
    snapshot_id: int,
    removed: set[tuple[str, int | None]],
) -> None:
    """Every delete that was live and should still be, is; the rows add up. Otherwise back at once."""
    before = attempt.view
    inputs = {path for g in attempt.clean for path in g.paths}
    expected = {
        d.key
        for d in before.deletes
        if d.key not in removed
        and d.sequence_number > int(batch.facts["pinned-sequence-number"])
        and not (d.kind is DeleteKind.DV and d.referenced in inputs)
    }
    lost = expected - table.delete_keys(snapshot_id)
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


def _look_again(
    table: IcebergTable, batch: Batch, commit_id: str, view: HeadView, sleep: Callable[[float], None]
) -> int | None:
    """After an unknown answer, look for the commit id a few times before giving up."""
    for number in range(ATTEMPTS):
        sleep(FIRST_WAIT * 2**number)
        try:
            found = find_commit(table, batch.branch, commit_id, since=view.snapshot_id)
        except Exception:  # whatever keeps us from looking, the answer is still unknown
            continue
        if found is not None:
            return found
    return None
