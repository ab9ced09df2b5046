"""A handful of runs on a store, a catalog and a disk that fail: committed or cleanly failed, never half."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.disks import WAYS, Disk, DiskTrials, small_disk
from tests.chaos.faults import Shore, shore_of
from tests.support.servers.faulty import Fault, Rates
from tests.support.servers.rest import RestCatalog


@pytest.fixture(scope="module")
def shore(rest_catalog: RestCatalog, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shore]:
    """S3 and a REST catalog behind faulty proxies."""
    with shore_of(tmp_path_factory.mktemp("shore"), rest_catalog) as found:
        yield found


@pytest.fixture(scope="module")
def disk() -> Iterator[Disk]:
    """A disk that can fail."""
    with small_disk() as found:
        yield found


@pytest.mark.parametrize("number", [0, 1])
def test_a_store_that_fails(shore: Shore, number: int) -> None:
    """At the rates of the long form, where nearly all runs are committed."""
    entry = shore.storage_trial(number, seed=7)
    assert entry["clean"], entry
    assert entry["hit"], entry


@pytest.mark.matrix
def test_a_store_that_fails_most_of_the_time(shore: Shore) -> None:
    """No client is patient enough for this."""
    entry = shore.storage_trial(2, seed=7, rates=Rates(failed=0.4, dropped=0.4))
    assert entry["clean"], entry
    assert entry["status"] != "committed"


@pytest.mark.parametrize("number", [0, 2], ids=[Fault.DROP, Fault.LOSE])
def test_a_catalog_that_goes_away_during_the_commit(shore: Shore, number: int) -> None:
    """Before it heard of the commit, and after it did."""
    entry = shore.catalog_trial(number, seed=7, longest=1)
    assert entry["clean"], entry
    assert entry["hit"], entry


@pytest.mark.parametrize("number", [0, 1], ids=WAYS[:2])
def test_a_disk_that_fails(disk: Disk, tmp_path: Path, number: int) -> None:
    entry = DiskTrials(disk, disk, tmp_path).trial(number, seed=7)
    assert entry["clean"], entry
    assert entry["hit"], entry
