"""Rounds over the fleet of a service: budgets, failures, jobs that are cancelled, and Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icepact.entrypoints.api.context import Watch
from icepact.entrypoints.cli import main as cli
from icepact.entrypoints.cli.render import Renderer
from icepact.model.errors import StorageFull
from icepact.model.fleet import Fleet, InspectionError, RankedTable, Round, Visit, VisitStatus
from icepact.model.job import Job, JobStatus, Operation
from icepact.model.limits import Limit, Resource
from tests.support.api import Served, ranking, served
from tests.support.jobs import THEM
from tests.support.records import run_outcome, run_record

OUTCOME = run_outcome("r1")
"""It took six files."""
SIX = Limit(resource=Resource.FILES, amount=6, name="max_files 6 for all tables")
SECONDS = 30.0
_PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"  # also where tests run in the background
    "from icepact.entrypoints.cli.start import run; run()"
)
Answer = Callable[[Job], Any]
Say = Callable[..., tuple[int, str, str]]


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Served]:
    """A service of its own."""
    with served(tmp_path) as found:
        yield found


@pytest.fixture
def say(api: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    """A round through the service: its code, and what it printed on stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "120")

    def typed(*flags: str) -> tuple[int, str, str]:
        code = cli.run(["fleet", "run", "--yes", *flags, "--server", api.url])
        said = capsys.readouterr()
        return code, said.out, said.err

    return typed


def workers(fleet: Fleet, compact: Answer = lambda _: OUTCOME.to_dict()) -> dict[Operation, Answer]:
    """What workers answer."""
    return {Operation.FLEET: lambda _: fleet.to_dict(), Operation.COMPACT: compact}


def changed(fleet: Fleet, table: str, **more: Any) -> Fleet:
    """A ranking that says something else of one table."""

    def change(ranked: RankedTable) -> RankedTable:
        return replace(ranked, summary=replace(ranked.summary, **more)) if ranked.summary.table == table else ranked

    return replace(fleet, tables=[change(ranked) for ranked in fleet.tables])


def compactions(api: Served) -> list[Job]:
    """The jobs that compact, oldest first."""
    jobs = api.service.jobs.list(limit=100)
    return sorted((job for job in jobs if job.request.operation is Operation.COMPACT), key=lambda job: job.submitted_at)


def wait_for(found: Callable[[], bool]) -> None:
    """Until something is so."""
    until = time.monotonic() + SECONDS
    while not found():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize("as_json", [False, True])
def test_a_budget_goes_to_what_does_not_fail_and_is_over_then(
    api: Served, say: Say, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    """The first table fails and takes nothing, the second takes all, and nothing is asked for the third."""
    fleet = changed(ranking("db.a", "db.b", "db.c", "db.d", budget=(SIX,)), "db.d", off="its policy says so")
    fleet = replace(fleet, failed=[InspectionError(table="db.broken", reason="it cannot be read")])

    def compact(job: Job) -> Any:
        if job.request.table == "db.a":
            raise StorageFull("the disk is full")
        return OUTCOME.to_dict()

    with api.working(workers(fleet, compact)):
        code, out, err = say("--max-files", "6", *(["--json"] if as_json else []))
    assert (code, err) == (1, "")
    visits = [
        Visit(table="db.broken", ended=VisitStatus.FAILED, reason="it cannot be read"),
        Visit(table="db.a", ended=VisitStatus.FAILED, reason="the disk is full"),
        Visit(table="db.b", ended=VisitStatus.DONE, outcome=OUTCOME),
        Visit(table="db.c", ended=VisitStatus.SKIPPED, reason="over the budget (max_files 6 for all tables)"),
        Visit(table="db.d", ended=VisitStatus.SKIPPED, reason="its policy says so"),
    ]
    done, renderer = Round(visits=visits, dry_run=False), Renderer(as_json=as_json)
    for visit in visits:
        renderer.visit(visit)
    renderer.round(done)
    assert out == capsys.readouterr().out
    if as_json:
        told = json.loads(out)
        assert {ended: count for ended, count in told["total"].items() if count} == {
            "failed": 2,
            "done": 1,
            "skipped": 2,
        }
        assert told["tables"][2]["outcome"]["run_id"] == "r1"
    first, second = compactions(api)
    assert [(job.request.table, list(job.request.budget)) for job in (first, second)] == [
        ("db.a", [SIX]),
        ("db.b", [SIX]),
    ]
    assert first.finished_at is not None
    assert second.submitted_at >= first.finished_at  # what is left is known only then


def test_without_a_budget_jobs_wait_for_workers_and_not_workers_for_jobs(api: Served, say: Say) -> None:
    names = [f"db.t{number}" for number in range(10)]
    ahead: list[int] = []

    def compact(job: Job) -> Any:
        if job.request.table == names[0]:
            wait_for(lambda: len(compactions(api)) == 8)
            ahead.append(len(compactions(api)))
        return OUTCOME.to_dict()

    with api.working(workers(ranking(*names), compact)):
        code, out, _ = say()
    assert (code, ahead) == (0, [8])
    assert "10 tables: 10 done" in out
    assert [job.request.table for job in compactions(api)] == names


def test_tables_with_nothing_to_do_get_a_job_only_if_a_run_on_them_died(api: Served, say: Say) -> None:
    fleet = ranking("db.idle", "db.dead")
    for table in ("db.idle", "db.dead"):
        fleet = changed(fleet, table, input_files=0)
    catalog = api.service.catalog.recorded_as
    api.service.store.begin(run_record("r-dead", catalog=catalog, table="db.dead", owner=THEM), b"plan")
    with api.working(workers(fleet)):
        code, out, _ = say()
    assert code == 0
    assert "2 tables: 1 done, 1 nothing" in out
    assert [job.request.table for job in compactions(api)] == ["db.dead"]


def test_a_job_that_somebody_cancels_is_left_out_and_the_round_goes_on(api: Served, say: Say) -> None:
    names = ["db.a", "db.b", "db.c"]

    def compact(job: Job) -> Any:
        if job.request.table == "db.a":
            wait_for(lambda: len(compactions(api)) == len(names))
            api.service.jobs.cancel(compactions(api)[1].job_id)
        return OUTCOME.to_dict()

    with api.working(workers(ranking(*names), compact)):
        code, out, _ = say()
    assert code == 0
    assert f"db.b: skipped: job {compactions(api)[1].job_id} was cancelled\n" in out
    assert "3 tables: 2 done, 1 skipped" in out


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Jobs that somebody watches; each again and again."""
    found: list[str] = []
    pause = Watch.pause

    async def noted(watch: Watch, job: Job, *args: Any, **kwargs: Any) -> float:
        found.append(job.job_id)
        return await pause(watch, job, *args, **kwargs)

    monkeypatch.setattr(Watch, "pause", noted)
    return found


def test_ctrl_c_leaves_the_jobs_and_says_which(api: Served, watched: list[str]) -> None:
    free = threading.Event()

    def compact(_: Job) -> Any:
        assert free.wait(SECONDS)
        return OUTCOME.to_dict()

    words = [sys.executable, "-c", _PROGRAM, "fleet", "run", "--yes", "--server", api.url]
    with api.working(workers(ranking("db.a", "db.b", "db.c"), compact)):
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            wait_for(lambda: any(job.job_id in watched for job in compactions(api)))
            os.kill(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
            free.set()
        first = compactions(api)[0].job_id
        assert (process.returncode, out) == (130, "")
        told = [line for line in err.splitlines() if line]
        assert told[:2] == [
            f"job {first} goes on: icepact jobs show {first}, or icepact jobs cancel {first}",
            "2 more jobs of this round: icepact jobs list --open",
        ]
        assert told[2].startswith("icepact: interrupted")
        wait_for(lambda: all(job.status is JobStatus.SUCCEEDED for job in compactions(api)))
