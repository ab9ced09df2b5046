"""The library: `from icepact import Compactor`."""

from collections.abc import Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from icepact.entrypoints.wiring import catalog_of, load_config, spark_settings, store_of
from icepact.iceberg.catalogs import embedded_exists, embedded_has
from icepact.iceberg.names import show_name, table_parts
from icepact.model.config import Catalog
from icepact.model.errors import TableNotFound
from icepact.model.policy import Options, options
from icepact.model.progress import Progress, Silent

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from icepact.iceberg.lake import Lake
    from icepact.model.health import Health
    from icepact.model.outcome import Outcome, RunRecord
    from icepact.model.plan import Plan


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
        warehouse: str | PathLike[str] | None = None,
        config: str | PathLike[str] | None = None,
        verbose: bool = False,
        short: bool = False,
    ) -> None:
        flags = {
            "catalog": catalog,
            "catalog_uri": catalog_uri,
            "catalog_type": catalog_type,
            "warehouse": None if warehouse is None else str(warehouse),
        }
        self._config = load_config(None if config is None else str(config), flags)
        self._adopted = spark
        self._verbose = verbose
        self._short = short
        self._catalog = catalog_of(self._config) if spark is None else _adopted_catalog(spark, catalog)
        self._store = store_of(self._config, self._catalog)
        self._opened: Lake | None = None

    # -- use --------------------------------------------------------------------------------------

    def health(
        self,
        table: str,
        *,
        target_file_size: str | int | None = None,
        min_file_size: str | int | None = None,
        branch: str | None = None,
    ) -> "Health":
        """How a table is doing; nothing is written."""
        from icepact import maintain

        given = {"target_file_size": target_file_size, "min_file_size": min_file_size, "branch": branch}
        request = options(given)
        return maintain.look(self._lake_for(table), table, request, self._policy)

    def plan(self, table: str, **given: Any) -> "Plan":
        """What would be rewritten, and why everything else is left alone; nothing is written."""
        from icepact import maintain

        request = options(given)
        return maintain.plan(self._lake_for(table), table, request, self._policy, self._store)

    def apply(self, plan: "Plan", *, progress: Progress | None = None) -> "Outcome":
        """Carry out a plan."""
        from icepact import maintain

        return maintain.apply(self._lake, plan, self._store, progress or Silent())

    def compact(self, table: str, *, progress: Progress | None = None, **given: Any) -> "Outcome":
        """Plan and carry out in one."""
        return self.apply(self.plan(table, **given), progress=progress)

    def tables(self) -> list[str]:
        """Every table of the catalog."""
        if self._opened is None and self._catalog.embedded is not None and not embedded_exists(self._catalog):
            return []
        return self._lake.tables()

    def history(self, table: str | None = None, *, limit: int = 100) -> "Sequence[RunRecord]":
        """Past runs, newest first."""
        name = None if table is None else show_name(table_parts(table, self._catalog.name))
        return self._store.runs(catalog=self._catalog.name, table=name, limit=limit)

    @property
    def spark(self) -> "SparkSession":
        """The Spark session in use; started on first use."""
        return self._lake.session

    @property
    def catalog(self) -> Catalog:
        """The catalog in use."""
        return self._catalog

    # -- wiring -----------------------------------------------------------------------------------

    @property
    def _policy(self) -> Options:
        return self._config.policy

    @property
    def _lake(self) -> "Lake":
        if self._opened is None:
            from icepact.iceberg.lake import Lake

            if self._adopted is not None:
                self._opened = Lake.adopt(self._adopted, self._catalog.name)
            else:
                self._opened = Lake.open(
                    self._catalog, spark_settings(self._config), verbose=self._verbose, short=self._short
                )
        return self._opened

    def _lake_for(self, table: str) -> "Lake":
        """The lake, unless it is clear without Spark that the table is not there."""
        parts = table_parts(table, self._catalog.name)
        if self._opened is None and self._catalog.embedded is not None and not embedded_has(self._catalog, parts):
            raise TableNotFound(
                f"no table {table} in the warehouse {self._catalog.embedded}: `icepact tables` lists what is there"
            )
        return self._lake


def _adopted_catalog(spark: "SparkSession", name: str | None) -> Catalog:
    from icepact.iceberg.lake import current_catalog

    return Catalog(name=name or current_catalog(spark), properties={})
