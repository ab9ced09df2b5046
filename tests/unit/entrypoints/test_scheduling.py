"""Schedules in the processes that serve: one leads, and when it is killed another one does, without Java and Spark."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from icepact.entrypoints.serving import Service, build_service
from icepact.model.job import Job
from icepact.model.run import Lease
from tests.support.listed import listed, snapshot, write_metadata
from tests.support.schedules import work_off

SECONDS = 30.0


def served(given: dict[str, str]) -> "subprocess.Popen[str]":
    """A process of the API without workers."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.serving", json.dumps({"given": given, "port": 0, "workers": 0})],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )


def wait_for(found: Callable[[], bool]) -> None:
    """Until something is so."""
    until = time.monotonic() + SECONDS
    while not found():
        assert time.monotonic() < until
        time.sleep(0.1)


def leader(service: Service) -> Lease | None:
    """Who leads."""
    return service.store.lease(f"leader:{service.catalog.recorded_as}")


def jobs(service: Service) -> list[Job]:
    """All that schedules have made."""
    return list(service.jobs.list())


def test_schedules_fire_in_one_process_and_after_its_death_in_another(tmp_path: Path) -> None:
    warehouse = tmp_path / "w"
    warehouse.mkdir()
    listed(warehouse, [("db", "t", "", "TABLE")])
    write_metadata(warehouse, "t", 1, [snapshot(1)], **{"icepact.schedule": "1s", "icepact.operation": "health"})
    (tmp_path / "icepact.yaml").write_text(f"warehouse: {warehouse}\n")
    given = {"config": str(tmp_path / "icepact.yaml")}
    service = build_service(given, {})
    with ExitStack() as stack:
        processes = {process.pid: stack.enter_context(process) for process in (served(given), served(given))}
        for process in processes.values():
            stack.callback(process.kill)
        wait_for(lambda: len(jobs(service)) == 1)
        lease = leader(service)
        assert lease is not None
        processes[lease.owner.pid].kill()
        killed = time.monotonic()
        assert [job.request.table for job in work_off(service.store)] == ["db.t"]
        wait_for(lambda: len(jobs(service)) == 2)
        assert time.monotonic() - killed < 15
        after = leader(service)
        assert after is not None
        assert after.owner.pid in set(processes) - {lease.owner.pid}
        assert len({job.idempotency_key for job in jobs(service)}) == 2
        os.kill(after.owner.pid, signal.SIGTERM)
        assert processes[after.owner.pid].wait(SECONDS) == 0
        wait_for(lambda: leader(service) is None)  # given back
