"""For all tests: Java is frugal, Python keeps what it has compiled, waits are short, and property tests try the same
examples each time."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from xdist.scheduler import LoadScopeScheduling

from tests.support.frugal import JAVA_OPTIONS

_GIVEN = os.environ.get("JDK_JAVA_OPTIONS", "")
if JAVA_OPTIONS not in _GIVEN:  # workers of xdist have them from whoever started them
    os.environ["JDK_JAVA_OPTIONS"] = f"{JAVA_OPTIONS} {_GIVEN}".strip()
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # as images have it: each process would compile all of it anew
_SHARING = ("acceptance", "servers")
"""Folders of which one worker has all tests: one warehouse, one server of each kind."""
_ALONE = (
    *("test_docs", "test_wheel"),
    *("test_monitoring", "test_observed_service", "test_schedules", "test_store_outages"),
)
"""Files there that share nothing."""
_ON_SERVERS = ("test_answers", "test_faults")
"""Files elsewhere that share servers."""
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "fast", derandomize=True, database=None, deadline=None, max_examples=15, suppress_health_check=_SLOW
)
settings.register_profile("thorough", parent=settings.get_profile("fast"), max_examples=100)
settings.register_profile("explore", parent=settings.get_profile("fast"), derandomize=False, max_examples=3000)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "fast")
settings.load_profile(PROFILE)
if PROFILE != "explore":
    # Values that stand in whatever modules are loaded would be tried, too: others, each time files are shared out anew.
    providers._get_local_constants = lambda: providers._local_constants


class FilesStayTogether(LoadScopeScheduling):
    """Tests that share what takes long to start go to one worker, and so do those of a file.

    Marks of groups do not: what xdist makes of them are names of tests that pytest does not ask for any more."""

    def _split_scope(self, nodeid: str) -> str:
        path = Path(nodeid.partition("::")[0])
        folder = path.parent.name
        if path.stem in _ON_SERVERS:
            return f"{folder} on servers"
        return folder if folder in _SHARING and path.stem not in _ALONE else str(path)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> FilesStayTogether:
    """Who runs what, if there are several workers."""
    return FilesStayTogether(config, log)


_WAITS = {
    "icepact.commit.protocol": "FIRST_WAIT",
    "icepact.housekeeping.expire": "_FIRST_WAIT",
    "icepact.housekeeping.manifests": "_FIRST_WAIT",
    "icepact.housekeeping.tags": "FIRST_WAIT",
    "icepact.housekeeping.ttl": "FIRST_WAIT",
    "icepact.iceberg.commit.delete": "FIRST_WAIT",
    "icepact.iceberg.commit.rewrite_manifests": "_FIRST_WAIT",
    "icepact.iceberg.commit.statistics": "_FIRST_WAIT",
    "icepact.maintain.convert": "FIRST_WAIT",
    "icepact.maintain.runs": "_FIRST_WAIT",
    "icepact.record.retries": "FIRST_PATIENCE",
}
"""Seconds before something is tried for the second time; they double from there."""


@pytest.fixture(scope="session", autouse=True)
def _short_waits() -> Iterator[None]:
    """What was in vain is tried again and again; people have the time that tests have not."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in _WAITS.items():
            patch.setattr(f"{module}.{name}", 0.01)
        yield
