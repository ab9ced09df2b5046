"""When partition groups were last compacted, as snapshots tell it."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from icepact.assess.recovered import clocks_of_snapshots
from icepact.model.plan import OLD_SPECS
from icepact.model.snapshot import LastRun
from icepact.stats.table import FileStats, file_stats_of
from tests.support.states import data_file, make_state

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SEEN = datetime(2026, 1, 1, 11, tzinfo=UTC)


def run(own: int, **given: Any) -> LastRun:
    """A complete run that planned at noon from the snapshot before its own."""
    facts: dict[str, Any] = {"layout": "any", "snapshot_id": own, "tier": "full", "planned_at": NOON, **given}
    return LastRun(own_sequence_numbers=frozenset({own}), pinned_sequence_number=own - 1, **facts)


def table(*runs: LastRun, **given: Any) -> FileStats:
    """Day d1 was written by number 3, d2 by numbers 5 and 6, d3 by nobody of us."""
    files = [
        data_file("a", 10, sequence_number=3),
        data_file("b", 10, partition=("d2",), sequence_number=5),
        data_file("c", 10, partition=("d2",), sequence_number=6),
        data_file("d", 10, partition=("d3",), sequence_number=4),
        data_file("e", 10, spec_id=2, partition=("eu",), sequence_number=3),
    ]
    state = make_state(files, **given)
    return file_stats_of(replace(state, last_runs=runs, moments=((2, int(SEEN.timestamp() * 1000)),)))


def test_partitions_with_files_of_runs_were_compacted_then() -> None:
    found = clocks_of_snapshots(table(run(5), run(3, tier="minor")))
    assert found == {"day=d1": {"minor": SEEN}, "day=d2": {"full": NOON}, OLD_SPECS: {"minor": SEEN}}


def test_the_latest_run_of_a_tier_counts() -> None:
    later = datetime(2026, 1, 2, tzinfo=UTC)
    assert clocks_of_snapshots(table(run(6, planned_at=later), run(5)))["day=d2"] == {"full": later}


def test_runs_of_older_versions_and_tables_without_numbers_tell_nothing() -> None:
    assert clocks_of_snapshots(table(run(5, tier=None))) == {}
    assert clocks_of_snapshots(table(run(5, planned_at=None))) == {}
    assert clocks_of_snapshots(table(run(5), format_version=1)) == {}
