"""Tables of a catalog as schedules see them: commits, properties, budgets, forecasts; with and without a worker."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from icepact.iceberg.catalogs import embedded
from icepact.iceberg.polling import watcher_of
from icepact.model.errors import CatalogUnusable, TableNotFound
from icepact.model.job import Job, JobStatus, Operation
from icepact.model.policy import Strategy
from icepact.policy.config import Allowance, Budgets, Catalog
from icepact.policy.file.parse import parse_policies
from icepact.policy.layers import Policies
from icepact.policy.options import Options
from icepact.record.kv.store import KvStore
from icepact.schedule.answers import keep_tables
from icepact.schedule.commits import note_commit
from icepact.schedule.fleet import CatalogFleet, carried
from icepact.schedule.leader import Leader
from icepact.schedule.overview import view_of, views
from icepact.schedule.scheduler import Scheduler
from icepact.schedule.state import FORECASTS, SCHEDULES, TableSchedule, key_of, value_of
from tests.support.jobs import US
from tests.support.listed import listed, snapshot, write_metadata
from tests.support.records import NOON, run_outcome, run_record
from tests.support.schedules import jobs_on
from tests.support.stores import Clock

HIVE = Catalog(name="local", properties={"type": "hive", "uri": "thrift://nowhere"})
HOURS = (NOON - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(hours=1)
"""Of noon; snapshots are numbered by hours."""


class Service:
    """A store, a catalog, and a scheduler on them."""

    def __init__(self, catalog: Catalog, policies: str, budgets: Budgets | None = None) -> None:
        self.clock = Clock()
        self.store = KvStore.in_memory(clock=self.clock)
        self.jobs = jobs_on(self.store)
        self.catalog, self.budgets, self.policies = catalog, budgets, parse_policies(policies, "lake.yaml")
        self.scheduler = self.another()

    def another(self) -> Scheduler:
        """A scheduler in another process, which leads at once."""
        self.fleet = CatalogFleet(
            self.store,
            self.jobs,
            self.catalog,
            lambda: self.policies,
            watcher=watcher_of(self.catalog),
            budgets=self.budgets,
        )
        leader = Leader(self.store, "local", owner=US)
        leader.lead()
        return Scheduler(self.store, self.jobs, self.fleet, catalog="local", leader=leader)

    def later(self, seconds: float) -> int:
        """Tick after some time."""
        self.clock.passes(seconds)
        return self.scheduler.tick()

    def known(self, table: str) -> TableSchedule:
        """What is written down about a table."""
        document = self.store.document(SCHEDULES, key_of("local", table))
        assert document is not None
        return value_of(TableSchedule, document)

    def asked(self, operation: Operation) -> list[Job]:
        """Jobs that were submitted, oldest first."""
        return list(self.store.jobs(catalog="local", operation=operation, results=True))[::-1]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of an embedded catalog with one table."""
    listed(tmp_path, [("db", "t", "", "TABLE")])
    write_metadata(tmp_path, "t", 1, [snapshot(1)])
    return tmp_path


def test_commits_of_writers_are_seen_and_those_of_icepact_are_not(folder: Path) -> None:
    catalog = watched(folder)
    service = Service(catalog, "rules: [{match: db.*, check_interval: 2, commit_delay: 1h}]")
    service.scheduler.tick()
    assert service.later(31) == 0
    ours = snapshot(HOURS - 1, operation="replace", **{"icepact.commit-id": "r/1/1"})
    write_metadata(folder, "t", 2, [snapshot(1), snapshot(HOURS - 2), ours])
    service.later(31)
    assert service.known("db.t").past.commits.count == 1
    note_commit(service.store, "db.t", HOURS - 2, catalog="local")  # a webhook tells of the same
    note_commit(service.store, "db.t", HOURS, catalog="local")  # and of one that was not seen yet
    service.later(2)
    assert service.known("db.t").past.commits.count == 2
    write_metadata(folder, "t", 3, [snapshot(1), snapshot(HOURS - 2), ours, snapshot(HOURS)])
    service.later(31)
    assert service.known("db.t").past.commits.count == 2
    assert service.later(3600) == 1
    [job] = service.asked(Operation.MAINTAIN)
    assert job.request.table == "db.t"


@pytest.mark.parametrize(("empty", "anew"), [(False, False), (True, False), (False, True)])
def test_a_catalog_that_is_away_for_a_moment_drops_no_schedule(folder: Path, empty: bool, anew: bool) -> None:
    """Also if only its empty file is there, and if somebody else comes to lead meanwhile."""
    service = Service(watched(folder), "rules: [{match: db.*, check_interval: 2, commit_delay: 1h}]")
    service.scheduler.tick()
    service.later(31)
    note_commit(service.store, "db.t", HOURS, catalog="local")
    service.later(2)
    before = service.known("db.t")
    catalog, aside = folder / "catalog.db", folder / "aside.db"
    catalog.rename(aside)
    if empty:
        catalog.touch()
    if anew:
        service.scheduler = service.another()
    service.clock.passes(31)
    with suppress(CatalogUnusable):  # of a catalog that does not answer, the log tells
        service.scheduler.tick()
    service.later(2)
    assert service.known("db.t") == before
    aside.replace(catalog)
    service.later(31)
    assert service.known("db.t").past.commits.count == 1
    catalog.unlink()
    listed(folder, [])  # it answers, and does not list the table
    service.later(31)
    assert service.store.document(SCHEDULES, key_of("local", "db.t")) is None


def watched(folder: Path) -> Catalog:
    """The catalog in a folder."""
    return embedded(str(folder))


def test_a_table_says_itself_when_it_is_due(folder: Path) -> None:
    write_metadata(folder, "t", 2, [snapshot(1)], **{"icepact.schedule": "0 * * * *", "icepact.operation": "compact"})
    service = Service(watched(folder), "rules: []")
    service.scheduler.tick()
    assert service.later(3600) == 1
    assert len(service.asked(Operation.COMPACT)) == 1
    write_metadata(folder, "t", 3, [snapshot(1)], **{"icepact.schedule": "0 * * * *", "icepact.enabled": "false"})
    service.later(31)
    assert service.later(3 * 3600) == 0


def test_a_property_that_is_wrong_holds_up_no_other_table(tmp_path: Path) -> None:
    listed(tmp_path, [("db", "t", "", "TABLE"), ("db", "u", "", "TABLE")])
    write_metadata(tmp_path, "t", 1, [snapshot(1)], **{"icepact.schedule": "0 0 30 2 *"})
    write_metadata(tmp_path, "u", 1, [snapshot(1)], **{"icepact.schedule": "0 * * * *"})
    service = Service(watched(tmp_path), "rules: []")
    service.scheduler.tick()
    assert service.later(3600) == 1
    view = view_of(service.store, service.fleet, "local", "db.t", now=service.clock.now)
    assert view.off is not None
    assert "never fires" in view.off


@pytest.mark.parametrize("name", ["schedule", "slack", "jitter", "commit-delay"])
def test_a_time_beyond_the_calendar_holds_up_no_other_table(tmp_path: Path, name: str) -> None:
    listed(tmp_path, [("db", "a", "", "TABLE"), ("db", "b", "", "TABLE")])
    odd = {"icepact.schedule": "0 0 * * *", "icepact.check-interval": "1", f"icepact.{name}": "999999999d"}
    write_metadata(tmp_path, "a", 1, [snapshot(1)], **odd)
    write_metadata(tmp_path, "b", 1, [snapshot(1)], **{"icepact.schedule": "0 * * * *"})
    service = Service(watched(tmp_path), "rules: []")
    service.scheduler.tick()
    assert service.later(3600) == 1
    assert {job.request.table for job in service.asked(Operation.MAINTAIN)} == {"db.b"}


def test_a_schedule_of_another_version_is_listed_among_the_others(folder: Path) -> None:
    write_metadata(folder, "t", 1, [snapshot(1)], **{"icepact.schedule": "1h"})
    service = Service(watched(folder), "rules: []")
    service.scheduler.tick()
    service.store.put_document(SCHEDULES, key_of("local", "db.later"), {"table": "db.later", "past": 7})
    shown = {view.table: view.off for view in views(service.store, service.fleet, "local", now=service.clock.now)}
    assert shown["db.t"] is None
    assert "cannot be read" in (shown["db.later"] or "")


def test_a_table_that_is_not_there_has_no_schedule(folder: Path) -> None:
    service = Service(watched(folder), "rules: [{match: db.*, schedule: '0 * * * *'}]")
    with pytest.raises(TableNotFound, match="no table"):
        view_of(service.store, service.fleet, "local", "db.none", now=service.clock.now)
    view = view_of(service.store, service.fleet, "local", "db.t", now=service.clock.now)
    assert (view.off, view.at) == (None, NOON + timedelta(hours=1))


def test_policies_that_are_changed_hold_from_then_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("icepact.schedule.fleet._POLICIES_SECONDS", -1.0)
    service = Service(watched(folder), "rules: []")
    service.scheduler.tick()
    assert service.later(7200) == 0
    service.policies = parse_policies("rules: [{match: db.t, schedule: '0 * * * *'}]", "lake.yaml")
    assert service.later(10) == 0
    assert service.later(3600) == 1


def test_without_a_catalog_that_can_be_asked_workers_tell_of_tables_and_their_properties() -> None:
    service = Service(HIVE, "rules: [{match: db.u, schedule: '0 * * * *'}]")
    assert service.scheduler.tick() == 0
    assert [job.request.operation for job in service.asked(Operation.TABLES)] == [Operation.TABLES]
    keep_tables(service.store, "local", ["db.t", "db.u"], taken_at=service.clock.now)
    service.later(2)
    asked = service.asked(Operation.POLICY)
    assert sorted(str(job.request.table) for job in asked) == ["db.t", "db.u"]
    told = {
        "schedule": {"value": "0 * * * *", "source": "table property"},
        "enabled": {"value": True, "source": "table property self-optimizing.enabled"},
        "check_interval": {"value": 5, "source": "profile development"},
        "windows": {"value": None, "source": "default"},
    }
    answer_all(service, told)
    service.later(2)
    service.clock.now = NOON + timedelta(hours=1)
    assert service.scheduler.tick() == 2
    assert {job.request.table for job in service.asked(Operation.MAINTAIN)} == {"db.t", "db.u"}
    service.later(7 * 3600)  # properties are read anew
    assert len(service.asked(Operation.POLICY)) == 4


def answer_all(service: Service, result: dict[str, Any]) -> None:
    """Do all jobs that wait, each with this result."""
    while job := service.store.take_job("local", US, seconds=60, choose=lambda queue: _first(queue)):
        service.store.end_job(job.claim, JobStatus.SUCCEEDED, result=result)


def _first(queue: Any) -> str | None:
    return next((job.job_id for job in queue.waiting), None)


def test_what_a_table_said_itself_is_told_from_what_rules_say() -> None:
    policies = Policies()
    properties = {"icepact.check-interval": "7", "icepact.windows": "22:00-06:00, SAT", "icepact.jitter": "90s"}
    found = policies.resolve(Options(strategy=Strategy.AUTO, enabled=False), properties, "local", ("db", "t"))
    again = carried(found.to_dict())
    assert again == {**properties, "icepact.jitter": "90.0s"}
    assert policies.resolve(Options(), again, "local", ("db", "t")).to_dict() == (
        policies.resolve(Options(), properties, "local", ("db", "t")).to_dict()
    )


def test_a_budget_of_the_hour_that_is_used_up_holds_jobs_back(folder: Path) -> None:
    budgets = Budgets(fleet=Allowance(max_bytes_per_hour=500))
    service = Service(watched(folder), "rules: [{match: db.t, schedule: '0 * * * *'}]", budgets)
    service.scheduler.tick()
    service.clock.now = NOON + timedelta(minutes=50)
    record = run_record("r1", started_at=service.clock.now)
    claim = service.store.begin(record)
    service.store.finish(claim, run_outcome("r1"))
    service.clock.now = NOON + timedelta(hours=1)
    assert service.scheduler.tick() == 0
    assert "max_bytes_per_hour 500 B of the fleet" in service.known("db.t").held_back
    assert service.later(3600) == 1


def test_slack_leads_to_a_quiet_time_which_is_shown_with_its_forecast(folder: Path) -> None:
    """Writers are busy in every hour from six to thirteen."""
    busy = [snapshot(hour) for hour in range(HOURS - 24 * 28, HOURS) if 6 <= hour % 24 < 14]
    more = [
        {**one, "snapshot-id": one["snapshot-id"] + 10**6, "timestamp-ms": one["timestamp-ms"] + 1_800_000}
        for one in busy
    ]
    write_metadata(folder, "t", 2, [*busy, *more])
    service = Service(watched(folder), "rules: [{match: db.t, schedule: '0 13 * * *', slack: 4h}]")
    service.scheduler.tick()
    view = view_of(service.store, service.fleet, "local", "db.t", now=service.clock.now)
    assert view.forecast is not None
    assert view.forecast.error is not None
    assert view.forecast.error.commits < 0.1 < view.forecast.error.naive
    assert view.at is not None
    assert view.at.hour in (13, 14)
    service.clock.now = NOON + timedelta(hours=1)
    assert service.scheduler.tick() == 0
    chosen = service.known("db.t").chosen
    assert chosen is not None
    assert NOON + timedelta(hours=1, minutes=30) < chosen.at <= NOON + timedelta(hours=2)
    assert "quiet with" in chosen.why
    kept = service.store.document(FORECASTS, key_of("local", "db.t"))
    assert kept is not None
    assert kept.body["error"]["hours"] == 168
    [listed_one] = views(service.store, service.fleet, "local", now=service.clock.now)
    assert (listed_one.at, listed_one.forecast) == (chosen.at, None)
    assert service.later((chosen.at - service.clock.now).total_seconds()) == 1
