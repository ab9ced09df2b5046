"""Every record store, empty, with a clock that is set by hand."""

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from icepact.record.kv.etcd import Etcd
from icepact.record.kv.interface import KeyValue
from icepact.record.kv.memory import Memory
from icepact.record.kv.redis import Redis
from icepact.record.kv.store import KvStore
from icepact.record.sql import SqlStore
from icepact.record.store import RecordStore
from tests.support.records import NOON
from tests.support.servers.etcd import EtcdServer
from tests.support.servers.postgres import Postgres, fresh_database
from tests.support.servers.redis import RedisServer

STORES = ("memory", "sqlite", "postgres", "redis", "etcd")
SHARED = tuple(kind for kind in STORES if kind != "memory")
"""Those that several processes can use at once."""
BACKENDS = ("memory", "redis", "etcd")
"""Those over keys and values."""


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
        case "postgres":
            store = SqlStore(address_of(kind, request), clock=clock)
        case _:
            store = KvStore(backend_of(kind, request), clock=clock)
    request.addfinalizer(store.close)
    return store


def backend_of(kind: str, request: pytest.FixtureRequest) -> KeyValue:
    """An empty backend; its server is started if nobody has used it yet."""
    if kind == "memory":
        return Memory()
    return (Redis if kind == "redis" else Etcd)(address_of(kind, request))


def address_of(kind: str, request: pytest.FixtureRequest) -> str:
    """Of an empty store on a server, which is started if nobody has used it yet."""
    if kind == "postgres":
        database: Postgres = request.getfixturevalue("postgres")
        return fresh_database(database)
    server: RedisServer | EtcdServer = request.getfixturevalue(f"{kind}_server")
    return server.uri()
