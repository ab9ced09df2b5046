"""Property tests give the same answer for the same commit; `HYPOTHESIS_PROFILE=explore` looks further."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from tests.support.protocol_world import World

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("steady", derandomize=True, database=None, deadline=None, suppress_health_check=_SLOW)
settings.register_profile(
    "explore", derandomize=False, database=None, deadline=None, max_examples=3000, suppress_health_check=_SLOW
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


# -- a world for the commit protocol --------------------------------------------------------------


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
