"""A table that has everything a report speaks of."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from icepact.assess.health import assess
from icepact.assess.priority import with_priorities
from icepact.model.files import DataFile, DeleteFile, DeleteKind
from icepact.model.health import Health
from icepact.model.plan import Plan
from icepact.model.snapshot import SnapshotInfo
from icepact.stats.table import file_stats_of
from tests.support.planning import make_plan
from tests.support.states import MB, attach, data_file, delete_file, make_policy, make_state

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def reported(files: Sequence[DataFile], deletes: Sequence[DeleteFile] = (), **given: object) -> tuple[Health, Plan]:
    """Health and plan of a table with these files."""
    policy = make_policy(**given)
    state = make_state(attach(files, deletes), deletes)
    health = with_priorities(assess(file_stats_of(state), policy), policy.priority_weights, NOW)
    return health, make_plan(state, policy)


def messy(small: str = "2026-01-01") -> tuple[Health, Plan]:
    """Three partitions: one with small files, one with deletes, one that is well."""
    files = [
        *(data_file(f"small-{n}", MB, rows=1000, partition=(small,)) for n in range(8)),
        data_file("deleted", 500 * MB, rows=10_000, partition=("2026-01-02",)),
        data_file("well", 512 * MB, rows=10_000, partition=("2026-01-03",)),
    ]
    deletes = [
        delete_file("pos", DeleteKind.POSITION, partition=("2026-01-02",), records=4321),
        delete_file("eq", DeleteKind.EQUALITY, partition=("2026-01-02",), records=12),
        delete_file("nothing", DeleteKind.DV, partition=("2025-12-31",), referenced="gone", records=7),
    ]
    health, plan = reported(files, deletes)
    return replace(health, timeline=life(20)), plan


def life(count: int) -> list[SnapshotInfo]:
    """Appends, and a compaction now and then."""
    return [
        SnapshotInfo(
            snapshot_id=1000 + n,
            at=NOW - timedelta(hours=count - n),
            operation="replace" if n % 8 == 7 else "append",
            data_files=n % 8 + 1,
            delete_files=n % 3,
            bytes=(n + 1) * MB,
        )
        for n in range(count)
    ]
