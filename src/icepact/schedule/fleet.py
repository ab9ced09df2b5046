"""The tables of a catalog as the scheduler sees them: which there are, what their policies say, who commits to them.

Whatever the catalog tells without Java is asked of it: names, commits, and the properties of tables. Of other catalogs
a worker lists the tables, and resolves the policy of each once in a while.
"""

import hashlib
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from icepact.assess.recovered_runs import runs_of_snapshots
from icepact.economics.spending import HOUR, hourly_limits, spent_by_table
from icepact.iceberg.names import parse_levels
from icepact.iceberg.polling import UNKNOWN, TableMetadata, Watcher
from icepact.maintain.limits import hourly_budgets
from icepact.model.activity import Activity
from icepact.model.errors import BadInput, IcepactError, JobNotFound, TableNotFound
from icepact.model.job import DEFAULT_TENANT, JobRequest, JobStatus, Operation
from icepact.model.run import RunRecord
from icepact.model.schedule import Chosen, Due, Forecast
from icepact.policy.config import Allowance, Budgets, Catalog
from icepact.policy.layers import CARRIED, Policies, TablePolicy
from icepact.policy.options import PROPERTY_PREFIX, Options
from icepact.policy.windows import open_spans
from icepact.record.store import RecordStore
from icepact.schedule.answers import known_tables
from icepact.schedule.forecast import RUN, choose_time, forecast, quarter_of, quiet_chance
from icepact.schedule.jobs import Jobs
from icepact.schedule.state import FORECASTS, REMEMBERED, TableSchedule, body_of, key_of, with_commits
from icepact.schedule.triggers import CommitsSeen, Timing

_log = logging.getLogger("icepact")
POLL = timedelta(seconds=30)
"""Between two looks at the catalog."""
_POLICIES_SECONDS = 5.0
_RELIST = timedelta(minutes=10)
"""Between two lists of tables that a worker makes."""
_POLICY_FOR = timedelta(hours=6)
"""So long the properties of a table are taken for true that only a worker can read."""
_ASKED_AT_ONCE = 8
_FIRST_LOOK_SECONDS = 2.0
"""In one tick no more metadata is read than this allows: a catalog of many tables is taken up piece by piece."""
_PATIENCE = 10
"""A look is followed by so many times its length without one, at least."""
_RUNS = 20
_SECONDS = frozenset({"commit_delay", "jitter", "slack"})
_SAID_HERE = (*CARRIED.values(), "enabled", "max_cost_per_hour", "max_bytes_per_hour")
"""What has a say in schedules."""
_COMMITS = 50
"""Newest commits of which it is read to which partitions they were."""


class CatalogFleet:
    """The tables of one catalog."""

    def __init__(
        self,
        store: RecordStore,
        jobs: Jobs,
        catalog: Catalog,
        policies: Callable[[], Policies],
        *,
        watcher: Watcher | None = None,
        budgets: Budgets | None = None,
        currency: str = "",
        tenant_of: Callable[[str], str] = lambda _: DEFAULT_TENANT,
        poll: timedelta = POLL,
    ) -> None:
        """`policies` says what holds now; `tenant_of` for whom a table is looked after."""
        self._store = store
        self._jobs = jobs
        self._catalog = catalog
        self._policies = policies
        self._known_policies: tuple[float, Policies] | None = None
        self._watcher = watcher
        self._budgets = budgets or Budgets()
        self._currency = currency
        self._tenant_of = tenant_of
        self._poll = poll
        self._markers: Mapping[str, str] | None = None
        self._look_at: datetime | None = None
        self._listed_at: datetime | None = None
        self._asked: dict[str, str] = {}
        """Jobs that resolve policies, by table."""
        self._chosen: dict[datetime, int] = {}
        """How many jobs wait for each quarter of an hour."""

    # -- which tables there are -------------------------------------------------------------------

    def tables(self, now: datetime) -> Sequence[str] | None:
        """The tables of the catalog; `None` while nobody knows them."""
        if self._watcher is not None:
            self._refresh(now)
            return None if self._markers is None else sorted(self._markers)
        known = known_tables(self._store, self._catalog.recorded_as)
        if known is None or now - known[1] > _RELIST:
            self._ask_for_tables(now)
        return None if known is None else known[0]

    def _ask_for_tables(self, now: datetime) -> None:
        if self._listed_at is not None and now - self._listed_at < _RELIST:
            return
        self._listed_at = now
        self._jobs.submit(
            JobRequest(operation=Operation.TABLES), idempotency_key=f"tables-{now:%Y%m%d%H}{now.minute // 10}"
        )

    def _refresh(self, now: datetime) -> None:
        """Look at the catalog, if it is time."""
        assert self._watcher is not None
        if self._look_at is not None and self._look_at - self._poll * _PATIENCE * 10 < now < self._look_at:
            return
        self._look_at = now + self._poll  # also if it fails: the next tick shall not wait for it again
        began = time.monotonic()
        self._markers = self._watcher.markers()
        self._look_at = now + max(self._poll, timedelta(seconds=_PATIENCE * (time.monotonic() - began)))

    # -- policies ---------------------------------------------------------------------------------

    def policies(self) -> Policies:
        """What holds now; another value once it was changed, which is noticed after some seconds."""
        now = time.monotonic()
        if self._known_policies is None or now - self._known_policies[0] > _POLICIES_SECONDS:
            try:
                self._known_policies = now, self._policies()
            except BadInput as error:  # put by another version: what was known holds on
                if self._known_policies is None:
                    raise
                _log.warning("the policies that were put cannot be used: %s", error)
                self._known_policies = now, self._known_policies[1]
        return self._known_policies[1]

    def policy(self, table: str, properties: Mapping[str, str]) -> TablePolicy:
        """What holds for a table."""
        return self.policies().resolve(Options(), properties, self._catalog.name, parse_levels(table))

    def timing(self, schedule: TableSchedule) -> Timing:
        """When jobs on a table are wanted."""
        return Timing.of(self.policy(schedule.table, schedule.properties))

    def tenant(self, table: str) -> str:
        """For whom a table's jobs are done."""
        return self._tenant_of(table)

    # -- commits ----------------------------------------------------------------------------------

    def look(self, schedules: Collection[TableSchedule], now: datetime) -> Sequence[TableSchedule]:
        """The schedules of tables at which something was committed, or whose properties are known now."""
        changed = list(self._by_worker(schedules, now))
        if self._watcher is None or self._markers is None:
            return changed
        began = time.monotonic()
        for schedule in schedules:
            marker = self._markers.get(schedule.table)
            if marker is None or marker in (UNKNOWN, schedule.marker):
                continue
            if time.monotonic() - began > _FIRST_LOOK_SECONDS:
                break  # the others in the next tick
            changed.append(self._seen(schedule, marker, now))
        return changed

    def _seen(self, schedule: TableSchedule, marker: str, now: datetime) -> TableSchedule:
        assert self._watcher is not None
        found = self._watcher.metadata(schedule.table)
        if found is None:
            ours = schedule.fired is not None and not schedule.fired.ended
            count = 0 if ours or not schedule.marker else 1
            return with_commits(
                replace(schedule, marker=marker), CommitsSeen(count=count, first_at=now, last_at=now), ()
            )
        new = _new(schedule, found) if schedule.marker else ()
        seen = CommitsSeen(
            count=len(new), first_at=new[0].at if new else None, last_at=min(new[-1].at, now) if new else None
        )
        numbers = [commit.snapshot_id for commit in found.commits[-REMEMBERED:]]
        known = replace(schedule, marker=marker, properties=dict(found.properties), properties_of=marker)
        return with_commits(known, seen, numbers)

    def counted(self, table: str) -> Collection[int]:
        """Snapshots that icepact's own runs have made."""
        runs = self._store.runs(catalog=self._catalog.recorded_as, table=table, limit=_RUNS, outcomes=False)
        return {commit.snapshot_id for run in runs for commit in run.landed}

    def _by_worker(self, schedules: Collection[TableSchedule], now: datetime) -> Iterator[TableSchedule]:
        """Schedules whose properties a worker has told; others are asked for."""
        by_table = {schedule.table: schedule for schedule in schedules}
        for table, job_id in list(self._asked.items()):
            try:
                job = self._jobs.get(job_id)
            except JobNotFound:
                del self._asked[table]
                continue
            if not job.status.ended:
                continue
            del self._asked[table]
            if table in by_table:
                known = carried(job.result or {}) if job.status is JobStatus.SUCCEEDED else by_table[table].properties
                yield replace(by_table[table], properties=known, properties_of=_valid(by_table[table], now))
        for schedule in schedules:
            if len(self._asked) >= _ASKED_AT_ONCE:
                return
            wanted = _valid(schedule, now)
            stale = schedule.properties_of not in (schedule.marker or wanted, wanted)
            if stale and schedule.table not in self._asked and (self._watcher is None or schedule.marker):
                self._ask_for_policy(schedule.table, wanted)

    def _ask_for_policy(self, table: str, wanted: str) -> None:
        words = (self._catalog.recorded_as, table, wanted)
        key = "policy-" + hashlib.sha256("\0".join(words).encode()).hexdigest()[:40]
        request = JobRequest(operation=Operation.POLICY, table=table)
        try:
            self._asked[table] = self._jobs.submit(request, priority=0, idempotency_key=key).job_id
        except BadInput:  # somebody will ask again
            return

    # -- budgets ----------------------------------------------------------------------------------

    def held_back(self, schedule: TableSchedule, now: datetime) -> str:
        """The budget of this hour that is used up; empty if none is."""
        table = schedule.table
        policy = self.policy(table, schedule.properties).policy
        own = policy.max_cost_per_hour, policy.max_bytes_per_hour
        if self._budgets.fleet == Allowance() and not self._budgets.namespaces and own == (None, None):
            return ""
        budgets = [one for one in hourly_budgets(table, policy, self._budgets) if one.covers(table)]
        runs = self._store.recent(catalog=self._catalog.recorded_as, since=now - HOUR)
        limits = hourly_limits(budgets, table, spent_by_table(runs, now), self._currency)
        return next((f"{limit.name}: nothing is left of this hour" for limit in limits if limit.amount <= 0), "")

    # -- forecasts --------------------------------------------------------------------------------

    def choose(self, table: str, timing: Timing, due: Due, now: datetime) -> Chosen:
        """The best time within the slack; what was expected is kept beside it."""
        activity = self.activity(table, now)
        if activity is None:
            return Chosen(due=due, at=now, why="nothing is known about its writers")
        run = self.run_length(table)
        spans = open_spans(timing.windows, timing.blackouts, timing.zone, now, due.latest + timedelta(seconds=1))
        self._chosen = {quarter: count for quarter, count in self._chosen.items() if quarter >= quarter_of(now)}
        found = choose_time(spans, now, due.latest, quiet_chance(activity, timing.zone, run), busy=self._chosen)
        if found is None:
            return Chosen(due=due, at=now)
        self._chosen[quarter_of(found.at)] = self._chosen.get(quarter_of(found.at), 0) + 1
        expected = replace(forecast(activity, timing.zone, run=run), chosen=found)
        self._store.put_document(FORECASTS, key_of(self._catalog.recorded_as, table), body_of(expected))
        return Chosen(due=due, at=found.at, why=found.why)

    def forecast(self, table: str, timing: Timing, now: datetime, *, hours: int = 24) -> Forecast | None:
        """What is expected of a table's writers; `None` if nothing is known about them."""
        activity = self.activity(table, now, partitions=True)
        if activity is None:
            return None
        return forecast(activity, timing.zone, hours=hours, run=self.run_length(table))

    def chance(self, table: str, timing: Timing, now: datetime) -> Callable[[datetime], float] | None:
        """How likely writers are quiet during a run that begins at a moment; `None` if nothing is known about them."""
        activity = self.activity(table, now)
        return None if activity is None else quiet_chance(activity, timing.zone, self.run_length(table))

    def past_runs(self, table: str) -> Sequence[RunRecord]:
        """Runs on a table as its snapshots tell of them, newest first; none if that cannot be read without Java."""
        history = None if self._watcher is None else self._watcher.history(table)
        return () if history is None else runs_of_snapshots(history, catalog=self._catalog.recorded_as, table=table)

    def properties(self, table: str) -> Mapping[str, str]:
        """What a table says itself, if that can be read without Java; TableNotFound if it is known not to be there."""
        if self._watcher is None:
            return {}
        if not self._there(table):
            raise TableNotFound(f"no table {table}: `icepact tables` lists what is there")
        found = self._watcher.metadata(table)
        return {} if found is None else found.properties

    def _there(self, table: str) -> bool:
        assert self._watcher is not None
        if self._markers is None or table not in self._markers:
            self._markers = self._watcher.markers()
        return self._markers is not None and table in self._markers

    def activity(self, table: str, now: datetime, *, partitions: bool = False) -> Activity | None:
        """When writers have committed to a table, as its metadata tells, and to its partitions if asked for; `None` if
        nobody can say without Java."""
        if self._watcher is None:
            return None
        try:
            found = self._watcher.metadata(table) if self._there(table) else None
        except IcepactError:
            return None
        if found is None or found.known_since is None:
            return None
        by_partition = self._watcher.partitions(table, _COMMITS) if partitions else {}
        return Activity(
            table=table,
            since=min(found.known_since, now),
            until=now,
            commits=tuple(commit.at for commit in found.commits if commit.at <= now),
            partitions={
                name: some for name, moments in by_partition.items() if (some := [t for t in moments if t <= now])
            },
        )

    def run_length(self, table: str) -> timedelta:
        """How long runs on a table take, half of the time less; a guess if there was none."""
        runs = self._store.runs(
            catalog=self._catalog.recorded_as, table=table, limit=_RUNS, worked_only=True, outcomes=False
        )
        took = [(run.finished_at - run.started_at).total_seconds() for run in runs if run.finished_at is not None]
        return timedelta(seconds=max(1.0, median(took))) if took else RUN


def carried(policy: Mapping[str, Any]) -> dict[str, str]:
    """Properties that say what a table said itself, from the answer of a policy job."""
    found = {}
    for name in _SAID_HERE:
        one = policy.get(name) or {}
        value = one.get("value")
        if value is not None and str(one.get("source", "")).startswith("table property"):
            words = str(value).lower() if isinstance(value, bool) else str(value)
            found[PROPERTY_PREFIX + name.replace("_", "-")] = f"{words}s" if name in _SECONDS else words
    return found


def _new(schedule: TableSchedule, found: TableMetadata) -> Sequence[Any]:
    """Commits that are not counted yet: those after the newest one that is."""
    numbers = [commit.snapshot_id for commit in found.commits]
    last = max((at for at, number in enumerate(numbers) if number in schedule.snapshots), default=-1)
    return found.commits[last + 1 :]


def _valid(schedule: TableSchedule, now: datetime) -> str:
    """What the properties of a table are of that a worker tells: its marker, or else a part of the day."""
    return schedule.marker or f"{now:%Y-%m-%d}-{now.hour // (_POLICY_FOR // HOUR)}"
