"""No schedule fires twice or is lost, whatever happens to leaders, stores and clocks."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.model.errors import BadInput, Conflict, StoreUnusable
from icepact.model.job import JobStatus, Operation
from icepact.policy.schedules import parse_schedule
from icepact.policy.windows import parse_windows
from icepact.record.kv.store import KvStore
from icepact.record.sql import SqlStore
from icepact.record.store import RecordStore
from icepact.schedule.commits import note_commit, parse_report
from icepact.schedule.leader import LEASE_SECONDS, Leader
from icepact.schedule.scheduler import Scheduler
from icepact.schedule.state import COMMITS, SCHEDULES, TableSchedule, key_of, value_of
from icepact.schedule.triggers import Timing, share_of
from tests.support.jobs import THEM, US
from tests.support.records import NOON
from tests.support.schedules import CATALOG, SetFleet, Ticking, jobs_on, scheduler_on, work_off
from tests.support.stores import Clock

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
HOURLY = Timing(schedule=parse_schedule("0 * * * *"))


@pytest.fixture
def clock() -> Clock:
    """It is noon."""
    return Clock()


@pytest.fixture
def store(clock: Clock) -> RecordStore:
    """Empty."""
    return KvStore.in_memory(clock=clock)


def known(store: RecordStore, table: str = "db.t") -> TableSchedule:
    """What is written down about a table."""
    document = store.document(SCHEDULES, key_of(CATALOG, table))
    assert document is not None
    return value_of(TableSchedule, document)


def all_jobs(store: RecordStore) -> list[Any]:
    """Every job that was ever submitted."""
    return list(store.jobs(catalog=CATALOG, limit=100_000))


# -- whatever happens -----------------------------------------------------------------------------


class Killed(BaseException):
    """The process is gone."""


class Mortal:
    """A store as one process sees it, which dies before or after one of its writes, or does not reach the store."""

    def __init__(self, store: RecordStore, dice: random.Random, deaths: float, errors: float) -> None:
        self._store, self._dice, self._deaths, self._errors = store, dice, deaths, errors

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if name not in ("put_document", "submit_job", "remove_document", "acquire", "renew"):
            return found

        def called(*args: Any, **kwargs: Any) -> Any:
            if self._dice.random() < self._errors:
                raise StoreUnusable("it does not answer")
            if self._dice.random() < self._deaths / 2:
                raise Killed
            answer = found(*args, **kwargs)
            if self._dice.random() < self._deaths / 2:
                raise Killed
            return answer

        return called


@given(
    kind=st.sampled_from(["memory", "memory", "sqlite"]),
    seed=st.integers(0, 2**32),
    deaths=st.sampled_from([0.0, 0.02, 0.2]),
    errors=st.sampled_from([0.0, 0.05]),
    jumps=st.sampled_from([0.0, 0.03]),
)
def test_no_schedule_fires_twice_or_is_lost(
    kind: str, seed: int, deaths: float, errors: float, jumps: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Two processes for ten hours: they die in between any two writes, sleep while they lead, do not reach the
    store, and the clock jumps."""
    dice, clock = random.Random(seed), Clock()
    path: Path = tmp_path_factory.mktemp("store") / "s.db"
    store: KvStore | SqlStore
    store = KvStore.in_memory(clock=clock) if kind == "memory" else SqlStore.in_file(path, clock=clock)
    fleet = SetFleet(
        {
            "db.hourly": HOURLY,
            "db.every": Timing(schedule=parse_schedule("45m")),
            "db.daily": Timing(schedule=parse_schedule("30 14 * * *"), windows=parse_windows("13:00-20:00")),
            "db.commits": Timing(check_interval=4),
        }
    )
    mortal: Any = Mortal(store, dice, deaths, errors)
    ticking = [Ticking(), Ticking()]
    processes = [scheduler_on(mortal, fleet, each) for each in ticking]
    reported, end = 0, clock.now + timedelta(hours=10)
    highest = clock.now
    calm: bool = False
    while clock.now < end or not calm:
        calm = clock.now >= end
        mortal._deaths, mortal._errors = (0.0, 0.0) if calm else (deaths, errors)
        passes = 60.0 if calm else dice.choice([5.0, 120.0, 900.0, 1200.0])
        clock.passes(passes)
        if dice.random() < jumps and not calm:
            clock.passes(dice.choice([-1800.0, -120.0, 1800.0]))
        if dice.random() < 0.3:
            note_commit(store, "db.commits", reported, catalog=CATALOG)
            reported += 1
        for number, process in enumerate(processes):
            ticking[number].seconds += passes
            if not calm and dice.random() < 0.3:
                continue  # it sleeps; if it leads, it does not know that it does not any more
            try:
                process.tick()
            except StoreUnusable:
                pass
            except Killed:
                ticking[number] = Ticking()
                processes[number] = scheduler_on(mortal, fleet, ticking[number])
        work_off(store)
        highest = max(highest, clock.now)
    for _ in range(4):  # whatever is pending comes to its end
        clock.passes(LEASE_SECONDS + 1)
        for number, process in enumerate(processes):
            ticking[number].seconds += LEASE_SECONDS + 1
            process.tick()
        work_off(store)
    judge(store, fleet, clock, highest, jumps=bool(jumps), reported=reported)
    store.close()


def judge(store: RecordStore, fleet: SetFleet, clock: Clock, highest: datetime, *, jumps: bool, reported: int) -> None:
    """What must be so after all of it."""
    jobs = all_jobs(store)
    assert all(job.status is JobStatus.SUCCEEDED and job.attempts == 1 for job in jobs)
    submitted = Counter(job.request.table for job in jobs)
    # each planned moment has one job at most: its name says which it is
    names = [job.idempotency_key for job in jobs]
    assert len(names) == len(set(names))
    span = highest - NOON
    assert submitted["db.hourly"] <= span / timedelta(hours=1) + 1
    assert submitted["db.every"] <= span / timedelta(minutes=45) + 1
    # none is lost: the newest planned moment of each has had its job, and nothing is left half done
    for table in fleet.timings:
        schedule = known(store, table)
        assert schedule.fired is None or (schedule.fired.job_id and schedule.fired.ended)
        if table != "db.commits" and not jumps:
            assert schedule.fired is not None
            assert schedule.fired.due.planned == schedule.past.since
    if not jumps:
        timing = fleet.timings["db.hourly"]
        assert timing.schedule is not None
        assert known(store, "db.hourly").past.since == timing.schedule.latest(NOON, clock.now, UTC)
        assert submitted["db.daily"] == 1
        assert submitted["db.hourly"] >= 5
    # every fourth commit made a job, unless several fell into one
    seen = known(store, "db.commits").past.commits.count
    assert submitted["db.commits"] * 4 + seen <= reported
    assert seen < 4 or reported < 4
    assert bool(submitted["db.commits"]) == (reported - seen >= 4)


def test_every_table_of_many_fires_as_often_as_it_should(store: RecordStore, clock: Clock) -> None:
    """Three hours of 500 tables that are looked at every hour, in steps of half an hour."""
    fleet = SetFleet({f"db.t{n}": Timing(schedule=parse_schedule("1h")) for n in range(500)})
    scheduler, fired = scheduler_on(store, fleet), 0
    scheduler.tick()
    for _ in range(2 * 3):
        clock.passes(30 * MINUTE)
        fired += scheduler.tick()
        work_off(store)
        clock.passes(6)
        fired += scheduler.tick()
    every = parse_schedule("1h")
    moments = (
        every.after(NOON + timedelta(hours=n), UTC, share_of(table)) for table in fleet.timings for n in range(4)
    )
    assert fired == sum(moment <= clock.now for moment in moments) >= 1500


# -- one after the other --------------------------------------------------------------------------


def test_a_schedule_fires_by_the_clock_of_the_store(store: RecordStore, clock: Clock) -> None:
    scheduler = scheduler_on(store, SetFleet({"db.t": HOURLY}))
    assert scheduler.tick() == 0
    clock.passes(HOUR - 1)
    assert scheduler.tick() == 0
    clock.passes(1)
    assert scheduler.tick() == 1
    [job] = work_off(store)
    assert (job.request.operation, job.request.table, job.priority) == (Operation.MAINTAIN, "db.t", 0)
    clock.passes(2 * MINUTE)
    assert scheduler.tick() == 0


def test_while_a_job_goes_on_its_table_does_not_fire_again(store: RecordStore, clock: Clock) -> None:
    scheduler = scheduler_on(store, SetFleet({"db.t": HOURLY}))
    scheduler.tick()
    for _ in range(5):
        clock.passes(HOUR)
        scheduler.tick()
    assert len(all_jobs(store)) == 1
    work_off(store)
    clock.passes(10)
    scheduler.tick()
    assert len(all_jobs(store)) == 2
    assert known(store).past.since == NOON + timedelta(hours=5)


def test_after_an_outage_each_table_is_caught_up_with_once(store: RecordStore, clock: Clock) -> None:
    fleet = SetFleet({"db.t": HOURLY})
    scheduler_on(store, fleet).tick()
    clock.passes(30 * DAY)
    assert scheduler_on(store, fleet).tick() == 1
    work_off(store)
    clock.passes(10)
    assert scheduler_on(store, fleet).tick() == 0


def test_a_job_that_was_decided_on_is_submitted_by_whoever_leads_next(store: RecordStore, clock: Clock) -> None:
    fleet = SetFleet({"db.t": HOURLY})

    class Dead:
        """Dies before the job is in the queue."""

        def submit(self, *_: Any, **__: Any) -> Any:
            raise Killed

    first = Scheduler(store, Dead(), fleet, catalog=CATALOG, leader=Leader(store, CATALOG, owner=THEM))  # type: ignore[arg-type]
    first.tick()
    clock.passes(HOUR)
    with pytest.raises(Killed):
        first.tick()
    assert all_jobs(store) == []
    clock.passes(LEASE_SECONDS + 1)
    assert scheduler_on(store, fleet).tick() == 1
    assert len(work_off(store)) == 1


def test_a_leader_that_slept_does_nothing_more(store: RecordStore, clock: Clock) -> None:
    fleet, slept, awake = SetFleet({"db.t": HOURLY}), Ticking(), Ticking()
    first, second = scheduler_on(store, fleet, slept), scheduler_on(store, fleet, awake)
    first.tick()
    clock.passes(HOUR)
    assert second.tick() == 1
    slept.seconds = HOUR
    assert not first.leader.leads
    assert first.tick() == 0
    assert second.leader.leads


def test_who_believes_to_lead_still_finds_the_document_changed(store: RecordStore, clock: Clock) -> None:
    """Its own clock stood still, and so it does not know that its lease is over."""
    fleet = SetFleet({"db.t": HOURLY})
    first, second = scheduler_on(store, fleet), scheduler_on(store, fleet)
    first.tick()
    clock.passes(HOUR)
    assert second.tick() == 1
    work_off(store)
    first.leader.lead = lambda: True  # type: ignore[method-assign]
    assert first.tick() == 0
    assert len(all_jobs(store)) == 1


def test_a_leader_that_dies_is_replaced_in_fifteen_seconds(store: RecordStore, clock: Clock) -> None:
    first = Leader(store, CATALOG, owner=THEM)
    second = Leader(store, CATALOG, owner=US)
    assert first.lead()
    assert not second.lead()
    clock.passes(13)
    assert second.lead()
    assert not first.lead()


def test_a_leader_that_ends_in_order_is_replaced_at_once(store: RecordStore) -> None:
    first, second = Leader(store, CATALOG, owner=THEM), Leader(store, CATALOG, owner=US)
    assert first.lead()
    assert not second.lead()
    first.step_down()
    assert second.lead()


def test_a_lease_that_a_clock_far_ahead_has_given_binds_nobody(store: RecordStore, clock: Clock) -> None:
    clock.passes(DAY)
    assert Leader(store, CATALOG, owner=THEM).lead()
    clock.passes(-DAY)
    assert Leader(store, CATALOG, owner=US).lead()


def test_two_that_notice_the_same_commit_count_it_once(store: RecordStore, clock: Clock) -> None:
    fleet = SetFleet({"db.t": Timing(check_interval=3)})
    fleet.ours = {7}
    scheduler = scheduler_on(store, fleet)
    scheduler.tick()
    assert note_commit(store, "db.t", 1, catalog=CATALOG)
    assert not note_commit(store, "db.t", 1, catalog=CATALOG)
    scheduler.tick()
    assert store.documents(COMMITS) == []
    for number in (1, 2, 7):  # one that is counted already, and one of icepact's own
        note_commit(store, "db.t", number, catalog=CATALOG)
    scheduler.tick()
    assert known(store).past.commits.count == 2
    note_commit(store, "db.t", catalog=CATALOG)
    clock.passes(30)
    assert scheduler.tick() == 0
    assert known(store).past.commits.count == 3
    clock.passes(31)
    assert scheduler.tick() == 1
    assert known(store).past.commits.count == 0


def test_a_note_that_grew_after_it_was_counted_counts_the_rest(store: RecordStore, clock: Clock) -> None:
    """The leader died between counting and removing it."""
    fleet = SetFleet({"db.t": Timing(check_interval=9)})

    class NotRemoved(Mortal):
        def __getattr__(self, name: str) -> Any:
            if name == "remove_document":
                raise Killed
            return getattr(self._store, name)

    note_commit(store, "db.t", 1, catalog=CATALOG)
    note_commit(store, "db.t", 2, catalog=CATALOG)
    dying: Any = NotRemoved(store, random.Random(1), 0, 0)
    with pytest.raises(Killed):
        scheduler_on(dying, fleet).tick()
    note_commit(store, "db.t", 3, catalog=CATALOG)
    clock.passes(LEASE_SECONDS + 1)
    scheduler_on(store, fleet).tick()
    assert known(store).past.commits.count == 3


@pytest.mark.parametrize("status", [JobStatus.FAILED, JobStatus.SUCCEEDED])
def test_jobs_that_fail_are_asked_for_less_and_less(store: RecordStore, clock: Clock, status: JobStatus) -> None:
    scheduler = scheduler_on(store, SetFleet({"db.t": Timing(schedule=parse_schedule("*/5 * * * *"))}))
    fired = scheduler.tick()
    for _ in range(12 * 6):
        clock.passes(5 * MINUTE)
        fired += scheduler.tick()
        work_off(store, status)
    assert fired == 72 if status is JobStatus.SUCCEEDED else fired <= 6


def test_a_budget_that_is_used_up_holds_a_job_back_until_it_is_not(store: RecordStore, clock: Clock) -> None:
    fleet = SetFleet({"db.t": HOURLY})
    fleet.no_budget = {"db.t"}
    scheduler = scheduler_on(store, fleet)
    scheduler.tick()
    clock.passes(HOUR)
    assert scheduler.tick() == 0
    assert known(store).held_back == "no budget"
    fleet.no_budget = set()
    clock.passes(2 * MINUTE)
    assert scheduler.tick() == 1
    assert known(store).held_back == ""


def test_what_is_due_waits_for_the_time_that_was_chosen(store: RecordStore, clock: Clock) -> None:
    timing = Timing(schedule=parse_schedule("0 * * * *"), slack=timedelta(hours=3))
    fleet = SetFleet({"db.t": timing})
    fleet.quiet_at = {"db.t": NOON + timedelta(hours=2, minutes=45)}
    scheduler_on(store, fleet).tick()
    clock.passes(HOUR)
    assert scheduler_on(store, fleet).tick() == 0
    fleet.quiet_at = {}
    clock.passes(HOUR)
    assert scheduler_on(store, fleet).tick() == 0  # another leader keeps to it
    clock.passes(45 * MINUTE)
    assert scheduler_on(store, fleet).tick() == 1


def test_a_job_has_until_its_window_closes(store: RecordStore, clock: Clock) -> None:
    fleet = SetFleet({"db.t": Timing(schedule=parse_schedule("0 14 * * *"), windows=parse_windows("13:00-16:30"))})
    scheduler = scheduler_on(store, fleet)
    scheduler.tick()
    clock.passes(2 * HOUR)
    assert scheduler.tick() == 1
    assert all_jobs(store)[0].deadline == NOON + timedelta(hours=4, minutes=30)


def test_priorities_and_operations_are_those_of_the_policy(store: RecordStore, clock: Clock) -> None:
    timing = Timing(schedule=parse_schedule("0 * * * *"), operation=Operation.COMPACT, priority=7)
    scheduler = scheduler_on(store, SetFleet({"db.t": timing}))
    scheduler.tick()
    clock.passes(HOUR)
    scheduler.tick()
    [job] = all_jobs(store)
    assert (job.request.operation, job.priority) == (Operation.COMPACT, 7)


def test_a_table_that_is_gone_is_forgotten(store: RecordStore, clock: Clock) -> None:
    fleet = SetFleet({"db.t": HOURLY, "db.u": HOURLY})
    scheduler = scheduler_on(store, fleet)
    scheduler.tick()
    del fleet.timings["db.t"]
    clock.passes(HOUR)
    assert scheduler.tick() == 1
    assert [document.key for document in store.documents(SCHEDULES)] == [key_of(CATALOG, "db.u")]


def test_what_is_wrong_with_one_table_holds_up_no_other(store: RecordStore, clock: Clock) -> None:
    class Broken(SetFleet):
        def held_back(self, schedule: TableSchedule, now: datetime) -> str:
            if schedule.table == "db.a":
                raise OverflowError("date value out of range")
            return super().held_back(schedule, now)

    scheduler = scheduler_on(store, Broken({"db.a": HOURLY, "db.b": HOURLY}))
    scheduler.tick()
    clock.passes(HOUR)
    assert scheduler.tick() == 1
    assert [job.request.table for job in all_jobs(store)] == ["db.b"]


def test_documents_of_another_version_hold_up_no_other_table(store: RecordStore, clock: Clock) -> None:
    fleet = SetFleet({"db.a": HOURLY, "db.b": HOURLY})
    scheduler_on(store, fleet).tick()
    odd = {"table": "db.a", "past": "later"}
    store.put_document(SCHEDULES, key_of(CATALOG, "db.a"), odd)
    store.put_document(COMMITS, key_of(CATALOG, "db.b"), {"note": 7})
    clock.passes(HOUR)
    for scheduler in (scheduler_on(store, fleet), scheduler_on(store, fleet)):
        clock.passes(LEASE_SECONDS + 1)
        scheduler.tick()
    assert [job.request.table for job in all_jobs(store)] == ["db.b"]
    left = store.document(SCHEDULES, key_of(CATALOG, "db.a"))
    assert left is not None
    assert left.body == odd


def test_notes_of_tables_that_nobody_knows_go_after_a_week(store: RecordStore, clock: Clock) -> None:
    scheduler = scheduler_on(store, SetFleet({"db.t": HOURLY}))
    note_commit(store, "db.none", 1, catalog=CATALOG)
    scheduler.tick()
    clock.passes(6 * DAY)
    scheduler.tick()
    assert len(store.documents(COMMITS)) == 1
    clock.passes(2 * DAY)
    scheduler.tick()
    assert store.documents(COMMITS) == []


def test_two_catalogs_in_one_store_do_not_mix(store: RecordStore, clock: Clock) -> None:
    fleet = SetFleet({"db.t": HOURLY})
    other = Scheduler(store, jobs_on(store), SetFleet({}), catalog="other", leader=Leader(store, "other"))
    ours = scheduler_on(store, fleet)
    ours.tick()
    note_commit(store, "db.t", 1, catalog=CATALOG)
    clock.passes(HOUR)
    assert (other.tick(), ours.tick()) == (0, 1)


@pytest.mark.parametrize(
    ("report", "message"),
    [
        ({"report-type": "news", "table-name": "db.t"}, "report-type: 'news' is neither commit-report nor scan-report"),
        ({"report-type": "scan-report", "table-name": "db.t", "snapshot-id": "7"}, "snapshot-id: a whole number is"),
        ({"report-type": "commit-report"}, "table-name: this is missing"),
        ({"table-name": "db.t", "snapshot-id": "7"}, "snapshot-id: a whole number is wanted"),
    ],
)
def test_a_report_that_is_none_is_refused(report: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        parse_report(report)


def test_notes_of_many_at_once_are_all_counted(store: RecordStore) -> None:
    class Contested(Mortal):
        """Somebody else is faster now and then."""

        def __getattr__(self, name: str) -> Any:
            found = getattr(self._store, name)
            if name != "put_document" or self._dice.random() < 0.5:
                return found

            def refused(*args: Any, **kwargs: Any) -> Any:
                raise Conflict

            return refused

    contested: Any = Contested(store, random.Random(3), 0, 0)
    for number in range(50):
        assert note_commit(contested, "db.t", number, catalog=CATALOG)
    scheduler_on(store, SetFleet({"db.t": Timing(check_interval=1000)})).tick()
    assert known(store).past.commits.count == 50
