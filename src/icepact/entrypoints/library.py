"""The library: `from icepact import Compactor`."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, wraps
from importlib import import_module
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from threading import Thread
from types import FunctionType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from icepact.entrypoints.outputs import file_to_write, write_file
from icepact.entrypoints.wiring import (
    catalog_of,
    load_config,
    policies_of,
    read_text,
    refuse_other_catalogs,
    spark_settings,
    store_of,
)
from icepact.iceberg.catalogs import embedded_exists, embedded_has
from icepact.iceberg.names import parse_levels, show_name, table_parts
from icepact.model.budget import fleet_limits
from icepact.model.config import Catalog
from icepact.model.errors import BadInput, IcepactError, TableNotFound
from icepact.model.patterns import parse_pattern
from icepact.model.policies import unmatched
from icepact.model.policy import options
from icepact.model.progress import Progress, Silent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from icepact.iceberg.lake import Lake
    from icepact.maintain.means import Means
    from icepact.maintain.memory import Memory
    from icepact.model.costs import Costs
    from icepact.model.decision import Judgement
    from icepact.model.fleet import Fleet, Round, Visit
    from icepact.model.health import Health
    from icepact.model.lessons import Lessons
    from icepact.model.outcome import Outcome
    from icepact.model.plan import Plan
    from icepact.model.policies import Policies, Rule, TablePolicy
    from icepact.model.recovery import Checked, Swept
    from icepact.model.run import RunRecord
    from icepact.model.saved import SavedPlan
    from icepact.plan.strategies.table import Choose
    from icepact.record.store import RecordStore


_LOOKING = ("icepact.record.sql", "icepact.maintain.looking", "numpy.ma")
_APPLYING = ("icepact.maintain.applying",)
"""What is needed next, and loaded while Java starts."""
C = TypeVar("C", bound=type)
P = ParamSpec("P")
R = TypeVar("R")


def _in_own_words(cls: C) -> C:
    """What Java or Spark raises leaves the public part of a class as one of icepact's errors, in one line."""
    for name, found in list(vars(cls).items()):
        if isinstance(found, FunctionType) and (name == "__init__" or not name.startswith("_")):
            setattr(cls, name, _translated(found))
        elif isinstance(found, property) and found.fget is not None:
            setattr(cls, name, property(_translated(found.fget), doc=found.__doc__))
    return cls


def _translated(method: Callable[P, R]) -> Callable[P, R]:
    @wraps(method)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except IcepactError:
            raise
        except Exception as error:
            from icepact.iceberg.java import as_ours  # brings Spark along

            catalog = getattr(args[0], "_catalog", None)
            ours = as_ours(error, catalog.properties.get("warehouse") if catalog else None)
            if ours is None:
                raise
            raise ours from None

    return called


def _load_beside(*modules: str) -> Thread:
    """Load modules in a thread of their own. What fails is raised by whoever needs it, when it is loaded again."""

    def load() -> None:
        with suppress(Exception):
            for name in modules:
                import_module(name)

    thread = Thread(target=load, name="icepact-loading", daemon=True)
    thread.start()
    return thread


@_in_own_words
class Compactor:
    """Finds what is worth compacting in the tables of one catalog, and compacts it.

    With nothing given it works on the embedded catalog under `./icepact-warehouse`. Options of `plan` and
    `compact` have the names of the command line's, with underscores.
    """

    def __init__(
        self,
        *,
        spark: "SparkSession | None" = None,
        catalog: str | None = None,
        catalog_uri: str | None = None,
        catalog_type: str | None = None,
        catalog_properties: Mapping[str, str] | None = None,
        warehouse: str | PathLike[str] | None = None,
        namespace: str | None = None,
        config: str | PathLike[str] | None = None,
        policies: str | PathLike[str] | None = None,
        verbose: bool = False,
        short: bool = False,
        strategies: "Mapping[str, Choose] | None" = None,
    ) -> None:
        for name, choose in (strategies or {}).items():
            from icepact.plan.strategies.table import register

            register(name, choose)
        flags = {
            "catalog": catalog,
            "catalog_uri": catalog_uri,
            "catalog_type": catalog_type,
            "catalog_properties": catalog_properties,
            "warehouse": None if warehouse is None else str(warehouse),
            "namespace": namespace,
            "policies": None if policies is None else str(policies),
        }
        self._config = load_config(None if config is None else str(config), flags)
        self._policies = policies_of(self._config)
        self._adopted = spark
        self._verbose = verbose
        self._short = short
        self._namespace = parse_levels(self._config.namespace)
        if spark is None:
            self._catalog = catalog_of(self._config, self._policies)
        else:
            self._catalog = _adopted_catalog(spark, catalog)
            refuse_other_catalogs(self._catalog, self._policies)
        self._opened: Lake | None = None

    # -- use --------------------------------------------------------------------------------------

    def health(
        self,
        table: str,
        *,
        target_file_size: str | int | None = None,
        min_file_size: str | int | None = None,
        branch: str | None = None,
        snapshot_id: int | str | None = None,
        priority_weights: str | Sequence[float] | None = None,
    ) -> "Health":
        """How a table is doing; nothing is written."""
        from icepact.maintain.looking import health

        name = self._named(table)
        given = {"target_file_size": target_file_size, "min_file_size": min_file_size, "branch": branch}
        request = options({**given, "snapshot_id": snapshot_id, "priority_weights": priority_weights})
        return health(self._means(name), name, request)

    def plan(self, table: str, **given: Any) -> "Plan":
        """What would be rewritten, and why everything else is left alone; nothing is written."""
        from icepact.maintain.looking import plan

        request, name = options(given), self._named(table)
        return plan(self._means(name), name, request)

    def judge(self, table: str, **given: Any) -> "Judgement":
        """Which partitions are worth compacting, with gain and price; no file is listed, nothing is written."""
        from icepact.maintain.looking import look

        request = options(given)
        if request.where is not None:
            raise BadInput("where: only `plan` knows which files have rows that match")
        name = self._named(table)
        return look(self._means(name), name, request)

    def apply(self, plan: "Plan | SavedPlan", *, progress: Progress | None = None) -> "Outcome":
        """Carry out a plan. Of a saved one, groups with inputs that changed since are refused."""
        from icepact.maintain.applying import apply
        from icepact.maintain.saved import apply_saved
        from icepact.model.saved import SavedPlan

        if isinstance(plan, SavedPlan):
            return apply_saved(self._means(plan.plan.table), plan, progress or Silent())
        return apply(self._lake, plan, self._store, progress or Silent())

    def save_plan(self, plan: "Plan", path: str | PathLike[str]) -> None:
        """Write a plan into a file, whole or not at all; one that is there already is overwritten."""
        from icepact.model.saved import SavedPlan, saved_text

        saved = SavedPlan(plan=plan, made_at=datetime.now(UTC), icepact=version("icepact"))
        write_file(file_to_write(path), saved_text(saved))

    def load_plan(self, path: str | PathLike[str]) -> "SavedPlan":
        """A plan from a file, for `apply`."""
        from icepact.model.saved import parse_saved

        return parse_saved(read_text(Path(path), "plan"), str(path))

    def compact(self, table: str, *, progress: Progress | None = None, **given: Any) -> "Outcome":
        """Plan and carry out in one; a run on this table that died is carried on with first. If that left nothing to
        do, the answer is its outcome."""
        options(given)  # what is wrong with them is said before anything is done
        resumed = self.resume_dead(table, progress=progress, **given)
        plan = self.plan(table, **given)
        if resumed is not None and not plan.steps:
            return resumed
        return replace(self.apply(plan, progress=progress), resumed=resumed)

    # -- policies ---------------------------------------------------------------------------------

    def policy(self, table: str, **given: Any) -> "TablePolicy":
        """What holds for a table, and where each value came from; nothing is written."""
        from icepact.maintain.looking import settled

        request, name = options(given), self._named(table)
        return settled(self._lake_for(name), name, request, self._policies)[1]

    def unmatched(self) -> "Sequence[Rule]":
        """Rules of the policy file that match no table of the catalog."""
        return self._unmatched(self.tables())

    def _unmatched(self, tables: Sequence[str]) -> "Sequence[Rule]":
        return unmatched(self._policies, self._catalog.name, [parse_levels(name) for name in tables])

    # -- fleet ------------------------------------------------------------------------------------

    def fleet(
        self,
        pattern: str | None = None,
        *,
        by: str = "worth",
        max_cost: float | None = None,
        max_bytes: str | int | None = None,
        max_files: int | None = None,
        told: Callable[[str, int], None] | None = None,
    ) -> "Fleet":
        """Rank the tables of the catalog, or those that a pattern means, and choose within a budget for all of them.

        `told` is called before each look, with the table's name and how many there are. Nothing is written.
        """
        from icepact.model.fleet import Fleet, rank_by

        meant = None if pattern is None else parse_pattern(pattern)
        wanted = options({"max_cost": max_cost, "max_bytes": max_bytes, "max_files": max_files})
        limits = fleet_limits(wanted, self._config.prices.currency)
        order = rank_by(by)
        everything = self.tables()
        names = [n for n in everything if meant is None or meant.matches(self._catalog.name, parse_levels(n))]
        warnings = [f"{rule.place}: {rule.pattern.text} matches no table" for rule in self._unmatched(everything)]
        if meant is not None and not names:
            warnings.append(f"{meant.text} matches no table")
        if self.absent is not None:
            warnings.insert(0, self.absent)
        if not names:
            return Fleet(tables=(), budget=limits, warnings=warnings)
        from icepact.maintain.fleet import look_around

        def tell(name: str) -> None:
            if told is not None:
                told(name, len(names))

        found = look_around(self._means_of(self._lake), names, by=order, limits=limits, told=tell)
        return replace(found, warnings=warnings)

    def run(
        self,
        pattern: str | None = None,
        *,
        fleet: "Fleet | None" = None,
        dry_run: bool = False,
        told: Callable[[str], None] | None = None,
        visited: Callable[["Visit"], None] | None = None,
        **budget: Any,
    ) -> "Round":
        """One round over the fleet: each table in the order of the ranking is carried on with if a run died over it,
        planned and compacted, within its own budgets and one for all of them.

        `fleet` is a ranking that was made before. `told` is called before each table, `visited` after it.
        """
        from icepact.model.fleet import Round

        found = self.fleet(pattern, **budget) if fleet is None else fleet
        visits: list[Visit] = []
        if found.tables or found.failed:
            from icepact.maintain.fleet import go_round

            for visit in go_round(self._means_of(self._lake), found, dry_run=dry_run, told=told or _quiet):
                visits.append(visit)
                if visited is not None:
                    visited(visit)
        return Round(visits=visits, dry_run=dry_run, warnings=found.warnings)

    # -- runs -------------------------------------------------------------------------------------

    def runs(self, table: str | None = None, *, limit: int = 100, open_only: bool = False) -> "Sequence[RunRecord]":
        """Runs, newest first."""
        name = None if table is None else self._named(table)
        return self._store.runs(catalog=self._catalog.recorded_as, table=name, limit=limit, open_only=open_only)

    def why_dead(self, run: "RunRecord") -> str | None:
        """Why nobody works on a run any more that has not ended; null if somebody may, or if it has ended."""
        from icepact.record.liveness import dead

        return dead(run, self._store) if run.status.open else None

    def costs(self, table: str | None = None, *, limit: int = 100) -> "Sequence[Costs]":
        """What the newest runs cost, next to what was predicted, for each table and method."""
        from icepact.model.costs import costs_of

        name = None if table is None else self._named(table)
        runs = self._store.runs(catalog=self._catalog.recorded_as, table=name, limit=limit, worked_only=True)
        return costs_of(run.outcome for run in runs if run.outcome)

    def resume(self, run_id: str, *, progress: Progress | None = None) -> "Outcome":
        """Carry on with a run whose process died; finished units are not done again."""
        from icepact.maintain.applying import resume

        record = self._run(run_id)
        if record.cancel_asked and record.status.open:
            raise BadInput(f"run {run_id} was cancelled: `icepact cleanup` ends it and deletes what it left")
        return resume(self._lake_for(record.table), record, self._store, progress or Silent())

    def resume_dead(self, table: str, *, progress: Progress | None = None, **given: Any) -> "Outcome | None":
        """Carry on with the newest run on a table that died, if there is one, and the table is not left alone."""
        names, named = {self._catalog.recorded_as, self._catalog.name}, self._named(table)
        if not any(self._store.runs(catalog=name, table=named, limit=1, open_only=True) for name in names):
            return None
        policy = self.policy(table, **given).policy
        if policy.off is not None:
            return None
        from icepact.maintain.recovery import resume_dead

        return resume_dead(self._lake_for(table), self._named(table), self._store, progress or Silent(), policy)

    def cancel(self, run_id: str) -> str:
        """Ask a run to stop; says what will happen."""
        from icepact.maintain.recovery import cancel

        return cancel(self._run(run_id), self._store)

    def cleanup(
        self, table: str | None = None, *, delete: bool = False, task_timeout: timedelta | None = None
    ) -> "Sequence[Swept]":
        """What dead runs left behind; it is deleted only if asked for."""
        from icepact.maintain.recovery import TASK_TIMEOUT, clean_up

        return clean_up(
            self._lake if table is None else self._lake_for(table),
            self._store,
            table=None if table is None else self._named(table),
            delete=delete,
            task_timeout=TASK_TIMEOUT if task_timeout is None else task_timeout,
        )

    def verify(self, table: str, run_id: str) -> "Sequence[Checked]":
        """Compare once more, for every commit of a run, what readers see before and after it."""
        from icepact.maintain.recovery import verify

        record = self._run(run_id, table)
        return verify(self._lake_for(table), record)

    def rollback(self, table: str, run_id: str) -> int:
        """Go back to the snapshot before a run, if nothing else was committed since."""
        from icepact.maintain.recovery import take_back

        record = self._run(run_id, table)
        return take_back(self._lake_for(table), record, self._store)

    def learned(self, table: str) -> "Lessons":
        """What earlier runs taught about a table, as strategy `auto` uses it; does not start Spark."""
        from icepact.maintain.learned import lessons_of

        self._refuse_missing(table)
        return lessons_of(self._store, self._catalog.recorded_as, self._named(table), datetime.now(UTC))

    def forget_lessons(self, table: str) -> None:
        """Forget what earlier runs taught about a table: `auto` begins anew with the analytic model."""
        self._refuse_missing(table)
        self._store.forget_lessons(self._catalog.recorded_as, self._named(table))

    def forgive(self, table: str) -> int:
        """Forget what failed on a table: groups that were set aside are tried again, a pause ends."""
        name = self._named(table)
        return self._store.forgive(self._lake_for(name).table(name).uuid)

    def _run(self, run_id: str, table: str | None = None) -> "RunRecord":
        record = self._store.run(run_id)
        if record is None or record.catalog not in (self._catalog.recorded_as, self._catalog.name):
            catalog = self._catalog.recorded_as
            raise BadInput(f"there is no run {run_id} on catalog {catalog}: `icepact runs` lists them")
        if table is not None and record.table != self._named(table):
            raise BadInput(f"run {run_id} was on {record.table}, not on {table}")
        return record

    def _named(self, table: str) -> str:
        """The table's whole name."""
        return show_name(table_parts(table, self._catalog.name, self._namespace))

    # -- more -------------------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """Every table of the catalog."""
        if self._opened is None and self._catalog.embedded is not None and not embedded_exists(self._catalog):
            return []
        return self._lake.tables()

    @property
    def absent(self) -> str | None:
        """Why there cannot be any tables: the embedded warehouse is not there; null if it is, or if it is another's."""
        folder = self._catalog.embedded
        if self._opened is not None or folder is None or embedded_exists(self._catalog):
            return None
        what = f"{folder} has no catalog in it" if folder.is_dir() else f"there is no folder {folder}"
        return f"{what}: --warehouse names another warehouse, and the first table makes this one"

    @property
    def spark(self) -> "SparkSession":
        """The Spark session in use; started on first use."""
        return self._lake.session

    @property
    def catalog(self) -> Catalog:
        """The catalog in use."""
        return self._catalog

    @property
    def policies(self) -> "Policies":
        """What the policy file and the configuration wish for."""
        return self._policies

    # -- wiring -----------------------------------------------------------------------------------

    @cached_property
    def _store(self) -> "RecordStore":
        return store_of(self._config, self._catalog)

    @cached_property
    def _memory(self) -> "Memory":
        from icepact.maintain.memory import Memory

        return Memory()

    @property
    def _lake(self) -> "Lake":
        if self._opened is None:
            from icepact.iceberg.lake import Lake

            if self._adopted is not None:
                self._opened = Lake.adopt(self._adopted, self._catalog.name)
            else:
                loading = _load_beside(*_LOOKING, *(() if self._short else _APPLYING))
                self._opened = Lake.open(
                    self._catalog, spark_settings(self._config), verbose=self._verbose, short=self._short
                )
                loading.join()
                if not self._short:
                    from icepact.execute.rewriters.job import start_workers

                    start_workers(self._opened.session.sparkContext)
        return self._opened

    def _means(self, table: str) -> "Means":
        return self._means_of(self._lake_for(table))

    def _means_of(self, lake: "Lake") -> "Means":
        from icepact.maintain.means import Means

        return Means(
            lake=lake,
            store=self._store,
            memory=self._memory,
            policies=self._policies,
            budgets=self._config.budgets,
            prices=self._config.prices,
        )

    def _lake_for(self, table: str) -> "Lake":
        """The lake, unless it is clear without Spark that the table is not there."""
        self._refuse_missing(table)
        if self._catalog.place is not None:
            from icepact.maintain.recovery import take_over_history

            take_over_history(self._lake, self._store, self._named(table))
        return self._lake

    def _refuse_missing(self, table: str) -> None:
        """TableNotFound, if it is clear without Spark."""
        parts = table_parts(table, self._catalog.name, self._namespace)
        if self.absent is not None:
            raise TableNotFound(f"no table {show_name(parts)}: {self.absent}")
        if self._opened is None and self._catalog.embedded is not None and not embedded_has(self._catalog, parts):
            taken = "; names without a namespace are taken to be there, --namespace names another"
            raise TableNotFound(
                f"no table {show_name(parts)} in the warehouse {self._catalog.embedded}"
                f"{taken if parts[:-1] == self._namespace else ''}: `icepact tables` lists what is there"
            )


def _quiet(name: str) -> None:
    """Nobody wants to know which table is next."""


def _adopted_catalog(spark: "SparkSession", name: str | None) -> Catalog:
    from icepact.iceberg.lake import catalog_settings, current_catalog

    name = name or current_catalog(spark)
    return Catalog(name=name, properties=catalog_settings(spark, name))
