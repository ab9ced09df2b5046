"""Runs as the snapshots of their table tell of them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from icepact.assess.recovered_runs import runs_of_snapshots
from icepact.model.history import COMMIT_ID, SnapshotNode, SnapshotRef, TableHistory
from icepact.model.run import Recovered, RunRecord
from icepact.model.status import Status

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
FIRST, SECOND = "20261115095502-61d347dc", "20261116095502-61d347dc"
COMPACTED = {
    "total-data-files": "3",
    "added-data-files": "1",
    "deleted-data-files": "10",
    "total-records": "90",
    "added-records": "50",
    "deleted-records": "60",
    "total-files-size": "500",
    "added-files-size": "100",
    "removed-files-size": "300",
    "removed-delete-files": "2",
}


def ours(number: int, commit_id: str, parent: int | None = None, **summary: str) -> SnapshotNode:
    """A snapshot of icepact's; its parent is the number before."""
    said = {name.replace("_", "-"): value for name, value in summary.items()}
    return theirs(number, parent, **{COMMIT_ID: f"{commit_id}", **said})


def compacted() -> SnapshotNode:
    """The second of two snapshots, of a run that found twelve files."""
    return replace(theirs(2), summary={COMMIT_ID: f"{FIRST}/0.1/1", **COMPACTED})


def theirs(number: int, parent: int | None = None, **summary: str) -> SnapshotNode:
    """A snapshot of a writer's, an hour after the one before."""
    return SnapshotNode(
        snapshot_id=number,
        parent_id=parent or number - 1 or None,
        sequence_number=number,
        at=NOON + timedelta(hours=number),
        manifest_list=None,
        summary=summary,
    )


def branch(name: str, head: int) -> SnapshotRef:
    """A branch at a snapshot."""
    return SnapshotRef(name=name, snapshot_id=head, tag=False)


def runs(*nodes: SnapshotNode, refs: tuple[SnapshotRef, ...] = ()) -> list[RunRecord]:
    """What is told by snapshots, the last of which is that of `main` if nothing else is said."""
    history = TableHistory(snapshots=nodes, refs=refs or (branch("main", nodes[-1].snapshot_id),))
    return runs_of_snapshots(history, catalog="lake", table="db.t")


def test_a_run_has_what_its_snapshot_tells_and_nothing_else() -> None:
    [run] = runs(theirs(1), compacted())
    assert (run.run_id, run.catalog, run.table, run.branch) == (FIRST, "lake", "db.t", "main")
    assert run.started_at == datetime(2026, 11, 15, 9, 55, 2, tzinfo=UTC)
    assert (run.status, run.finished_at, run.outcome, run.owner) == (Status.COMMITTED, None, None, None)
    assert run.recovered == Recovered(
        operation="compact",
        committed_at=NOON + timedelta(hours=2),
        files_before=12,
        files_after=3,
        rows_before=100,
        rows_after=90,
        bytes_before=700,
        bytes_after=500,
    )
    [batch] = run.landed
    assert (batch.snapshot_id, batch.parent_id, batch.sequence_number, batch.delete_files_removed) == (2, 1, 2, 2)
    assert run.as_last_run is None
    assert not run.status.open


def test_commits_of_a_run_are_one_run_without_what_others_did_in_between() -> None:
    first = ours(1, f"{FIRST}/0.1/1", total_data_files="8", added_data_files="1", deleted_data_files="3")
    second = ours(3, f"{FIRST}/0.2/1", total_data_files="26", added_data_files="2", deleted_data_files="4")
    [run] = runs(first, theirs(2), second)
    assert run.recovered is not None
    assert (run.recovered.files_before, run.recovered.files_after) == (10, 6)
    assert [batch.snapshot_id for batch in run.landed] == [1, 3]
    assert run.recovered.committed_at == NOON + timedelta(hours=3)


def test_what_a_summary_does_not_say_is_not_known() -> None:
    [run] = runs(ours(1, f"{FIRST}/0.1/1", total_data_files="many", total_records="-1", total_files_size="9" * 5000))
    assert run.recovered is not None
    found = run.recovered
    assert (found.files_before, found.files_after, found.rows_before, found.rows_after) == (None,) * 4
    assert (found.bytes_before, found.bytes_after) == (None, None)


def test_runs_are_newest_first() -> None:
    found = runs(ours(1, f"{SECOND}/0.1/1"), theirs(2), ours(3, f"{FIRST}/0.1/1"))
    assert [run.run_id for run in found] == [SECOND, FIRST]


@pytest.mark.parametrize(
    ("commits", "operation"),
    [
        (["0.1/1"], "compact"),
        (["1.deletes/2"], "deletes"),
        (["expire-data"], "ttl"),
        (["rewrite-manifests"], "manifests"),
        (["0.1/1", "rewrite-manifests"], "compact"),
    ],
)
def test_commit_ids_tell_what_was_asked_for(commits: list[str], operation: str) -> None:
    [run] = runs(*(ours(number, f"{FIRST}/{rest}") for number, rest in enumerate(commits, 1)))
    assert run.recovered is not None
    assert run.recovered.operation == operation


def test_only_histories_of_branches_count() -> None:
    """A snapshot that was rolled back, or that a tag alone keeps, is no part of the table; one whose ancestors have
    expired is."""
    nodes = [ours(4, f"{FIRST}/0.1/1"), ours(5, f"{SECOND}/0.1/1", parent=4)]
    tag = SnapshotRef(name="kept", snapshot_id=5, tag=True)
    assert [run.run_id for run in runs(*nodes, refs=(branch("main", 4), tag))] == [FIRST]
    assert runs(*nodes, refs=(tag,)) == []


def test_a_snapshot_of_several_branches_is_that_of_main_or_of_the_first() -> None:
    nodes = [ours(1, f"{FIRST}/0.1/1"), ours(2, f"{SECOND}/0.1/1")]
    found = runs(*nodes, refs=(branch("audit", 2), branch("main", 1), branch("b", 2)))
    assert [(run.run_id, run.branch) for run in found] == [(SECOND, "audit"), (FIRST, "main")]


@pytest.mark.parametrize(
    "name",
    ["", "../../etc", "[red]", "20261315095502-61d347dc", "20261115095502-61d347dc\n", "٢٠٢٦1115095502-61d347dc"],
)
def test_what_looks_like_no_run_of_ours_is_none(name: str) -> None:
    """Whoever writes to a table can write anything into summaries."""
    assert runs(ours(1, f"{name}/0.1/1"), ours(2, f"{FIRST}/0.1/1"))[0].run_id == FIRST
    assert len(runs(ours(1, f"{name}/0.1/1"), ours(2, f"{FIRST}/0.1/1"))) == 1


def test_snapshots_that_are_their_own_ancestors_are_told_once() -> None:
    assert len(runs(ours(1, f"{FIRST}/0.1/1", parent=2), ours(2, f"{FIRST}/0.2/1", parent=1))[0].landed) == 2
