"""The use cases of a service elsewhere, asked for as those of an application here: commands show both alike."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, Protocol

from icepact.client import Client
from icepact.model.answers import About
from icepact.model.costs import Costs
from icepact.model.documents import from_json
from icepact.model.errors import BadInput, Cancelled
from icepact.model.fleet import Fleet, Round, Visit
from icepact.model.formatting import plural
from icepact.model.health import Health
from icepact.model.job import Job, JobProgress, JobStatus, Operation
from icepact.model.maintenance import MaintenanceOutcome
from icepact.model.outcome import Outcome
from icepact.model.plan import Plan
from icepact.model.policy import OPTIONS, OptionUnit
from icepact.model.run import RunRecord
from icepact.model.saved import SavedPlan
from icepact.policy.options import Options, plain

Confirm = Callable[[Plan], bool]


class Follower(Protocol):
    """Who shows how far a job is."""

    def follow(self, progress: JobProgress) -> None:
        """Called whenever something about it has changed."""


class Asking(Follower, Protocol):
    """Who may have to ask before something is done."""

    @property
    def asks(self) -> bool:
        """Whether the plan is shown first."""


@dataclass(frozen=True, slots=True)
class RemotePolicy:
    """What holds for a table."""

    values: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """By option: its value, and where it came from."""
        return dict(self.values)


class RemoteApplication:
    """The use cases of a service."""

    absent = None
    """Why there cannot be any tables."""
    has_policies = True
    """A service goes by its own."""

    def __init__(self, client: Client, note: Callable[[str], None]) -> None:
        self._client = client
        self._note = note
        self._dead: dict[str, str] = {}
        """Runs that were answered, and why nobody works on them any more."""

    # -- look -------------------------------------------------------------------------------------

    def health(self, table: str, request: Options) -> Health:
        """How a table is doing, now."""
        from icepact.model.reading import health_of

        return health_of(self._asked(Operation.HEALTH, table, request).result or {})

    def plan(self, table: str, request: Options) -> Plan:
        """What would be rewritten."""
        return self._client.plan_of(self._asked(Operation.PLAN, table, request)).plan

    def policy(self, table: str, request: Options) -> RemotePolicy:
        """What holds for a table, and where each value came from."""
        return RemotePolicy(self._asked(Operation.POLICY, table, request).result or {})

    def tables(self) -> list[str]:
        """Every table that exists for the key."""
        return [entry.table for entry in self._client.tables(fresh=True)]

    def runs(self, table: str | None = None, *, limit: int = 100, open_only: bool = False) -> Sequence[RunRecord]:
        """Runs, newest first."""
        found = list(islice(self._client.runs(table, open_only=open_only), limit))
        self._dead |= {run.run_id: why for run, why in found if why is not None}
        return [run for run, _ in found]

    def why_dead(self, run: RunRecord) -> str | None:
        """Why nobody works on one of these runs any more; `None` if somebody may, or if it has ended."""
        return self._dead.get(run.run_id)

    def costs(self, table: str | None = None, *, limit: int = 100) -> Sequence[Costs]:
        """What runs cost, next to what was predicted."""
        return self._client.costs(table, limit=min(limit, 1000))

    @cached_property
    def prices(self) -> About:
        """What knows the currency."""
        return self._client.about()

    # -- do ---------------------------------------------------------------------------------------

    def compact(
        self,
        table: str,
        request: Options,
        *,
        progress: Asking,
        on_resumed: Callable[[Outcome | None], None],
        confirm: Confirm,
    ) -> Outcome:
        """Plan, have the plan confirmed if somebody is to be asked, and carry it out."""
        on_resumed(None)
        given = as_given(request)
        if progress.asks:
            planned = self._client.result(self._submit(Operation.PLAN, table, given))
            plan = self._client.plan_of(planned).plan
            if not confirm(plan):
                raise Cancelled(f"the plan for {table} was not confirmed")
            if plan.steps:
                return self._outcome(self._followed(self._client.apply(planned, most_failures=1), progress))
        return self._outcome(self._followed(self._submit(Operation.COMPACT, table, given), progress))

    def apply(self, plan: SavedPlan, *, progress: Follower) -> Outcome:
        """Carry out a saved plan."""
        return self._outcome(self._followed(self._client.apply(plan, most_failures=1), progress))

    def maintain(
        self,
        table: str,
        request: Options,
        *,
        exclude: Sequence[str] = (),
        dry_run: bool = False,
        on_operation: Callable[[str], None] | None = None,
    ) -> MaintenanceOutcome:
        """Do what the policy of a table names, where it is due."""
        job = self._submit(
            Operation.MAINTAIN,
            table,
            as_given(request),
            dry_run=dry_run,
            **({"exclude": [*exclude]} if exclude else {}),
        )
        ended = self._followed(job, _Operations(on_operation or (lambda _: None)))
        return from_json(MaintenanceOutcome, json.dumps(self._result(ended)))

    def expire(self, table: str, request: Options, **how: Any) -> Outcome:
        """Expire snapshots of a table."""
        return self._step(Operation.EXPIRE, table, request, **how)

    def orphans(self, table: str, request: Options, *, exclude: Sequence[str] = (), **how: Any) -> Outcome:
        """Delete files that nothing refers to."""
        return self._step(Operation.ORPHANS, table, request, exclude=[*exclude] or None, **how)

    def deletes(self, table: str, request: Options, **how: Any) -> Outcome:
        """Convert deletes of a table."""
        return self._step(Operation.DELETES, table, request, **how)

    def manifests(self, table: str, request: Options, **how: Any) -> Outcome:
        """Rewrite manifests of a table where it pays."""
        return self._step(Operation.MANIFESTS, table, request, **how)

    def ttl(self, table: str, request: Options, **how: Any) -> Outcome:
        """Take data out of a table that is older than it may become."""
        return self._step(Operation.TTL, table, request, **how)

    def tags(self, table: str, request: Options, **how: Any) -> Outcome:
        """Make the tag that is due."""
        return self._step(Operation.TAGS, table, request, **how)

    def statistics(self, table: str, request: Options, *, columns: Sequence[str] | None = None, **how: Any) -> Outcome:
        """Bring statistics of a table up to date."""
        return self._step(Operation.STATISTICS, table, request, columns=columns, **how)

    def _step(
        self,
        operation: Operation,
        table: str,
        request: Options,
        *,
        dry_run: bool,
        progress: Asking,
        on_resumed: Callable[[Outcome | None], None],
        confirm: Confirm,
        **fields: Any,
    ) -> Outcome:
        """A step of housekeeping: shown first if it is a dry run or somebody is to be asked."""
        on_resumed(None)
        given = as_given(request)
        fields = {name: value for name, value in fields.items() if value}
        if dry_run or progress.asks:
            planned = self._client.result(self._submit(operation, table, given, dry_run=True, **fields))
            if not confirm(self._client.plan_of(planned).plan):
                raise Cancelled(f"the plan for {table} was not confirmed")
            if dry_run:
                return self._outcome(planned)
        return self._outcome(self._followed(self._submit(operation, table, given, **fields), progress))

    def unblock(self, table: str) -> int:
        """Forget what failed on a table, and return how many failures that were."""
        return int(self._result(self._submit(Operation.UNBLOCK, table, {}))["forgotten"])

    # -- runs -------------------------------------------------------------------------------------

    def resume(self, run_id: str) -> Outcome:
        """Carry on with a run whose process died."""
        job = self._client.resume_run(run_id, most_failures=1)
        return self._outcome(self._followed(job, _Operations(lambda _: None)))

    def cancel(self, run_id: str) -> str:
        """Ask a run to stop; says what will happen."""
        return self._client.cancel_run(run_id).message

    # -- many tables ------------------------------------------------------------------------------

    def fleet(
        self,
        pattern: str | None,
        budget: Options,
        *,
        by: str = "worth",
        on_table: Callable[[str, int], None] | None = None,
    ) -> Fleet:
        """Rank the tables of the catalog, or those that a pattern means, and choose within a budget for all of them."""
        job = self._client.rank(pattern, by=by, options=as_given(budget), most_failures=1)
        ended = self._client.result(self._followed(job, _Tables(on_table or (lambda *_: None))))
        return self._client.ranking(ended)

    def fleet_run(
        self,
        fleet: Fleet,
        *,
        dry_run: bool = False,
        maintain: bool = False,
        on_table: Callable[[str], None] | None = None,
        on_visit: Callable[[Visit], None] | None = None,
    ) -> Round:
        """Do one round over a fleet: jobs for each table, in the order of the ranking."""
        from icepact.entrypoints.cli.remote_rounds import RemoteRound

        going = RemoteRound(self._client, fleet, follow=self._until_ended, dry_run=dry_run, maintain=maintain)
        visits = []
        try:
            for visit in going.visits(on_table or (lambda _: None)):
                visits.append(visit)
                if on_visit is not None:
                    on_visit(visit)
        except KeyboardInterrupt:
            if going.ahead:
                self._note(f"{plural(going.ahead, 'more job')} of this round: icepact jobs list --open")
            raise
        return Round(visits=visits, dry_run=dry_run, warnings=fleet.warnings)

    def _until_ended(self, job: Job) -> Job:
        """A job that has ended, with its result, whatever became of it."""
        ended = self._followed(job, _Operations(lambda _: None))
        return ended if ended.result is not None else self._client.job(ended.job_id)

    # -- jobs -------------------------------------------------------------------------------------

    def _asked(self, operation: Operation, table: str, request: Options) -> Job:
        return self._client.result(self._submit(operation, table, as_given(request)))

    def _submit(self, operation: Operation, table: str, given: Mapping[str, Any], **fields: Any) -> Job:
        """As here, what fails is not tried again by itself."""
        return self._client.submit(operation, table, options=given, most_failures=1, **fields)

    def _followed(self, job: Job, follower: Follower) -> Job:
        """A job that has ended, shown until then."""
        try:
            for found in self._client.progress(job):
                follower.follow(found.progress)
                job = found
        except KeyboardInterrupt:
            self._note(f"job {job.job_id} goes on: icepact jobs show {job.job_id}, or icepact jobs cancel {job.job_id}")
            raise
        return job

    def _result(self, job: Job) -> Mapping[str, Any]:
        """What a job answered; raises what it failed with if it did not."""
        if job.result is None or job.status is JobStatus.CANCELLED:
            job = self._client.result(job)
        return job.result or {}

    def _outcome(self, job: Job) -> Outcome:
        return Outcome.from_json(json.dumps(self._result(job)))


class _Operations:
    """Tells of each operation of maintenance as it is begun."""

    def __init__(self, on_operation: Callable[[str], None]) -> None:
        self._on_operation = on_operation
        self._last = ""

    def follow(self, progress: JobProgress) -> None:
        """Tell of one that was not begun before."""
        if progress.operation and progress.operation != self._last:
            self._last = progress.operation
            self._on_operation(progress.operation)


class _Tables:
    """Tells of each table as it is looked at."""

    def __init__(self, on_table: Callable[[str, int], None]) -> None:
        self._on_table = on_table
        self._shown = 0

    def follow(self, progress: JobProgress) -> None:
        """Tell of those that were not told of before; of some only that they were."""
        while progress.operation and self._shown <= progress.units:
            self._shown += 1
            self._on_table(progress.operation, progress.planned_units)


def as_given(request: Options) -> dict[str, Any]:
    """Options as a request has them."""
    given = {name: plain(getattr(request, name)) for name in sorted(request.model_fields_set)}
    in_seconds = {name for name, option in OPTIONS.items() if option.unit is OptionUnit.SECONDS}
    return {
        name: f"{value:.6f}s" if name in in_seconds else value for name, value in given.items() if value is not None
    }


def refuse_local(settings: Mapping[str, Any]) -> None:
    """Refuse flags that say where tables are: a service knows its own."""
    flags = {"config": "--config", "policies": "--policy", "namespace": "--namespace", "warehouse": "--warehouse"}
    flags |= {name: f"--{name.replace('_', '-')}" for name in ("catalog", "catalog_uri", "catalog_type")}
    flags |= {"catalog_properties": "--catalog-property"}
    given = [flag for name, flag in flags.items() if settings.get(name)]
    if given:
        raise BadInput(f"{given[0]}: the service has a catalog and policies of its own: leave this out, or --server")
