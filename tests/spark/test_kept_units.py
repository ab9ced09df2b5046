"""A group that loses inputs to others, while deletes reach what it keeps: only units whose files are gone are done
again, whether the run lives or dies in between."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.model.progress import UnitDone
from icepact.model.status import Status
from tests.support.later import clean_up_later
from tests.support.meanwhile import Meanwhile
from tests.support.messy import equality_delete
from tests.support.oracle import data_files, delete_files
from tests.support.tables import create

ROWS = 100
"""Of each file; ids follow each other from file to file."""
THERE = [i for i in range(9 * ROWS) if i % 50 != 7]


class Several:
    """Others, in the middle of a run."""

    def __init__(self, *others: Meanwhile) -> None:
        self._others = others

    def advance(self, done: UnitDone) -> None:
        """Nothing to do."""

    def step(self, name: str) -> None:
        """Whose time has come."""
        for other in self._others:
            other.step(name)


@pytest.fixture(params=[2, 3])
def table(request: pytest.FixtureRequest, spark: SparkSession, namespace: str) -> str:
    """Nine files; rows of each were deleted before."""
    name = create(spark, f"{namespace}.t", "id bigint, word string", version=request.param)
    for first in range(0, 9 * ROWS, ROWS):
        rows = spark.range(first, first + ROWS, 1, 1).selectExpr("id", "concat('w', md5(cast(id AS string))) AS word")
        rows.writeTo(name).append()
    spark.sql(f"DELETE FROM {name} WHERE id % 50 = 7")
    return name


@pytest.fixture
def three_units(spark: SparkSession, table: str) -> dict[str, Any]:
    """Options by which the table's files become one group of three units."""
    size = Path(data_files(spark, table)[0].removeprefix("file:")).stat().st_size
    sizes = {"target_file_size": int(2.9 * size), "max_file_size": int(3.2 * size), "min_file_size": int(2.8 * size)}
    return {**sizes, "min_row_group_size": "1KB", "min_input_files": 2, "rewrite_all": True}


def changed(spark: SparkSession, table: str) -> dict[int, bool]:
    """All ids, and whether somebody wrote their row anew."""
    rows = spark.sql(f"SELECT id, word = 'new' FROM {table}").collect()
    assert len(rows) == len({row[0] for row in rows})
    return {row[0]: row[1] for row in rows}


def written(spark: SparkSession, table: str) -> list[str]:
    """Unit, epoch and round of the live files that runs wrote."""
    parts = [path.rsplit("/", 1)[-1].split("-")[2:5] for path in data_files(spark, table)]
    return sorted("-".join(part[1:]) for part in parts if part[0].startswith("g"))


def carried_out(
    compactor: Compactor, table: str, options: dict[str, Any], others: Callable[[], None], late: Callable[[], None]
) -> Any:
    """A run in which others come before its first commit, and somebody else before the second."""
    return compactor.compact(
        table, progress=Several(Meanwhile("proven", others), Meanwhile("attempting", late)), **options
    )


def carried_out_by_two(
    compactor: Compactor, table: str, options: dict[str, Any], others: Callable[[], None], late: Callable[[], None]
) -> Any:
    """The same, by a process that dies in its second round, and another that goes on."""

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carried_out(compactor, table, options, others, die)
    late()
    return compactor.resume_dead(table)


_LAST, _FIRST = ([2, 2, 2], ["0-00", "1-00"]), ([0], ["0-01", "1-00", "2-00"])


@pytest.mark.parametrize(
    ("how", "deletes", "lost", "kept"),
    [
        pytest.param(carried_out, "apply", *_LAST, id="the last unit, applied"),
        pytest.param(carried_out, "apply", *_FIRST, id="a file of the first, applied", marks=pytest.mark.matrix),
        pytest.param(carried_out_by_two, "carry", *_LAST, id="the last unit, carried", marks=pytest.mark.matrix),
        pytest.param(carried_out_by_two, "carry", *_FIRST, id="a file of the first, carried"),
    ],
)
def test_other_units_are_kept(
    compactor: Compactor,
    spark: SparkSession,
    table: str,
    three_units: dict[str, Any],
    how: Callable[..., Any],
    lost: list[int],
    kept: list[str],
    deletes: str,
) -> None:
    options = {**three_units, "deletes": deletes}
    [step] = compactor.plan(table, **options).rewrites
    first = {row[0]: row[1] for row in spark.sql(f"SELECT _file, min(id) FROM {table} GROUP BY _file").collect()}
    units = [[first[file.path] for file in unit.files] for unit in step.units]
    assert [len(unit) for unit in units] == [3, 3, 3]
    updated = [units[unit][number] for number, unit in enumerate(lost)]
    by_position, by_key, in_the_end = units[1][0] + 1, [units[1][1] + 2, units[0][2] + 3], units[1][0] + 4

    def others() -> None:
        spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.update.mode' = 'copy-on-write')")
        spark.sql(f"UPDATE {table} SET word = 'new' WHERE id IN ({', '.join(map(str, updated))})")
        spark.sql(f"DELETE FROM {table} WHERE id = {by_position}")
        equality_delete(spark, f"local.{table}", [{"id": i} for i in by_key], columns=["id"])
        spark.range(by_key[0], by_key[0] + 1, 1, 1).selectExpr("id", "'new' AS word").writeTo(table).append()

    outcome = how(compactor, table, options, others, lambda: spark.sql(f"DELETE FROM {table} WHERE id = {in_the_end}"))
    assert outcome.status is Status.COMMITTED
    left = {i: i in updated for i in THERE if i not in (by_position, in_the_end, by_key[1])} | {by_key[0]: True}
    assert changed(spark, table) == left
    assert written(spark, table) == kept
    clean_up_later(compactor, table)
    assert compactor.compact(table, rewrite_all=True).status is Status.COMMITTED
    assert (changed(spark, table), delete_files(spark, table)) == (left, [])
