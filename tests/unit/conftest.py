"""A world for the commit protocol."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.protocol_world import World


@pytest.fixture(scope="module")
def record_stores() -> Iterator[None]:
    """Shared by all worlds of a module."""
    from tests.support import protocol_world

    with protocol_world.record_stores():
        yield


@pytest.fixture
def stage(record_stores: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """icepact's own protocol code, with models of all else."""
    from tests.support import protocol_world

    protocol_world.set_the_stage(monkeypatch)


@pytest.fixture
def world(stage: None) -> Iterator["World"]:
    """A world in which nothing is left out."""
    from tests.support.protocol_world import World

    world = World()
    yield world
    world.close()
