"""Quotas of tenants: how many jobs at once, and how many bytes and how much money in an hour.

Jobs at once are counted where the next job is chosen, in one transaction with taking it: there are never more. What
was spent in the last hour is looked up before a job is chosen, and again once its plan is known, right before its run
begins; a run that has begun counts with what its plan promises until it has ended. Until it has begun, its job counts
with what it has announced: each worker first announces its plan, and then looks at what others have announced, so that
of two in the same moment one sees the other at least. Maintenance has no plan as a whole: each of its operations has,
which is looked at as that of a job.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from icepact.economics.spending import HOUR, NOTHING, Spending, planned_spending, promised_by, spent_by_table
from icepact.model.errors import QuotaUsed
from icepact.model.formatting import format_money, format_size
from icepact.model.job import DEFAULT_TENANT, Job, JobStatus, Queue, TenantLimit
from icepact.model.plan import Plan
from icepact.model.policy import Policy
from icepact.model.progress import BEGUN
from icepact.model.tenant import Quota, QuotaUse
from icepact.policy.options import Options
from icepact.record.store import RecordStore
from icepact.schedule.attribution import tenants_of_runs
from icepact.schedule.queue import next_job
from icepact.schedule.tenants import Tenants

_SECONDS_KEPT = 5.0
"""For so long what was spent is taken for true, unless this process has taken a job since."""
_MOST_RUNNING = 1000
_MOST_KEPT = 10_000
"""Runs whose tenant is remembered."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Share:
    """What one run counts for."""

    spending: Spending
    until: datetime


class Quotas:
    """The quotas of tenants on one catalog, and what they have used."""

    def __init__(
        self, store: RecordStore, tenants: Tenants, catalog: str, *, currency: str = "", clock: Callable[[], datetime]
    ) -> None:
        """`catalog` is its name in the record store, `currency` that of the prices."""
        self._store = store
        self._tenants = tenants
        self._catalog = catalog
        self._currency = currency
        self._clock = clock
        self._limits: tuple[float, tuple[TenantLimit, ...]] | None = None
        """As they were found, and when."""
        self._known: dict[str, str] = {}
        """Tenants of runs that have ended."""

    # -- before a job is taken --------------------------------------------------------------------

    def choose(self) -> Callable[[Queue], str | None]:
        """What chooses the next job, for whoever takes one now."""
        limits = self.limits()

        def chosen(queue: Queue) -> str | None:
            job_id = next_job(replace(queue, limits=limits))
            if job_id is not None:
                self._limits = None  # what it spends will count
            return job_id

        return chosen

    def limits(self) -> tuple[TenantLimit, ...]:
        """What holds jobs back now."""
        quotas = {name: quota for name, quota in self._tenants.quotas().items() if quota != Quota()}
        if self._limits is None or time.monotonic() - self._limits[0] >= _SECONDS_KEPT:
            hourly = any(quota.is_hourly for quota in quotas.values())
            spent = self._spent() if hourly else {}
            found = tuple(
                TenantLimit(
                    tenant=name, jobs_at_once=quota.jobs_at_once, used_up=_over(quota, spent.get(name, NOTHING))
                )
                for name, quota in quotas.items()
            )
            self._limits = time.monotonic(), found
        return self._limits[1]

    # -- before a run is begun --------------------------------------------------------------------

    def capped(self, tenant: str, options: Options, policy_of: Callable[[Options], Policy]) -> Options:
        """The options of a request, with no more for one run than the tenant may spend in an hour. `policy_of` tells
        what holds for the table with a request's options: what is lower there stays."""
        quota = self._tenants.quota(tenant)
        caps = {"max_bytes": quota.bytes_per_hour, "max_cost": quota.money_per_hour}
        caps = {name: cap for name, cap in caps.items() if cap is not None}
        if not caps:
            return options
        policy = policy_of(options)
        wanted = {name: getattr(policy, name) for name in caps}
        lower = {name: cap for name, cap in caps.items() if wanted[name] is None or wanted[name] > cap}
        return options.model_copy(update=lower) if lower else options

    def check(self, job: Job, plan: Plan, announce: Callable[[], object] = lambda: None) -> None:
        """Raise QuotaUsed if a plan does not fit into what is left for the tenant of a job in this hour. One that is
        larger than the quota as a whole fits if nothing else was spent. `announce` records what the job has planned,
        for others that check theirs now."""
        quota = self._tenants.quota(job.tenant)
        if not quota.is_hourly or not job.request.holds_table:
            return
        announce()
        others = self._announced(job)  # before the runs are read: one that begins in between is among these
        spent = others + self._spent().get(job.tenant, NOTHING)
        planned = planned_spending(plan)
        over = [
            f"{name}: {show(used)} of {show(most)} are used, and this takes {show(needed)}"
            for name, most, used, needed, show in (
                ("bytes_per_hour", quota.bytes_per_hour, spent.bytes, planned.bytes, _size),
                ("money_per_hour", quota.money_per_hour, spent.money, planned.money, self._money),
            )
            if most is not None and needed > 0 and used > 0 and used + needed > most
        ]
        if over:
            raise QuotaUsed(f"{'; '.join(over)}: tenant {job.tenant} has to wait")

    def _announced(self, job: Job) -> Spending:
        """What the tenant's other jobs have planned whose runs have not begun, as far as they have told."""
        running = self._store.jobs(
            catalog=self._catalog, tenant=job.tenant, statuses=[JobStatus.RUNNING], limit=_MOST_RUNNING
        )
        plans = [one.progress for one in running if one.job_id != job.job_id and not self._has_begun(one)]
        return Spending.sum(Spending(bytes=plan.planned_bytes, money=plan.planned_money) for plan in plans)

    def _has_begun(self, job: Job) -> bool:
        """Whether the run of what it has announced is on record; it may know an earlier one, too."""
        run = self._store.run(job.run_id) if job.run_id is not None and job.progress.step in BEGUN else None
        return run is not None and run.status.open

    def refusal(self, job: Job) -> str | None:
        """Why a job is not done at all: its tenant, or the tenant's table, is not there any more; `None` if it is
        done. Jobs of `default` always are."""
        table = job.request.table
        if job.tenant == DEFAULT_TENANT:
            return None
        if not self._tenants.exists(job.tenant):
            return f"there is no tenant {job.tenant} any more"
        if table is not None and not self._tenants.sees(job.tenant, table):
            return f"there is no table {table}"
        return None

    # -- what is shown ----------------------------------------------------------------------------

    def use(self, tenant: str) -> QuotaUse:
        """What a tenant has used."""
        quota = self._tenants.quota(tenant)
        shares = self._shares().get(tenant, []) if quota.is_hourly else []
        spent = Spending.sum(share.spending for share in shares)
        running = next((one.running for one in self._store.queue_sizes(self._catalog) if one.tenant == tenant), 0)
        free_at = _free_at(quota, shares) if _over(quota, spent) else None
        return QuotaUse(
            tenant=tenant,
            quota=quota,
            running=running,
            bytes_in_hour=spent.bytes,
            money_in_hour=spent.money,
            free_at=free_at,
        )

    def why_waiting(self, job: Job) -> str | None:
        """Why a job waits that is due; `None` if its tenant's quota is not to blame."""
        quota = self._tenants.quota(job.tenant)
        if job.status is not JobStatus.QUEUED or quota == Quota():
            return None
        use = self.use(job.tenant)
        if quota.jobs_at_once is not None and use.running >= quota.jobs_at_once:
            return f"jobs_at_once: {use.running} of {quota.jobs_at_once} are running"
        if not use.used_up or not job.request.holds_table:
            return None
        said = []
        if quota.bytes_per_hour is not None and use.bytes_in_hour >= quota.bytes_per_hour:
            said.append(f"bytes_per_hour: {_size(use.bytes_in_hour)} of {_size(quota.bytes_per_hour)} are used")
        if quota.money_per_hour is not None and use.money_in_hour >= quota.money_per_hour:
            said.append(
                f"money_per_hour: {self._money(use.money_in_hour)} of {self._money(quota.money_per_hour)} are used"
            )
        until = f", until {use.free_at:%H:%M:%S} UTC at least" if use.free_at else ""
        return f"{' and '.join(said)}{until}"

    # -- what was spent ---------------------------------------------------------------------------

    def _spent(self) -> Mapping[str, Spending]:
        return {name: Spending.sum(share.spending for share in shares) for name, shares in self._shares().items()}

    def _shares(self) -> Mapping[str, Sequence["_Share"]]:
        """What runs count for in the hour before now, by tenant."""
        now = self._clock()
        runs = self._store.recent(catalog=self._catalog, since=now - HOUR)
        unknown = [run for run in runs if run.run_id not in self._known]
        tenants = {**self._known, **tenants_of_runs(self._store, self._catalog, unknown)}
        if len(self._known) > _MOST_KEPT:
            self._known.clear()
        self._known.update((run.run_id, tenants[run.run_id]) for run in unknown if not run.status.open)
        found: dict[str, list[_Share]] = {}
        for run in runs:
            promised = {run.run_id: promised_by(self._store.plan(run.run_id))} if run.status.open else {}
            spent = Spending.sum(spent_by_table([run], now, promised).values())
            share = _Share(spending=spent, until=(run.finished_at or run.started_at) + HOUR)
            found.setdefault(tenants[run.run_id], []).append(share)
        return found

    def _money(self, amount: float) -> str:
        return format_money(amount, self._currency)


def _size(amount: float) -> str:
    return format_size(int(amount))


def _free_at(quota: Quota, shares: Sequence[_Share]) -> datetime | None:
    """When enough of it is more than an hour ago."""
    moment, left = None, NOTHING
    for share in sorted(shares, key=lambda one: one.until, reverse=True):
        left += share.spending
        if _over(quota, left):
            moment = share.until
            break
    return moment


def _over(quota: Quota, spent: Spending) -> bool:
    return quota.is_used_up(spent.bytes, spent.money)
