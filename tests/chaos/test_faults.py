"""A handful of runs on a store, a catalog and a disk that fail: committed or cleanly failed, never half."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from icepact.model.run import Owner
from icepact.model.status import Status
from icepact.record.process import this_process
from icepact.record.sql import SqlStore
from tests.chaos.disks import WAYS, At, Disk, DiskTrials, small_disk
from tests.chaos.faults import Shore, shore_of
from tests.chaos.judge import LocalFiles, judge, look
from tests.chaos.kills import add_mess, make_table
from tests.support.compactors import short_compactor
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


@pytest.mark.parametrize("number", [pytest.param(0, marks=pytest.mark.matrix), 1])
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


@pytest.mark.parametrize(
    ("way", "step", "told"),
    [
        ("full", "written", "no space left on the disk of {disk}"),
        ("full", "attempting", "no space left on the disk of {disk}"),
        ("read-only", "attempting", "Read-only file system"),
    ],
)
def test_a_disk_that_fails(disk: Disk, tmp_path: Path, way: str, step: str, told: str) -> None:
    """The run knows that nothing landed, and says what is to be done."""
    entry = DiskTrials(tmp_path, disk, disk).trial(WAYS.index(way), seed=7, step=step)
    assert entry["clean"], entry
    assert entry["hit"], entry
    assert entry["status"] == "failed", entry
    assert told.format(disk=disk.path) in entry["error"], entry


def test_a_full_disk_is_recovered_with_the_tool(disk: Disk) -> None:
    """Tables, catalog and records are on one disk. A run that finds it full leaves nothing; what a dead one left can be
    deleted although nothing can be written down."""
    compactor = short_compactor(warehouse=disk.path / "recovered")
    compactor.spark.sql("CREATE NAMESPACE disks")
    make_table(compactor.spark, "disks.t", 2)
    add_mess(compactor.spark, "disks.t", 0)
    before = look(compactor, compactor.spark, "disks.t")
    folders = disk.path / "recovered/disks/t/data"
    try:
        outcome = compactor.compact("disks.t", progress=At("written", lambda: disk.fill(0)))
        assert outcome.status is Status.FAILED
        assert not list(folders.glob("icepact-*/**/*.parquet"))
        assert [run.status for run in compactor.runs("disks.t")] == [Status.FAILED]

        dead = replace(compactor.runs("disks.t")[0], run_id="dead", status=Status.RUNNING, owner=_gone())
        disk.free()
        compactor.application.store.begin(replace(dead, folder=str(folders / "icepact-dead")))
        (folders / "icepact-dead").mkdir()
        (folders / "icepact-dead/left.parquet").write_bytes(bytes(2_000_000))
        store = compactor.application.store
        assert isinstance(store, SqlStore)
        store.close()  # whoever comes next does not even find room for what reading needs
        disk.fill(0)
        later = short_compactor(warehouse=disk.path / "recovered")
        assert [run.run_id for run in later.runs("disks.t", open_only=True)] == ["dead"]
        [swept] = [entry for entry in later.cleanup("disks.t", delete=True) if entry.run_id == "dead"]
        assert (swept.deleted, swept.bytes, swept.status) == (True, 2_000_000, "abandoned")
    finally:
        disk.free()
    assert compactor.compact("disks.t").status is Status.COMMITTED
    assert judge(compactor, compactor.spark, "disks.t", before, LocalFiles(), failing=True).clean


def _gone() -> Owner:
    """A process of this machine that has ended."""
    return replace(this_process(), born=1)
