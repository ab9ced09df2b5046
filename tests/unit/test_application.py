"""The application: opens nothing too early, and compacts in one order for everybody who asks."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from py4j.protocol import Py4JNetworkError

from icepact.app import Application
from icepact.entrypoints import wiring
from icepact.entrypoints.cli.flags import hoist
from icepact.entrypoints.cli.main import _guarded
from icepact.entrypoints.library import Compactor
from icepact.iceberg.catalogs import choose_catalog
from icepact.maintain import compaction
from icepact.model.errors import BadInput, Cancelled, Conflict, IcepactError
from icepact.model.fleet import Fleet, RankBy, TableSummary, Visit, VisitStatus
from icepact.model.job import JobStatus
from icepact.model.limits import Limit, Resource
from icepact.model.outcome import Outcome
from icepact.model.plan import Plan
from icepact.model.prices import DEFAULT_PRESET, Prices
from icepact.model.status import Status
from icepact.plan.fleet import rank
from icepact.policy.config import Budgets, Config
from icepact.policy.layers import Policies
from icepact.policy.options import Options, options
from icepact.record.kv.store import KvStore
from tests.support.jobs import US, job_request, make_job
from tests.support.planning import make_plan
from tests.support.records import NOON, run_outcome, run_record
from tests.support.states import MB, data_file, make_policy, make_state

TABLE = "db.events"
SOMETHING = make_plan(make_state([data_file(f"f{n}", MB) for n in range(9)]), make_policy())
NOTHING = make_plan(make_state([data_file("f", MB)]), make_policy())


def application(**given: Any) -> Application:
    """An application on a catalog elsewhere; Spark is not started."""
    parts: dict[str, Any] = {
        "catalog": choose_catalog(Config(catalog="prod", catalog_uri="http://catalog.example", catalog_type="rest")),
        "namespace": ("default",),
        "policies": Policies(),
        "prices": Prices.of(DEFAULT_PRESET),
        "budgets": Budgets(),
        "open_catalog": lambda _: SimpleNamespace(catalog="prod", recorded_as="prod"),
        "open_store": KvStore.in_memory,
    }
    return Application(**{**parts, **given})


def never(*_: object) -> NoReturn:
    """Open what nobody needs."""
    raise AssertionError("this was not needed")


def test_nothing_is_opened_until_it_is_needed() -> None:
    application(open_catalog=never, open_store=never)
    asked = application(open_catalog=never)
    asked.store.begin(run_record("r1", catalog="prod"))
    [run] = asked.runs(TABLE)
    assert asked.why_dead(run) == "nobody does not hold the table any more"
    assert asked.costs() == ()
    assert asked.learned(TABLE).own.groups == 0
    assert asked.resume_dead("db.other", Options()) is None
    with pytest.raises(BadInput, match="there is no run r2 on catalog prod: `icepact runs` lists them"):
        asked.verify(TABLE, "r2")


def test_what_java_raises_leaves_as_one_line() -> None:
    def dead(_: object) -> NoReturn:
        raise Py4JNetworkError("Answer from Java side is empty")

    with pytest.raises(IcepactError, match="Spark's Java has ended, or does not answer any more"):
        application(open_catalog=dead).health(TABLE, Options())
    with pytest.raises(IcepactError, match="Spark's Java has ended, or does not answer any more"):
        _ = Compactor.of(application(open_catalog=dead)).spark


# -- the order of a compaction --------------------------------------------------------------------


class Stage:
    """Stands in for resuming, planning and carrying out, and remembers in which order it was asked."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.resumed: Outcome | None = None
        self.made = SOMETHING

    def resume_dead(self, *given: Any) -> Outcome | None:
        """The run that died, if one did."""
        self.heard.append("resume")
        return self.resumed

    def plan(self, context: Any, table: str, request: Options, **given: Any) -> Plan:
        """The plan."""
        self.heard.append(f"plan {table} {request.max_files}")
        return self.made

    def apply(self, *given: Any) -> Outcome:
        """Carried out."""
        self.heard.append("apply")
        return run_outcome("r2")


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Without Spark."""
    found = Stage()
    for name in ("resume_dead", "plan", "apply"):
        monkeypatch.setattr(compaction, name, getattr(found, name))
    policy = SimpleNamespace(policy=make_policy())
    monkeypatch.setattr(compaction, "resolve_policy", lambda *given: (None, policy))
    return found


def test_what_died_comes_first_then_the_plan_then_the_question(stage: Stage) -> None:
    asked = application()
    asked.store.begin(run_record("r1", catalog="prod"), b"plan")
    stage.resumed = run_outcome("r1")

    def confirm(plan: Plan) -> bool:
        stage.heard.append(f"confirm {len(plan.rewrites)}")
        return True

    def on_resumed(resumed: Outcome | None) -> None:
        stage.heard.append(f"resumed {resumed.run_id if resumed else None}")

    outcome = asked.compact(TABLE, options({"max_files": 7}), on_resumed=on_resumed, confirm=confirm)
    assert stage.heard == ["resume", "resumed r1", f"plan {TABLE} 7", "confirm 1", "apply"]
    assert outcome == replace(run_outcome("r2"), resumed=stage.resumed)


def test_a_plan_that_is_not_confirmed_is_not_carried_out(stage: Stage) -> None:
    with pytest.raises(Cancelled, match=r"the plan for db\.events was not confirmed"):
        application().compact(TABLE, Options(), confirm=lambda plan: False)
    assert stage.heard == [f"plan {TABLE} None"]  # nor was there anything to carry on with


def test_a_run_that_was_carried_on_with_is_the_answer_if_nothing_is_left(stage: Stage) -> None:
    asked = application()
    asked.store.begin(run_record("r1", catalog="prod"), b"plan")
    stage.resumed, stage.made = run_outcome("r1", status=Status.PARTLY_COMMITTED), NOTHING
    assert Compactor.of(asked).compact(TABLE) is stage.resumed
    assert stage.heard == ["resume", f"plan {TABLE} None"]
    stage.heard.clear()
    assert Compactor.of(application()).compact(TABLE) == run_outcome("r2")  # which records that nothing was to do
    assert stage.heard == [f"plan {TABLE} None", "apply"]


def test_the_command_line_takes_the_same_way(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ICEPACT_STATE", str(tmp_path))
    catalog = SimpleNamespace(catalog="prod", recorded_as="prod")
    monkeypatch.setattr(wiring, "_open_catalog", lambda *given, **options: catalog)
    elsewhere = ["--catalog", "prod", "--catalog-type", "rest", "--catalog-uri", "http://catalog.example"]
    assert _guarded(hoist(["compact", TABLE, "--max-files", "3", "--json", *elsewhere])) == 0
    assert json.loads(capsys.readouterr().out) == run_outcome("r2").to_dict()
    assert stage.heard == [f"plan {TABLE} 3", "apply"]


# -- a round takes it, too ------------------------------------------------------------------------


def ranked(**given: Any) -> Fleet:
    """A fleet of one table."""
    facts = {
        "table": TABLE,
        "score": 50.0,
        "data_files": 9,
        "bytes": MB,
        "small_files": 9,
        "delete_records": 0,
        **given,
    }
    [table] = rank([TableSummary(**{"input_files": 9, "gain_seconds": 1.0, "seconds": 1.0, **facts})], by=RankBy.WORTH)
    return Fleet(tables=[table])


def visited(asked: Application, fleet: Fleet, *, dry_run: bool = False) -> Visit:
    """The visit to that table."""
    [visit] = asked.fleet_run(fleet, dry_run=dry_run).visits
    return visit


def test_a_round_resumes_plans_and_carries_out(stage: Stage) -> None:
    asked = application()
    asked.store.begin(run_record("r1", catalog="prod"), b"plan")
    stage.resumed = run_outcome("r1")
    visit = visited(asked, ranked())
    assert (visit.ended, visit.resumed, visit.outcome) == (VisitStatus.DONE, stage.resumed, run_outcome("r2"))
    assert stage.heard == ["resume", f"plan {TABLE} None", "apply"]


def test_a_dry_round_only_plans(stage: Stage) -> None:
    asked = application()
    asked.store.begin(run_record("r1", catalog="prod"), b"plan")
    visit = visited(asked, ranked(), dry_run=True)
    assert (visit.ended, visit.plan, visit.outcome) == (VisitStatus.PLANNED, SOMETHING, None)
    assert stage.heard == [f"plan {TABLE} None"]


def test_a_round_leaves_a_table_alone_for_a_reason(stage: Stage) -> None:
    asked = application()
    assert visited(asked, ranked(input_files=0)).ended is VisitStatus.NOTHING
    spent = Limit(resource=Resource.FILES, amount=0, name="max_files 0")
    over = visited(asked, replace(ranked(), budget=(spent,)))
    assert (over.ended, over.reason) == (VisitStatus.SKIPPED, "over the budget (max_files 0)")
    assert stage.heard == []  # neither was planned
    stage.made = NOTHING
    assert visited(asked, ranked()).ended is VisitStatus.NOTHING
    assert stage.heard == [f"plan {TABLE} None"]  # and a plan without steps leaves no run


def test_a_round_goes_no_further_where_what_died_did_not_end_well(stage: Stage) -> None:
    asked = application()
    asked.store.begin(run_record("r1", catalog="prod"), b"plan")
    stage.resumed = run_outcome("r1", status=Status.FAILED, error="no room")
    visit = visited(asked, ranked())
    assert (visit.ended, visit.resumed) == (VisitStatus.FAILED, stage.resumed)
    assert visit.reason == "run r1 was resumed and is failed: no room"
    assert stage.heard == ["resume"]


# -- stopping a run -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("told", "status"), [("r1", JobStatus.RUNNING), (None, JobStatus.RUNNING), ("r1", JobStatus.QUEUED)]
)
def test_whoever_stops_a_run_cancels_the_job_whose_run_it_is(told: str | None, status: JobStatus) -> None:
    """Also before its worker has told of the run, and while the job waits to be carried on with."""
    app = application()
    app.store.begin(run_record("r1", catalog="prod", owner=US))
    for name, table in (("its", TABLE), ("next", TABLE), ("other", "db.other")):
        app.store.submit_job(make_job(name, job_request(table=table), catalog="prod"))
    job = app.store.take_job("prod", US, seconds=600, choose=lambda _: "its")
    assert job is not None
    if told is not None:
        assert app.store.renew_job(job.claim, seconds=600, run_id=told)
    if status is JobStatus.QUEUED:
        app.store.return_job(job.claim, due_at=NOON, begin_anew=False)
    assert app.cancel("r1").endswith("; job its is cancelled with it")
    run = app.store.run("r1")
    assert run is not None
    assert run.cancel_asked
    jobs = {one.job_id: one for one in app.store.jobs(catalog="prod")}
    assert [name for name in ("its", "next", "other") if jobs[name].cancel_asked] == ["its"]
    assert jobs["its"].status is (JobStatus.CANCELLED if status is JobStatus.QUEUED else JobStatus.RUNNING)


def test_a_run_that_has_ended_takes_no_job_along() -> None:
    app = application()
    app.store.finish(app.store.begin(run_record("r1", catalog="prod", owner=US)), run_outcome("r1"))
    app.store.submit_job(make_job("its", catalog="prod"))
    job = app.store.take_job("prod", US, seconds=600, choose=lambda _: "its")
    assert job is not None
    app.store.renew_job(job.claim, seconds=600, run_id="r1")
    with pytest.raises(Conflict, match="nothing to cancel"):
        app.cancel("r1")
    found = app.store.job("its")
    assert found is not None
    assert not found.cancel_asked
