"""Options, one by one: what is planned, what is written, and where the wish may come from."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.model.errors import BadInput
from icepact.model.status import Status
from tests.support.checks import keeps_rows
from tests.support.oracle import data_files, seen
from tests.support.tables import create

KB = 1024
PLAIN = {"write.parquet.compression-codec": "uncompressed"}
"""So that sizes follow from the number of rows: a row of `append` takes a kilobyte, a footer three."""


def append(spark: SparkSession, table: str, rows: int, *, files: int, kinds: str = "a", first: int = 0) -> None:
    """Rows of a kilobyte, evenly over the files, each file with rows of every kind."""
    kind = f"substr('{kinds}', int(id % {len(kinds)}) + 1, 1) AS kind"
    spark.range(first, first + rows, 1, files).selectExpr(
        "id", kind, "array_join(transform(sequence(1, 32), n -> md5(string(id * 100 + n))), '') AS text"
    ).writeTo(table).append()


def kilobytes(spark: SparkSession, table: str) -> list[int]:
    """Sizes of the live data files, smallest first."""
    rows = spark.sql(f"SELECT file_size_in_bytes FROM {table}.data_files").collect()
    return sorted(round(row[0] / KB) for row in rows)


@pytest.fixture
def table(spark: SparkSession, namespace: str) -> str:
    return create(spark, f"{namespace}.t", "id bigint, kind string, text string", properties=PLAIN)


@pytest.fixture
def kinds(spark: SparkSession, namespace: str) -> str:
    """Partitioned; the partitions a, b and c hold five files of 4 kB each."""
    name = create(spark, f"{namespace}.kinds", "id bigint, kind string, text string", "kind", properties=PLAIN)
    append(spark, name, 60, files=5, kinds="abc")
    return name


# -- sizes ----------------------------------------------------------------------------------------


def test_target_file_size(compactor: Compactor, spark: SparkSession, table: str) -> None:
    """Outputs come close to the target; none is above the maximum, which is 1.8 targets."""
    append(spark, table, 224, files=16)
    assert kilobytes(spark, table) == [17] * 16
    outcome = keeps_rows(compactor, table, target_file_size="64KB")
    sizes = kilobytes(spark, table)
    assert len(sizes) == 4
    assert set(sizes) <= {59, 60, 61, 62}  # four footers became one
    assert outcome.files_after == 4


def test_min_and_max_file_size(compactor: Compactor, spark: SparkSession, table: str) -> None:
    """Files at or above the minimum are left alone; no output is above the maximum."""
    append(spark, table, 96, files=2)
    large = set(data_files(spark, table))
    append(spark, table, 60, files=10, first=96)
    assert kilobytes(spark, table) == [9] * 10 + [52] * 2

    keeps_rows(compactor, table, target_file_size="64KB", min_file_size="40KB", max_file_size="66KB")

    assert large < set(data_files(spark, table))
    small = kilobytes(spark, table)
    assert (len(small), max(small)) == (4, 52)
    keeps_rows(compactor, table, target_file_size="100KB", min_file_size="90KB", max_file_size="101KB")
    assert len(kilobytes(spark, table)) == 2
    assert max(kilobytes(spark, table)) <= 101


def test_sizes_that_contradict(compactor: Compactor, spark: SparkSession, table: str) -> None:
    with pytest.raises(BadInput, match=r"min_file_size 2.0 MB is above the target 1.0 MB"):
        compactor.plan(table, target_file_size="1MB", min_file_size="2MB")
    with pytest.raises(BadInput, match=r"max_file_size 512 KB is below the target 1.0 MB"):
        compactor.plan(table, target_file_size="1MB", max_file_size="512KB")


def test_min_input_files(compactor: Compactor, spark: SparkSession, table: str) -> None:
    """Three small files beside large ones: worth it only if three are enough."""
    append(spark, table, 200, files=4)
    append(spark, table, 30, files=3, first=200)
    sizes: dict[str, Any] = {"target_file_size": "50KB", "min_file_size": "30KB"}
    plan = compactor.plan(table, min_input_files=4, **sizes)
    assert plan.rewrites == ()
    assert [(entry.files, entry.reason) for entry in plan.left_out] == [(7, "only 3 files below 30.0 KB, 4 are wanted")]
    outcome = keeps_rows(compactor, table, min_input_files=3, **sizes)
    assert (outcome.groups[0].input_files, outcome.groups[0].output_files) == (3, 1)


def test_max_delete_ratio(compactor: Compactor, spark: SparkSession, table: str) -> None:
    """A file of the right size is rewritten when more of it is deleted than the ratio allows."""
    append(spark, table, 100, files=1)
    spark.sql(f"DELETE FROM {table} WHERE id % 5 = 0")
    sizes: dict[str, Any] = {"target_file_size": "50KB", "max_file_size": "200KB"}
    before = seen(spark, table)
    assert compactor.plan(table, max_delete_ratio=0.2, **sizes).rewrites == ()
    outcome = compactor.compact(table, max_delete_ratio=0.19, **sizes)
    assert (outcome.status, outcome.rows_deleted, outcome.delete_files_removed) == (Status.COMMITTED, 20, 1)
    assert seen(spark, table) == before


def test_tiny_target_settles(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """Outputs much smaller than predicted are not taken up again, until somebody writes into their partition."""
    table = create(spark, f"{namespace}.t", "id bigint, kind string, text string", "kind")
    for first in (0, 60):
        append(spark, table, 60, files=10, kinds="abc", first=first)
    options: dict[str, Any] = {"target_file_size": "64KB"}
    before = sum(kilobytes(spark, table))
    keeps_rows(compactor, table, **options)
    assert sum(kilobytes(spark, table)) < before * 0.8
    assert len(kilobytes(spark, table)) > 3  # packing alone would join these

    append(spark, table, 10, files=5, first=200, kinds="b")
    assert {step.partition for step in compactor.plan(table, **options).rewrites} == {"kind=b"}
    outcome = keeps_rows(compactor, table, **options)
    assert {g.partition for g in outcome.groups} == {"kind=b"}


# -- how much -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("budget", "named", "fewest"),
    [({"max_files": 7}, "max_files 7", 3), ({"max_bytes": "30KB"}, "max_bytes 30.0 KB", 4)],
    ids=["files", "bytes"],
)
def test_budget(
    compactor: Compactor, spark: SparkSession, kinds: str, budget: dict[str, int | str], named: str, fewest: int
) -> None:
    """Never exceeded, and what it holds back is named; run by run the table gets there all the same."""
    before = seen(spark, kinds)
    runs = 0
    while (plan := compactor.plan(kinds, **budget)).rewrites:
        assert plan.predicted.input_files <= 7
        assert plan.predicted.input_bytes <= (30 * KB if "max_bytes" in budget else 15 * 5 * KB)
        held_back = sum(e.files for e in plan.left_out if e.reason == f"over the budget ({named})")
        assert (held_back == 0) == plan.complete
        outcome = compactor.apply(plan)
        assert outcome.status is Status.COMMITTED
        assert sum(g.input_files for g in outcome.groups) == plan.predicted.input_files
        runs += 1
    assert fewest <= runs <= 2 * fewest
    assert seen(spark, kinds) == before
    assert len(data_files(spark, kinds)) == 3


def test_groups(compactor: Compactor, spark: SparkSession, table: str) -> None:
    """Groups are cut by files and bytes, and committed together."""
    append(spark, table, 120, files=12)
    assert kilobytes(spark, table) == [13] * 12
    plan = compactor.plan(table, target_file_size="40KB", max_group_size="90KB")
    assert [len(step.files) for step in plan.rewrites] == [6, 6]
    outcome = keeps_rows(compactor, table, target_file_size="40KB", max_group_files=4)
    assert [g.input_files for g in outcome.groups] == [3, 3, 3, 3]


# -- which ----------------------------------------------------------------------------------------


def test_where(compactor: Compactor, spark: SparkSession, namespace: str) -> None:
    """By column, partition and transform: the filter selects files, and never drops the rows it does not match."""
    table = create(spark, f"{namespace}.t", "id bigint, at timestamp, kind string", "days(at), kind")
    at = "timestamp'2026-01-01 10:00:00' + make_interval(0, 0, 0, int(id % 3))"
    spark.range(0, 300, 1, 6).selectExpr("id", f"{at} AS at", "substr('ab', int(id % 2) + 1, 1) AS kind").writeTo(
        table
    ).append()
    for where, partitions, files in (
        ("at >= '2026-01-02' AND at < '2026-01-03' AND kind = 'a'", ["at_day=2026-01-02/kind=a"], 6),
        (
            "local.system.days(at) = date'2026-01-03'",
            ["at_day=2026-01-03/kind=a", "at_day=2026-01-03/kind=b"],
            6,
        ),
        (
            "id BETWEEN 60 AND 120 AND system.days(at) = date'2026-01-01' AND kind = 'b'",
            ["at_day=2026-01-01/kind=b"],
            2,
        ),
    ):
        outcome = keeps_rows(compactor, table, where=where)
        assert sorted((g.partition, g.input_files) for g in outcome.groups) == [(name, files) for name in partitions]
    assert compactor.compact(table, where="kind = 'nobody'").status is Status.NOTHING_TO_DO
    for wrong in ("no_such_column = 1", "id +", "id + 1 = 3"):
        with pytest.raises(BadInput, match=r"^where "):
            compactor.plan(table, where=wrong)


def test_rewrite_all(compactor: Compactor, spark: SparkSession, kinds: str) -> None:
    """Every file, needed or not; once more if asked once more."""
    keeps_rows(compactor, kinds)
    before = seen(spark, kinds)
    for _ in range(2):
        files = set(data_files(spark, kinds))
        outcome = compactor.compact(kinds, rewrite_all=True)
        assert (outcome.status, outcome.files_before, outcome.files_after) == (Status.COMMITTED, 3, 3)
        assert not files & set(data_files(spark, kinds))
        assert seen(spark, kinds) == before


# -- where a wish comes from ----------------------------------------------------------------------


def test_precedence(compactor: Compactor, spark: SparkSession, table: str, tmp_path: Path) -> None:
    """Request over table property over configuration over the table's own default over the built-in one."""
    append(spark, table, 224, files=16)
    config = tmp_path / "icepact.yaml"
    config.write_text("policy: {target_file_size: 96KB, min_input_files: 9}\n")
    configured = Compactor(warehouse=compactor.catalog.embedded, config=config)

    def target(who: Compactor, **request: str) -> tuple[int, str]:
        policy = who.plan(table, **request).policy
        return policy.target_file_size, policy.sources["target_file_size"]

    assert target(compactor) == (512 * KB * KB, "default")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.target-file-size-bytes' = '131072')")
    assert target(compactor) == (128 * KB, "table default")
    assert target(configured) == (96 * KB, "configuration")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('icepact.target-file-size' = '64KB')")
    assert target(configured) == (64 * KB, "table property")
    assert target(configured, target_file_size="32KB") == (32 * KB, "request")
    policy = configured.plan(table).policy
    assert (policy.min_input_files, policy.sources["min_input_files"]) == (9, "configuration")

    keeps_rows(compactor, table)
    assert len(kilobytes(spark, table)) == 4
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('icepact.target-file-size' = 'large')")
    with pytest.raises(BadInput, match=r"target_file_size: 'large' is not a size: .*\(table property\)"):
        compactor.plan(table)
