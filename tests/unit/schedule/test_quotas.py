"""Quotas: what holds a tenant's jobs back, how long, and that it holds back nobody else's."""

import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.model.effort import Effort
from icepact.model.errors import Cancelled, QuotaUsed
from icepact.model.job import (
    Job,
    JobRequest,
    JobStatus,
    Operation,
    Queue,
    TenantLimit,
    TenantTurn,
    WaitingJob,
)
from icepact.model.plan import Plan
from icepact.model.policy import Policy
from icepact.model.run import Claim, Owner, RunRecord
from icepact.model.status import Status
from icepact.model.tenant import Quota
from icepact.policy.options import Options
from icepact.record.kv.store import KvStore
from icepact.schedule.attribution import job_of, tenants_of_runs
from icepact.schedule.holding import CheckPlan, Holding
from icepact.schedule.queue import after_error, next_job
from icepact.schedule.quotas import Quotas
from icepact.schedule.spent import costs_by_tenant
from icepact.schedule.tenants import Tenants
from tests.support.jobs import THEM, US, job_request, make_job
from tests.support.planning import make_plan
from tests.support.records import NOON, run_outcome, run_record
from tests.support.states import MB, data_file, make_policy, make_state
from tests.support.stores import Clock

MINUTE = timedelta(minutes=1)


class Service:
    """A store with tenants, jobs and runs in it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.store = KvStore.in_memory(clock=self.clock)
        self.tenants = Tenants(self.store, catalog="prod", clock=self.clock)
        self.quotas = self.another()

    def another(self) -> Quotas:
        """What another worker knows."""
        return Quotas(self.store, self.tenants, "local", currency="EUR", clock=self.clock)

    def tenant(self, name: str, **quota: Any) -> None:
        """Make one."""
        self.tenants.create(name, tables=[f"{name}.*"], quota=Quota(**quota))

    def job(self, job_id: str, tenant: str, table: str = "t", operation: Operation = Operation.COMPACT) -> Job:
        """Put one into the queue."""
        request = job_request(operation, f"{tenant}.{table}")
        return self.store.submit_job(make_job(job_id, request, tenant=tenant))

    def take(self, quotas: Quotas | None = None, worker: Owner = US) -> Job | None:
        """Take the next one."""
        choose = (quotas or self.quotas).choose()
        return self.store.take_job("local", worker, seconds=3600, choose=choose)

    def begin(self, job: Job, plan: bytes = b"", **given: Any) -> RunRecord:
        """Begin its run."""
        facts = {"table": job.request.table, "started_at": self.clock(), "owner": job.worker, **given}
        run = run_record(f"run-of-{job.job_id}", **facts)
        self.store.begin(run, plan)
        self.store.renew_job(job.claim, seconds=3600, run_id=run.run_id)
        return run

    def end(self, job: Job, run: RunRecord, *, size: int, money: float) -> None:
        """End its run, which took so much, and the job."""
        [group] = run_outcome("any").groups
        took = replace(group, bytes_in=size, money=money, effort=Effort(seconds=1.0))
        outcome = run_outcome(
            run.run_id, table=run.table, started_at=run.started_at, seconds=0.0, groups=(took,), currency="EUR"
        )
        self.store.finish(Claim(run_id=run.run_id, epoch=run.epoch), outcome)
        self.store.end_job(job.claim, JobStatus.SUCCEEDED)

    def spend(self, job_id: str, tenant: str, *, size: int, money: float = 0.0, table: str = "t") -> None:
        """Have a job done that takes so much."""
        self.job(job_id, tenant, table)
        job = self.take()
        assert job is not None
        assert job.job_id == job_id
        self.end(job, self.begin(job), size=size, money=money)


@pytest.fixture
def service() -> Service:
    """It is noon, and nothing has happened yet."""
    return Service()


# -- which job is next ----------------------------------------------------------------------------

TENANTS = ("red", "green", "blue")


@st.composite
def queues(draw: st.DrawFn) -> Queue:
    """Any queue, with limits."""
    waiting = [
        WaitingJob(
            job_id=f"j{n:02}",
            tenant=draw(st.sampled_from(TENANTS)),
            table=draw(st.sampled_from(("a", "b", None))),
            priority=draw(st.integers(-2, 2)),
            submitted_at=NOON + timedelta(seconds=draw(st.integers(0, 5))),
        )
        for n in range(draw(st.integers(0, 10)))
    ]
    turns = [TenantTurn(tenant=name, running=draw(st.integers(0, 3)), taken_at=None) for name in TENANTS]
    limits = [
        TenantLimit(tenant=name, jobs_at_once=draw(st.none() | st.integers(1, 3)), used_up=draw(st.booleans()))
        for name in draw(st.sets(st.sampled_from(TENANTS)))
    ]
    return Queue(waiting=waiting, turns=turns, held_tables=draw(st.frozensets(st.just("a"))), limits=limits)


@given(queue=queues())
def test_nobody_gets_more_than_their_quota_and_nobody_waits_for_that_of_others(queue: Queue) -> None:
    running = {turn.tenant: turn.running for turn in queue.turns}
    limits = {limit.tenant: limit for limit in queue.limits}

    def is_free(job: WaitingJob) -> bool:
        limit = limits.get(job.tenant, TenantLimit(tenant=job.tenant))
        full = limit.jobs_at_once is not None and running[job.tenant] >= limit.jobs_at_once
        return not full and not (limit.used_up and job.table) and job.table not in queue.held_tables

    free = [job for job in queue.waiting if is_free(job)]
    assert next_job(queue) == next_job(replace(queue, waiting=free, limits=()))
    assert (next_job(queue) is None) == (not free)


class Neighbours:
    """Workers that take jobs of tenants, each for some seconds."""

    def __init__(self, workers: int, limits: list[TenantLimit]) -> None:
        self._workers = workers
        self._limits = limits
        self.waits: dict[str, list[float]] = {}
        self.most: Counter[str] = Counter()
        """Of jobs at once."""
        self.done: Counter[str] = Counter()

    def work(self, jobs: list[tuple[float, str, float]], until: float) -> None:
        """Do jobs that are submitted at a second, for a tenant, and take so many seconds."""
        waiting: list[tuple[WaitingJob, float, float]] = []
        running: list[tuple[float, str]] = []
        taken: dict[str, Any] = {}
        todo = sorted((at, n, tenant, seconds) for n, (at, tenant, seconds) in enumerate(jobs))
        now = 0.0
        while now < until:
            while todo and todo[0][0] <= now:
                at, n, tenant, seconds = todo.pop(0)
                moment = NOON + timedelta(seconds=at)
                job = WaitingJob(
                    job_id=f"{n:06}", tenant=tenant, table=f"{tenant}.{n}", priority=n % 3, submitted_at=moment
                )
                waiting.append((job, at, seconds))
            while len(running) < self._workers:
                counts = Counter(tenant for _, tenant in running)
                turns = [
                    TenantTurn(tenant=name, running=counts[name], taken_at=taken.get(name))
                    for name in {job.tenant for job, *_ in waiting}
                ]
                chosen = next_job(Queue(waiting=[job for job, *_ in waiting], turns=turns, limits=self._limits))
                if chosen is None:
                    break
                [one] = [each for each in waiting if each[0].job_id == chosen]
                waiting.remove(one)
                job, at, seconds = one
                taken[job.tenant] = NOON + timedelta(seconds=now)
                heapq.heappush(running, (now + seconds, job.tenant))
                self.waits.setdefault(job.tenant, []).append(now - at)
                self.most[job.tenant] = max(self.most[job.tenant], counts[job.tenant] + 1)
            moments = [running[0][0]] if running else []
            now = min([*moments, *(one[0] for one in todo[:1]), until])
            while running and running[0][0] <= now:
                self.done[heapq.heappop(running)[1]] += 1


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_a_noisy_neighbour_is_not_heard(workers: int) -> None:
    """One tenant has a thousand jobs of a minute each; another comes now and then, and waits for one job at most."""
    dice = random.Random(7)
    quiet = [(150.0 * n + dice.uniform(0, 70), "quiet", 10.0) for n in range(20)]
    noisy = [(0.0, "noisy", 60.0) for _ in range(1000)]
    both = Neighbours(workers, [])
    both.work(quiet + noisy, 6000)
    assert both.done["quiet"] == 20
    assert max(both.waits["quiet"]) <= 60.0
    assert both.done["noisy"] >= (6000 - 20 * 10) * workers // 60 - workers  # and nobody is idle meanwhile


@pytest.mark.parametrize(("quota", "most"), [(1, 1), (2, 2), (None, 4)])
def test_a_quota_of_jobs_leaves_workers_to_those_who_come_later(quota: int | None, most: int) -> None:
    limits = [TenantLimit(tenant="noisy", jobs_at_once=quota)]
    world = Neighbours(4, limits)
    late = [(float(at), "late", 30.0) for at in range(100, 1000, 90)]
    world.work([(0.0, "noisy", 500.0) for _ in range(30)] + late, 3000)
    assert world.most["noisy"] == most
    waited = max(world.waits["late"])
    assert waited == 0.0 if quota else waited > 300.0


def test_equal_tenants_get_equally_much_whatever_they_ask_for() -> None:
    world = Neighbours(3, [])
    world.work([(0.0, "red", 20.0)] * 900 + [(0.0, "green", 20.0)] * 90 + [(0.0, "blue", 20.0)] * 200, 600)
    assert max(world.done.values()) - min(world.done.values()) <= 1


# -- jobs at once ---------------------------------------------------------------------------------


def test_jobs_at_once_are_counted_where_they_are_taken(service: Service) -> None:
    service.tenant("red", jobs_at_once=2)
    service.tenant("blue")
    for n in range(4):
        service.job(f"red{n}", "red", f"t{n}")
    waits = service.job("red9", "red", "t9", Operation.HEALTH)
    taken = [service.take(service.another()) for _ in range(4)]
    assert [job and job.job_id for job in taken] == ["red0", "red1", None, None]
    assert service.quotas.why_waiting(waits) == "jobs_at_once: 2 of 2 are running"
    service.job("blue0", "blue")
    [blue] = [job for job in [service.take()] if job]
    assert blue.job_id == "blue0"
    [first, *_] = [job for job in taken if job]
    service.store.end_job(first.claim, JobStatus.SUCCEEDED)
    again = service.take()
    assert again is not None
    assert again.job_id == "red2"
    assert service.quotas.use("red").running == 2


# -- bytes and money ------------------------------------------------------------------------------


@pytest.mark.parametrize("quota", [{"bytes_per_hour": 1000}, {"money_per_hour": 5.0}])
def test_what_was_used_is_free_again_an_hour_later(service: Service, quota: dict[str, Any]) -> None:
    service.tenant("red", **quota)
    service.tenant("blue")
    service.spend("a", "red", size=600, money=3.0)
    service.clock.passes(600)
    service.spend("b", "red", size=600, money=3.0)
    service.clock.passes(600)
    held = service.job("c", "red")
    look = service.job("d", "red", operation=Operation.HEALTH)
    service.job("e", "blue")
    taken = [service.take(), service.take(), service.take()]
    assert [job and job.job_id for job in taken] == ["e", "d", None]
    assert service.quotas.why_waiting(look) is None
    why = service.quotas.why_waiting(held) or ""
    assert why.endswith("are used, until 13:00:00 UTC at least")
    assert why.startswith("bytes_per_hour: 1.2 KB of 1000 B" if "bytes_per_hour" in quota else "money_per_hour: 6")
    use = service.quotas.use("red")
    assert (use.bytes_in_hour, use.money_in_hour, use.used_up) == (1200, 6.0, True)
    assert use.free_at == NOON + 60 * MINUTE
    service.clock.passes(2400)
    free = service.take(service.another())
    assert free is not None
    assert free.job_id == "c"


def a_plan() -> Plan:
    """Six megabytes are read."""
    return make_plan(make_state([data_file(f"f{n}", MB) for n in range(6)]), make_policy())


def test_a_run_that_goes_on_counts_with_its_plan(service: Service) -> None:
    service.tenant("red", bytes_per_hour=6 * MB)
    service.job("a", "red")
    job = service.take()
    assert job is not None
    service.begin(job, a_plan().to_json())
    service.job("b", "red", "other")
    assert service.quotas.use("red").bytes_in_hour == 6 * MB
    assert service.take(service.another()) is None


def test_a_plan_that_does_not_fit_waits_until_it_does(service: Service) -> None:
    service.tenant("red", bytes_per_hour=8 * MB)
    service.spend("a", "red", size=3 * MB)
    service.job("b", "red")
    job = service.take()
    assert job is not None  # something is left
    with pytest.raises(QuotaUsed, match=r"bytes_per_hour: 3\.0 MB of 8\.0 MB are used, and this takes 6\.0 MB"):
        service.quotas.check(job, a_plan())
    end = after_error(job, QuotaUsed("full"), "full", now=service.clock(), dice=0.5)
    assert (end.status, end.failed, end.begin_anew) == (JobStatus.QUEUED, False, False)
    assert end.due_at is not None
    assert end.due_at > service.clock()
    service.clock.passes(3600)
    service.quotas.check(job, a_plan())


def test_a_plan_that_is_larger_than_the_quota_goes_alone(service: Service) -> None:
    service.tenant("red", bytes_per_hour=5 * MB)
    service.job("a", "red")
    job = service.take()
    assert job is not None
    service.quotas.check(job, a_plan())


def confirming(service: Service, job_id: str, check: CheckPlan | None = None) -> Holding:
    """A job whose worker is about to confirm its plan."""
    service.job(job_id, "red", job_id)
    job = service.take(service.another())
    assert job is not None
    return Holding(service.store, job, US, seconds=3600, check_plan=check or service.another().check)


@pytest.mark.parametrize("quota", [{"bytes_per_hour": 11 * MB}, {"money_per_hour": 11.0}])
def test_of_two_plans_in_one_moment_one_waits(service: Service, quota: dict[str, Any]) -> None:
    """However their steps come one after the other: each fits, and both do not."""
    plan = a_plan()
    plan = replace(plan, steps=tuple(_costing(step, 6.0 / len(plan.steps)) for step in plan.steps))
    service.tenant("red", **quota)
    one, two = confirming(service, "a"), confirming(service, "b")
    one.confirm(plan)
    with pytest.raises(QuotaUsed):  # the run of the first one has not begun
        two.confirm(plan)
    two.last_word()
    run = service.begin(one.job, plan.to_json())
    with pytest.raises(QuotaUsed):
        two.confirm(plan)
    service.end(one.job, run, size=1, money=0.1)
    two.confirm(plan)


def test_of_plans_that_are_announced_in_one_moment_not_both_are_carried_out(service: Service) -> None:
    service.tenant("red", bytes_per_hour=11 * MB)
    two = confirming(service, "b")

    def check(job: Job, plan: Plan, announce: Callable[[], object]) -> None:
        def meanwhile() -> None:
            announce()
            with pytest.raises(QuotaUsed):
                two.confirm(a_plan())

        service.quotas.check(job, plan, meanwhile)

    one = confirming(service, "a", check)
    with pytest.raises(QuotaUsed):
        one.confirm(a_plan())
    one.last_word()
    two.last_word()
    two.confirm(a_plan())  # whoever waits announces nothing


def test_a_run_that_has_begun_counts_once(service: Service) -> None:
    service.tenant("red", bytes_per_hour=12 * MB)
    one, two = confirming(service, "a"), confirming(service, "b")
    one.confirm(a_plan())
    service.begin(one.job, a_plan().to_json())
    one.step("recorded")
    two.confirm(a_plan())


@pytest.mark.parametrize("status", [Status.COMMITTED, Status.UNKNOWN])
def test_a_plan_counts_beside_the_run_that_its_job_began_before(service: Service, status: Status) -> None:
    """As those of maintenance do, whether or not what became of the run is known."""
    service.tenant("red", bytes_per_hour=11 * MB)
    one, two = confirming(service, "a"), confirming(service, "b")
    run = service.begin(one.job)
    one.step("recorded")
    service.store.move(Claim(run_id=run.run_id, epoch=run.epoch), status)
    one.step("finished")
    one.confirm(a_plan())
    with pytest.raises(QuotaUsed):
        two.confirm(a_plan())


def _costing(step: Any, money: float) -> Any:
    """A step of that price."""
    likely = replace(step.cost.money, low=money, likely=money, high=money)
    return replace(step, cost=replace(step.cost, money=likely))


def test_holding_a_job_asks_about_its_plan(service: Service) -> None:
    service.tenant("red", bytes_per_hour=8 * MB)
    service.spend("a", "red", size=3 * MB)
    service.job("b", "red")
    job = service.take()
    assert job is not None
    holding = Holding(service.store, job, US, seconds=60, check_plan=service.quotas.check)
    with pytest.raises(QuotaUsed):
        holding.confirm(a_plan())
    service.store.ask_to_cancel_job("b")
    holding.beat()
    with pytest.raises(Cancelled):
        holding.confirm(a_plan())


@pytest.mark.parametrize(
    ("given", "of_table", "capped"),
    [
        ({}, {}, {"max_bytes": 1000, "max_cost": 2.0}),
        ({"max_bytes": 10, "max_cost": 9.0}, {}, {"max_bytes": 10, "max_cost": 2.0}),
        ({"max_bytes": 5000, "max_files": 3}, {}, {"max_bytes": 1000, "max_cost": 2.0, "max_files": 3}),
        ({}, {"max_bytes": 10, "max_cost": 9.0}, {"max_cost": 2.0}),
        ({"max_bytes": 20}, {"max_bytes": 10, "max_cost": 1.0}, {"max_bytes": 20}),
    ],
)
def test_one_run_is_planned_for_no_more_than_an_hour(
    service: Service, given: dict[str, Any], of_table: dict[str, Any], capped: dict[str, Any]
) -> None:
    """What the table's policy says is lower stays as it is."""

    def policy_of(wanted: Options) -> Policy:
        return make_policy(**{**of_table, **wanted.model_dump(exclude_none=True)})

    service.tenant("red", bytes_per_hour=1000, money_per_hour=2.0)
    service.tenant("blue")
    options = Options.model_validate(given)
    assert service.quotas.capped("red", options, policy_of).model_dump(exclude_none=True) == capped
    assert service.quotas.capped("blue", options, policy_of) is options
    assert service.quotas.capped("default", options, policy_of) is options


def test_without_quotas_nothing_is_looked_up(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    service.tenant("red", jobs_at_once=3)
    service.job("a", "red")
    monkeypatch.setattr(service.store, "recent", None)
    assert service.take() is not None
    assert service.quotas.use("red").bytes_in_hour == 0


def test_jobs_of_who_is_gone_and_of_tables_that_are_gone_are_not_done(service: Service) -> None:
    service.tenant("red")
    mine, other = make_job("a", job_request(table="red.t"), tenant="red"), make_job("b", job_request(table="x.t"))
    assert service.quotas.refusal(mine) is None
    assert service.quotas.refusal(replace(mine, request=JobRequest(operation=Operation.TABLES))) is None
    assert service.quotas.refusal(other) is None  # of default
    assert service.quotas.refusal(replace(other, tenant="red")) == "there is no table x.t"
    service.tenants.change("red", tables=["green.*"])
    assert service.quotas.refusal(mine) == "there is no table red.t"
    service.tenants.remove("red")
    assert service.quotas.refusal(mine) == "there is no tenant red any more"


# -- whose a run is -------------------------------------------------------------------------------


def held(job_id: str, minute: float, until: float | None, **given: Any) -> Job:
    """A job on `db.events` that was with a worker from one minute to another."""
    facts: dict[str, Any] = {
        "tenant": job_id,
        "worker": US,
        "attempts": 1,
        "started_at": NOON + minute * MINUTE,
        "finished_at": None if until is None else NOON + until * MINUTE,
        **given,
    }
    return make_job(job_id, **facts)


@pytest.mark.parametrize(
    ("jobs", "whose"),
    [
        ([held("a", 0, 9), held("b", 5, 8, run_id="r")], "b"),
        ([held("a", 0, 3), held("b", 4, 6), held("c", 7, None)], "b"),
        ([held("a", 0, None)], "a"),
        ([held("a", 0, None, worker=THEM)], None),  # it waited for a run of somebody else
        ([held("a", 0, 9, worker=THEM, attempts=2)], "a"),
        ([held("a", 0, 4), held("b", 6, 9)], None),
        ([make_job("a", tenant="a")], None),
        ([], None),
    ],
)
def test_a_run_is_of_the_job_that_began_it(jobs: list[Job], whose: str | None) -> None:
    run = run_record("r", started_at=NOON + 5 * MINUTE, owner=US)
    found = job_of(run, jobs)
    assert (found and found.tenant) == whose


def test_runs_of_nobody_are_of_default(service: Service) -> None:
    service.tenant("red")
    service.spend("a", "red", size=10, money=1.0)
    service.clock.passes(60)
    service.store.begin(run_record("by hand", table="red.t", started_at=service.clock(), owner=THEM))
    runs = service.store.recent(catalog="local", since=NOON - MINUTE)
    assert tenants_of_runs(service.store, "local", runs) == {"run-of-a": "red", "by hand": "default"}


def test_a_run_is_found_behind_many_jobs_that_only_look(service: Service) -> None:
    service.tenant("red")
    service.spend("a", "red", size=10)
    for n in range(250):
        service.job(f"look{n}", "red", operation=Operation.HEALTH)
    runs = service.store.recent(catalog="local", since=NOON - MINUTE)
    assert tenants_of_runs(service.store, "local", runs) == {"run-of-a": "red"}


def test_costs_are_of_the_tenant_whose_jobs_made_them(service: Service) -> None:
    service.tenant("red")
    service.tenant("blue")
    service.spend("a", "red", size=10, money=1.0)
    service.spend("b", "red", size=10, money=2.0, table="other")
    service.spend("c", "blue", size=10, money=4.0)
    found = costs_by_tenant(service.store, "local", since=NOON - MINUTE)
    assert {name: [(one.table, one.actual.money) for one in costs] for name, costs in found.items()} == {
        "blue": [("blue.t", 4.0)],
        "red": [("red.other", 2.0), ("red.t", 1.0)],
    }
    assert list(costs_by_tenant(service.store, "local", since=NOON - MINUTE, table="red.t")) == ["red"]
    assert costs_by_tenant(service.store, "local", since=service.clock() + MINUTE) == {}
