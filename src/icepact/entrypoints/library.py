"""The library: `from icepact import Compactor`."""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from os import PathLike
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from icepact.app import Application
from icepact.entrypoints.plan_files import load_plan, save_plan
from icepact.entrypoints.wiring import build_application
from icepact.model.progress import Progress
from icepact.policy.config import Catalog
from icepact.policy.options import Options, options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from icepact.model.decision import TableDecisions
    from icepact.model.fleet import Fleet, Round, Visit
    from icepact.model.health import Health
    from icepact.model.maintenance import MaintenanceOutcome
    from icepact.model.outcome import Outcome
    from icepact.model.plan import Plan
    from icepact.plan.strategies.table import SelectFiles
    from icepact.policy.layers import Policies, TablePolicy

P = ParamSpec("P")
R = TypeVar("R")


def _of_application(use_case: Callable[Concatenate[Application, P], R]) -> "Callable[Concatenate[Compactor, P], R]":
    """A method of the compactor that is a use case of its application as it is."""

    @wraps(use_case)
    def method(self: "Compactor", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return use_case(self.application, *args, **kwargs)

    return method


class Compactor:
    """Finds what is worth compacting in the tables of one catalog, and compacts it.

    With nothing given it works on the embedded catalog under `./icepact-warehouse`. Options of `plan` and
    `compact` have the names of the command line's, with underscores.
    """

    application: Application
    """What does the work: the catalog, the record store, and every use case."""

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
        strategies: "Mapping[str, SelectFiles] | None" = None,
    ) -> None:
        self.application = build_application(
            spark=spark,
            catalog=catalog,
            catalog_uri=catalog_uri,
            catalog_type=catalog_type,
            catalog_properties=catalog_properties,
            warehouse=warehouse,
            namespace=namespace,
            config=config,
            policies=policies,
            verbose=verbose,
            strategies=strategies,
        )

    @classmethod
    def of(cls, application: Application) -> "Compactor":
        """A compactor in front of an application that was made elsewhere."""
        compactor = cls.__new__(cls)
        compactor.application = application
        return compactor

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
        request = self._request(
            target_file_size=target_file_size,
            min_file_size=min_file_size,
            branch=branch,
            snapshot_id=snapshot_id,
            priority_weights=priority_weights,
        )
        return self.application.health(table, request)

    def plan(self, table: str, **given: Any) -> "Plan":
        """What would be rewritten, and why everything else is left alone; nothing is written."""
        return self.application.plan(table, self._request(**given))

    def judge(self, table: str, **given: Any) -> "TableDecisions":
        """Which partitions are worth compacting, with gain and price; no file is listed, nothing is written."""
        return self.application.decisions(table, self._request(**given))

    apply = _of_application(Application.apply)
    save_plan = staticmethod(save_plan)
    load_plan = staticmethod(load_plan)

    def compact(self, table: str, *, progress: Progress | None = None, **given: Any) -> "Outcome":
        """Plan and carry out in one; a run on this table that died is carried on with first. If that left nothing to
        do, the answer is its outcome."""
        return self.application.compact(table, self._request(**given), progress=progress)

    # -- housekeeping -----------------------------------------------------------------------------

    def expire(
        self,
        table: str,
        *,
        older_than: str | float | None = None,
        retain_last: int | None = None,
        allow_young: bool = False,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> "Outcome":
        """Expire snapshots above an age, but not the newest `retain_last` of a branch, and delete what only they need;
        what is not given is as the table or its policy says, or 5 days and 1. A dry run says what would go."""
        request = self._request(expire_older_than=older_than, expire_retain_last=retain_last)
        return self.application.expire(table, request, allow_young=allow_young, dry_run=dry_run, progress=progress)

    def orphans(
        self,
        table: str,
        *,
        older_than: str | float | None = None,
        exclude: Sequence[str] = (),
        allow_young: bool = False,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> "Outcome":
        """Delete files below a table's locations that nothing refers to and that are older than 3 days, or as its
        policy says, but for those in the folders to `exclude`. A dry run says what would go."""
        request = self._request(orphans_older_than=older_than)
        how: dict[str, Any] = {"allow_young": allow_young, "dry_run": dry_run, "progress": progress}
        return self.application.orphans(table, request, exclude=exclude, **how)

    def statistics(
        self,
        table: str,
        *,
        columns: Sequence[str] | None = None,
        stale_after: float | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> "Outcome":
        """Compute statistics of a table's columns, of all that can have some if none are named, and of its partitions,
        where they are stale: more than a share of the rows has changed since. A dry run says what would be done."""
        request = self._request(statistics_stale_after=stale_after)
        how: dict[str, Any] = {"dry_run": dry_run, "progress": progress}
        return self.application.statistics(table, request, columns=columns, **how)

    def deletes(
        self,
        table: str,
        *,
        branch: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> "Outcome":
        """Convert equality deletes of a table to deletion vectors or positions, merge the position deletes of each data
        file, and remove deletes that apply to nothing; no data is rewritten."""
        how: dict[str, Any] = {"dry_run": dry_run, "progress": progress}
        return self.application.deletes(table, self._request(branch=branch), **how)

    def manifests(self, table: str, *, dry_run: bool = False, progress: Progress | None = None) -> "Outcome":
        """Rewrite manifests of a table where it pays: many small ones, and those whose partitions are scattered."""
        how: dict[str, Any] = {"dry_run": dry_run, "progress": progress}
        return self.application.manifests(table, self._request(), **how)

    def ttl(
        self,
        table: str,
        *,
        column: str | None = None,
        keep: str | float | None = None,
        level: str | None = None,
        pattern: str | None = None,
        zone: str | None = None,
        since: str | None = None,
        rows: bool | None = None,
        branch: str | None = None,
        allow_young: bool = False,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> "Outcome":
        """Take whole partitions, or with `level="file"` single files, out of a table once all their rows are older
        than `keep` by the time in a column. With `rows`, old rows are deleted out of other files, too; else no row is
        rewritten. What is not given is as the policy says. A dry run tells the oldest and the newest value of what
        would go."""
        request = self._request(
            ttl_column=column,
            ttl_keep=keep,
            ttl_level=level,
            ttl_pattern=pattern,
            ttl_zone=zone,
            ttl_since=since,
            ttl_rows=rows,
            branch=branch,
        )
        how: dict[str, Any] = {"allow_young": allow_young, "dry_run": dry_run, "progress": progress}
        return self.application.ttl(table, request, **how)

    def tags(
        self,
        table: str,
        *,
        period: str | None = None,
        offset: str | float | None = None,
        max_delay: str | float | None = None,
        pattern: str | None = None,
        max_age: str | float | None = None,
        zone: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> "Outcome":
        """Make the hourly, daily or monthly tag that is due; a tag that there is, is never moved."""
        request = self._request(
            tag_period=period,
            tag_offset=offset,
            tag_max_delay=max_delay,
            tag_pattern=pattern,
            tag_max_age=max_age,
            tag_zone=zone,
        )
        how: dict[str, Any] = {"dry_run": dry_run, "progress": progress}
        return self.application.tags(table, request, **how)

    def maintain(
        self,
        table: str,
        *,
        exclude: Sequence[str] = (),
        dry_run: bool = False,
        progress: Progress | None = None,
        **given: Any,
    ) -> "MaintenanceOutcome":
        """Do what the policy of a table names as housekeeping, compaction included, where it is due; budgets hold over
        all of it. A dry run says what each operation would do."""
        return self.application.maintain(
            table, self._request(**given), exclude=exclude, dry_run=dry_run, progress=progress
        )

    # -- policies ---------------------------------------------------------------------------------

    def policy(self, table: str, **given: Any) -> "TablePolicy":
        """What holds for a table, and where each value came from; nothing is written."""
        return self.application.policy(table, self._request(**given))

    unmatched = _of_application(Application.unmatched)

    # -- fleet ------------------------------------------------------------------------------------

    def fleet(
        self,
        pattern: str | None = None,
        *,
        by: str = "worth",
        max_cost: float | None = None,
        max_bytes: str | int | None = None,
        max_files: int | None = None,
        on_table: Callable[[str, int], None] | None = None,
    ) -> "Fleet":
        """Rank the tables of the catalog, or those that a pattern means, and choose within a budget for all of them.

        `on_table` is called before each table is inspected, with its name and how many there are. Nothing is written.
        """
        budget = self._request(max_cost=max_cost, max_bytes=max_bytes, max_files=max_files)
        return self.application.fleet(pattern, budget, by=by, on_table=on_table)

    def fleet_run(
        self,
        pattern: str | None = None,
        *,
        fleet: "Fleet | None" = None,
        dry_run: bool = False,
        maintain: bool = False,
        on_table: Callable[[str], None] | None = None,
        on_visit: "Callable[[Visit], None] | None" = None,
        **budget: Any,
    ) -> "Round":
        """Do one round over the fleet: for each table, in the order of the ranking, a run that died is resumed, and the
        table is planned and compacted, within its own budgets and one for all of them.

        With `maintain`, all else that its policy names is done with each table, too. `fleet` is a ranking that was
        made before. `on_table` is called before each table, `on_visit` after it.
        """
        found = self.fleet(pattern, **budget) if fleet is None else fleet
        return self.application.fleet_run(
            found, dry_run=dry_run, maintain=maintain, on_table=on_table, on_visit=on_visit
        )

    # -- runs -------------------------------------------------------------------------------------

    runs = _of_application(Application.runs)
    why_dead = _of_application(Application.why_dead)
    costs = _of_application(Application.costs)
    resume = _of_application(Application.resume)
    cancel = _of_application(Application.cancel)
    cleanup = _of_application(Application.clean_up)
    verify = _of_application(Application.verify)
    rollback = _of_application(Application.roll_back)
    learned = _of_application(Application.learned)
    forget_lessons = _of_application(Application.forget_lessons)
    unblock = _of_application(Application.unblock)

    def resume_dead(self, table: str, *, progress: Progress | None = None, **given: Any) -> "Outcome | None":
        """Carry on with the newest run on a table that died, if there is one, and the table is not left alone."""
        return self.application.resume_dead(table, self._request(**given), progress=progress)

    # -- more -------------------------------------------------------------------------------------

    tables = _of_application(Application.tables)

    @property
    def absent(self) -> str | None:
        """Why there cannot be any tables: the embedded warehouse is not there. `None` if it is, or if the catalog is no
        embedded one."""
        return self.application.absent

    @property
    def spark(self) -> "SparkSession":
        """The Spark session in use; started on first use."""
        return self.application.spark

    @property
    def catalog(self) -> Catalog:
        """The catalog in use."""
        return self.application.catalog

    @property
    def policies(self) -> "Policies":
        """The rules of the policy file, and the options of the configuration."""
        return self.application.policies

    def _request(self, **given: Any) -> Options:
        """Options of a request, or one line that says what is wrong with them."""
        return options(given, strategies=self.application.policies.strategies)
