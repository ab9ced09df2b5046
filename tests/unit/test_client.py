"""The client against a real service: values, errors, pages, waiting, and what it does if there is no answer."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from icepact.client import Client
from icepact.model.errors import (
    BadInput,
    Cancelled,
    Conflict,
    IcepactError,
    JobNotFound,
    NotAllowed,
    NotFound,
    ServiceUnreachable,
    StorageFull,
    TableNotFound,
    TooManyRequests,
    Unauthorized,
)
from icepact.model.job import Job, JobRequest, JobStatus, Operation
from icepact.model.limits import Limit, Resource
from icepact.model.reading import health_of, job_of
from icepact.model.saved import SavedPlan, saved_text
from icepact.model.tenant import Role
from tests.support.api import ROOMY, Served, ranking, served, some_health
from tests.support.jobs import THEM
from tests.support.records import run_record
from tests.support.reports import messy


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One for all."""
    with served(tmp_path_factory.mktemp("client")) as found:
        yield found


@pytest.fixture(scope="module")
def client(api: Served) -> Iterator[Client]:
    """Nobody needs a key."""
    with api.client() as found:
        yield found


def test_a_job_is_submitted_watched_and_has_a_result(api: Served, client: Client) -> None:
    job = client.compact("sales", strategy="time-series", options={"max_cost": 10.0}, priority=3)
    assert (job.request.table, job.priority, job.status) == ("default.sales", 3, JobStatus.QUEUED)
    told = client.progress(job)
    first = next(told)
    with api.working({Operation.COMPACT: lambda _: {"run_id": "r"}}):
        seen = [first, *told]
    assert [seen[0].status, seen[-1].status] == [JobStatus.QUEUED, JobStatus.SUCCEEDED]
    assert client.result(job).result == {"run_id": "r"}
    assert client.wait(job).status is JobStatus.SUCCEEDED
    assert client.job(job.job_id) == seen[-1]


def test_a_job_is_the_same_on_both_sides(api: Served, client: Client) -> None:
    made = client.submit(
        "expire",
        "db.same",
        options={"expire_retain_last": 2},
        allow_young=True,
        deadline=datetime(2100, 1, 1, tzinfo=UTC),
        idempotency_key="once",
    )
    real = api.service.jobs.get(made.job_id)
    assert replace(real, idempotency_key=None, fingerprint="") == made
    assert (
        client.submit(
            "expire",
            "db.same",
            options={"expire_retain_last": 2},
            allow_young=True,
            deadline=datetime(2100, 1, 1, tzinfo=UTC),
            idempotency_key="once",
        )
        == made
    )
    with pytest.raises(Conflict, match=made.job_id):
        client.submit("expire", "db.same", idempotency_key="once")
    assert client.cancel(made).status is JobStatus.CANCELLED
    assert client.resume(made).status is JobStatus.QUEUED
    client.cancel(made)
    with pytest.raises(Cancelled):
        client.result(made)


def test_pages_are_one_iterator(api: Served, client: Client) -> None:
    request = JobRequest(operation=Operation.TAGS, table="db.pages")
    made = [api.service.jobs.submit(request).job_id for _ in range(51)]  # more than a page
    assert [job.job_id for job in client.jobs(table="db.pages")] == made[::-1]
    for job_id in made:
        api.service.jobs.cancel(job_id)
    assert list(client.jobs(table="db.pages", statuses=[JobStatus.QUEUED])) == []


def test_waiting_ends_with_the_time(client: Client) -> None:
    job = client.submit("tags", "db.waits")
    assert client.wait(job, timeout=0.1).status is JobStatus.QUEUED
    client.cancel(job)


def test_health_comes_back_whole(api: Served, client: Client) -> None:
    with api.working():
        found = client.health("db.events")
    real = some_health()
    assert found.health == replace(
        real,
        table="db.events",
        facts=found.health.facts,
        dangling=found.health.dangling,
        partitions=found.health.partitions,
        partition_groups=(),
        timeline=tuple(real.timeline),
        notes=tuple(real.notes),
    )
    assert {**found.health.to_dict(), "table": real.table} == real.to_dict()
    assert client.health("db.events").age_seconds >= found.age_seconds


def test_what_is_read_of_health_prints_the_same() -> None:
    health = messy()[0]
    assert health_of(health.to_dict()).to_dict() == health.to_dict()


def test_plans_are_plans(api: Served, client: Client) -> None:
    plan = messy()[1]
    saved = SavedPlan(plan=plan, made_at=datetime(2026, 3, 1, tzinfo=UTC), icepact="0.1.0")
    with api.working({}, saved_text(saved).encode()):
        assert client.plan("db.events").plan.to_json() == plan.to_json()
        job = client.result(client.submit("plan", "db.events"))
    assert client.apply(job).request.table == plan.table
    assert client.apply(saved, most_failures=2).most_failures == 2
    with pytest.raises(NotFound, match="plan again"):
        client.plan_of("nobody's")


def test_tables_policies_and_costs(api: Served, client: Client) -> None:
    with api.working():
        assert [entry.table for entry in client.tables()] == ["db.clicks", "db.events"]
    assert list(client.costs()) == list(client.costs("db.events")) == []
    assert list(client.history("db.events")) == list(client.runs()) == []
    text = "rules:\n  - match: db.*\n    options: {max_files: 1000}\n"
    assert client.check_policies(text).rules[0]["match"] == "db.*"
    assert client.put_policies(text, version=0).version == 1
    assert client.policies().text == text
    assert client.drop_policies().source == "configuration"
    client.committed("db.events", 17)
    assert (client.about().catalog, client.about().role) == ("local", Role.ADMIN)


def test_a_run_is_looked_at_stopped_and_resumed(api: Served, client: Client) -> None:
    store, catalog = api.service.store, api.service.catalog.recorded_as
    store.begin(run_record("r-client", catalog=catalog, table="db.runs", owner=THEM), b"plan")
    assert client.run("r-client").table == "db.runs"
    job = client.resume_run("r-client", idempotency_key="again", most_failures=2)
    assert (job.request.run_id, job.request.table, job.most_failures) == ("r-client", "db.runs", 2)
    assert client.resume_run("r-client", idempotency_key="again", most_failures=2) == job
    client.cancel(job)
    assert "dead already" in client.cancel_run("r-client").message
    with pytest.raises(Conflict, match="was cancelled"):
        client.resume_run("r-client")
    with pytest.raises(NotFound, match="there is no run nobody"):
        client.run("nobody")


def test_tables_are_ranked(api: Served, client: Client) -> None:
    with api.working():
        job = client.result(client.rank("db.*", by="health", options={"max_files": 5}))
    assert (job.request.pattern, job.request.by, job.request.options) == ("db.*", "health", {"max_files": 5})
    assert client.ranking(job).to_dict() == ranking("db.clicks", "db.events").to_dict()
    for wrong, complaint in (
        ({"by": "luck"}, "by"),
        ({"options": {"max_duration": "1h"}}, "max_duration"),
        ({"pattern": "a b"}, "pattern"),
    ):
        with pytest.raises(BadInput, match=complaint):
            client.rank(**wrong)
    with pytest.raises(NotFound, match="rank again"):
        client.ranking(client.submit("tags", "db.t"))


def test_a_compaction_with_a_budget_is_the_same_on_both_sides(api: Served, client: Client) -> None:
    limit = Limit(resource=Resource.MONEY, amount=2.5, name="max_cost 5 for all tables")
    job = client.compact("db.budget", budget=[limit])
    assert api.service.jobs.get(job.job_id).request.budget == job.request.budget == (limit,)
    kept = client.submit("maintain", "db.budget", without=["compact"])
    assert kept.request.without == ("compact",)
    with pytest.raises(BadInput, match="without: 'dance' is no operation"):
        client.submit("maintain", "db.budget", without=["dance"])


# -- errors ---------------------------------------------------------------------------------------


def test_errors_are_ours(client: Client) -> None:
    with pytest.raises(JobNotFound, match="there is no job nobody"):
        client.job("nobody")
    with pytest.raises(BadInput, match="did you mean max_files"):
        client.compact("db.t", options={"max_fils": 1})
    with pytest.raises(BadInput, match="is not a table name"):
        client.compact("a b")


def test_what_a_job_failed_with_is_raised(api: Served, client: Client) -> None:
    def missing(job: Job) -> dict[str, str]:
        raise TableNotFound(f"no table {job.request.table}")

    def full(_: Job) -> dict[str, str]:
        raise StorageFull("the disk is full")

    with api.working({Operation.COMPACT: missing, Operation.EXPIRE: full, Operation.HEALTH: missing}):
        with pytest.raises(TableNotFound, match=r"no table db\.gone"):
            client.result(client.compact("db.gone"))
        with pytest.raises(StorageFull, match="the disk is full"):
            client.result(client.submit("expire", "db.gone"))
        with pytest.raises(TableNotFound, match=r"no table db\.gone"):
            client.health("db.gone")


def test_keys_and_rates(tmp_path_factory: pytest.TempPathFactory) -> None:
    limits = replace(ROOMY, requests_per_second=0.5, burst=3)
    waits: list[float] = []
    with served(tmp_path_factory.mktemp("keys"), limits) as api, api.client() as nobody:
        key = nobody.new_key(Role.VIEWER, name="look")
        with pytest.raises(Unauthorized):
            nobody.about()
        with api.client(key.secret, retries=1, pause=waits.append) as viewer:
            assert viewer.about().role is Role.VIEWER
            with pytest.raises(NotAllowed, match="takes the role operator"):
                viewer.compact("db.t")
            viewer.about()
            with pytest.raises(TooManyRequests):
                viewer.about()
            assert key.secret not in repr(viewer)
    assert len(waits) == 1
    assert waits[0] >= 1  # as the service said


# -- no answer ------------------------------------------------------------------------------------


@contextmanager
def answering(*answers: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """A server that gives each connection one of these answers, and closes it; what it was asked."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    asked.append(connection.recv(65536))
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", asked
        thread.join()


BUSY = b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_DOCUMENT = (
    b'{"job_id": "1", "catalog": "c", "request": {"operation": "compact", "table": "db.t"}, '
    b'"submitted_at": "2026-01-01T00:00:00+00:00", "due_at": "2026-01-01T00:00:00+00:00"}'
)
FINE = b"HTTP/1.1 202 Accepted\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(_DOCUMENT), _DOCUMENT)


def test_a_job_is_asked_for_again_under_the_same_name() -> None:
    waits: list[float] = []
    with answering(b"", BUSY, FINE) as (url, asked), Client(url, pause=waits.append) as client:
        assert client.compact("db.t").job_id == "1"
    keys = [line for request in asked for line in request.lower().split(b"\r\n") if line.startswith(b"idempotency-key")]
    assert len(keys) == 3
    assert len(set(keys)) == 1
    assert waits[0] < 1
    assert 7 <= waits[1] < 9


def test_what_may_not_be_repeated_is_not() -> None:
    with (
        answering(b"") as (url, asked),
        Client(url, pause=lambda _: None) as client,
        pytest.raises(ServiceUnreachable, match=url),
    ):
        client.new_key(Role.VIEWER)
    assert len(asked) == 1


def test_a_service_that_is_not_there_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with Client(url, retries=2, pause=lambda _: None) as client, pytest.raises(ServiceUnreachable, match=url):
        client.about()


def test_who_is_not_icepact_is_not_taken_for_it() -> None:
    page = b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nConnection: close\r\n\r\nnope"
    with answering(page) as (url, _), Client(url) as client, pytest.raises(NotFound, match="is it icepact"):
        client.about()


def found(body: str, headers: str = "") -> bytes:
    """An answer that looks like one."""
    sent = body.encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(sent)}\r\nConnection: close\r\n{headers}\r\n"
    return head.encode() + sent


@pytest.mark.parametrize(
    "body",
    [
        "",
        "<html>",
        "[]",
        "null",
        "5",
        '"job_id"',
        "{}",
        "[" * 100000,
        '{"items": [null], "next": null}',
        '{"items": "ab", "next": null}',
        '{"job_id": 5}',
    ],
)
def test_what_is_not_in_our_words_is_an_error_of_ours(body: str) -> None:
    asked: list[Callable[[Client], object]] = [
        lambda client: list(client.tables()),
        lambda client: list(client.jobs()),
        lambda client: client.job("1"),
        lambda client: client.health("db.t"),
        lambda client: list(client.progress("1")),
        lambda client: client.about(),
    ]
    with answering(*[found(body)] * len(asked)) as (url, _), Client(url, retries=0) as client:
        for ask in asked:
            with pytest.raises(IcepactError, match="is it icepact"):
                ask(client)


def test_what_cannot_be_unpacked_is_an_error_of_ours() -> None:
    packed = found("no gzip", "Content-Encoding: gzip\r\n")
    with answering(packed, packed) as (url, _), Client(url, retries=0) as client:
        for ask in (client.about, lambda: list(client.progress("1"))):
            with pytest.raises(IcepactError, match="is it icepact"):
                ask()


@pytest.mark.parametrize("body", ["{}", "[1]", '{"items": []}'])
def test_costs_are_a_list(body: str) -> None:
    with (
        answering(found(body)) as (url, _),
        Client(url, retries=0) as client,
        pytest.raises(IcepactError, match="is it icepact"),
    ):
        client.costs()


@pytest.mark.parametrize("key", ["schl\u00fcssel", "a\r\nX: y", "\udcff"])
def test_a_key_that_is_none_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(BadInput, match="key of the service") as refused:
        Client("http://localhost:8080", key)
    assert key not in str(refused.value)


@pytest.mark.parametrize(
    "url", ["http://host:99999", "http://host:port", "http://[::1", "http://[zz]", "http://a b", "http://a\0b"]
)
def test_an_address_that_cannot_be_one_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="is written"):
        Client(url)


@pytest.mark.parametrize("url", ["localhost:8080", "ftp://host", "http://", "http://user:secret@host"])
def test_an_address_that_is_none_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(BadInput, match="is written") as refused:
        Client(url)
    assert "secret" not in str(refused.value)


def test_every_problem_of_ours_is_an_error_of_ours() -> None:
    from icepact.client.answers import error_class
    from icepact.model import errors
    from icepact.model.answers import problem_name

    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, IcepactError)]
    for kind in kinds:
        named = "".join(word.capitalize() for word in problem_name(kind).split("-"))
        assert error_class(named) is kind


def test_a_worker_is_read_as_it_is_shown() -> None:
    from tests.support.jobs import THEM, make_job

    job = make_job("1", worker=THEM)
    assert str(job_of(job.to_dict()).worker) == str(THEM)
