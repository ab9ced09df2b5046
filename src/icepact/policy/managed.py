"""Which other services look after a table, as far as its properties, its location and its catalog tell.

Only signs that the services themselves document. A service that is surely at work stops ours; one that may be, or whose
wishes we follow ourselves, is a note.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple
from urllib.parse import urlsplit

from pydantic import PlainSerializer

from icepact.model.documents import Document

Task = Literal["compact", "expire", "orphans"]
ALL_TASKS: frozenset[Task] = frozenset({"compact", "expire", "orphans"})
Tasks = Annotated[frozenset[Task], PlainSerializer(sorted, return_type=list[Task])]


@dataclass(frozen=True, kw_only=True, slots=True)
class ManagedBy(Document):
    """Another service that looks after a table."""

    service: str
    does: Tasks
    """What it does, or may do."""
    evidence: str
    """What shows it, and what follows."""
    stops: bool
    """True if the table is to be left alone where the service is at work, unless somebody wants otherwise."""

    def __str__(self) -> str:
        does = ", ".join(_VERBS[task] for task in ("compact", "expire", "orphans") if task in self.does)
        return f"{self.service} {'looks' if self.stops else 'may look'} after this table ({does}): {self.evidence}"


_VERBS: Mapping[str, str] = {"compact": "compacts", "expire": "expires snapshots", "orphans": "removes orphans"}


class _Signs(NamedTuple):
    """What is known of a table."""

    properties: Mapping[str, str]
    location: str
    catalog: Mapping[str, str]
    """Properties of its catalog."""

    @property
    def host(self) -> str:
        """Of the catalog; empty if it has none."""
        return _host(self.catalog.get("uri", ""))

    def bucket(self) -> str:
        """Of the table's location."""
        return _host(self.location)

    def is_on(self, name: str) -> bool:
        """Whether a table property is set to true."""
        return self.properties.get(name, "").strip().lower() == "true"


def _host(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def managed_by(
    properties: Mapping[str, str], location: str = "", catalog: Mapping[str, str] | None = None
) -> tuple[ManagedBy, ...]:
    """Services that look after a table: first those that stop us. `location` is the table's, `catalog` are properties
    of its catalog, such as `type`, `uri`, `warehouse` and `catalog-impl`."""
    signs = _Signs(properties, location, catalog or {})
    found = [service for ask in _SERVICES for service in ask(signs)]
    return tuple(sorted(found, key=lambda service: not service.stops))


def leaves_alone(services: tuple[ManagedBy, ...], task: Task) -> ManagedBy | None:
    """The service because of which a task is not ours; `None` if it is."""
    return next((service for service in services if service.stops and task in service.does), None)


_AWS_REGION = r"[a-z0-9-]+\.amazonaws\.com(\.cn)?"


def _s3_tables(signs: _Signs) -> Iterator[ManagedBy]:
    warehouse, implementation = signs.catalog.get("warehouse", ""), signs.catalog.get("catalog-impl", "")
    evidence = None
    if signs.bucket().endswith("--table-s3"):
        evidence = f"its location {signs.location} is in a table bucket"
    elif re.match(r"arn:aws[a-z-]*:s3tables:", warehouse) or ":s3tablescatalog/" in warehouse:
        evidence = f"its catalog's warehouse {warehouse} is a table bucket"
    elif re.fullmatch(rf"s3tables\.{_AWS_REGION}", signs.host):
        evidence = f"its catalog is {signs.host}"
    elif implementation.endswith(".S3TablesCatalog"):
        evidence = f"its catalog is {implementation}"
    if evidence:
        yield ManagedBy(
            service="Amazon S3 Tables",
            does=ALL_TASKS,
            evidence=f"{evidence}, where maintenance is on unless it was switched off",
            stops=True,
        )


def _google(signs: _Signs) -> Iterator[ManagedBy]:
    name = "gcp.biglake.table-management.enabled"
    if signs.is_on(name):
        yield ManagedBy(
            service="Google Cloud Lakehouse",
            does=ALL_TASKS,
            evidence=f"{name} is true: it compacts and collects garbage",
            stops=True,
        )


def _databricks(signs: _Signs) -> Iterator[ManagedBy]:
    evidence = None
    if "/__unitystorage/" in signs.location:
        evidence = "its location is storage that Unity Catalog manages"
    elif "/api/2.1/unity-catalog/iceberg-rest" in signs.catalog.get("uri", ""):
        evidence = "its catalog is Databricks' Unity Catalog, through which only managed tables can be written"
    if evidence:
        yield ManagedBy(
            service="Databricks predictive optimization",
            does=ALL_TASKS,
            evidence=f"{evidence}, where maintenance is on unless it was switched off",
            stops=True,
        )


def _tableflow(signs: _Signs) -> Iterator[ManagedBy]:
    if signs.host.startswith("tableflow.") and signs.host.endswith(".confluent.cloud"):
        yield ManagedBy(
            service="Confluent Tableflow",
            does=frozenset({"compact", "expire"}),
            evidence=f"its catalog is {signs.host}, whose tables only Tableflow writes",
            stops=True,
        )


def _glue(signs: _Signs) -> Iterator[ManagedBy]:
    glue = signs.catalog.get("type", "").lower() == "glue" or signs.catalog.get("catalog-impl", "").endswith(
        ".GlueCatalog"
    )
    if (glue or re.fullmatch(rf"glue\.{_AWS_REGION}", signs.host)) and not any(_s3_tables(signs)):
        yield ManagedBy(
            service="AWS Glue",
            does=ALL_TASKS,
            evidence="its catalog has optimizers, and no table tells whether they are on: see `aws glue"
            " get-table-optimizer`",
            stops=False,
        )


def _cloudflare(signs: _Signs) -> Iterator[ManagedBy]:
    if signs.host == "catalog.cloudflarestorage.com":
        yield ManagedBy(
            service="Cloudflare R2 Data Catalog",
            does=frozenset({"compact", "expire"}),
            evidence="its catalog has maintenance, and no table tells whether it is on: see `wrangler r2 bucket"
            " catalog get`",
            stops=False,
        )


def _open_house(signs: _Signs) -> Iterator[ManagedBy]:
    if "openhouse.tableId" in signs.properties:
        yield ManagedBy(
            service="OpenHouse",
            does=ALL_TASKS,
            evidence="it has the property openhouse.tableId, and no table tells which of its jobs are scheduled",
            stops=False,
        )


_AMORO_EXPIRES = ("table-expire.enabled", "table.expire.enabled")
_AMORO_ORPHANS = "clean-orphan-file.enabled"


def _amoro(signs: _Signs) -> Iterator[ManagedBy]:
    enabled, group = "self-optimizing.enabled", "self-optimizing.group"
    off = enabled in signs.properties and not signs.is_on(enabled)
    tasks: dict[Task, str | None] = {
        "compact": None if off else enabled if signs.is_on(enabled) else group if group in signs.properties else None,
        "expire": next((name for name in _AMORO_EXPIRES if signs.is_on(name)), None),
        "orphans": _AMORO_ORPHANS if signs.is_on(_AMORO_ORPHANS) else None,
    }
    names = [name for name in tasks.values() if name is not None]
    if names:
        yield ManagedBy(
            service="Apache Amoro",
            does=frozenset(task for task, name in tasks.items() if name is not None),
            evidence=f"it has the property {', '.join(names)}, which is followed here, too: see that only one does",
            stops=False,
        )


_SERVICES: tuple[Callable[[_Signs], Iterator[ManagedBy]], ...] = (
    _s3_tables,
    _google,
    _databricks,
    _tableflow,
    _glue,
    _cloudflare,
    _open_house,
    _amoro,
)
