"""Every record store, empty, with a clock that is set by hand."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from icepact.record.kv.store import KvStore
from icepact.record.sql import SqlStore
from icepact.record.store import RecordStore
from tests.support.records import NOON
from tests.support.servers.postgres import Postgres, fresh_database

STORES = ("memory", "sqlite", "postgres")


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now

    def passes(self, seconds: float) -> None:
        """Time goes by."""
        self.now += timedelta(seconds=seconds)


def made(kind: str, request: pytest.FixtureRequest, folder: Path, clock: Clock) -> RecordStore:
    """A new store; it is closed after the test."""
    store: SqlStore | KvStore
    match kind:
        case "memory":
            store = KvStore.in_memory(clock=clock)
        case "sqlite":
            store = SqlStore.in_file(folder / "not" / "there" / "yet" / "icepact.db", clock=clock)
        case _:
            server: Postgres = request.getfixturevalue("postgres")
            store = SqlStore(fresh_database(server), clock=clock)
    request.addfinalizer(store.close)
    return store
