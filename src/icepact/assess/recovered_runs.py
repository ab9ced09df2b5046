"""Runs as the snapshots of their table tell of them: for a record store that has lost them.

They are shown and nothing else: no store gets them, so that nobody resumes them, cleans up after them or learns from
them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from icepact.model.history import COMMIT_ID, SnapshotNode, TableHistory
from icepact.model.run import CommittedBatch, Recovered, RunRecord
from icepact.model.status import Status

_MAIN = "main"
_RUN_ID, _COUNT = re.compile(r"[0-9]{14}-[0-9a-f]{8}"), re.compile(r"[0-9]{1,18}")
"""Whoever writes to a table can write anything into summaries."""
_BEGAN = "%Y%m%d%H%M%S"
_OPERATIONS = {"expire-data": "ttl", "rewrite-manifests": "manifests"}
"""Operations by what stands behind the run in the commit ids of their steps."""
_DELETES = ".deletes"


def runs_of_snapshots(history: TableHistory, *, catalog: str, table: str) -> list[RunRecord]:
    """The runs that have committed to a branch of a table and whose snapshots have not expired, newest first. `catalog`
    is its name in the record store."""
    found: dict[str, tuple[str, list[SnapshotNode]]] = {}
    for branch, node in _on_branches(history):
        found.setdefault(_parts(node)[0], (branch, []))[1].append(node)
    runs = [
        _run(run_id, began, catalog, table, branch, nodes)
        for run_id, (branch, nodes) in found.items()
        if (began := _began(run_id)) is not None
    ]
    return sorted(runs, key=lambda run: (run.started_at, run.run_id), reverse=True)


def _on_branches(history: TableHistory) -> Iterator[tuple[str, SnapshotNode]]:
    """Our snapshots in the histories of branches, newest first: one that several branches have is that of `main`, or of
    the first of them by name."""
    by_id = history.by_id
    heads = sorted((ref.name != _MAIN, ref.name, ref.snapshot_id) for ref in history.refs if not ref.tag)
    seen: set[int] = set()
    for _, branch, head in heads:
        node = by_id.get(head)
        while node is not None and node.snapshot_id not in seen:
            seen.add(node.snapshot_id)
            if node.summary:
                yield branch, node
            node = None if node.parent_id is None else by_id.get(node.parent_id)


def _parts(node: SnapshotNode) -> tuple[str, str]:
    """The run of a snapshot of ours, and which of its commits it is."""
    run_id, _, rest = node.summary[COMMIT_ID].partition("/")
    return run_id, rest.partition("/")[0]


def _run(
    run_id: str, began: datetime, catalog: str, table: str, branch: str, nodes: Sequence[SnapshotNode]
) -> RunRecord:
    """A run by its snapshots, newest first."""
    files = _before_and_after(nodes, "total-data-files", "added-data-files", "deleted-data-files")
    rows = _before_and_after(nodes, "total-records", "added-records", "deleted-records")
    size = _before_and_after(nodes, "total-files-size", "added-files-size", "removed-files-size")
    return RunRecord(
        run_id=run_id,
        catalog=catalog,
        table=table,
        branch=branch,
        status=Status.COMMITTED,
        started_at=began,
        landed=[_batch(node) for node in reversed(nodes)],
        recovered=Recovered(
            operation=_operation(nodes),
            committed_at=nodes[0].at,
            files_before=files[0],
            files_after=files[1],
            rows_before=rows[0],
            rows_after=rows[1],
            bytes_before=size[0],
            bytes_after=size[1],
        ),
    )


def _began(run_id: str) -> datetime | None:
    """When a run began, as its id says; `None` if it is none of ours."""
    if not _RUN_ID.fullmatch(run_id):
        return None
    try:
        return datetime.strptime(run_id.partition("-")[0], _BEGAN).replace(tzinfo=UTC)
    except ValueError:
        return None


def _operation(nodes: Sequence[SnapshotNode]) -> str:
    which = {_parts(node)[1] for node in nodes}
    kinds = {"deletes" if one.endswith(_DELETES) else _OPERATIONS.get(one, "compact") for one in which}
    return "compact" if "compact" in kinds else min(kinds)


def _batch(node: SnapshotNode) -> CommittedBatch:
    return CommittedBatch(
        commit_id=node.summary[COMMIT_ID],
        snapshot_id=node.snapshot_id,
        parent_id=node.parent_id,
        sequence_number=node.sequence_number,
        groups=(),
        delete_files_removed=_number(node.summary, "removed-delete-files") or 0,
    )


def _before_and_after(
    nodes: Sequence[SnapshotNode], total: str, added: str, removed: str
) -> tuple[int | None, int | None]:
    """An amount before the first commit of a run, and what the run's own commits have made of it: what others committed
    in between does not count."""
    changes = [(_number(node.summary, added) or 0) - (_number(node.summary, removed) or 0) for node in nodes]
    then = _number(nodes[-1].summary, total)
    if then is None:
        return None, None
    before = then - changes[-1]
    return before, before + sum(changes)


def _number(summary: Mapping[str, str], name: str) -> int | None:
    value = summary.get(name, "")
    return int(value) if _COUNT.fullmatch(value) else None
