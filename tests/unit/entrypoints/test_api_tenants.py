"""Over HTTP nobody sees, names or infers what belongs to another tenant."""

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from icepact.entrypoints.api import runs
from icepact.model.documents import document_of
from icepact.model.job import Operation
from icepact.model.orphans import OTHER_TABLES
from icepact.model.tenant import Quota, Role
from icepact.record.store import RecordStore
from icepact.schedule.tenants import Tenants
from tests.support.api import ANSWERS, Answers, Served, ranking, served
from tests.support.jobs import US, job_request, make_job
from tests.support.records import NOON, run_record

ALL: Answers = {
    **ANSWERS,
    Operation.TABLES: lambda _: {"tables": ["blue.secret", "red.events"], "cut": {"tables": 12345}},
    Operation.MAINTAIN: lambda _: {
        "operations": [{"operation": "orphans", "reason": f"{OTHER_TABLES}table blue.secret is at s3://lake/blue"}]
    },
}
V1 = "/api/v1"


@dataclass
class Town:
    """A service, its tenants and who asks for them."""

    served: Served
    tenants: Tenants
    red: httpx.Client
    blue: httpx.Client
    boss: httpx.Client

    @property
    def store(self) -> RecordStore:
        """Of the service."""
        return self.served.service.store

    def job_of_blue(self, key: str | None = None) -> str:
        """One that waits."""
        headers = {"Idempotency-Key": key} if key else {}
        answer = self.blue.post(f"{V1}/compact", json={"table": "blue.secret"}, headers=headers)
        return str(answer.json()["job_id"])


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """Admins of two tenants, and of the service."""
    folder: Path = tmp_path_factory.mktemp("town")
    with served(folder) as one:
        tenants = Tenants(one.service.store, catalog=one.service.catalog.name, clock=one.service.clock)
        for name in ("red", "blue"):
            tenants.create(name, tables=[f"{name}.*"])
        tenants.change("default", tables=["*"])
        clients = [one.http(tenants.new_key(name, Role.ADMIN)[1]) for name in ("red", "blue", "default")]
        yield Town(one, tenants, *clients)
        for client in clients:
            client.close()


def same(answer: httpx.Response, *names: str) -> tuple[int, str]:
    """An answer without what was asked for, and without what every request has of its own."""
    text = json.dumps({**answer.json(), "request_id": "", "instance": ""})
    for name in names:
        text = text.replace(name, "...")
    return answer.status_code, text


def test_tables_of_others_and_those_that_are_nowhere_get_the_same_answers(town: Town) -> None:
    """On every path that takes the name of a table."""
    town.job_of_blue()
    paths: dict[str, Any] = town.red.get(f"{V1}/openapi.json").json()["paths"]
    with_table = [(path, method) for path, methods in paths.items() if "{table}" in path for method in methods]
    assert len(with_table) > 15
    for path, method in with_table:
        answers = {
            same(town.red.request(method, path.replace("{table}", table), json=None if method == "get" else {}), table)
            for table in ("blue.secret", "`nowhere`.`odd name`", "local.blue.secret", "Red.events", "red")
            if table != "red"
        }
        assert {status for status, _ in answers} == {404}, path
    for body in ({"table": "blue.secret"}, {"table": "nowhere.t"}):
        assert town.red.post(f"{V1}/compact", json=body).status_code == 404
        assert town.red.post(f"{V1}/events/commit", json=body).status_code == 404
        report = {"report-type": "commit-report", "table-name": body["table"], "snapshot-id": 1}
        assert town.red.post(f"{V1}/reports", json=report).status_code == 404
        assert town.red.get(f"{V1}/jobs", params=body).status_code == 404
        assert town.red.get(f"{V1}/runs", params=body).status_code == 404


def test_ids_of_others_are_not_found(town: Town) -> None:
    job, run = town.job_of_blue(), "20260101-of-blue"
    town.store.begin(run_record(run, catalog=town.served.service.catalog.recorded_as, table="blue.secret"))
    key = town.tenants.new_key("blue", Role.VIEWER)[0].key_id
    pairs = [
        *(("get", f"{V1}/jobs/{{}}", job), ("get", f"{V1}/jobs/{{}}/events", job), ("get", f"{V1}/plans/{{}}", job)),
        *(("post", f"{V1}/jobs/{{}}/cancel", job), ("post", f"{V1}/jobs/{{}}/resume", job)),
        *(("post", f"{V1}/plans/{{}}/apply", job), ("get", f"{V1}/keys/{{}}", key)),
        *(("delete", f"{V1}/keys/{{}}", key), ("post", f"{V1}/keys/{{}}/rotate", key)),
        *(("get", f"{V1}/tenants/{{}}", "blue"), ("delete", f"{V1}/tenants/{{}}", "blue")),
        *(("get", f"{V1}/tenants/{{}}/use", "blue"), ("get", f"{V1}/fleet/{{}}", job)),
        *(("get", f"{V1}/runs/{{}}", run), ("post", f"{V1}/runs/{{}}/cancel", run)),
        ("post", f"{V1}/runs/{{}}/resume", run),
    ]
    for method, path, there in pairs:
        nowhere = there[:-1] + ("0" if there[-1] != "0" else "1")
        found = [same(town.red.request(method, path.format(one)), one) for one in (there, nowhere)]
        assert found[0] == found[1], path
        assert found[0][0] == 404, path
    assert town.blue.get(f"{V1}/jobs/{job}").json()["status"] == "queued"
    assert town.tenants.key(key).revoked_at is None


def test_a_table_of_others_takes_no_more_looks_than_one_that_is_nowhere(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the clock is read, which other work disturbs, but how often the record store is asked, and for what."""
    town.red.get(f"{V1}/about")
    looks: Counter[str] = Counter()
    for name in ("document", "documents", "jobs", "runs", "recent", "submit_job", "job"):
        real = getattr(town.store, name)

        def look(*given: Any, name: str = name, real: Any = real, **more: Any) -> Any:
            looks[f"{name} {given[:1]}"] += given[:1] not in (("key",), ("tenant",), ("key-use",))
            return real(*given, **more)

        monkeypatch.setattr(town.store, name, look)
    for table in ("blue.secret", "nowhere.t"):
        for path in ("health", "history", "costs", "plan"):
            assert town.red.get(f"{V1}/tables/{table}/{path}").status_code == 404
    assert not +looks


def test_a_list_of_tables_has_those_of_others_nowhere(town: Town) -> None:
    """Neither as an answer, nor as the job that made it, and not in how many there are."""
    with town.served.working(ALL):
        listed = town.red.get(f"{V1}/tables", params={"fresh": True})
    assert [one["table"] for one in listed.json()["items"]] == ["red.events"]
    [job] = town.red.get(f"{V1}/jobs", params={"operation": "tables"}).json()["items"]
    for path in (
        f"{V1}/jobs/{job['job_id']}",
        f"{V1}/jobs/{job['job_id']}?wait=1s",
        f"{V1}/jobs/{job['job_id']}/events",
    ):
        text = town.red.get(path).text
        assert "red.events" in text
        assert "blue" not in text
        assert "12345" not in text
    assert town.boss.get(f"{V1}/tables").text.count("secret") == 1


def test_a_ranking_has_no_tables_of_others(town: Town) -> None:
    """Also if there were some of them when it was made: neither as the job's result, nor as the whole of it."""
    found = ranking("blue.secret", "red.events", warnings=["blue.* matches no table"], budget=()).to_dict()
    with town.served.working({Operation.FLEET: lambda _: found}):
        job = town.red.post(f"{V1}/fleet?wait=10s", json={}).json()
    whole = town.red.get(f"{V1}/fleet/{job['job_id']}")
    for answer in (job["result"], whole.json(), town.red.get(f"{V1}/jobs/{job['job_id']}").json()["result"]):
        assert [one["table"] for one in answer["tables"]] == ["red.events"]
        assert "total" not in answer
        assert "blue" not in json.dumps(answer)
    assert town.blue.get(f"{V1}/fleet/{job['job_id']}").status_code == 404


def test_a_run_of_a_job_of_others_is_theirs_to_stop(town: Town) -> None:
    """On a table that both see. Whoever runs the service may stop it, too."""
    town.tenants.create("pink", tables=["red.*"])
    catalog = town.served.service.catalog.recorded_as
    town.store.begin(run_record("20260102-pink", catalog=catalog, table="red.shared", owner=US))
    town.store.submit_job(make_job("20260102-job", job_request(table="red.shared"), tenant="pink", catalog=catalog))
    taken = town.store.take_job(catalog, US, seconds=600, choose=lambda _: "20260102-job")
    assert taken is not None
    assert town.store.renew_job(taken.claim, seconds=600, run_id="20260102-pink")
    refused = town.red.post(f"{V1}/runs/20260102-pink/cancel")
    assert refused.status_code == 409
    assert "pink" not in refused.json()["detail"].replace("20260102-pink", "")
    run = town.store.run("20260102-pink")
    assert run is not None
    assert not run.cancel_asked
    stopped = town.boss.post(f"{V1}/runs/20260102-pink/cancel")
    assert (stopped.status_code, stopped.json()["job_id"]) == (200, None)
    job = town.store.job("20260102-job")
    assert job is not None
    assert job.cancel_asked


def test_a_busy_tenant_does_not_hide_the_runs_of_others(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_BATCH", 3)
    catalog = town.served.service.catalog.recorded_as
    town.tenants.create("calm", tables=["calm.*"])
    for number in range(3):
        moment = NOON - timedelta(days=number + 1)
        town.store.begin(run_record(f"calm-{number}", catalog=catalog, table="calm.t", started_at=moment))
        for other in range(4):
            at = moment + timedelta(minutes=other + 1)
            town.store.begin(run_record(f"noise-{number}-{other}", catalog=catalog, table="blue.t", started_at=at))
    with town.served.http(town.tenants.new_key("calm", Role.VIEWER)[1]) as calm:
        found: list[str] = []
        cursor: str | None = None
        while True:
            page = calm.get(f"{V1}/runs", params={"limit": 2} | ({"cursor": cursor} if cursor else {})).json()
            found += [run["run_id"] for run in page["items"]]
            cursor = page["next"]
            if cursor is None:
                break
    assert found == ["calm-0", "calm-1", "calm-2"]


def test_messages_name_no_other_tables(town: Town) -> None:
    with town.served.working(ALL):
        answer = town.red.post(f"{V1}/tables/red.events/maintain?wait=10s", json={})
    assert answer.status_code == 200
    assert answer.json()["result"]["operations"][0]["reason"] == f"{OTHER_TABLES}whoever runs the service knows which"
    job = town.store.job(answer.json()["job_id"])
    assert "blue.secret" in str(job and job.result)


def test_an_idempotency_key_is_a_tenants_own(town: Town) -> None:
    theirs = town.job_of_blue("the-same-word")
    answer = town.red.post(f"{V1}/compact", json={"table": "red.events"}, headers={"Idempotency-Key": "the-same-word"})
    assert answer.status_code == 202
    assert answer.json()["job_id"] != theirs
    assert town.job_of_blue("the-same-word") == theirs


def test_cursors_of_others_lead_nowhere_else(town: Town) -> None:
    """Whatever stands in one, all that follows is one's own."""
    for _ in range(3):
        town.job_of_blue()
        town.red.post(f"{V1}/compact", json={"table": "red.events"})
    theirs = town.blue.get(f"{V1}/jobs", params={"limit": 1}).json()["next"]
    for path, cursor in (
        (f"{V1}/jobs", theirs),
        (f"{V1}/audit", town.blue.get(f"{V1}/audit", params={"limit": 1}).json()["next"]),
        (f"{V1}/keys", town.boss.get(f"{V1}/keys", params={"limit": 1}).json()["next"]),
    ):
        answer = town.red.get(path, params={"cursor": cursor}) if cursor else town.red.get(path)
        assert "blue" not in answer.text


def test_after_a_run_of_others_there_are_only_ones_own(town: Town) -> None:
    catalog = town.served.service.catalog.recorded_as
    for number in range(3):
        town.store.begin(run_record(f"blue-{number}", catalog=catalog, table="blue.secret"))
    town.store.begin(run_record("red-0", catalog=catalog, table="red.events"))
    cursor = town.blue.get(f"{V1}/runs", params={"limit": 1}).json()["next"]
    behind = town.red.get(f"{V1}/runs", params={"cursor": cursor})
    assert "blue" not in behind.text
    shown = {run["run_id"]: run["table"] for run in town.red.get(f"{V1}/runs").json()["items"]}
    assert shown.pop("red-0") == "red.events"
    assert set(shown.values()) <= {"red.shared"}
    assert town.red.get(f"{V1}/tables/blue.secret/history").status_code == 404


def test_what_is_about_all_is_for_those_who_run_the_service(town: Town) -> None:
    for path in ("/metrics", f"{V1}/policies", f"{V1}/store"):
        assert [one.get(path).status_code for one in (town.red, town.boss)] == [403, 200]
    for path in ("fleet", "costs", "costs/tenants", "schedules", "tenants", "keys", "audit", "jobs", "runs", "about"):
        assert "blue" not in town.red.get(f"{V1}/{path}").text, path
    assert town.red.get(f"{V1}/keys", params={"tenant": "blue"}).json()["items"] == []
    assert town.red.get(f"{V1}/audit", params={"tenant": "blue"}).json()["items"] == []
    for body in ({"name": "mine", "tables": ["*"]}, {"name": "blue", "tables": ["*"]}):
        assert town.red.post(f"{V1}/tenants", json=body).status_code == 403
    assert town.red.patch(f"{V1}/tenants/red", json={"tables": ["*"]}).status_code == 403
    for tenant in ("blue", "default", "nobody"):
        assert town.red.post(f"{V1}/keys", json={"tenant": tenant, "role": "admin"}).status_code == 404


def test_a_job_on_a_table_that_a_tenant_has_no_more_is_gone(town: Town) -> None:
    town.tenants.create("green", tables=["green.*"])
    with town.served.http(town.tenants.new_key("green", Role.OPERATOR)[1]) as green:
        job = green.post(f"{V1}/compact", json={"table": "green.t"}).json()["job_id"]
        town.tenants.change("green", tables=["other.*"])
        time.sleep(1.1)  # what the service knows of the tenant is so old at most
        assert green.get(f"{V1}/jobs/{job}").status_code == 404
        assert green.get(f"{V1}/jobs").json()["items"] == []


@pytest.mark.parametrize("how", ["revoked", "removed", "narrowed"])
def test_who_watches_hears_nothing_after_their_key(town: Town, how: str) -> None:
    """A stream ends, and so does waiting, with an error; neither says what became of the job."""
    name = f"watcher-{how}"
    town.tenants.create(name, tables=[f"{name}.*"])
    key, secret = town.tenants.new_key(name, Role.OPERATOR)
    heard: dict[str, Any] = {}
    with town.served.http(secret) as mine:
        made = mine.post(f"{V1}/compact", json={"table": f"{name}.t"}).json()["job_id"]

        def watch() -> None:
            heard["stream"] = mine.get(f"{V1}/jobs/{made}/events").text

        def wait() -> None:
            with town.served.http(secret) as again:
                heard["wait"] = again.get(f"{V1}/jobs/{made}?wait=20s").status_code

        threads = [threading.Thread(target=one) for one in (watch, wait)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        if how == "revoked":
            town.tenants.revoke(key.key_id)
        elif how == "removed":
            town.tenants.remove(name)
        else:
            town.tenants.change(name, tables=["else.*"])
        time.sleep(1.2)
        with town.served.working(ALL):
            for thread in threads:
                thread.join(timeout=15)
    assert "event: end" not in heard["stream"]
    assert heard["wait"] == (404 if how == "narrowed" else 401)


def test_a_job_of_another_process_is_judged_by_the_same_words(town: Town) -> None:
    """One that was submitted for another tenant on a table that both see is still somebody else's."""
    town.store.submit_job(
        make_job(
            "20260101-shared",
            job_request(table="red.events"),
            tenant="blue",
            catalog=town.served.service.catalog.recorded_as,
        )
    )
    assert town.red.get(f"{V1}/jobs/20260101-shared").status_code == 404
    assert "shared" not in town.red.get(f"{V1}/jobs").text
    assert document_of(town.store.job("20260101-shared"))["tenant"] == "blue"


def test_a_job_says_that_a_quota_holds_it_back(town: Town) -> None:
    town.tenants.create("small", tables=["small.*"], quota=Quota(jobs_at_once=1))
    with town.served.http(town.tenants.new_key("small", Role.OPERATOR)[1]) as small:
        jobs = [small.post(f"{V1}/compact", json={"table": f"small.t{n}"}).json()["job_id"] for n in range(2)]
        assert small.get(f"{V1}/jobs/{jobs[1]}").json()["waits_for"] is None
        catalog = town.served.service.catalog.recorded_as
        taken = town.store.take_job(catalog, US, seconds=60, choose=lambda _: jobs[0])
        assert taken is not None
        assert small.get(f"{V1}/jobs/{jobs[1]}").json()["waits_for"] == "jobs_at_once: 1 of 1 are running"
        assert small.get(f"{V1}/jobs/{jobs[0]}").json()["waits_for"] is None
