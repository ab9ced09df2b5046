"""Every record store, for the behaviour suite."""

from pathlib import Path

import pytest

from icepact.record.store import RecordStore
from tests.support.servers.fixtures import (  # noqa: F401
    etcd_server,
    postgres,
    redis_server,
    servers_folder,
)
from tests.support.stores import STORES, Clock, made


@pytest.fixture
def clock() -> Clock:
    """It is noon."""
    return Clock()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> RecordStore:
    """Every store, empty."""
    return made(request.param, request, tmp_path, clock)
