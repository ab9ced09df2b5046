"""Statistics as values: what is planned and done can be stored, read again and read by people."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from icepact.model.cost import Cost
from icepact.model.documents import from_json, to_json
from icepact.model.effort import Estimate
from icepact.model.housekeeping import Kept
from icepact.model.statistics import ComputeStatistics, StatisticsAge, StatisticsResult

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
AGE = StatisticsAge(
    snapshot_id=3,
    computed_from=2,
    computed_at=NOON,
    snapshots=4,
    rows_changed=30,
    files_changed=1,
    rows=100,
    files=10,
    same_rows=False,
)
STEP = ComputeStatistics(
    branch="main",
    snapshot_id=7,
    table="compute",
    partitions="compute",
    columns=("id", "price", "day"),
    table_age=AGE,
    bytes_to_read=5 * 1024**2,
    wanted_columns=("id", "price", "day", "tags"),
    stale_after=0.1,
    planned_at=NOON + timedelta(hours=3),
    reason="30% of the rows changed since",
    kept=(Kept(what="column tags", why="it is a list"), Kept(what="column more", why="it is a map")),
    cost=Cost(seconds=Estimate(likely=2.0, low=1.0, high=4.0), requests=20, write_requests=2),
)
RESULT = StatisticsResult(
    table="compute",
    partitions="compute",
    columns=3,
    of_snapshot=7,
    files=("/w/metadata/7.stats", "/w/metadata/partition-stats-7.parquet"),
    bytes_written=900,
    seconds=2.5,
)


def test_steps_and_results_survive_the_store() -> None:
    for value in (STEP, replace(STEP, wanted_columns=None, table_age=None, partition_age=AGE), RESULT, AGE):
        assert from_json(type(value), to_json(value)) == value


def test_documents_say_how_much_has_changed() -> None:
    document = STEP.to_dict()
    assert document["kind"] == "compute-statistics"
    assert document["table_age"]["rows_share"] == 0.3
    assert document["table_age"]["files_share"] == 0.1
    assert document["planned_at"] == "2026-03-01T15:00:00+00:00"


def test_what_a_plan_shows() -> None:
    assert STEP.explain(2) == [
        "compute statistics of snapshot 7: 30% of the rows changed since",
        "  sketches of 3 columns: id, price and 1 more",
        "  sketches there are: of snapshot 2, 30 rows and 1 file changed since, 3 h ago",
        "  partition statistics: from scratch",
        "  reads 5.0 MB at most",
        "  stays: column tags: it is a list",
        "  stays: column more: it is a map",
    ]
    assert "  sketches of 3 columns: id, price, day" in STEP.explain(None)


def test_what_a_plan_shows_of_sketches_that_are_carried_over() -> None:
    step = replace(
        STEP,
        table="carry over",
        columns=(),
        partition_age=AGE,
        table_age=replace(AGE, computed_at=None, rows_changed=None),
        bytes_to_read=0,
        kept=(),
        reason="no row has changed since the sketches were registered",
    )
    assert step.explain(5) == [
        "compute statistics of snapshot 7: no row has changed since the sketches were registered",
        "  sketches are registered for this snapshot as well: no row is read",
        "  sketches there are: of snapshot 2, and nobody can tell how much has changed since",
        "  partition statistics: from what has changed since",
        "  partition statistics there are: of snapshot 2, 30 rows and 1 file changed since, 3 h ago",
    ]


def test_what_people_read_of_a_result() -> None:
    assert RESULT.lines() == [
        "statistics of snapshot 7: sketches of 3 columns computed and partition statistics computed in 2.5 s"
    ]
    carried = replace(RESULT, table="carry over", partitions="keep", reason="one column has none")
    assert carried.lines() == [
        "statistics of snapshot 7: sketches of 3 columns carried over in 2.5 s",
        "  one column has none",
    ]
    assert StatisticsResult(reason="the sketches are those of the head").lines() == [
        "no statistics were computed: the sketches are those of the head"
    ]


def test_nothing_known_is_no_share() -> None:
    assert replace(AGE, rows_changed=None).rows_share is None
    assert replace(AGE, rows=None).rows_share is None
    assert replace(AGE, rows=None, rows_changed=0).rows_share == 0
    assert replace(AGE, rows=0).rows_share == 30
