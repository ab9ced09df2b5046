"""Requests that the API refuses: each with one problem that says why, and nothing that it should not say."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from icepact.entrypoints.api.paging import cursor_of
from icepact.model.errors import StoreUnusable
from icepact.model.tenant import Role
from tests.support.api import ROOMY, Served, as_json, served

STRICT = replace(
    ROOMY, most_body=10_000, most_headers=4096, header_seconds=0.4, body_seconds=0.4, requests_per_second=1.0, burst=5
)


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One with narrow limits; nobody needs a key."""
    with served(tmp_path_factory.mktemp("refusals"), STRICT) as found:
        yield found


@pytest.fixture(scope="module")
def http(api: Served) -> Iterator[httpx.Client]:
    """Requests as they are."""
    with api.http() as client:
        yield client


def problem(response: httpx.Response, status: int) -> dict[str, Any]:
    """The problem of an answer."""
    assert response.headers["content-type"] == "application/problem+json"
    found: dict[str, Any] = as_json(response, status)
    assert found["status"] == status
    assert found["type"].startswith("urn:icepact:problem:")
    assert found["request_id"] == response.headers["x-request-id"]
    return found


# -- what is said ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ({"table": 17}, "body.table"),
        ({"table": ""}, "body.table"),
        ({"table": None}, "body.table"),
        ({"table": "x" * 1001}, "body.table"),
        ({}, "body.table"),
        ({"table": "a b"}, "a b"),
        ({"table": "db.t", "strategy": "best"}, "strategy"),
        ({"table": "db.t", "strategy": 5}, "body.strategy"),
        ({"table": "db.t", "options": []}, "body.options"),
        ({"table": "db.t", "options": "max_files=3"}, "body.options"),
        ({"table": "db.t", "options": {"max_fils": 3}}, "did you mean max_files?"),
        ({"table": "db.t", "options": {"max_files": "many"}}, "max_files"),
        ({"table": "db.t", "options": {"target_file_size": "1 parsec"}}, "target_file_size"),
        ({"table": "db.t", "options": {"max_cost": -1}}, "max_cost"),
        ({"table": "db.t", "options": {"expire_older_than": "5d"}}, "expire_older_than"),
        ({"table": "db.t", "priority": 101}, "body.priority"),
        ({"table": "db.t", "priority": "urgent"}, "body.priority"),
        ({"table": "db.t", "deadline": "tomorrow"}, "body.deadline"),
        ({"table": "db.t", "deadline": "2030-01-01T00:00:00"}, "body.deadline"),
        ({"table": "db.t", "deadline": "2020-01-01T00:00:00Z"}, "deadline"),
        ({"table": "db.t", "most_failures": 0}, "body.most_failures"),
        ({"table": "db.t", "dry_run": "perhaps"}, "body.dry_run"),
        ({"table": "db.t", "catalog": "prod"}, "body.catalog"),
        ({"table": "db.t", "tabel": "db.t"}, "did you mean table?"),
        ([], "body"),
        ("db.t", "body"),
        (None, "body"),
    ],
)
def test_a_wrong_field_is_named(http: httpx.Client, body: Any, at: str) -> None:
    assert at in problem(http.post("/api/v1/compact", json=body), 422)["detail"]
    assert as_json(http.get("/api/v1/jobs"), 200)["items"] == []


@pytest.mark.parametrize(
    ("path", "at"),
    [
        ("jobs?limit=0", "query.limit"),
        ("jobs?limit=201", "query.limit"),
        ("jobs?limit=ten", "query.limit"),
        ("jobs?status=lost", "query.status"),
        ("jobs?operation=explode", "query.operation"),
        ("jobs?cursor=!!!", "cursor"),
        ("jobs?cursor=WyJydW5zIiwiMSJd", "cursor"),
        ("jobs?table=a b", "a b"),
        ("jobs/1?wait=soon", "query.wait"),
        ("fleet?below=many", "query.below"),
        ("costs?format=xml", "query.format"),
        ("costs?days=0", "query.days"),
    ],
)
def test_a_wrong_query_is_named(http: httpx.Client, path: str, at: str) -> None:
    assert at in problem(http.get(f"/api/v1/{path}"), 422)["detail"]


@pytest.mark.parametrize("content", ["{", "", '{"table": "db.t"', "\x00", "NaN", '{"a": ' * 5000])
def test_what_is_no_json_is_refused(http: httpx.Client, content: str) -> None:
    response = http.post("/api/v1/compact", content=content, headers={"Content-Type": "application/json"})
    assert problem(response, response.status_code)["status"] in (400, 413, 422)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/compact", r'{"table": "db.t", "options": {"\ud800": 1}}'),
        ("/compact", r'{"\uDFFF": 1}'),
        ("/tables/db.t/orphans", r'{"exclude": ["\ud800"]}'),
        ("/tables/db.t/statistics", r'{"columns": ["\ud800"]}'),
        ("/reports", r'{"report-type": "commit-report", "table-name": "db.`\ud800`"}'),
    ],
)
def test_halves_of_characters_are_refused(http: httpx.Client, path: str, body: str) -> None:
    said = problem(http.post(f"/api/v1{path}", content=body, headers={"Content-Type": "application/json"}), 400)
    assert "halves of characters" in said["detail"]


def test_whole_characters_may_be_spelt_in_halves(http: httpx.Client) -> None:
    body = r'{"table": "db.`\ud83d\ude00`"}'
    taken = as_json(http.post("/api/v1/compact", content=body, headers={"Content-Type": "application/json"}), 202)
    assert taken["request"]["table"] == "db.`\N{GRINNING FACE}`"


@pytest.mark.parametrize("kind", ["jobs", "runs", "tables", "fleet", "schedules", "audit", "keys", "tenants"])
@pytest.mark.parametrize("key", ["\ud800", "a\0b"])
def test_cursors_have_no_halves_of_characters_and_no_nulls(http: httpx.Client, kind: str, key: str) -> None:
    problem(http.get(f"/api/v1/{kind}", params={"cursor": cursor_of(kind, key)}), 422)


@pytest.mark.parametrize("path", ["jobs/%00", "tables/db.%60a%00%60/health", "runs?table=db.%60a%00%60"])
def test_no_address_has_a_null_character(http: httpx.Client, path: str) -> None:
    problem(http.get(f"/api/v1/{path}"), 400)


def test_no_table_has_a_null_character(http: httpx.Client) -> None:
    said = problem(http.post("/api/v1/compact", json={"table": "db.`a\0b`"}), 422)
    assert "is not a table name" in said["detail"]


@pytest.mark.parametrize("deadline", ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"])
def test_a_deadline_beyond_the_calendar_is_refused(http: httpx.Client, deadline: str) -> None:
    said = problem(http.post("/api/v1/compact", json={"table": "db.t", "deadline": deadline}), 422)
    assert said["detail"].startswith("deadline: ")


def test_what_is_not_there_is_not_found(http: httpx.Client) -> None:
    assert problem(http.get("/api/v1/jobs/nobody"), 404)["type"].endswith(":job-not-found")
    assert problem(http.get("/api/v1/plans/nobody"), 404)["type"].endswith(":not-found")
    assert problem(http.get("/api/v1/keys/nobody"), 404)["type"].endswith(":key-not-found")
    assert problem(http.get("/api/v1/tenants/nobody"), 404)["type"].endswith(":tenant-not-found")
    assert problem(http.get("/api/v2"), 404)["type"].endswith(":not-found")


def test_a_method_that_there_is_not_says_which_there_are(http: httpx.Client) -> None:
    response = http.put("/api/v1/jobs")
    problem(response, 405)
    assert response.headers["allow"] == "GET"


# -- how much, and how slowly ---------------------------------------------------------------------


def test_a_body_that_is_too_large_is_refused_said_or_not(http: httpx.Client) -> None:
    assert "10,000" in problem(http.post("/api/v1/compact", content=b"x" * 10_001), 413)["detail"]
    pieces = (b"x" * 1000 for _ in range(20))
    json = {"Content-Type": "application/json"}
    problem(http.post("/api/v1/compact", content=pieces, headers=json), 413)


def raw(api: Served, sent: bytes) -> bytes:
    """What comes back for these bytes until the other side closes."""
    with socket.create_connection(("127.0.0.1", api.port), timeout=10) as connection:
        connection.sendall(sent)
        found = b""
        while part := connection.recv(65536):
            found += part
    return found


HEAD = b"POST /api/v1/compact HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    "sent",
    [b"", b"POST /api", HEAD, HEAD + b"Content-Length: 50\r\n\r\n", HEAD + b'Content-Length: 50\r\n\r\n{"table": '],
    ids=["nothing", "half a line", "half the headers", "no body", "half a body"],
)
def test_half_a_request_is_not_waited_for_for_ever(api: Served, sent: bytes) -> None:
    began = time.monotonic()
    found = raw(api, sent)
    assert time.monotonic() - began < 3
    assert found.startswith(b"HTTP/1.1 408 ")
    assert b"application/problem+json" in found


@pytest.mark.parametrize(
    "sent",
    [b"HELLO\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 100_000, b"\x16\x03\x01\x02\x00\x01\x00"],
    ids=["no request", "large headers", "TLS"],
)
def test_what_is_no_request_gets_a_problem(api: Served, sent: bytes) -> None:
    found = raw(api, sent)
    assert found.startswith(b"HTTP/1.1 400 ")
    assert b"application/problem+json" in found


# -- from where -----------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "10.0.0.1"])
def test_a_name_that_is_not_ours_is_refused_on_loopback(http: httpx.Client, host: str) -> None:
    problem(http.get("/healthz", headers={"Host": host}), 421)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST"])
def test_our_own_names_are_good(http: httpx.Client, host: str) -> None:
    as_json(http.get("/healthz", headers={"Host": host}), 200)


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_pages_of_others_change_nothing(http: httpx.Client, headers: dict[str, str]) -> None:
    problem(http.post("/api/v1/tables/db.t/maintain", headers=headers), 403)
    assert "access-control-allow-origin" not in http.get("/healthz", headers=headers).headers


def test_origins_that_are_configured_may_ask(tmp_path: Path) -> None:
    origin = "https://tools.example"
    with served(tmp_path, replace(ROOMY, cors_origins=(origin,))) as api, api.http() as http:
        asked = http.post("/api/v1/tables/db.t/maintain", headers={"Origin": origin})
        assert asked.status_code == 202
        assert asked.headers["access-control-allow-origin"] == origin
        problem(http.post("/api/v1/tables/db.t/maintain", headers={"Origin": "https://evil.example"}), 403)


def test_every_answer_has_headers_for_browsers_and_an_id(http: httpx.Client) -> None:
    for response in (http.get("/healthz"), http.get("/api/v1/nothing"), http.get("/healthz", headers={"Host": "x"})):
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["content-security-policy"].startswith("default-src 'none'")
        assert response.headers["cache-control"] == "no-store"
        assert "server" not in response.headers
        assert response.headers["x-request-id"]
    assert http.get("/healthz", headers={"X-Request-ID": "mine-1"}).headers["x-request-id"] == "mine-1"
    assert http.get("/healthz", headers={"X-Request-ID": "a b\tc"}).headers["x-request-id"] != "a b\tc"


# -- who ------------------------------------------------------------------------------------------


def test_keys_roles_and_rates(tmp_path: Path) -> None:
    with served(tmp_path, STRICT) as api, api.http() as nobody:
        made = as_json(nobody.post("/api/v1/keys", json={"role": "admin", "name": "first"}), 201)
        refused = nobody.get("/api/v1/jobs")
        problem(refused, 401)
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert nobody.get("/healthz").status_code == 200
        problem(nobody.get("/metrics"), 401)
        for wrong in ("icp_", made["secret"][:-1] + "0", "x" * 5000, "Basic"):
            assert problem(nobody.get("/api/v1/jobs", headers={"Authorization": f"Bearer {wrong}"}), 401)
        with api.http(made["secret"]) as admin:
            answers = [admin.get("/api/v1/jobs") for _ in range(8)]
            assert {answer.status_code for answer in answers} == {200, 429}
            assert int(answers[-1].headers["retry-after"]) >= 1
            problem(answers[-1], 429)


def test_streams_are_limited_for_all_and_by_key(tmp_path: Path) -> None:
    with served(tmp_path, replace(ROOMY, most_streams=3, most_streams_of_key=2)) as api, ExitStack() as opened:
        admin = api.client(api.client().new_key(Role.ADMIN).secret)
        path = f"/api/v1/jobs/{admin.compact('db.t').job_id}/events"
        one, two, three = (
            opened.enter_context(api.http(admin.new_key(Role.VIEWER, name=name).secret)) for name in ("1", "2", "3")
        )

        heard: list[Iterator[str]] = []  # a stream whose lines are forgotten is closed

        def watch(http: httpx.Client) -> httpx.Response:
            """A stream that has begun, or why it has not."""
            response = opened.enter_context(http.stream("GET", path))
            if response.is_error:
                response.read()
            else:
                heard.append(response.iter_lines())
                assert next(heard[-1]) == "event: progress"
            return response

        first = [watch(one), watch(one)]
        refused = watch(one)
        assert "with this key" in problem(refused, 429)["detail"]
        assert int(refused.headers["retry-after"]) > 0
        assert as_json(one.get(path.removesuffix("/events")), 200)["status"] == "queued"
        watch(two)
        assert "with this key" not in problem(watch(three), 503)["detail"]
        for stream in first:
            stream.close()
        until = time.monotonic() + 10
        while (again := watch(three)).is_error and time.monotonic() < until:
            time.sleep(0.02)  # it is heard soon that nobody listens any more
        assert again.status_code == 200
        api.service.draining.set()


def test_others_tables_jobs_and_keys_do_not_exist(tmp_path: Path) -> None:
    with served(tmp_path) as api, api.http() as http:
        as_json(http.post("/api/v1/tables/red.t/maintain"), 202)
        admin = as_json(http.post("/api/v1/keys", json={"role": "admin"}), 201)["secret"]
        with api.http(admin) as all_of_it:
            for name in ("red", "blue"):
                as_json(all_of_it.post("/api/v1/tenants", json={"name": name, "tables": [f"{name}.*"]}), 201)
            keys = {
                (name, role): as_json(all_of_it.post("/api/v1/keys", json={"tenant": name, "role": role}), 201)
                for name in ("red", "blue")
                for role in Role
            }
        with api.http(keys["red", Role.ADMIN]["secret"]) as red, api.http(keys["blue", Role.ADMIN]["secret"]) as blue:
            mine = as_json(red.post("/api/v1/tables/red.t/expire"), 202)["job_id"]
            for path in ("health", "plan", "history", "costs", "policy"):
                problem(blue.get(f"/api/v1/tables/red.t/{path}"), 404)
            theirs = problem(blue.post("/api/v1/compact", json={"table": "red.t"}), 404)
            nowhere = problem(blue.post("/api/v1/compact", json={"table": "red.nothing"}), 404)
            assert theirs["detail"].replace("red.t", "X") == nowhere["detail"].replace("red.nothing", "X")
            assert problem(blue.get(f"/api/v1/jobs/{mine}"), 404)["detail"] == f"there is no job {mine}"
            for act in ("cancel", "resume"):
                problem(blue.post(f"/api/v1/jobs/{mine}/{act}"), 404)
            problem(blue.get(f"/api/v1/jobs/{mine}/events"), 404)
            assert as_json(blue.get("/api/v1/jobs"), 200)["items"] == []
            problem(blue.get(f"/api/v1/keys/{keys['red', Role.VIEWER]['key']['key_id']}"), 404)
            problem(blue.post("/api/v1/keys", json={"tenant": "red", "role": "viewer"}), 404)
            problem(blue.get("/api/v1/tenants/red"), 404)
            assert [one["name"] for one in as_json(blue.get("/api/v1/tenants"), 200)["items"]] == ["blue"]
            problem(blue.post("/api/v1/tenants", json={"name": "green"}), 403)
            problem(blue.put("/api/v1/policies", json={"text": "rules: []"}), 403)
            problem(blue.get("/metrics"), 403)
            assert "red" not in blue.get("/api/v1/audit").text
        with api.http(keys["red", Role.VIEWER]["secret"]) as viewer:
            assert as_json(viewer.get(f"/api/v1/jobs/{mine}"), 200)["tenant"] == "red"
            problem(viewer.post("/api/v1/tables/red.t/maintain"), 403)
            problem(viewer.post(f"/api/v1/jobs/{mine}/cancel"), 403)
            problem(viewer.get("/api/v1/keys"), 403)


def test_secrets_are_in_no_other_answer_and_in_no_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    with served(tmp_path) as api, api.http() as http:
        made = as_json(http.post("/api/v1/keys", json={"role": "admin"}), 201)
        secret = made["secret"].rpartition("_")[2]
        with api.http(made["secret"]) as admin:
            seen = [admin.get(f"/api/v1/{path}").text for path in ("keys", "audit", "jobs", "tenants", "about")]
            seen.append(admin.get("/metrics").text)
            bad = {"table": "db.t", "options": {"max_files": made["secret"]}}
            seen.append(admin.post("/api/v1/compact", json=bad).text)
    assert not any(secret in text for text in (*seen, caplog.text))


# -- when something is broken ---------------------------------------------------------------------


def test_a_store_that_is_away_is_a_503_that_does_not_say_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path) as api, api.http() as http:

        def away(*_: object, **__: object) -> Any:
            raise StoreUnusable("postgresql://user:secret@host cannot be reached")

        monkeypatch.setattr(type(api.service.store), "jobs", away)
        monkeypatch.setattr(type(api.service.store), "document", away)
        for path in ("/api/v1/jobs", "/readyz"):
            response = http.get(path)
            assert "secret" not in str(problem(response, 503))
            assert response.headers["retry-after"]


def test_what_nobody_foresaw_is_a_500_with_an_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with served(tmp_path) as api, api.http() as http:

        def broken(*_: object, **__: object) -> Any:
            raise RuntimeError("password=hunter2")

        monkeypatch.setattr(type(api.service.jobs), "list", broken)
        found = problem(http.get("/api/v1/jobs"), 500)
    assert "hunter2" not in str(found)
    assert found["request_id"] in caplog.text
