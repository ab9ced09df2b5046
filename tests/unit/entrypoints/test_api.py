"""The API over a real store and a real server: jobs, waiting, events, pages, what is known of tables."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from icepact.entrypoints.api.context import Watch
from icepact.model.errors import StorageFull, TableNotFound
from icepact.model.job import JobRequest, JobStatus, Operation
from icepact.record.process import this_process
from icepact.schedule.answers import known_health
from icepact.schedule.queue import next_job
from tests.support.api import ANSWERS, Served, as_json, served

COMPACT = {"table": "sales", "strategy": "time-series", "options": {"target_file_size": "1GB", "max_cost": 10.0}}


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One for all; each test has tables of its own."""
    with served(tmp_path_factory.mktemp("api")) as found:
        yield found


@pytest.fixture(scope="module")
def http(api: Served) -> Iterator[httpx.Client]:
    """Requests as they are."""
    with api.http() as client:
        yield client


def raises(error: Exception) -> Any:
    """An answer that is none."""

    def answer(_: Any) -> Any:
        raise error

    return answer


# -- jobs -----------------------------------------------------------------------------------------


def test_a_compaction_is_asked_for_as_the_issue_says(api: Served, http: httpx.Client) -> None:
    response = http.post("/api/v1/compact", json=COMPACT)
    job = as_json(response, 202)
    assert response.headers["location"] == f"/api/v1/jobs/{job['job_id']}"
    assert int(response.headers["retry-after"]) > 0
    assert job["request"]["table"] == "default.sales"
    assert job["request"]["options"] == {"target_file_size": "1GB", "max_cost": 10.0, "strategy": "time-series"}
    assert (job["status"], job["tenant"]) == ("queued", "default")
    assert as_json(http.get(response.headers["location"]), 200) == job
    api.service.jobs.cancel(job["job_id"])


def test_a_list_goes_on_where_it_stopped_looking(api: Served, http: httpx.Client) -> None:
    wanted = api.service.jobs.submit(JobRequest(operation=Operation.HEALTH, table="rare.one"))
    store, catalog = api.service.store, api.service.catalog.recorded_as
    taken = store.take_job(catalog, this_process(), seconds=60, choose=lambda _: wanted.job_id)
    assert taken is not None
    store.renew_job(taken.claim, seconds=60, run_id="run-of-old")
    for _ in range(50):
        api.service.jobs.cancel(api.service.jobs.submit(JobRequest(operation=Operation.HEALTH, table="t.u")).job_id)
    found: list[str] = []
    query = {"run_id": "run-of-old", "limit": "1"}
    while True:
        page = as_json(http.get("/api/v1/jobs", params=query), 200)
        found += [job["job_id"] for job in page["items"]]
        if page["next"] is None:
            break
        query["cursor"] = page["next"]
    assert found == [wanted.job_id]
    store.end_job(taken.claim, JobStatus.SUCCEEDED)


def test_an_answer_can_be_waited_for(api: Served, http: httpx.Client) -> None:
    with api.working({Operation.COMPACT: lambda _: {"status": "committed"}}):
        began = time.monotonic()
        job = as_json(http.post("/api/v1/compact?wait=30s", json=COMPACT), 200)
    assert time.monotonic() - began < 5
    assert (job["status"], job["result"]) == ("succeeded", {"status": "committed"})


def test_who_waits_is_woken_by_the_end_of_this_job_only(api: Served) -> None:
    """However many jobs end meanwhile, and even if this one had ended before anybody waited."""
    job = api.service.jobs.submit(JobRequest(operation=Operation.HEALTH, table="db.waited_for"))
    bell, watch = api.service.ended, Watch(api.service)

    def waited(about: str) -> float:
        since = bell.rung
        bell.ring(about)
        began = time.monotonic()
        anyio.run(lambda: watch.pause(job, 0.3, 0.3, since=since))
        return time.monotonic() - began

    assert waited("another job") >= 0.3
    assert waited(job.job_id) < 0.3
    api.service.jobs.cancel(job.job_id)


def test_who_waits_in_vain_gets_the_job_and_where_it_is(api: Served, http: httpx.Client) -> None:
    began = time.monotonic()
    response = http.post("/api/v1/compact?wait=150ms", json=COMPACT)
    assert 0.15 <= time.monotonic() - began < 5
    assert as_json(response, 202)["status"] == "queued"
    api.service.jobs.cancel(response.json()["job_id"])


def test_a_key_makes_a_request_the_same_request(api: Served, http: httpx.Client) -> None:
    named = {"Idempotency-Key": "order-17"}
    first = as_json(http.post("/api/v1/compact", json=COMPACT, headers=named), 202)
    assert as_json(http.post("/api/v1/compact", json=COMPACT, headers=named), 202) == first
    problem = as_json(http.post("/api/v1/compact", json={**COMPACT, "dry_run": True}, headers=named), 409)
    assert problem["type"] == "urn:icepact:problem:conflict"
    assert first["job_id"] in problem["detail"]
    other = as_json(http.post("/api/v1/compact", json=COMPACT, headers={"Idempotency-Key": "order-18"}), 202)
    assert other["job_id"] != first["job_id"]
    for job in (first, other):
        as_json(http.post(f"/api/v1/jobs/{job['job_id']}/cancel"), 200)


def test_a_job_is_cancelled_and_resumed_and_neither_twice(api: Served, http: httpx.Client) -> None:
    job_id = as_json(http.post("/api/v1/tables/db.stopped/maintain"), 202)["job_id"]
    assert as_json(http.post(f"/api/v1/jobs/{job_id}/cancel"), 200)["status"] == "cancelled"
    assert as_json(http.post(f"/api/v1/jobs/{job_id}/cancel"), 409)["type"].endswith(":conflict")
    assert as_json(http.post(f"/api/v1/jobs/{job_id}/resume"), 202)["status"] == "queued"
    as_json(http.post(f"/api/v1/jobs/{job_id}/resume"), 409)
    as_json(http.post(f"/api/v1/jobs/{job_id}/cancel"), 200)


def test_the_pages_of_a_list_are_all_of_it(api: Served, http: httpx.Client) -> None:
    made = [as_json(http.post("/api/v1/tables/db.paged/expire"), 202)["job_id"] for _ in range(7)]
    seen: list[str] = []
    query = {"table": "db.paged", "limit": "3"}
    pages = 0
    while True:
        page = as_json(http.get("/api/v1/jobs", params=query), 200)
        seen += [job["job_id"] for job in page["items"]]
        pages += 1
        if page["next"] is None:
            break
        query["cursor"] = page["next"]
    assert (seen, pages) == (made[::-1], 3)
    assert all("result" in job for job in page["items"])
    for job_id in made:
        api.service.jobs.cancel(job_id)


def test_lists_are_narrowed(api: Served, http: httpx.Client) -> None:
    kept = as_json(http.post("/api/v1/tables/db.narrow/tags"), 202)["job_id"]
    gone = as_json(http.post("/api/v1/tables/db.narrow/ttl"), 202)["job_id"]
    api.service.jobs.cancel(gone)

    def ids(**query: Any) -> list[str]:
        page = as_json(http.get("/api/v1/jobs", params={"table": "db.narrow", **query}), 200)
        return [job["job_id"] for job in page["items"]]

    assert ids() == [gone, kept]
    assert ids(status="queued") == [kept]
    assert ids(status=["queued", "cancelled"]) == [gone, kept]
    assert ids(operation="ttl") == [gone]
    assert ids(run_id="nobody's") == []
    api.service.jobs.cancel(kept)


# -- events ---------------------------------------------------------------------------------------


def events(http: httpx.Client, job_id: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Names and documents of a stream."""
    with http.stream("GET", f"/api/v1/jobs/{job_id}/events") as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        name = ""
        for line in response.iter_lines():
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            if line.startswith("data: "):
                yield name, json.loads(line.removeprefix("data: "))


def test_a_job_is_watched_to_its_end(api: Served, http: httpx.Client) -> None:
    job_id = as_json(http.post("/api/v1/tables/db.watched/manifests"), 202)["job_id"]
    heard = events(http, job_id)
    assert next(heard)[1]["status"] == "queued"
    store = api.service.store
    taken = store.take_job(api.service.catalog.recorded_as, this_process(), seconds=60, choose=next_job)
    assert taken is not None
    name, job = next(heard)
    assert (name, job["status"], job["job_id"]) == ("progress", "running", job_id)
    store.end_job(taken.claim, JobStatus.SUCCEEDED, result={"done": True})
    name, job = next(heard)
    assert (name, job["status"], job["result"]) == ("end", "succeeded", {"done": True})
    assert list(heard) == []


def test_an_ended_job_has_one_event(api: Served, http: httpx.Client) -> None:
    job_id = as_json(http.post("/api/v1/tables/db.over/tags"), 202)["job_id"]
    api.service.jobs.cancel(job_id)
    assert [(name, job["status"]) for name, job in events(http, job_id)] == [("end", "cancelled")]


# -- tables ---------------------------------------------------------------------------------------


def test_known_health_is_answered_with_its_age_and_without_a_job(api: Served, http: httpx.Client) -> None:
    with api.working():
        first = as_json(http.get("/api/v1/tables/db.known/health"), 200)
    assert first["health"]["score"] == pytest.approx(first["health"]["score"])
    jobs = len(as_json(http.get("/api/v1/jobs?table=db.known"), 200)["items"])
    again = as_json(http.get("/api/v1/tables/db.known/health"), 200)
    assert again["health"] == first["health"]
    assert again["age_seconds"] >= 0
    assert len(as_json(http.get("/api/v1/jobs?table=db.known"), 200)["items"]) == jobs == 1


def test_a_fresh_health_is_looked_for(api: Served, http: httpx.Client) -> None:
    with api.working():
        as_json(http.get("/api/v1/tables/db.fresh/health"), 200)
        known = known_health(api.service.store, api.service.catalog.recorded_as, "db.fresh")
        fresh = as_json(http.get("/api/v1/tables/db.fresh/health?fresh=true"), 200)
    assert known is not None
    assert fresh["checked_at"] > known.taken_at.isoformat()


def test_health_that_nobody_looks_for_is_a_job(api: Served, http: httpx.Client) -> None:
    job = as_json(http.get("/api/v1/tables/db.nobody/health?wait=10ms"), 202)
    assert (job["request"]["operation"], job["status"]) == ("health", "queued")
    api.service.jobs.cancel(job["job_id"])


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (TableNotFound("no table db.gone"), 404, "table-not-found"),
        (StorageFull("of no interest to others"), 503, "service-unavailable"),
    ],
)
def test_what_a_worker_meets_is_the_answer(
    api: Served, http: httpx.Client, error: Exception, status: int, kind: str
) -> None:
    with api.working({Operation.HEALTH: raises(error)}):
        problem = as_json(http.get("/api/v1/tables/db.gone/health"), status)
    assert problem["type"] == f"urn:icepact:problem:{kind}"
    assert (str(error) in problem["detail"]) == (status < 500)


def test_tables_are_listed_with_what_is_known(api: Served, http: httpx.Client) -> None:
    with api.working():
        as_json(http.get("/api/v1/tables/db.events/health"), 200)
        page = as_json(http.get("/api/v1/tables?limit=1"), 200)
        assert [entry["table"] for entry in page["items"]] == ["db.clicks"]
        assert page["items"][0]["score"] is None
        [entry] = as_json(http.get("/api/v1/tables", params={"limit": 1, "cursor": page["next"]}), 200)["items"]
    assert entry["table"] == "db.events"
    assert entry["data_files"] == ANSWERS[Operation.HEALTH](_job("db.events"))["data_files"]


def test_the_fleet_is_what_was_looked_at(api: Served, http: httpx.Client) -> None:
    with api.working():
        for name in ("fleet.a", "fleet.b"):
            as_json(http.get(f"/api/v1/tables/{name}/health"), 200)
    names = [entry["table"] for entry in as_json(http.get("/api/v1/fleet"), 200)["items"]]
    assert [name for name in names if name.startswith("fleet.")] == ["fleet.a", "fleet.b"]
    assert as_json(http.get("/api/v1/fleet?below=0"), 200)["items"] == []


def _job(table: str) -> Any:
    from tests.support.jobs import job_request, make_job

    return make_job("1", job_request(Operation.HEALTH, table))


# -- policies -------------------------------------------------------------------------------------

RULES = "rules:\n  - match: db.*\n    options: {max_files: 1000}\n"


def test_policies_are_put_checked_and_dropped(api: Served, http: httpx.Client) -> None:
    before = http.get("/api/v1/policies")
    assert as_json(before, 200)["source"] == "configuration"
    assert as_json(http.post("/api/v1/policies/check", json={"text": RULES}), 200)["rules"][0]["match"] == "db.*"
    assert as_json(http.get("/api/v1/policies"), 200)["source"] == "configuration"
    put = http.put("/api/v1/policies", json={"text": RULES}, headers={"If-Match": before.headers["etag"]})
    assert as_json(put, 200)["version"] == 1
    stale = http.put("/api/v1/policies", json={"text": RULES}, headers={"If-Match": before.headers["etag"]})
    assert as_json(stale, 409)["type"].endswith(":conflict")
    assert as_json(http.get("/api/v1/policies"), 200)["text"] == RULES
    as_json(http.delete("/api/v1/policies"), 200)
    as_json(http.delete("/api/v1/policies"), 409)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("rules: [{match: db.*, options: {max_fils: 1}}]", "max_fils"),
        ("rules: {", "policies:1"),
        (": :", "policies:1"),
    ],
)
def test_a_policy_file_that_is_none_is_refused_with_its_line(http: httpx.Client, text: str, complaint: str) -> None:
    for answer in (
        http.post("/api/v1/policies/check", json={"text": text}),
        http.put("/api/v1/policies", json={"text": text}),
    ):
        assert complaint in as_json(answer, 422)["detail"]


# -- what others tell, and what machines ask ------------------------------------------------------


def test_commits_are_noted_once(api: Served, http: httpx.Client) -> None:
    event = {"table": "db.told", "snapshot_id": 17}
    report = {"report-type": "commit-report", "table-name": "db.told", "snapshot-id": 17, "metrics": {}}
    scan = {"report-type": "scan-report", "table-name": "db.told", "snapshot-id": 17, "filter": True}
    for path, body in (("events/commit", event), ("reports", report), ("reports", scan)):
        assert http.post(f"/api/v1/{path}", json=body).status_code == 204
    [note] = [one for one in api.service.store.documents("commits") if "db.told" in one.key]
    assert note.body["seen"]["count"] == 1


def test_a_process_that_is_to_end_says_so(tmp_path: Path) -> None:
    with served(tmp_path) as api, api.http() as http:
        assert as_json(http.get("/readyz"), 200) == {"status": "ok"}
        api.service.draining.set()
        assert http.get("/readyz").headers["retry-after"]
        refused = http.post("/api/v1/compact", json=COMPACT)
        assert as_json(refused, 503)["status"] == 503
        assert refused.headers["retry-after"]
        assert as_json(http.get("/healthz"), 200) == {"status": "ok"}
        assert as_json(http.get("/api/v1/jobs"), 200)["items"] == []


def test_metrics_count_requests_by_their_routes(http: httpx.Client) -> None:
    http.get("/api/v1/tables/db.secretname/history")
    text = http.get("/metrics").text
    assert 'route="/api/v1/tables/{table}/history"' in text
    assert "secretname" not in text


def test_the_door_says_where_the_description_is(http: httpx.Client) -> None:
    for path in ("/", "/api/v1"):
        where = as_json(http.get(path), 200)
        assert as_json(http.get(where["openapi"]), 200)["openapi"].startswith("3.1")
        assert as_json(http.get(where["alive"]), 200) == {"status": "ok"}


def test_costs_are_json_or_csv(http: httpx.Client) -> None:
    assert as_json(http.get("/api/v1/costs"), 200) == as_json(http.get("/api/v1/costs/tenants"), 200) == []
    assert http.get("/api/v1/costs/tenants?format=csv").text.startswith("tenant,table,method,")
    csv = http.get("/api/v1/tables/db.events/costs?format=csv")
    assert csv.headers["content-type"].startswith("text/csv")
    assert csv.text.startswith("table,method,runs,")


def test_an_answer_does_not_wait_for_the_other_sides_acknowledgement(http: httpx.Client) -> None:
    """Which takes 40 ms if the packets of an answer are sent one after the other."""
    took = []
    for _ in range(20):
        began = time.perf_counter()
        as_json(http.get("/healthz"), 200)
        took.append(time.perf_counter() - began)
    assert min(took) < 0.03
