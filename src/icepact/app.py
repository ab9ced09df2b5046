"""The application: every use case once, for whoever asks, be it the library, the command line or a service.

It opens nothing until something is asked that needs it, and imports Spark and SQL only then. What Java or Spark raises
leaves it as one of icepact's errors.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial, wraps
from types import FunctionType
from typing import TYPE_CHECKING, ParamSpec, TypeVar, Unpack

from icepact.economics.limits import fleet_limits
from icepact.iceberg.catalogs import embedded_exists, embedded_has
from icepact.iceberg.names import parse_levels, show_name, table_parts
from icepact.model.errors import BadInput, Cancelled, IcepactError, TableNotFound
from icepact.model.prices import Prices
from icepact.model.progress import Progress, Silent
from icepact.policy.config import Budgets, Catalog
from icepact.policy.layers import Policies, Rule, TablePolicy, unmatched
from icepact.policy.options import Options
from icepact.policy.patterns import parse_pattern

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from icepact.economics.lessons import Lessons
    from icepact.iceberg.spark.catalog import SparkCatalog
    from icepact.maintain.context import Context
    from icepact.maintain.housekeeping import How, PlanChore
    from icepact.maintain.stats_cache import StatsCache
    from icepact.model.costs import Costs
    from icepact.model.decision import TableDecisions
    from icepact.model.fleet import Fleet, Round, Visit
    from icepact.model.health import Health
    from icepact.model.limits import Limit
    from icepact.model.maintenance import MaintenanceOutcome
    from icepact.model.outcome import Outcome
    from icepact.model.plan import Plan
    from icepact.model.recovery import CleanupResult, VerifyResult
    from icepact.model.run import RunRecord
    from icepact.model.saved import SavedPlan
    from icepact.plan.strategies.table import SelectFiles, Strategies
    from icepact.record.store import RecordStore

C = TypeVar("C", bound=type)
P = ParamSpec("P")
R = TypeVar("R")


def _translated(cls: C) -> C:
    """A class whose public part raises errors of icepact where Java or Spark raise theirs."""
    for name, found in list(vars(cls).items()):
        if isinstance(found, FunctionType) and not name.startswith("_"):
            setattr(cls, name, in_own_words(found))
        elif isinstance(found, property) and found.fget is not None:
            setattr(cls, name, property(in_own_words(found.fget), doc=found.__doc__))
    return cls


def in_own_words(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, which raises an error of icepact, in one line, where Java or Spark raises one of theirs."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except IcepactError:
            raise
        except Exception as error:
            from icepact.iceberg.java.bridge import to_icepact_error  # brings Spark along

            catalog = args[0].catalog if args and isinstance(args[0], Application) else None
            ours = to_icepact_error(error, catalog.properties.get("warehouse") if catalog else None)
            if ours is None:
                raise
            raise ours from None

    return called


@_translated
class Application:
    """The use cases over the tables of one catalog. Tables are named as in Spark SQL; `wiring` makes applications."""

    def __init__(
        self,
        *,
        catalog: Catalog,
        namespace: tuple[str, ...],
        policies: Policies,
        prices: Prices,
        budgets: Budgets,
        open_catalog: "Callable[[tuple[str, ...] | None], SparkCatalog]",
        open_store: "Callable[[], RecordStore]",
        strategies: "Mapping[str, SelectFiles] | None" = None,
    ) -> None:
        self.catalog = catalog
        """The catalog in use: its name and properties; `spark_catalog` is what opens it."""
        self.policies = policies
        self.prices = prices
        self.budgets = budgets
        self._namespace = namespace
        self._open_catalog = open_catalog
        self._open_store = open_store
        self._own_strategies = strategies or {}
        self._opened: SparkCatalog | None = None

    # -- what it works with -----------------------------------------------------------------------

    @property
    def spark_catalog(self) -> "SparkCatalog":
        """The catalog in Spark; opened on first use, and Spark started with it."""
        return self._open()

    @property
    def spark(self) -> "SparkSession":
        """The Spark session in use; started on first use."""
        return self.spark_catalog.session

    @property
    def is_well(self) -> bool:
        """False if Spark was started and does not work any more; nothing but another process helps then."""
        if self._opened is None:
            return True
        from icepact.iceberg.spark.session import is_well

        return is_well(self._opened.session)

    @property
    def has_policies(self) -> bool:
        """Whether a policy file was named."""
        return self.policies.file is not None

    @cached_property
    def store(self) -> "RecordStore":
        """The record store of its runs; opened on first use."""
        return self._open_store()

    @cached_property
    def cache(self) -> "StatsCache":
        """The cache of what inspections can use again."""
        from icepact.maintain.stats_cache import StatsCache

        return StatsCache()

    @cached_property
    def strategies(self) -> "Strategies":
        """The strategies that there are for this application, its own among them."""
        from icepact.plan.strategies.table import with_own

        return with_own(self._own_strategies)

    def context(self, table: str | None = None) -> "Context":
        """All that work on tables needs; refused if it is clear without Spark that the named table is not there."""
        spark_catalog = self.spark_catalog if table is None else self._catalog_with(table)
        from icepact.maintain.context import Context  # loaded while Java started, here and below

        return Context(
            spark_catalog=spark_catalog,
            store=self.store,
            cache=self.cache,
            policies=self.policies,
            budgets=self.budgets,
            prices=self.prices,
            strategies=self.strategies,
        )

    # -- look -------------------------------------------------------------------------------------

    def health(self, table: str, request: Options) -> "Health":
        """How a table is doing; nothing is written."""
        context = self.context(table)
        from icepact.maintain.housekeeping import health

        return health(context, self._full_name(table), request)

    def decisions(self, table: str, request: Options) -> "TableDecisions":
        """Which partitions are worth compacting, with gain and price; no file is listed, nothing is written."""
        if request.where is not None:
            raise BadInput("where: only `plan` knows which files have rows that match")
        context = self.context(table)
        from icepact.maintain.inspect import decide_table

        return decide_table(context, self._full_name(table), request)

    def plan(self, table: str, request: Options, *, limits: "Sequence[Limit]" = ()) -> "Plan":
        """What would be rewritten, within further limits if there are any, and why everything else is left alone;
        nothing is written."""
        context = self.context(table)
        from icepact.maintain.inspect import plan

        return plan(context, self._full_name(table), request, limits=limits)

    def policy(self, table: str, request: Options) -> TablePolicy:
        """What holds for a table, and where each value came from; nothing is written."""
        spark_catalog = self._catalog_with(table)
        from icepact.maintain.inspect import resolve_policy

        return resolve_policy(spark_catalog, self._full_name(table), request, self.policies)[1]

    def unmatched(self) -> Sequence[Rule]:
        """Rules of the policy file that match no table of the catalog."""
        return self._unmatched(self.tables())

    def tables(self) -> list[str]:
        """Every table of the catalog."""
        return [] if self.absent is not None else self.spark_catalog.tables()

    @property
    def absent(self) -> str | None:
        """Why there cannot be any tables: the embedded warehouse is not there. `None` if it is, or if the catalog is no
        embedded one."""
        folder = self.catalog.embedded
        if self._opened is not None or folder is None or embedded_exists(self.catalog):
            return None
        what = f"{folder} has no catalog in it" if folder.is_dir() else f"there is no folder {folder}"
        return f"{what}: --warehouse names another warehouse, and the first table makes this one"

    # -- compact ----------------------------------------------------------------------------------

    def compact(
        self,
        table: str,
        request: Options,
        *,
        limits: "Sequence[Limit]" = (),
        progress: Progress | None = None,
        on_resumed: "Callable[[Outcome | None], None] | None" = None,
        confirm: "Callable[[Plan], bool] | None" = None,
    ) -> "Outcome":
        """Carry on with a run on this table that died, plan within further limits if there are any, have the plan
        confirmed, and carry it out. If a run was carried on with and nothing is left to do, the answer is its outcome.

        `on_resumed` is called before the table is planned, with the outcome of the run that was carried on with, `None`
        if there was none. `confirm` is called with the plan, be there something to do or not; if it says no, nothing is
        done, and Cancelled is raised.
        """
        name = self._full_name(table)
        context = self.context(name)
        from icepact.maintain.compaction import compact

        def go_on(resumed: "Outcome | None") -> bool:
            if on_resumed is not None:
                on_resumed(resumed)
            return True

        outcome = compact(
            context,
            name,
            request,
            limits=limits,
            progress=progress,
            on_resumed=go_on,
            confirm=confirm or (lambda _: True),
        )
        if outcome is None:
            raise Cancelled(f"the plan for {name} was not confirmed")
        return outcome

    def apply(self, plan: "Plan | SavedPlan", *, progress: Progress | None = None) -> "Outcome":
        """Carry out a plan. Of a saved one, groups with inputs that changed since are refused."""
        from icepact.maintain.tracing import table_span
        from icepact.model.saved import SavedPlan

        made, heard = plan.plan if isinstance(plan, SavedPlan) else plan, progress or Silent()
        with table_span(made.table, made.operation) as span:
            span.planned(made)
            if isinstance(plan, SavedPlan):
                context = self.context(made.table)
                from icepact.maintain.saved_plans import apply_saved

                outcome = apply_saved(context, plan, heard)
            else:
                spark_catalog = self.spark_catalog
                from icepact.maintain.runs import apply

                outcome = apply(spark_catalog, plan, self.store, heard)
            span.ended(outcome)
            return outcome

    # -- housekeeping -----------------------------------------------------------------------------

    def expire(self, table: str, request: Options, **how: Unpack["How"]) -> "Outcome":
        """Expire snapshots of a table, and delete what only they need."""
        from icepact.maintain.housekeeping import expire_step

        return self._keep_house(table, request, "expire", expire_step, how)

    def orphans(self, table: str, request: Options, *, exclude: Sequence[str] = (), **how: Unpack["How"]) -> "Outcome":
        """Delete files below a table's locations that nothing refers to, but for those in some folders."""
        from icepact.maintain.housekeeping import orphans_step

        return self._keep_house(table, request, "orphans", orphans_step(exclude), how)

    def deletes(self, table: str, request: Options, **how: Unpack["How"]) -> "Outcome":
        """Convert deletes of a table to vectors or positions, and merge them; no data is rewritten."""
        from icepact.maintain.housekeeping import deletes_step

        return self._keep_house(table, request, "deletes", deletes_step, how)

    def manifests(self, table: str, request: Options, **how: Unpack["How"]) -> "Outcome":
        """Rewrite manifests of a table where it pays."""
        from icepact.maintain.housekeeping import manifests_step

        return self._keep_house(table, request, "manifests", manifests_step, how)

    def ttl(self, table: str, request: Options, **how: Unpack["How"]) -> "Outcome":
        """Take data out of a table that is older than it may become; no row is rewritten."""
        from icepact.maintain.housekeeping import ttl_step

        return self._keep_house(table, request, "ttl", ttl_step, how)

    def tags(self, table: str, request: Options, **how: Unpack["How"]) -> "Outcome":
        """Make the tag that is due."""
        from icepact.maintain.housekeeping import tags_step

        return self._keep_house(table, request, "tags", tags_step, how)

    def maintain(
        self,
        table: str,
        request: Options,
        *,
        exclude: Sequence[str] = (),
        without: Collection[str] = (),
        dry_run: bool = False,
        progress: Progress | None = None,
        on_operation: Callable[[str], None] | None = None,
        confirm: "Callable[[Plan], bool] | None" = None,
    ) -> "MaintenanceOutcome":
        """Do what the policy of a table names as housekeeping, compaction included, where it is due. `without` are
        operations that are left out; `on_operation` is called before each other, and `confirm` with its plan: if it
        says no, Cancelled is raised. A dry run says what each would do."""
        name = self._full_name(table)
        context = self.context(name)
        from icepact.maintain.maintenance import maintain

        return maintain(
            context,
            name,
            request,
            exclude=exclude,
            without=without,
            dry_run=dry_run,
            progress=progress,
            on_operation=on_operation,
            confirm=confirm or (lambda _: True),
        )

    def statistics(
        self, table: str, request: Options, *, columns: Sequence[str] | None = None, **how: Unpack["How"]
    ) -> "Outcome":
        """Bring statistics of a table's columns and partitions up to date, where they are stale."""
        from icepact.maintain.housekeeping import statistics_step

        return self._keep_house(table, request, "statistics", statistics_step(columns), how)

    def _keep_house(self, table: str, request: Options, operation: str, make: "PlanChore", how: "How") -> "Outcome":
        """Carry on with a run on this table that died, plan a step, have it confirmed, and carry it out. A dry run says
        what would be done. `confirm` is called with the plan; if it says no, Cancelled is raised."""
        name = self._full_name(table)
        context = self.context(name)
        from icepact.maintain.housekeeping import carry_out

        return carry_out(context, name, request, operation, make, **how)

    # -- many tables ------------------------------------------------------------------------------

    def fleet(
        self,
        pattern: str | None,
        budget: Options,
        *,
        by: str = "worth",
        only: Callable[[str], bool] | None = None,
        on_table: Callable[[str, int], None] | None = None,
    ) -> "Fleet":
        """Rank the tables of the catalog, or those that a pattern means, and choose within a budget for all of them.

        There are no tables but those that `only` says yes to. `on_table` is called before each table is inspected, with
        its name and how many there are. Nothing is written.
        """
        from icepact.model.fleet import Fleet, rank_by

        meant = None if pattern is None else parse_pattern(pattern)
        limits = fleet_limits(budget, self.prices.currency)
        order = rank_by(by)
        everything = self.tables()
        there = everything if only is None else list(filter(only, everything))
        names = [n for n in there if meant is None or meant.matches(self.catalog.name, parse_levels(n))]
        warnings = [f"{rule.source}: {rule.pattern.text} matches no table" for rule in self._unmatched(everything)]
        if meant is not None and not names:
            warnings.append(f"{meant.text} matches no table")
        if self.absent is not None:
            warnings.insert(0, self.absent)
        if not names:
            return Fleet(tables=(), budget=limits, warnings=warnings)
        from icepact.maintain.fleet import inspect_tables

        def count(name: str) -> None:
            if on_table is not None:
                on_table(name, len(names))

        found = inspect_tables(self.context(), names, by=order, limits=limits, on_table=count)
        return replace(found, warnings=warnings)

    def fleet_run(
        self,
        fleet: "Fleet",
        *,
        dry_run: bool = False,
        maintain: bool = False,
        on_table: Callable[[str], None] | None = None,
        on_visit: "Callable[[Visit], None] | None" = None,
    ) -> "Round":
        """Do one round over a fleet: compact each table, in the order of the ranking, within its own budgets and one
        for all of them. With `maintain`, all else that its policy names is done with each table, too. `on_table`
        is called before each table, `on_visit` after it."""
        from icepact.model.fleet import Round

        visits: list[Visit] = []
        if fleet.tables or fleet.failed:
            context = self.context()
            from icepact.maintain.fleet import visit_tables

            for visit in visit_tables(
                context, fleet, dry_run=dry_run, on_table=on_table or (lambda _: None), housekeeping=maintain
            ):
                visits.append(visit)
                if on_visit is not None:
                    on_visit(visit)
        return Round(visits=visits, dry_run=dry_run, warnings=fleet.warnings)

    # -- runs -------------------------------------------------------------------------------------

    def runs(self, table: str | None = None, *, limit: int = 100, open_only: bool = False) -> "Sequence[RunRecord]":
        """Runs, newest first. Of a table on which the record store knows none, those that its snapshots tell of."""
        name = None if table is None else self._full_name(table)
        found = self.store.runs(catalog=self.catalog.recorded_as, table=name, limit=limit, open_only=open_only)
        if found or name is None or open_only:
            return found
        from icepact.maintain.past_runs import past_runs

        return past_runs(self.catalog, name, partial(self._catalog_with, name))[:limit]

    def why_dead(self, run: "RunRecord") -> str | None:
        """Why nobody works on a run any more that has not ended; `None` if somebody may, or if it has ended."""
        from icepact.record.liveness import dead

        return dead(run, self.store) if run.status.open else None

    def costs(self, table: str | None = None, *, limit: int = 100) -> "Sequence[Costs]":
        """What the newest runs cost, next to what was predicted, for each table and method."""
        from icepact.economics.report import costs_of

        name = None if table is None else self._full_name(table)
        runs = self.store.runs(catalog=self.catalog.recorded_as, table=name, limit=limit, worked_only=True)
        return costs_of(run.outcome for run in runs if run.outcome)

    def resume(self, run_id: str, *, progress: Progress | None = None) -> "Outcome":
        """Carry on with a run whose process died; finished units are not done again."""
        from icepact.record.liveness import check_resumable

        record = self._run(run_id)
        check_resumable(record)
        spark_catalog = self._catalog_with(record.table)
        from icepact.maintain.runs import resume
        from icepact.maintain.tracing import table_span

        with table_span(record.table) as span:
            outcome = resume(spark_catalog, record, self.store, progress or Silent())
            span.ended(outcome)
            return outcome

    def resume_dead(self, table: str, request: Options, *, progress: Progress | None = None) -> "Outcome | None":
        """Carry on with the newest run on a table that died, if there is one, and the table is not left alone."""
        names, name = {self.catalog.recorded_as, self.catalog.name}, self._full_name(table)
        if not any(self.store.runs(catalog=one, table=name, limit=1, open_only=True) for one in names):
            return None  # known without Spark
        context = self.context(name)
        from icepact.maintain.compaction import resume_first

        return resume_first(context, name, request, progress or Silent())

    def cancel(self, run_id: str) -> str:
        """Ask a run to stop, and cancel the job whose run it is; says what will happen."""
        from icepact.record.liveness import ask_to_stop, job_of

        run = self._run(run_id)
        job = job_of(run, self.store)
        said = ask_to_stop(run, job, self.store)
        return said if job is None else f"{said}; job {job.job_id} is cancelled with it"

    def clean_up(
        self, table: str | None = None, *, delete: bool = False, task_timeout: timedelta | None = None
    ) -> "Sequence[CleanupResult]":
        """What dead runs left behind; it is deleted only if asked for."""
        spark_catalog = self.spark_catalog if table is None else self._catalog_with(table)
        from icepact.maintain.cleanup import TASK_TIMEOUT, clean_up

        return clean_up(
            spark_catalog,
            self.store,
            table=None if table is None else self._full_name(table),
            delete=delete,
            task_timeout=TASK_TIMEOUT if task_timeout is None else task_timeout,
        )

    def verify(self, table: str, run_id: str) -> "Sequence[VerifyResult]":
        """Compare once more, for every commit of a run, what readers see before and after it."""
        record = self._run(run_id, table)
        spark_catalog = self._catalog_with(table)
        from icepact.maintain.aftercare import verify

        return verify(spark_catalog, record)

    def roll_back(self, table: str, run_id: str) -> int:
        """Go back to the snapshot before a run, if nothing else was committed since; returns that snapshot."""
        record = self._run(run_id, table)
        spark_catalog = self._catalog_with(table)
        from icepact.maintain.aftercare import take_back

        return take_back(spark_catalog, record, self.store)

    def learned(self, table: str) -> "Lessons":
        """What earlier runs taught about a table, as strategy `auto` uses it; does not start Spark."""
        from icepact.maintain.inspect import lessons_of

        self._refuse_missing(table)
        return lessons_of(self.store, self.catalog.recorded_as, self._full_name(table), datetime.now(UTC))

    def forget_lessons(self, table: str) -> None:
        """Forget what earlier runs taught about a table: `auto` begins anew with the analytic model."""
        self._refuse_missing(table)
        self.store.forget_lessons(self.catalog.recorded_as, self._full_name(table))

    def unblock(self, table: str) -> int:
        """Forget what failed on a table, and return how many failures that were: groups that were set aside are tried
        again, and a pause or stop ends."""
        from icepact.record.pauses import forget_pause

        name = self._full_name(table)
        forget_pause(self.store, self.catalog.recorded_as, name)
        return self.store.forget_failures(self._catalog_with(name).table(name).uuid)

    # -- names ------------------------------------------------------------------------------------

    def _full_name(self, table: str) -> str:
        return show_name(table_parts(table, self.catalog.name, self._namespace))

    def _run(self, run_id: str, table: str | None = None) -> "RunRecord":
        record = self.store.run(run_id)
        if record is None or record.catalog not in (self.catalog.recorded_as, self.catalog.name):
            catalog = self.catalog.recorded_as
            raise BadInput(f"there is no run {run_id} on catalog {catalog}: `icepact runs` lists them")
        if table is not None and record.table != self._full_name(table):
            raise BadInput(f"run {run_id} was on {record.table}, not on {table}")
        return record

    def _unmatched(self, tables: Sequence[str]) -> Sequence[Rule]:
        return unmatched(self.policies, self.catalog.name, [parse_levels(name) for name in tables])

    def _open(self, table: tuple[str, ...] | None = None) -> "SparkCatalog":
        """The opened catalog. What is known about the table that it is opened for may speed up the start."""
        if self._opened is None:
            self._opened = self._open_catalog(table)
        return self._opened

    def _catalog_with(self, table: str) -> "SparkCatalog":
        """The opened catalog, unless it is clear without Spark that the table is not there."""
        self._refuse_missing(table)
        spark_catalog = self._open(table_parts(table, self.catalog.name, self._namespace))
        if self.catalog.location is not None:
            from icepact.maintain.aftercare import take_over_history

            take_over_history(spark_catalog, self.store, self._full_name(table))
        return spark_catalog

    def _refuse_missing(self, table: str) -> None:
        """Raise TableNotFound if it is clear without Spark that the table is not there."""
        parts = table_parts(table, self.catalog.name, self._namespace)
        if self.absent is not None:
            raise TableNotFound(f"no table {show_name(parts)}: {self.absent}")
        if self._opened is None and self.catalog.embedded is not None and not embedded_has(self.catalog, parts):
            taken = "; names without a namespace are taken to be there, --namespace names another"
            raise TableNotFound(
                f"no table {show_name(parts)} in the warehouse {self.catalog.embedded}"
                f"{taken if parts[:-1] == self._namespace else ''}: `icepact tables` lists what is there"
            )
