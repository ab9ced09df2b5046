"""Commands that ask a service: the same answers as here, asked for over HTTP."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer

from icepact.entrypoints.cli import main as cli
from icepact.entrypoints.cli.render import Renderer
from icepact.entrypoints.cli.session import KEY_VARIABLE, SERVER_VARIABLE
from icepact.model.errors import TableNotFound
from icepact.model.job import Job, Operation
from icepact.model.maintenance import MaintenanceOutcome, OperationResult
from icepact.model.policy import Policy
from icepact.model.saved import SavedPlan, saved_text
from icepact.model.tenant import Role
from icepact.policy.options import Options, plain
from icepact.policy.resolve import resolve
from tests.support.api import ANSWERS, ROOMY, Served, health_document, served, some_health
from tests.support.records import NOON, run_outcome
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
    *(Operation.MANIFESTS, Operation.TTL, Operation.TAGS, Operation.STATISTICS),
)
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
        ("fleet",),
        ("fleet", "run"),
        ("resume", "r"),
        ("cancel", "r"),
        ("cleanup",),
        ("verify", "db.t", "--run", "r"),
        ("rollback", "db.t", "--run", "r", "--yes"),
        ("unblock", "db.t"),
        ("plan", "db.t", "--learned"),
        ("tenants", "list"),
        ("keys", "list"),
        ("audit",),
        ("store", "status"),
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
