"""One catalog in one Spark session: loads its tables, and lists them."""

import json
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from icepact.iceberg.java.bridge import (
    Java,
    JavaError,
    cause_chain,
    error_class,
    is_transient,
    retry_reads,
    root_cause,
    timed_out,
    with_cause,
)
from icepact.iceberg.java.classes import instance_of
from icepact.iceberg.names import quote, show_name, table_parts
from icepact.iceberg.remedies import catalog_remedy, store_remedy
from icepact.iceberg.spark.session import build_session, check_session
from icepact.iceberg.table.listing import Neighbour, written_to
from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import BadInput, CatalogUnusable, IcepactError, SetupMissing, TableNotFound, TemporaryError
from icepact.policy.config import Catalog

_SETTINGS = ("type", "uri", "warehouse", "catalog-impl")
_LOADED_AT_ONCE = 8
"""Tables that are loaded at the same time."""
_SEEN_LATELY = 60.0
"""Seconds for which a plan believes where a table is; whoever deletes asks."""
_NOBODY = 0.0, None
_NO_TABLE = {"NoSuchTableException", "NoSuchNamespaceException"}
_METADATA = re.compile(r"((?:[A-Za-z][A-Za-z0-9+.-]*:)?/[^\s'\"]*)/metadata/[^\s'\"/]*\.metadata\.json")
"""The address of a file of metadata, as errors name it; the folder of its table comes first."""


def current_catalog(session: SparkSession) -> str:
    """The catalog that unqualified names mean in a session; asked in SQL, which does not mix sessions up."""
    return str(session.sql("SELECT current_catalog()").collect()[0][0])


def catalog_settings(session: SparkSession, name: str) -> dict[str, str]:
    """Settings of a session that say where a catalog is: its type, address and warehouse, as far as they are set."""
    settings = {key: session.conf.get(f"spark.sql.catalog.{name}.{key}", None) for key in _SETTINGS}
    return {key: value for key, value in settings.items() if value is not None}


class SparkCatalog:
    """A Spark session, and one catalog in it."""

    def __init__(self, session: SparkSession, catalog: str, recorded_as: str | None = None) -> None:
        self.session = session
        self.catalog = catalog
        self.recorded_as = recorded_as or catalog
        self.java = Java(session.sparkContext._gateway, session._jsparkSession)
        self._neighbours: dict[str, tuple[float, Neighbour]] = {}
        """Where tables were, and when that was seen."""

    @classmethod
    def open(
        cls,
        catalog: Catalog,
        settings: Mapping[str, str],
        *,
        verbose: bool = False,
        short: bool = False,
        on_context: Callable[[SparkContext], None] | None = None,
    ) -> "SparkCatalog":
        """Start Spark (or join the one that runs) and configure the catalog in a session of its own. `on_context` is
        called as soon as Spark can run jobs."""
        if catalog.embedded is not None:
            catalog.embedded.mkdir(parents=True, exist_ok=True)
        session = build_session(settings, verbose=verbose, short=short, on_context=on_context)
        prefix = f"spark.sql.catalog.{catalog.name}"
        session.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
        for key, value in catalog.properties.items():
            session.conf.set(f"{prefix}.{key}", value)
        session.conf.set("spark.sql.defaultCatalog", catalog.name)
        return cls(session, catalog.name, catalog.recorded_as)

    @classmethod
    def adopt(cls, session: SparkSession, catalog: str | None) -> "SparkCatalog":
        """Work in the user's own session; nothing in it is changed."""
        check_session(session)
        name = catalog or current_catalog(session)
        if session.conf.get(f"spark.sql.catalog.{name}", None) is None:
            raise BadInput(f"the Spark session has no catalog {name!r}: set spark.sql.catalog.{name}")
        return cls(session, name)

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """What is said of where the catalog is and what it is made by."""
        return catalog_settings(self.session, self.catalog)

    def table(self, name: str) -> IcebergTable:
        """Load a table, or say in one line that it is not there."""
        parts = table_parts(name, self.catalog)
        table = self._load(parts, name)
        return IcebergTable(
            java=self.java,
            session=self.session,
            table=table,
            name=show_name(parts),
            sql_name=quote((self.catalog, *parts)),
        )

    def _load(self, parts: tuple[str, ...], name: str) -> Any:
        try:
            return self._loaded(parts)
        except JavaError as error:
            if error_class(error) in _NO_TABLE:
                raise TableNotFound(
                    f"no table {name} in catalog {self.catalog}: `icepact tables` lists what is there"
                ) from None
            raise self._failed(error, f"{name} cannot be loaded") from None

    @retry_reads
    def _loaded(self, parts: tuple[str, ...]) -> Any:
        identifier = self.java.iceberg.catalog.TableIdentifier.of(self._namespace(parts[:-1]), parts[-1])
        return self._catalog().loadTable(identifier)

    def _failed(self, error: Exception, what: str) -> IcepactError:
        """A failure of the catalog, or of what it refers to."""
        if timed_out(error):
            return TemporaryError(f"{what}: {self._no_answer(error, ', or the store of its tables,')}")
        message = store_remedy(cause_chain(error), self._warehouse()) or with_cause(error)
        return (TemporaryError if is_transient(error) else BadInput)(f"{what}: {message}")

    def _warehouse(self) -> str | None:
        return catalog_settings(self.session, self.catalog).get("warehouse")

    def _no_answer(self, error: Exception, or_else: str = "") -> str:
        return (
            f"catalog {self.catalog!r}{or_else} does not answer ({root_cause(error)}): see whether it is up; "
            "if it is only slow, raise catalog_timeout in icepact.yaml"
        )

    def _catalog(self) -> Any:
        try:
            with self.java.active():
                return self.java.iceberg.spark.Spark3Util.loadIcebergCatalog(self.java.session, self.catalog)
        except JavaError as error:
            why = root_cause(error)
            if timed_out(error):
                raise CatalogUnusable(self._no_answer(error)) from None
            if "No suitable driver" in why:
                raise SetupMissing(
                    f"catalog {self.catalog!r} needs a JDBC driver that Spark does not have: give its jar as"
                    " spark.driver.extraClassPath under spark: conf: in icepact.yaml"
                ) from None
            refused = why.startswith(("NotAuthorizedException", "ForbiddenException"))
            kind = BadInput if refused else CatalogUnusable
            messages = cause_chain(error)
            todo = store_remedy(messages, self._warehouse()) or catalog_remedy(messages)
            raise kind(f"catalog {self.catalog!r} cannot be opened: {f'{todo} ({why})' if todo else why}") from None

    def _namespace(self, levels: tuple[str, ...]) -> Any:
        array = self.java.gateway.new_array(self.java.jvm.java.lang.String, len(levels))
        for i, level in enumerate(levels):
            array[i] = level
        return self.java.iceberg.catalog.Namespace.of(array)

    def tables(self) -> list[str]:
        """Every table of the catalog, by name, nested namespaces included."""
        self._catalog()
        try:
            return self._listed()
        except JavaError as error:
            raise self._failed(error, f"the tables of catalog {self.catalog!r} cannot be listed") from None

    def neighbours(self, *, but: str, seen_lately: bool = False) -> dict[str, Neighbour]:
        """Every other table of the catalog, by name. With `seen_lately`, for plans, those that were seen a moment ago
        are not loaded again: of a round over many tables, each asks for all others."""
        names, now = [name for name in self.tables() if name != but], time.monotonic()
        age = _SEEN_LATELY if seen_lately else 0.0
        known = {name: seen for name, seen in self._neighbours.items() if now - seen[0] < age}
        new = [name for name in names if name not in known]
        with ThreadPoolExecutor(_LOADED_AT_ONCE) as threads:
            found = dict(zip(new, threads.map(self._neighbour, new), strict=True))
        loaded = {name: one for name, one in found.items() if one is not None}
        self._neighbours = known | {name: (now, one) for name, one in loaded.items() if not one.error}
        return {name: one for name in names if (one := loaded.get(name) or known.get(name, _NOBODY)[1]) is not None}

    def _neighbour(self, name: str) -> Neighbour | None:
        """Where a table is; `None` if it is gone by now, or is none."""
        parts = table_parts(name, self.catalog)
        try:
            return Neighbour(written_to(self._loaded(parts)))
        except JavaError as error:
            if error_class(error) in _NO_TABLE:
                return None
            return Neighbour(self._named_by(error, parts), str(self._failed(error, f"{name} cannot be loaded")))

    def _named_by(self, error: Exception, parts: tuple[str, ...]) -> tuple[str, ...]:
        """Where the metadata of a table is that cannot be loaded: catalogs in folders have it below their warehouse,
        others name it in their error, or not at all."""
        warehouse = self.settings.get("warehouse")
        if self.settings.get("type") == "hadoop" and warehouse:
            return ("/".join([warehouse.rstrip("/"), *parts]),)
        return tuple(sorted({found[1] for text in cause_chain(error) for found in _METADATA.finditer(text)}))

    def _listed(self) -> list[str]:
        with self.java.active():
            plugin = self.java.session.sessionState().catalogManager().catalog(self.catalog)
            found = instance_of(self.java, "CatalogListing").tables(plugin)
        names: list[list[str]] = json.loads(self.java.mapper.writeValueAsString(found))
        return sorted(show_name(tuple(levels)) for levels in names)
