"""Rewriting of manifests: planned from the list of them, judged again at the head, carried out."""

import logging
import random
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from icepact.housekeeping.manifest_layout import LEAST, Choice, Chosen, choose, cut, room, wishes_of
from icepact.iceberg.commit.rewrite_manifests import StagedManifests
from icepact.iceberg.java.bridge import error_line
from icepact.iceberg.table.manifest_facts import manifests_at, without_row_ids
from icepact.iceberg.table.table import IcebergTable
from icepact.model.cost import Cost
from icepact.model.effort import Estimate
from icepact.model.errors import BadInput, CommitRefused, HeadMoved, StorageFull
from icepact.model.formatting import format_size
from icepact.model.manifests import ManifestGroup, ManifestsResult, RewriteManifests

TARGET_SIZE = "commit.manifest.target-size-bytes"
_TARGET = 8 * 1024 * 1024
_ATTEMPTS = 4
"""How often it is judged anew because others have replaced a manifest meanwhile."""
_FIRST_WAIT = 0.2
"""Seconds before the second attempt; doubles from there."""
_SECONDS, _SECONDS_PER_MANIFEST, _SECONDS_PER_ENTRY = 0.3, 0.002, 0.00003
"""What a rewrite takes on one core: to begin with, for each manifest that is read, and for each entry."""
_COMMIT_READS, _COMMIT_WRITES = 3, 2
"""Requests of planning and of the commit: lists of manifests and table metadata."""
_log = logging.getLogger(__name__)


def plan_manifests(table: IcebergTable, *, branch: str, now: datetime, least: int = LEAST) -> RewriteManifests | str:
    """Which manifests to rewrite, from their list alone; or why none. `least` small ones are worth a rewrite."""
    del now  # nothing here depends on the time
    _check(table, branch, least)
    table.refresh()
    snapshot = table.head(branch)
    if snapshot is None:
        return "the table has no snapshot yet"
    target = _target(table)
    choice = _judge(table, snapshot, target, least)
    if isinstance(choice, str):
        return choice
    groups = tuple(chosen.group for chosen in choice.chosen)
    return RewriteManifests(
        branch=branch,
        snapshot_id=int(snapshot.snapshotId()),
        target_bytes=target,
        least=least,
        groups=groups,
        reason=f"sorted by partition, of about {format_size(target)} each, so that scans open fewer",
        kept=choice.kept,
        cost=_cost(groups),
    )


def carry_out_manifests(
    table: IcebergTable, step: RewriteManifests, *, commit_id: str, check: Callable[[], None]
) -> ManifestsResult:
    """Rewrite manifests as is right at the head that there is by now. What a killed process leaves has names that begin
    with `icepact-`, the run's id and `-m-`; all else is deleted unless it is in the table, or may be."""
    _check(table, step.branch, step.least)
    began = time.monotonic()
    why = ""
    for number in range(_ATTEMPTS):
        time.sleep(_FIRST_WAIT * 2 ** (number - 1) * random.uniform(0.5, 1.5) if number else 0)
        check()
        table.refresh()
        snapshot = table.head(step.branch)
        choice = (
            "the table has no snapshot" if snapshot is None else _judge(table, snapshot, _target(table), step.least)
        )
        if isinstance(choice, str):
            return ManifestsResult(reason=choice, attempts=number, seconds=time.monotonic() - began)
        try:
            landed, groups = _rewrite(table, snapshot, choice, commit_id, step.least, check)
        except HeadMoved as error:
            why = str(error)
            continue
        return ManifestsResult(groups=groups, snapshot_id=landed, attempts=number + 1, seconds=time.monotonic() - began)
    reason = f"others replaced manifests {_ATTEMPTS} times meanwhile, at last: {why}"
    return ManifestsResult(reason=reason, attempts=_ATTEMPTS, seconds=time.monotonic() - began)


def _check(table: IcebergTable, branch: str, least: int) -> None:
    if branch != "main":
        raise BadInput(f"manifests are rewritten on branch main only, not on {branch!r}: Iceberg has no way to do it")
    if least < 2:
        raise BadInput(f"least {least}: it takes two manifests to make them fewer")
    _target(table)


def _target(table: IcebergTable) -> int:
    written = table.properties.get(TARGET_SIZE, str(_TARGET))
    if not written.isdecimal() or not int(written):
        raise BadInput(f"property {TARGET_SIZE} of {table.name} is {written!r}: it should be a number of bytes")
    return int(written)


def _judge(table: IcebergTable, snapshot: Any, target: int, least: int) -> Choice | str:
    facts = manifests_at(table, snapshot)
    if without_row_ids(facts, table.format_version):
        return "rows have no ids yet since the table was upgraded: the next commit to it gives them some"
    choice = choose(facts, target=target, least=least)
    if choice.chosen:
        return choice
    return "; ".join(f"{kept.what}: {kept.why}" for kept in choice.kept) or "the table has no manifests"


def _rewrite(
    table: IcebergTable, snapshot: Any, choice: Choice, commit_id: str, least: int, check: Callable[[], None]
) -> tuple[int, tuple[ManifestGroup, ...]]:
    """One attempt. Whatever it has written goes again, unless it is in the table, or may be."""
    staged = StagedManifests(table, snapshot, commit_id, wishes_of(_target(table), least))
    try:
        groups = tuple(_write(table, staged, chosen, check) for chosen in choice.chosen)
        check()
    except BaseException:  # nothing was sent
        _tidy(staged, None)
        raise
    try:
        landed = staged.commit()
    except (HeadMoved, StorageFull):  # all else may still be on its way to the catalog, or in it
        _tidy(staged, None)
        raise
    _tidy(staged, landed)
    return landed, groups


def _write(table: IcebergTable, staged: StagedManifests, chosen: Chosen, check: Callable[[], None]) -> ManifestGroup:
    check()
    each = room(_target(table), chosen.overhead)
    written = staged.write(chosen.paths, overhead=chosen.overhead, cut=lambda weights: cut(weights, each))
    if written.entries != chosen.group.entries:
        wrong = f"manifests of spec {chosen.group.spec_id} list {written.entries:,} files"
        raise CommitRefused(f"{wrong}, but the list of manifests counts {chosen.group.entries:,}")
    return replace(chosen.group, manifests_out=written.manifests, bytes_out=written.bytes)


def _tidy(staged: StagedManifests, landed: int | None) -> None:
    try:
        staged.delete_unused(landed)
    except Exception as error:  # no harm: they are orphans
        _log.warning("manifests of commit %s could not be deleted: %s", staged.commit_id, error_line(error))


def _cost(groups: tuple[ManifestGroup, ...]) -> Cost:
    read, entries = sum(g.manifests_in for g in groups), sum(g.entries for g in groups)
    seconds = _SECONDS + read * _SECONDS_PER_MANIFEST + entries * _SECONDS_PER_ENTRY
    writes = sum(g.manifests_out for g in groups) + _COMMIT_WRITES
    return Cost(
        seconds=Estimate(likely=seconds, low=seconds / 3, high=seconds * 3),
        encoded_bytes=sum(g.bytes_out for g in groups),
        requests=2 * read + _COMMIT_READS + writes,
        write_requests=writes,
    )
