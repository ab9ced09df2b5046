"""Commands that ask a service: the same answers as here, asked for over HTTP."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer

from icepact.entrypoints.cli import main as cli
from icepact.entrypoints.cli.render import Renderer
from icepact.entrypoints.cli.session import KEY_VARIABLE, SERVER_VARIABLE
from icepact.model.errors import StorageFull, TableNotFound
from icepact.model.fleet import Round, Visit, VisitStatus
from icepact.model.job import Job, Operation
from icepact.model.limits import Limit, Resource
from icepact.model.maintenance import MaintenanceOutcome, OperationResult
from icepact.model.policy import Policy
from icepact.model.saved import SavedPlan, saved_text
from icepact.model.tenant import Role
from icepact.policy.options import Options, plain
from icepact.policy.resolve import resolve
from icepact.record.process import this_process
from icepact.schedule.tenants import Tenants
from tests.support.api import ANSWERS, ROOMY, Served, health_document, ranking, served, some_health
from tests.support.jobs import THEM
from tests.support.records import NOON, run_outcome, run_record
from tests.support.reports import messy

PLAN = messy()[1]
SAVED = SavedPlan(plan=PLAN, made_at=datetime(2026, 3, 1, tzinfo=UTC), icepact="0.1.0")
OUTCOME = run_outcome("r1")
DONE = MaintenanceOutcome(
    table="db.events", started_at=NOON, seconds=1.5, operations=[OperationResult(operation="compact", outcome=OUTCOME)]
)
_POLICY: Policy = resolve(Options(), {}, Options())
VALUES = {
    name: {"value": plain(getattr(_POLICY, name)), "source": "default"} for name in sorted(Options.model_fields)[:9]
}
_STEPS = (
    *(Operation.COMPACT, Operation.APPLY, Operation.EXPIRE, Operation.ORPHANS, Operation.DELETES),
    *(Operation.MANIFESTS, Operation.TTL, Operation.TAGS, Operation.STATISTICS, Operation.RESUME),
)
BUDGET: list[Limit] = []
"""Of the next ranking."""
Say = Callable[..., tuple[int, str, str]]


def answers(asked: list[Job]) -> dict[Operation, Callable[[Job], Any]]:
    """What a worker would say; each job is written down."""

    def noted(answer: Callable[[Job], Any]) -> Callable[[Job], Any]:
        def note(job: Job) -> Any:
            asked.append(job)
            return answer(job)

        return note

    made: dict[Operation, Callable[[Job], Any]] = {
        **ANSWERS,
        Operation.FLEET: lambda _: ranking("db.clicks", "db.events", budget=tuple(BUDGET)).to_dict(),
        **dict.fromkeys(_STEPS, lambda _: OUTCOME.to_dict()),
        Operation.MAINTAIN: lambda _: DONE.to_dict(),
        Operation.PLAN: lambda _: PLAN.to_dict(),
        Operation.POLICY: lambda _: VALUES,
    }
    return {operation: noted(answer) for operation, answer in made.items()}


@pytest.fixture(scope="module")
def asked() -> list[Job]:
    """Jobs that were carried out."""
    return []


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory, asked: list[Job]) -> Iterator[Served]:
    """Somebody ends its jobs."""
    with served(tmp_path_factory.mktemp("remote")) as found, found.working(answers(asked), saved_text(SAVED).encode()):
        yield found


@pytest.fixture
def say(api: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    """A command through the service: its code, and what it printed on stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "120")
    capsys.readouterr()

    def typed(*words: str) -> tuple[int, str, str]:
        code = cli.run([*words, "--server", api.url])
        said = capsys.readouterr()
        return code, said.out, said.err

    return typed


def printed(show: Callable[[Renderer], None], capsys: pytest.CaptureFixture[str], *, as_json: bool = False) -> str:
    """What a renderer prints here."""
    show(Renderer(as_json=as_json))
    return capsys.readouterr().out


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_answers_look_as_they_do_here(say: Say, capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]) -> None:
    shown: dict[tuple[str, ...], Callable[[Renderer], None]] = {
        ("plan", "db.events"): lambda r: r.plan(PLAN),
        ("compact", "db.events", "--yes"): lambda r: r.outcome(OUTCOME),
        ("compact", "db.events", "--dry-run"): lambda r: r.plan(PLAN),
        ("maintain", "db.events"): lambda r: r.maintenance(DONE),
        ("maintain", "db.events", "--dry-run"): lambda r: r.maintenance(DONE),
        ("expire", "db.events", "--yes"): lambda r: r.outcome(OUTCOME),
        ("statistics", "db.events", "--columns", "id"): lambda r: r.outcome(OUTCOME),
        ("policy", "show", "db.events"): lambda r: r.table_policy("db.events", VALUES, "USD"),
        ("tables",): lambda r: r.tables(["db.clicks", "db.events"]),
        ("runs",): lambda r: r.runs([], {}, open_only=False),
        ("costs",): lambda r: r.costs([]),
        ("costs", "--tenant", "default"): lambda r: r.costs([]),
        ("fleet",): lambda r: r.fleet(ranking("db.clicks", "db.events"), 20),
        ("unblock", "db.events"): lambda r: r.message("3 failures of db.events forgotten"),
    }
    for words, show in shown.items():
        code, out, err = say(*words, *flags)
        assert (code, err) == (0, ""), words
        assert out == printed(show, capsys, as_json=bool(flags)), words


def test_health_looks_as_it_does_here(say: Say, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = say("health", "db.events")
    assert (code, err) == (0, "")
    here = printed(lambda r: r.health(some_health()), capsys)
    assert out == here.replace(some_health().table, "db.events")
    assert json.loads(say("health", "db.events", "--json")[1]) == health_document("db.events")


def test_options_arrive_as_they_were_meant(say: Say, asked: list[Job]) -> None:
    given = ("--target-file-size", "256MB", "--max-duration", "90m", "--max-cost", "2.5", "--strategy", "time-series")
    assert say("compact", "db.events", "--yes", *given)[0] == 0
    sent = asked[-1].request.options
    assert sent == {
        "target_file_size": 256 * 1024**2,
        "max_duration": "5400.000000s",
        "max_cost": 2.5,
        "strategy": "time-series",
    }
    assert say("orphans", "db.events", "--yes", "--exclude", "tmp", "--older-than", "4d", "--allow-young")[0] == 0
    request = asked[-1].request
    assert (request.exclude, request.allow_young, request.dry_run) == (("tmp",), True, False)
    assert request.options == {"orphans_older_than": "345600.000000s"}
    assert asked[-1].most_failures == 1


def test_what_deletes_is_only_shown_where_nobody_can_be_asked(
    say: Say, asked: list[Job], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = say("expire", "db.events")
    assert (code, asked[-1].request.dry_run) == (0, True)
    assert out == printed(lambda r: r.plan(PLAN), capsys)
    del err


@pytest.mark.parametrize("yes", [True, False])
def test_somebody_at_the_terminal_is_asked_and_the_plan_that_was_shown_is_applied(
    say: Say, asked: list[Job], monkeypatch: pytest.MonkeyPatch, yes: bool
) -> None:
    monkeypatch.setattr(Renderer, "interactive", True)
    before = len(asked)

    def confirm(question: str, **_: Any) -> bool:
        assert [job.request.operation for job in asked[before:]] == [Operation.PLAN]
        return yes

    monkeypatch.setattr(typer, "confirm", confirm)
    code, out, _ = say("compact", "db.events")
    assert "data files" in out
    done = [job.request.operation for job in asked[before:]]
    assert (code, done) == ((0, [Operation.PLAN, Operation.APPLY]) if yes else (1, [Operation.PLAN]))


def test_a_plan_goes_into_a_file_and_back(say: Say, asked: list[Job], tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    assert say("plan", "db.events", "--out", str(file))[0] == 0
    code, out, _ = say("apply", str(file), "--yes")
    assert (code, asked[-1].request.operation, asked[-1].request.table) == (0, Operation.APPLY, PLAN.table)
    assert "run r1" in out


def test_errors_are_one_line_and_the_same_code(api: Served, capsys: pytest.CaptureFixture[str], say: Say) -> None:
    assert say("compact", "a b", "--yes")[0] == 2
    assert say("jobs", "show", "nobody") == (2, "", "icepact: there is no job nobody\n")
    code, _, err = say("health", "db.events", "--warehouse", "elsewhere")
    assert (code, "--warehouse: the service has a catalog" in err) == (2, True)
    assert cli.run(["tables", "--server", "localhost:1"]) == 2
    capsys.readouterr()


@pytest.mark.parametrize(
    "words",
    [
        ("demo",),
        ("cleanup",),
        ("verify", "db.t", "--run", "r"),
        ("rollback", "db.t", "--run", "r", "--yes"),
        ("plan", "db.t", "--learned"),
        ("store", "copy", "memory", "memory"),
        ("serve",),
        ("worker",),
    ],
    ids=" ".join,
)
def test_what_makes_no_sense_elsewhere_says_so_in_one_line(say: Say, words: tuple[str, ...]) -> None:
    code, out, err = say(*words)
    assert (code, out) == (2, "")
    assert err.endswith("works where the catalog is, not through a service: leave out --server\n")
    assert err.count("\n") == 1


# -- many tables ----------------------------------------------------------------------------------


def a_round(*visits: Visit, dry_run: bool = False) -> Callable[[Renderer], None]:
    """How a round is shown."""

    def show(renderer: Renderer) -> None:
        for visit in visits:
            renderer.visit(visit)
        renderer.round(Round(visits=visits, dry_run=dry_run))

    return show


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_round_is_a_job_for_each_table(
    say: Say, asked: list[Job], capsys: pytest.CaptureFixture[str], flags: tuple[str, ...]
) -> None:
    before = len(asked)
    code, out, err = say("fleet", "run", "--yes", *flags)
    assert (code, err) == (0, "")
    visits = [Visit(table=name, ended=VisitStatus.DONE, outcome=OUTCOME) for name in ("db.clicks", "db.events")]
    assert out == printed(a_round(*visits), capsys, as_json=bool(flags))
    jobs = [(job.request.operation, job.request.table) for job in asked[before:]]
    assert jobs == [(Operation.FLEET, None), (Operation.COMPACT, "db.clicks"), (Operation.COMPACT, "db.events")]
    assert asked[-1].most_failures == 1


def test_a_dry_round_plans(say: Say, asked: list[Job], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = say("fleet", "run", "--dry-run")
    assert code == 0
    visits = [Visit(table=name, ended=VisitStatus.PLANNED, plan=PLAN) for name in ("db.clicks", "db.events")]
    assert out == printed(a_round(*visits, dry_run=True), capsys)
    assert asked[-1].request.dry_run


def test_a_round_keeps_house_without_compacting_again(say: Say, asked: list[Job]) -> None:
    before = len(asked)
    assert say("fleet", "run", "--yes", "--maintain")[0] == 0
    kept = [job.request for job in asked[before:] if job.request.operation is Operation.MAINTAIN]
    assert [(request.table, request.without) for request in kept] == [
        ("db.clicks", ("compact",)),
        ("db.events", ("compact",)),
    ]


def test_the_budget_of_a_round_is_what_is_left_of_it(say: Say, asked: list[Job]) -> None:
    """The ranking is asked for with all of it; the first table takes six files of it, as its outcome says."""
    before = len(asked)
    limit = Limit(resource=Resource.FILES, amount=10, name="max_files 10 for all tables")
    BUDGET.append(limit)
    try:
        code, out, _ = say("fleet", "run", "--yes", "--max-files", "10")
    finally:
        BUDGET.clear()
    assert code == 0
    fleet, first, second = (job.request for job in asked[before:])
    assert fleet.options == {"max_files": 10}
    assert [list(request.budget) for request in (first, second)] == [[limit], [replace(limit, amount=4)]]
    assert "2 tables: 2 done" in out


def test_a_table_on_which_it_fails_does_not_end_the_round(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def busy(job: Job) -> Any:
        if job.request.table == "db.clicks":
            raise StorageFull("the disk is full")
        return OUTCOME.to_dict()

    answers = {Operation.FLEET: lambda _: ranking("db.clicks", "db.events").to_dict(), Operation.COMPACT: busy}
    with served(tmp_path) as api, api.working(answers):
        assert cli.run(["fleet", "run", "--yes", "--server", api.url]) == 1
    out = capsys.readouterr().out
    assert "db.clicks: failed: the disk is full" in out
    assert "2 tables: 1 done, 1 failed" in out


# -- runs -----------------------------------------------------------------------------------------


def test_runs_are_stopped_and_resumed(api: Served, say: Say, asked: list[Job]) -> None:
    store, catalog = api.service.store, api.service.catalog.recorded_as
    store.begin(run_record("r-dead", catalog=catalog, table="db.events", owner=THEM), b"plan")
    code, out, err = say("resume", "r-dead")
    assert (code, err) == (0, "")
    assert "run r1" in out
    request = asked[-1].request
    assert (request.operation, request.run_id, request.table) == (Operation.RESUME, "r-dead", "db.events")
    code, out, _ = say("cancel", "r-dead")
    assert code == 0
    assert out.startswith("run r-dead is dead already")
    assert say("resume", "r-dead")[2].startswith("icepact: run r-dead was cancelled")
    for words in (("resume", "nobody"), ("cancel", "nobody")):
        assert say(*words) == (2, "", "icepact: there is no run nobody\n")


def test_a_run_that_somebody_works_on_is_stopped_and_not_resumed(api: Served, say: Say) -> None:
    store, catalog = api.service.store, api.service.catalog.recorded_as
    run = run_record("r-live", catalog=catalog, table="db.live", uuid="u-live", owner=this_process())
    store.begin(run)
    store.acquire("u-live", "r-live", this_process(), seconds=600)
    code, _, err = say("resume", "r-live")
    assert (code, "works on run r-live" in err) == (2, True)
    assert say("cancel", "r-live")[:2] == (0, f"asked {this_process()} to stop run r-live\n")
    found = store.run("r-live")
    assert found is not None
    assert found.cancel_asked


# -- the service itself ---------------------------------------------------------------------------


def test_the_record_store_is_shown(api: Served, say: Say, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = say("store", "status", "--json")
    assert (code, err) == (0, "")
    shown = json.loads(out)
    assert shown["store"] == "configured"
    assert shown["rows"]["jobs"] >= 0
    assert "jobs" in say("store", "status")[1]


def test_tenants_keys_and_the_audit_log_are_the_same_here_and_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with served(tmp_path, ROOMY) as api:
        here, there = ("--warehouse", str(tmp_path / "warehouse")), ("--server", api.url)

        def say(where: tuple[str, ...], *words: str, code: int = 0) -> str:
            assert cli.run([*words, *where]) == code, (words, capsys.readouterr())
            said = capsys.readouterr()
            return said.err if code else said.out

        monkeypatch.setenv(KEY_VARIABLE, say(there, "keys", "create", "--role", "admin").strip())
        say(there, "tenants", "create", "sales", "--tables", "sales.*", "--jobs-at-once", "2")
        changed = say(there, "tenants", "set", "sales", "--bytes-per-hour", "5GB", "--description", "team")
        assert changed == say(here, "tenants", "set", "sales", "--description", "team")
        made = json.loads(say(there, "keys", "create", "--tenant", "sales", "--expires", "90d", "--json"))
        assert made["key"]["expires_at"] is not None
        rotated = json.loads(say(there, "keys", "rotate", made["key"]["key_id"], "--overlap", "1h", "--json"))
        revoked = say(there, "keys", "revoke", rotated["key"]["key_id"])
        assert revoked == f"key {rotated['key']['key_id']} of sales is good for nothing any more\n"
        for words in ("tenants list", "tenants show sales", "keys list", "keys list --tenant sales", "audit"):
            for flags in ((), ("--json",)):
                assert say(there, *words.split(), *flags) == say(here, *words.split(), *flags), words
        entries = json.loads(say(there, "audit", "--json"))["entries"]
        assert [entry["action"] for entry in entries[:2]] == ["keys.revoke", "keys.rotate"]
        after = ("audit", "--json", "--limit", "2", "--after", entries[1]["entry_id"])
        assert json.loads(say(there, *after))["entries"] == entries[2:4]
        assert "there is no tenant nobody" in say(there, "tenants", "show", "nobody", code=2)
        say(there, "tenants", "remove", "sales")
        assert "there is no tenant sales" in say(there, "tenants", "show", "sales", code=2)


def test_who_may_not_look_after_tenants_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path, ROOMY) as api, api.client() as client:
        client.new_tenant("red", tables=["red.*"])
        red = Tenants(api.service.store, catalog=api.service.catalog.name).new_key("red", Role.ADMIN)[1]
        monkeypatch.setenv(KEY_VARIABLE, red)
        where = ("--server", api.url)
        assert cli.run(["tenants", "create", "blue", *where]) == 2
        assert "takes an admin of the tenant default" in capsys.readouterr().err
        assert cli.run(["store", "status", *where]) == 2
        assert "takes a key of the tenant default" in capsys.readouterr().err
        assert cli.run(["keys", "create", "--json", *where]) == 0
        assert json.loads(capsys.readouterr().out)["key"]["tenant"] == "red"


# -- jobs -----------------------------------------------------------------------------------------


def test_jobs_are_listed_shown_cancelled_and_resumed_here_and_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with served(tmp_path) as api:
        job = api.client().compact("db.events")
        here, there = ("--warehouse", str(tmp_path / "warehouse")), ("--server", api.url)
        outputs = []
        for where in (here, there):
            said = []
            for words, code in (
                (("jobs", "list"), 0),
                (("jobs", "list", "db.events", "--open", "--json"), 0),
                (("jobs", "show", job.job_id), 0),
                (("jobs", "cancel", job.job_id), 0),
                (("jobs", "cancel", job.job_id), 2),
                (("jobs", "resume", job.job_id), 0),
                (("jobs", "show", "nobody"), 2),
            ):
                assert cli.run([*words, *where]) == code, words
                said.append(capsys.readouterr())
            outputs.append(said)
    assert outputs[0][0].out == outputs[1][0].out
    assert job.job_id in outputs[0][0].out
    assert [a.out for a in outputs[0][2:]] == [b.out for b in outputs[1][2:]]
    assert [a.err for a in outputs[0]] == [b.err for b in outputs[1]]
    assert json.loads(outputs[1][1].out)["jobs"][0]["job_id"] == job.job_id


def test_the_service_and_its_key_may_be_in_the_environment(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(tmp_path, ROOMY) as api, api.client() as client:
        key = client.new_key(Role.VIEWER)
        monkeypatch.setenv(SERVER_VARIABLE, api.url)
        assert cli.run(["jobs", "list"]) == 2
        assert "a key is needed" in capsys.readouterr().err
        monkeypatch.setenv(KEY_VARIABLE, key.secret)
        assert cli.run(["jobs", "list"]) == 0
        assert capsys.readouterr().out == "no jobs\n"
        assert cli.run(["compact", "db.t", "--yes"]) == 2
        assert "takes the role operator" in capsys.readouterr().err


def test_a_job_that_fails_there_ends_the_command_here(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def missing(job: Job) -> Any:
        raise TableNotFound(f"no table {job.request.table}")

    with served(tmp_path) as api, api.working({Operation.COMPACT: missing}):
        assert cli.run(["compact", "db.gone", "--yes", "--server", api.url]) == 2
    assert capsys.readouterr().err == "icepact: no table db.gone\n"


def test_the_openapi_document_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["openapi"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["openapi"].startswith("3.1")
    assert "/api/v1/compact" in document["paths"]
