"""Marks by which transactions in PostgreSQL are found again whose answer was lost."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, text

from icepact.model.errors import RunLost
from icepact.model.run import Claim
from icepact.model.status import Status
from icepact.record.rows import KEYS
from icepact.record.slots import Slot
from icepact.record.sql import SqlStore
from icepact.record.tables import LAST_TRANSACTIONS, METADATA, RUNS
from tests.support.records import run_record
from tests.support.stores import Clock, made


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> SqlStore:
    """In PostgreSQL, with one run."""
    store = made("postgres", request, tmp_path, clock)
    assert isinstance(store, SqlStore)
    store.begin(run_record("r1"))
    return store


@contextmanager
def writing(store: SqlStore, *, lands: bool = True) -> Iterator[Slot]:
    """A transaction that has changed something and left its mark, and goes on until the end of this block."""
    with store._engine.connect() as connection:
        begun = connection.begin()
        connection.execute(text("SELECT txid_current()"))  # as the first change would
        mark = store._marks.leave(connection)
        assert mark is not None
        yield mark
        begun.commit() if lands else begun.rollback()


def marks(store: SqlStore) -> set[str]:
    """Names that are there."""
    with store._engine.connect() as connection:
        return set(connection.execute(LAST_TRANSACTIONS.select()).scalars())


def test_a_transaction_has_landed_if_its_mark_is_there(store: SqlStore) -> None:
    """Of several at once, and one after the other."""
    for _ in range(2):
        with ExitStack() as open_now:
            all_marks = [open_now.enter_context(writing(store, lands=lands)) for lands in (True, False, True)]
        assert [store._landed(mark) for mark in all_marks] == [True, False, True]
        for mark in all_marks:
            store._marks.give_back(mark)
    assert len(marks(store)) == 3


@pytest.mark.parametrize("lands", [True, False])
@pytest.mark.parametrize("known", [True, False], ids=["by a later mark", "by its first mark"])
def test_whoever_asks_waits_until_the_transaction_has_ended(store: SqlStore, lands: bool, known: bool) -> None:
    if not known:
        store._marks = type(store._marks)()
    with ThreadPoolExecutor(1) as pool:
        with writing(store, lands=lands) as mark:
            answer = pool.submit(store._landed, mark)
            while not somebody_waits(store):
                assert not answer.done()
        assert answer.result() is lands


def somebody_waits(store: SqlStore) -> bool:
    """Whether somebody waits for somebody else's row."""
    with store._engine.connect() as connection:
        return bool(connection.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted")).scalar())


def test_a_transaction_that_writes_nothing_leaves_no_mark(store: SqlStore) -> None:
    before = marks(store)
    other = SqlStore(store._url.render_as_string(hide_password=False))
    with other._writing() as connection:
        connection.execute(RUNS.select())
    assert not other.ask_to_cancel("r2")
    with pytest.raises(RunLost):
        other.move(Claim(run_id="r2", epoch=0), Status.RUNNING)
    assert marks(store) == before
    other.swept("r1", other.now())
    other.swept("r1", other.now())
    assert len(marks(store)) == len(before) + 1
    other.close()


def test_marks_of_processes_that_ended_are_removed_after_a_week(store: SqlStore) -> None:
    def lay(name: str, days: int) -> None:
        with store._engine.begin() as connection:
            at = f"now() - interval '{days} days'"
            connection.execute(text(f"INSERT INTO last_transactions VALUES ('{name}', 1, {at})"))

    lay("old", 8)
    lay("recent", 6)
    lay("locked", 8)
    with store._engine.begin() as connection:  # its process has come back
        locks(connection, "locked")
        other = SqlStore(store._url.render_as_string(hide_password=False))
        other.swept("r1", other.now())
        other.close()
    assert marks(store) >= {"recent", "locked"}
    assert "old" not in marks(store)


def locks(connection: Connection, name: str) -> None:
    """Hold a mark until the transaction ends."""
    connection.execute(LAST_TRANSACTIONS.select().where(LAST_TRANSACTIONS.c.writer == name).with_for_update())


def test_a_mark_that_was_removed_is_made_anew(store: SqlStore) -> None:
    with store._engine.begin() as connection:
        connection.execute(LAST_TRANSACTIONS.delete())
    with writing(store) as mark:
        pass
    assert mark.number == 2
    assert store._landed(mark)


def test_marks_are_no_part_of_what_a_store_keeps() -> None:
    assert set(METADATA.tables) - set(KEYS) == {"last_transactions"}
