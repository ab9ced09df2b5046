"""Lists of jobs in a database: however many jobs have ended, no more of them are read than are asked for."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from icepact.model.job import JobStatus
from icepact.record.sql import SqlStore

OF_ONE: dict[str, Any] = {"catalog": "c", "tenant": "t"}
LISTS: dict[str, Callable[[SqlStore], object]] = {
    "all of a tenant": lambda store: store.jobs(**OF_ONE),
    "the next page": lambda store: store.jobs(**OF_ONE, before="20260101"),
    "of a table": lambda store: store.jobs(**OF_ONE, table="db.t", before="20260101"),
    "of one state": lambda store: store.jobs(**OF_ONE, statuses=[JobStatus.SUCCEEDED]),
    "of several states": lambda store: store.jobs(**OF_ONE, statuses=[JobStatus.FAILED, JobStatus.CANCELLED]),
}
QUEUES: dict[str, Callable[[SqlStore], object]] = {
    "the queue": lambda store: store.queue_sizes("c"),
    "what runs": lambda store: store.jobs(catalog="c", statuses=[JobStatus.RUNNING]),
    "what is old": lambda store: store.forget_jobs(before=store.now()),
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    """A file with its tables."""
    made = SqlStore(f"sqlite:///{tmp_path}/icepact.db")
    made.put_document("any", "thing", {})
    yield made
    made.close()


def steps(store: SqlStore, asked: Callable[[SqlStore], object]) -> list[str]:
    """How SQLite finds what is asked for."""
    said: list[tuple[str, Any]] = []

    def hear(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        said.append((statement, parameters))

    event.listen(store._engine, "before_cursor_execute", hear)
    asked(store)
    event.remove(store._engine, "before_cursor_execute", hear)
    with store._engine.connect() as connection:
        plans = [
            connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            for statement, parameters in said
            if "jobs" in statement
        ]
    assert plans
    return [str(row[3]) for plan in plans for row in plan]


@pytest.mark.parametrize("name", [*LISTS, *QUEUES])
def test_no_list_reads_all_jobs(store: SqlStore, name: str) -> None:
    found = steps(store, {**LISTS, **QUEUES}[name])
    assert [step for step in found if step.startswith("SCAN jobs")] == []
    searched = [step for step in found if step.startswith("SEARCH jobs")]
    assert searched
    assert [step for step in searched if step.endswith("(catalog=?)")] == []


@pytest.mark.parametrize("name", LISTS)
def test_lists_are_read_in_their_order(store: SqlStore, name: str) -> None:
    assert [step for step in steps(store, LISTS[name]) if "TEMP B-TREE" in step] == []
