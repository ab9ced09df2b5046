"""What the service works with, and where it may listen; none of it starts Java."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import httpx
import pytest

from icepact.entrypoints.service.serve import is_loopback, listening, refuse_open
from icepact.entrypoints.serving import build_service, flags_of
from icepact.model.errors import BadInput
from icepact.model.job import JobRequest, Operation
from icepact.record.kv.store import KvStore


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder without a configuration, and without variables of ours."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("ICEPACT_")]:
        monkeypatch.delenv(name)


# -- settings -------------------------------------------------------------------------------------


def test_flags_go_over_our_variables_and_these_over_those_of_the_platform() -> None:
    platform = {"CATALOG_URI": "https://platform", "CATALOG_TYPE": "rest", "CATALOG_WAREHOUSE": "s3://p"}
    ours = {"ICEPACT_CATALOG_URI": "https://ours", "ICEPACT_WAREHOUSE": "s3://o"}
    found = flags_of({"warehouse": "s3://flag"}, {**platform, **ours})
    assert (found["catalog_type"], found["catalog_uri"], found["warehouse"]) == ("rest", "https://ours", "s3://flag")


@pytest.mark.parametrize(
    ("environ", "store"),
    [
        ({}, None),
        ({"DATABASE_URL": "postgresql://h/d"}, "postgresql://h/d"),
        ({"REDIS_URL": "redis://h:1/0"}, "redis://h:1/0"),
        ({"ETCD_ENDPOINTS": "http://a:2379, http://b:2379/"}, "etcd://a:2379,b:2379"),
        ({"ETCD_ENDPOINTS": "etcd://a:2379"}, "etcd://a:2379"),
        ({"REDIS_URL": "redis://h", "DATABASE_URL": "postgresql://h/d", "ICEPACT_STORE": "memory"}, "memory"),
    ],
)
def test_the_environment_names_the_store(environ: dict[str, str], store: str | None) -> None:
    assert flags_of({}, environ)["store"] == store


def test_two_stores_are_one_too_many() -> None:
    with pytest.raises(BadInput, match="DATABASE_URL and REDIS_URL name a record store each"):
        flags_of({}, {"REDIS_URL": "redis://h", "DATABASE_URL": "postgresql://h/d"})


def test_a_configuration_may_be_json(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"warehouse": "here", "service": {"port": 1234, "grace": "5s"}}))
    service = build_service({}, {})
    assert service.catalog.embedded == tmp_path / "here"
    assert (service.config.service.port, service.config.service.grace) == (1234, 5.0)
    (tmp_path / "icepact.yaml").write_text("warehouse: there\n")
    assert build_service({}, {}).catalog.embedded == tmp_path / "there"


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"port": 70000}, "service.port"),
        ({"workers": -1}, "service.workers"),
        ({"grace": "soon"}, "service.grace"),
        ({"memory_limit": "much"}, "service.memory_limit"),
        ({"hots": "x"}, "service.hots"),
    ],
)
def test_settings_of_the_service_are_checked(tmp_path: Path, given: dict[str, Any], complaint: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"service": given}))
    with pytest.raises(BadInput, match=complaint):
        build_service({}, {})


def test_the_service_shares_one_queue_by_the_names_of_its_catalog(tmp_path: Path) -> None:
    service = build_service({"warehouse": str(tmp_path / "w"), "namespace": "shop"}, {})
    job = service.jobs.submit(JobRequest(operation=Operation.HEALTH, table="sales"))
    assert (job.request.table, job.catalog) == ("shop.sales", service.catalog.recorded_as)
    assert service.submitted.rung == 1
    assert service.clock() >= job.submitted_at


def test_nothing_of_it_brings_spark_along() -> None:
    program = (
        "import sys, icepact.entrypoints.service.serve, icepact.schedule.worker;"
        "from icepact.entrypoints.serving import build_service; build_service({'warehouse': 'w'}, {}).jobs.sizes();"
        "print(*(name for name in ('pyspark', 'py4j', 'pyarrow', 'pyiceberg') if name in sys.modules))"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == []


# -- where it listens -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "only_here"),
    [
        *(("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True)),
        *(("0.0.0.0", False), ("::", False), ("10.0.0.1", False), ("example.org", False)),
    ],
)
def test_who_can_be_reached_from_elsewhere_needs_keys(host: str, only_here: bool) -> None:
    assert is_loopback(host) is only_here
    store = KvStore.in_memory()
    if only_here:
        refuse_open(host, store)
        return
    with pytest.raises(BadInput, match="there are no keys"):
        refuse_open(host, store)
    store.put_document("key", "k1", {})
    refuse_open(host, store)


def test_a_port_that_is_taken_is_refused_in_one_line() -> None:
    with listening("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(BadInput, match=f"cannot listen on 127.0.0.1, port {port}: Address already in use"):
            listening("127.0.0.1", port)
    with pytest.raises(BadInput, match="cannot listen on nowhere"):
        listening("nowhere.invalid", 0)


# -- the process ----------------------------------------------------------------------------------


def served(tmp_path: Path, **given: Any) -> "subprocess.Popen[str]":
    """The process of an API without workers."""
    arguments = {"given": {"warehouse": str(tmp_path / "w")}, "port": 0, "workers": 0, **given}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.serving", json.dumps(arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )


def status_of(url: str) -> int:
    """Of an answer."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_a_signal_comes(tmp_path: Path, number: signal.Signals) -> None:
    with served(tmp_path) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        until = time.monotonic() + 30
        while True:
            try:
                assert status_of(f"{url}/healthz") == status_of(f"{url}/readyz") == 200
                break
            except (TimeoutError, urllib.error.URLError):
                assert time.monotonic() < until
        process.send_signal(number)
        assert process.wait(30) == 0
    with pytest.raises(urllib.error.URLError):
        status_of(f"{url}/healthz")


def test_who_waits_for_a_job_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    """With the API itself: the answer is the job as it is."""
    command = [sys.executable, "-c", "from icepact.entrypoints.cli.start import run; run()"]
    flags = ["serve", "--warehouse", str(tmp_path / "w"), "--workers", "0", "--port", "0"]
    answers: list[httpx.Response] = []
    with subprocess.Popen([*command, *flags], stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stderr is not None
        url = process.stderr.readline().split()[0]

        def wait() -> None:
            with httpx.Client(trust_env=False, transport=httpx.HTTPTransport(retries=5), timeout=60) as client:
                answers.append(client.post(f"{url}/api/v1/tables/db.t/health?wait=5m", json={}))

        thread = threading.Thread(target=wait)
        thread.start()
        jobs = build_service({"warehouse": str(tmp_path / "w")}, {}).jobs
        until = time.monotonic() + 30
        while not jobs.list() and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        thread.join()
    assert [(answer.status_code, answer.json()["status"]) for answer in answers] == [(202, "queued")]


def test_it_does_not_listen_where_it_must_not(tmp_path: Path) -> None:
    with served(tmp_path, host="0.0.0.0") as process:
        _, error = process.communicate(timeout=30)
        assert process.returncode == 2
    assert error.startswith("refused: host: 0.0.0.0 can be reached from elsewhere")


def test_a_lease_that_no_worker_can_keep_is_refused(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text('{"service": {"lease": "1s"}}')
    with pytest.raises(BadInput, match=r"service\.lease: it must be at least 10"):
        build_service({"config": str(config), "warehouse": str(tmp_path)}, {})
