"""Runs on a table on which the record store knows none, as its snapshots tell of them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from icepact.assess.recovered_runs import runs_of_snapshots
from icepact.iceberg.polling import watcher_of
from icepact.model.errors import CatalogUnusable, TableNotFound
from icepact.model.history import TableHistory
from icepact.model.run import RunRecord
from icepact.policy.config import Catalog

if TYPE_CHECKING:
    from icepact.iceberg.spark.catalog import SparkCatalog


def past_runs(catalog: Catalog, table: str, open_catalog: "Callable[[], SparkCatalog]") -> list[RunRecord]:
    """The runs on a table that its snapshots tell of, newest first; none if there is no such table. The catalog is
    opened in Spark if it cannot be asked otherwise."""
    try:
        history = _without_spark(catalog, table) or _in_spark(open_catalog(), table)
    except TableNotFound:
        return []
    return runs_of_snapshots(history, catalog=catalog.recorded_as, table=table)


def _without_spark(catalog: Catalog, table: str) -> TableHistory | None:
    try:
        watcher = watcher_of(catalog)
        return None if watcher is None else watcher.history(table)
    except CatalogUnusable:  # it may let Spark in
        return None


def _in_spark(spark_catalog: "SparkCatalog", table: str) -> TableHistory:
    from icepact.iceberg.table.history import read_history

    return read_history(spark_catalog.table(table))
