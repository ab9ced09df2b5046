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
        on_table: Callable[[str], None] | None = None,
        on_visit: "Callable[[Visit], None] | None" = None,
        **budget: Any,
    ) -> "Round":
        """Do one round over the fleet: for each table, in the order of the ranking, a run that died is resumed, and the
        table is planned and compacted, within its own budgets and one for all of them.

        `fleet` is a ranking that was made before. `on_table` is called before each table, `on_visit` after it.
        """
        found = self.fleet(pattern, **budget) if fleet is None else fleet
        return self.application.fleet_run(found, dry_run=dry_run, on_table=on_table, on_visit=on_visit)

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
