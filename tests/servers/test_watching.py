"""Who waits for jobs is told by servers that are killed, by lines that are cut, and in other processes."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from icepact.entrypoints.serving import build_service
from icepact.model.job import Job, JobStatus, Operation
from icepact.record import database, hearing
from icepact.record.open import open_store
from icepact.record.store import RecordStore
from icepact.schedule.queue import next_job
from tests.support.ears import Ear
from tests.support.jobs import US, job_request, make_job
from tests.support.patient import WAITS
from tests.support.servers.cutting import door_to
from tests.support.servers.durable import KINDS, Server, address_of
from tests.support.servers.process import free_ports
from tests.support.servers.silent import line_to
from tests.support.servers.trial import ROOT


def by_way_of(address: str, server: Server, port: int) -> str:
    """The same address by way of another port."""
    return address.replace(f":{server.port}", f":{port}")


def nobody_hears() -> bool:
    """Whether no thread is left."""
    return not any(thread.name == "icepact-hearing" for thread in threading.enumerate())


def test_a_server_that_is_killed_and_comes_back_tells_again(server: Server) -> None:
    address, ear = address_of(server), Ear()
    store, other = open_store(address), open_store(address)
    with store.watch(ear):
        ear.until("")
        server.process.kill()
        ear.clear()
        server.process.start()
        ear.until("")  # what was missed meanwhile is looked for
        other.submit_job(make_job("j1"))
        ear.until("j1")
    assert nobody_hears()
    store.close()
    other.close()


def test_a_line_that_is_cut_is_opened_again(server: Server) -> None:
    address, ear = address_of(server), Ear()
    other = open_store(address)
    with door_to(server.port) as door:
        store = open_store(by_way_of(address, server, door.port))
        with store.watch(ear):
            ear.until("")
            for job_id in ("j1", "j2"):
                door.cut()
                ear.until("")
                other.submit_job(make_job(job_id))
                ear.until(job_id)
        store.close()
    other.close()


def test_a_line_that_goes_dead_without_a_word_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("icepact.record.hearing", "icepact.record.kv.etcd"):
        monkeypatch.setattr(f"{name}.SILENCE", 0.3)
    address, ear = address_of(server), Ear()
    other = open_store(address)
    with line_to(server.port) as line:
        store = open_store(by_way_of(address, server, line.port))
        with store.watch(ear):
            ear.until("")
            line.die()
            other.submit_job(make_job("j1"))
            ear.clear()
            ear.until("")
            monkeypatch.undo()
            other.submit_job(make_job("j2"))
            ear.until("j2")
        store.close()
    other.close()


@pytest.mark.parametrize("mute", [False, True], ids=["gone", "mute"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_away_keeps_nobody_from_ending(kind: str, mute: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether nobody is there, or somebody who takes what is said and never answers."""
    monkeypatch.setattr("icepact.record.kv.redis._TIMEOUT", 1.0)
    monkeypatch.setitem(database._TIMEOUTS, "connect_timeout", 2)
    with line_to(None) as line:
        port = line.port if mute else free_ports(1)[0]
        store = open_store(f"{kind}://127.0.0.1:{port}/db")
        began = time.monotonic()
        with store.watch(Ear()):
            while mute and not line.swallowed:
                time.sleep(0.001)
        assert time.monotonic() - began < hearing._TO_END + 5
        until = time.monotonic() + 10
        while not nobody_hears():
            assert time.monotonic() < until
        store.close()


@contextmanager
def told(*command: str, folder: Path, store: str) -> Iterator["subprocess.Popen[str]"]:
    """A process that looks into the record store when it is told to."""
    program = [sys.executable, "-m", "tests.support.patient", "--warehouse", str(folder / "w"), *command]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path]), "ICEPACT_STORE": store}
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True, cwd=folder, env=environ) as process:
        try:
            yield process
        finally:
            process.terminate()


def until_it_waits(process: "subprocess.Popen[str]") -> None:
    """Read what it says until it waits to be told."""
    assert process.stderr is not None
    assert any(WAITS in line for line in process.stderr)


def ended(store: RecordStore, job_id: str) -> Job:
    """A job, once it has ended."""
    until = time.monotonic() + 30
    while True:
        job = store.job(job_id)
        assert job is not None
        if job.status.ended:
            return job
        assert time.monotonic() < until, "nobody has told the worker"
        time.sleep(0.01)


def test_a_worker_takes_a_job_because_it_is_told(server: Server, tmp_path: Path) -> None:
    """It has looked, and would look again in an hour."""
    address = address_of(server)
    service = build_service({"warehouse": str(tmp_path / "w"), "store": address}, {})
    with told("worker", folder=tmp_path, store=address) as worker:
        for job_id in ("j1", "j2"):
            until_it_waits(worker)
            asked = job_request(Operation.HEALTH, "db.t")
            service.store.submit_job(make_job(job_id, asked, catalog=service.catalog.recorded_as))
            assert ended(service.store, job_id).error_type == "TableNotFound"
    service.store.close()


def test_who_waits_for_a_job_is_answered_because_its_end_is_told(server: Server, tmp_path: Path) -> None:
    """The API has looked, and would look again in an hour; a worker elsewhere ends the job."""
    address, answers = address_of(server), list[httpx.Response]()
    store = open_store(address)
    with told("serve", "--workers", "0", "--port", "0", folder=tmp_path, store=address) as api:
        assert api.stderr is not None
        url = api.stderr.readline().split()[0]

        def wait() -> None:
            with httpx.Client(trust_env=False, transport=httpx.HTTPTransport(retries=5), timeout=30) as client:
                answers.append(client.post(f"{url}/api/v1/tables/db.t/health?wait=5m", json={}))

        thread = threading.Thread(target=wait)
        thread.start()
        until_it_waits(api)
        catalog = build_service({"warehouse": str(tmp_path / "w")}, {}).catalog.recorded_as
        job = None
        while job is None:  # etcd's time is known to a second at first
            job = store.take_job(catalog, US, seconds=60, choose=next_job)
        store.end_job(job.claim, JobStatus.SUCCEEDED, result={"well": True})
        thread.join()
    assert [(answer.status_code, answer.json()["result"]) for answer in answers] == [(200, {"well": True})]
    store.close()
