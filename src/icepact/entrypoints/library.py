"""The library: `from icepact import Compactor`."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from os import PathLike
from typing import TYPE_CHECKING, Any

from icepact.app import Application
from icepact.entrypoints.plan_files import load_plan, save_plan
from icepact.entrypoints.wiring import build_application
from icepact.model.progress import Progress
from icepact.policy.config import Catalog
from icepact.policy.options import Options, options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from icepact.economics.lessons import Lessons
    from icepact.economics.report import Costs
    from icepact.model.decision import TableDecisions
    from icepact.model.fleet import Fleet, Round, Visit
    from icepact.model.health import Health
    from icepact.model.outcome import Outcome
    from icepact.model.plan import Plan
    from icepact.model.recovery import CleanupResult, VerifyResult
    from icepact.model.run import RunRecord
    from icepact.model.saved import SavedPlan
    from icepact.plan.strategies.table import SelectFiles
    from icepact.policy.layers import Policies, Rule, TablePolicy


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
        strategies: "Mapping[str, SelectFiles] | None" = None,
    ) -> None:
        self._application = build_application(
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
        compactor._application = application
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
        return self._application.health(table, request)

    def plan(self, table: str, **given: Any) -> "Plan":
        """What would be rewritten, and why everything else is left alone; nothing is written."""
        return self._application.plan(table, self._request(**given))

    def judge(self, table: str, **given: Any) -> "TableDecisions":
        """Which partitions are worth compacting, with gain and price; no file is listed, nothing is written."""
        return self._application.decisions(table, self._request(**given))

    def apply(self, plan: "Plan | SavedPlan", *, progress: Progress | None = None) -> "Outcome":
        """Carry out a plan. Of a saved one, groups with inputs that changed since are refused."""
        return self._application.apply(plan, progress=progress)

    def save_plan(self, plan: "Plan", path: str | PathLike[str]) -> None:
        """Write a plan into a file, whole or not at all; one that is there already is overwritten."""
        save_plan(plan, path)

    def load_plan(self, path: str | PathLike[str]) -> "SavedPlan":
        """A plan from a file, for `apply`."""
        return load_plan(path)

    def compact(self, table: str, *, progress: Progress | None = None, **given: Any) -> "Outcome":
        """Plan and carry out in one; a run on this table that died is carried on with first. If that left nothing to
        do, the answer is its outcome."""
        return self._application.compact(table, self._request(**given), progress=progress)

    # -- policies ---------------------------------------------------------------------------------

    def policy(self, table: str, **given: Any) -> "TablePolicy":
        """What holds for a table, and where each value came from; nothing is written."""
        return self._application.policy(table, self._request(**given))

    def unmatched(self) -> "Sequence[Rule]":
        """Rules of the policy file that match no table of the catalog."""
        return self._application.unmatched()

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
        return self._application.fleet(pattern, budget, by=by, on_table=on_table)

    def fleet_run(
        self,
        pattern: str | None = None,
        *,
        fleet: "Fleet | None" = None,
        dry_run: bool = False,
        on_table: Callable[[str], None] | None = None,
        on_visit: "Callable[[Visit], None] | None" = None,
        **budget: Any,
    ) -> "Round":
        """Do one round over the fleet: for each table, in the order of the ranking, a run that died is resumed, and the
        table is planned and compacted, within its own budgets and one for all of them.

        `fleet` is a ranking that was made before. `on_table` is called before each table, `on_visit` after it.
        """
        found = self.fleet(pattern, **budget) if fleet is None else fleet
        return self._application.fleet_run(found, dry_run=dry_run, on_table=on_table, on_visit=on_visit)

    # -- runs -------------------------------------------------------------------------------------

    def runs(self, table: str | None = None, *, limit: int = 100, open_only: bool = False) -> "Sequence[RunRecord]":
        """Runs, newest first."""
        return self._application.runs(table, limit=limit, open_only=open_only)

    def why_dead(self, run: "RunRecord") -> str | None:
        """Why nobody works on a run any more that has not ended; `None` if somebody may, or if it has ended."""
        return self._application.why_dead(run)

    def costs(self, table: str | None = None, *, limit: int = 100) -> "Sequence[Costs]":
        """What the newest runs cost, next to what was predicted, for each table and method."""
        return self._application.costs(table, limit=limit)

    def resume(self, run_id: str, *, progress: Progress | None = None) -> "Outcome":
        """Carry on with a run whose process died; finished units are not done again."""
        return self._application.resume(run_id, progress=progress)

    def resume_dead(self, table: str, *, progress: Progress | None = None, **given: Any) -> "Outcome | None":
        """Carry on with the newest run on a table that died, if there is one, and the table is not left alone."""
        return self._application.resume_dead(table, self._request(**given), progress=progress)

    def cancel(self, run_id: str) -> str:
        """Ask a run to stop; says what will happen."""
        return self._application.cancel(run_id)

    def cleanup(
        self, table: str | None = None, *, delete: bool = False, task_timeout: timedelta | None = None
    ) -> "Sequence[CleanupResult]":
        """What dead runs left behind; it is deleted only if asked for."""
        return self._application.clean_up(table, delete=delete, task_timeout=task_timeout)

    def verify(self, table: str, run_id: str) -> "Sequence[VerifyResult]":
        """Compare once more, for every commit of a run, what readers see before and after it."""
        return self._application.verify(table, run_id)

    def rollback(self, table: str, run_id: str) -> int:
        """Go back to the snapshot before a run, if nothing else was committed since."""
        return self._application.roll_back(table, run_id)

    def learned(self, table: str) -> "Lessons":
        """What earlier runs taught about a table, as strategy `auto` uses it; does not start Spark."""
        return self._application.learned(table)

    def forget_lessons(self, table: str) -> None:
        """Forget what earlier runs taught about a table: `auto` begins anew with the analytic model."""
        self._application.forget_lessons(table)

    def unblock(self, table: str) -> int:
        """Forget what failed on a table, and return how many failures that were: groups that were set aside are tried
        again, and a pause or stop ends."""
        return self._application.unblock(table)

    # -- more -------------------------------------------------------------------------------------

    def tables(self) -> list[str]:
        """Every table of the catalog."""
        return self._application.tables()

    @property
    def absent(self) -> str | None:
        """Why there cannot be any tables: the embedded warehouse is not there. `None` if it is, or if the catalog is no
        embedded one."""
        return self._application.absent

    @property
    def spark(self) -> "SparkSession":
        """The Spark session in use; started on first use."""
        return self._application.spark

    @property
    def catalog(self) -> Catalog:
        """The catalog in use."""
        return self._application.catalog

    @property
    def policies(self) -> "Policies":
        """The rules of the policy file, and the options of the configuration."""
        return self._application.policies

    @property
    def application(self) -> Application:
        """What does the work: the catalog, the record store, and every use case."""
        return self._application

    def _request(self, **given: Any) -> Options:
        """Options of a request, or one line that says what is wrong with them."""
        return options(given, strategies=self._application.policies.strategies)
