"""What changed in a catalog, asked without Java and for many tables at once.

A catalog in a database tells it with one query for all tables; a REST catalog with one light request for each, several
at a time, which it can answer with "not changed". Other kinds of catalogs are not asked: `watcher_of` is `None`.
"""

import gzip
import json
import logging
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, unquote, urlsplit

from icepact.iceberg.metadata import history_of
from icepact.iceberg.names import parse_levels, show_name
from icepact.model.errors import CatalogUnusable
from icepact.model.history import COMMIT_ID, TableHistory
from icepact.policy.config import Catalog

_log = logging.getLogger("icepact")
_AT_ONCE = 16
"""Requests to a REST catalog that are under way at a time."""
_SQLITE = "jdbc:sqlite:"
_DRIVERS = {"postgresql": "postgresql+psycopg"}
_WRITES = frozenset({"append", "overwrite", "delete"})
_SAID_BY_POLICIES = (
    "icepact.",
    "self-optimizing.",
    "table-expire.",
    "snapshot.keep.",
    "data-expire.",
    "tag.",
    "clean-",
)
"""Beginnings of properties by which a table says what it wants."""
_LOCAL = ("file://", "file:", "/")


@dataclass(frozen=True, kw_only=True, slots=True)
class WriterCommit:
    """A snapshot that a writer has made."""

    snapshot_id: int
    at: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class TableMetadata:
    """What a table's metadata says."""

    properties: Mapping[str, str] = field(default_factory=dict)
    """Those by which it says what it wants of whoever looks after it."""
    commits: Sequence[WriterCommit] = ()
    """Of its snapshots those by writers, oldest first; icepact's own and other compactions are none."""
    known_since: datetime | None = None
    """When the oldest of all its snapshots was made; `None` if there is none."""


class Watcher(Protocol):
    """Looks at a catalog."""

    def markers(self) -> Mapping[str, str] | None:
        """By full name of each table: something that is another one after every commit; UNKNOWN if it cannot be told
        now. `None` if there is no catalog now, which says nothing about its tables; CatalogUnusable if it does not
        answer."""

    def metadata(self, table: str) -> TableMetadata | None:
        """What the metadata says of a table that `markers` has named; `None` if it cannot be read from here."""

    def history(self, table: str) -> TableHistory | None:
        """The history of a table as it is now, whether `markers` has named it or not; `None` if there is no such table,
        or if it cannot be read from here."""

    def partitions(self, table: str, newest: int) -> Mapping[str, Sequence[datetime]]:
        """Commits by writers by the partitions that they changed, of so many of the newest commits; empty if that
        cannot be read from here."""


def watcher_of(catalog: Catalog) -> Watcher | None:
    """Who looks at a catalog; `None` if that cannot be done without Java."""
    properties = catalog.properties
    kind, uri = properties.get("type"), properties.get("uri", "")
    if kind == "rest" and uri:
        return _RestWatcher(catalog)
    if kind == "jdbc" and (uri.startswith(_SQLITE) or uri.removeprefix("jdbc:").partition(":")[0] in _DRIVERS):
        return _DatabaseWatcher(catalog)
    return None


# -- catalogs in databases ------------------------------------------------------------------------


UNKNOWN = ""
"""The marker of a table that is there, and of which the catalog cannot tell now."""
_BROKEN = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, EOFError, zlib.error)
"""What reading metadata raises that is none."""


class _DatabaseWatcher:
    """Looks at a catalog in SQLite or PostgreSQL."""

    def __init__(self, catalog: Catalog) -> None:
        from sqlalchemy import NullPool, create_engine

        self._catalog = catalog
        self._names: dict[tuple[str, str], str] = {}
        self._locations: Mapping[str, str] = {}
        uri = catalog.properties["uri"]
        self._file = Path(uri.removeprefix(_SQLITE)) if uri.startswith(_SQLITE) else None
        more: Mapping[str, Any] = {"pool_pre_ping": True} if self._file is None else {"poolclass": NullPool}
        self._engine = create_engine(_url(catalog.properties), **more)  # a file may be another one by the next look

    def markers(self) -> Mapping[str, str] | None:
        """The metadata file of each table: one query. `None` while the file of the catalog is not there: nothing was
        ever made in it, or it is being moved."""
        columns, rows = self._asked("SELECT * FROM iceberg_tables WHERE catalog_name = :catalog")
        if not columns:
            return None
        space, name, location = (columns.index(one) for one in ("table_namespace", "table_name", "metadata_location"))
        kind = columns.index("iceberg_type") if "iceberg_type" in columns else None
        self._locations = {
            self._name(row[space], row[name]): row[location]
            for row in rows
            if row[location] and (kind is None or row[kind] in (None, "TABLE"))
        }
        return self._locations

    def metadata(self, table: str) -> TableMetadata | None:
        """From the metadata file, if it is on this machine."""
        document = self._document(table)
        try:
            return None if document is None else _metadata(document)
        except _BROKEN:
            return None

    def history(self, table: str) -> TableHistory | None:
        """From the metadata file, if it is on this machine."""
        *namespace, name = parse_levels(table)
        _, rows = self._asked(
            "SELECT metadata_location FROM iceberg_tables"
            " WHERE catalog_name = :catalog AND table_namespace = :namespace AND table_name = :name",
            namespace=".".join(namespace),
            name=name,
        )
        return _history(_read(rows[0][0]), rows[0][0]) if rows and rows[0][0] else None

    def partitions(self, table: str, newest: int) -> Mapping[str, Sequence[datetime]]:
        """From the manifests that these commits have added, if they are on this machine."""
        document = self._document(table)
        return {} if document is None else _partitions(document, newest, {})

    def _document(self, table: str) -> Mapping[str, Any] | None:
        return _read(self._locations.get(table, ""))

    def _asked(self, query: str, **given: str) -> tuple[Sequence[str], Sequence[Any]]:
        """Names of columns, and rows; neither while the file of the catalog is not there."""
        from sqlalchemy import text
        from sqlalchemy.exc import SQLAlchemyError

        if self._file is not None and not self._file.is_file():
            return (), ()  # asking would make it
        try:
            with self._engine.connect() as connection:
                answer = connection.execute(text(query), {"catalog": self._catalog.name, **given})
                return list(answer.keys()), answer.fetchall()
        except SQLAlchemyError as error:  # its message may quote the address
            why = type(error).__name__
            raise CatalogUnusable(f"the catalog {self._catalog.name} cannot be asked for changes: {why}") from None

    def _name(self, namespace: str, table: str) -> str:
        key = namespace, table
        if key not in self._names:
            self._names[key] = show_name((*namespace.split("."), table))
        return self._names[key]


def _url(properties: Mapping[str, str]) -> Any:
    from sqlalchemy.engine import URL

    uri = properties["uri"]
    if uri.startswith(_SQLITE):
        # only looked at: a catalog that writers hold for a moment is waited for, and one that is not there is not made
        return URL.create(
            "sqlite", database=f"file:{quote(uri.removeprefix(_SQLITE))}", query={"mode": "rw", "uri": "true"}
        )
    parts = urlsplit(uri.removeprefix("jdbc:"))
    return URL.create(
        _DRIVERS[parts.scheme],
        username=properties.get("jdbc.user") or (unquote(parts.username) if parts.username else None),
        password=properties.get("jdbc.password") or (unquote(parts.password) if parts.password else None),
        host=parts.hostname,
        port=parts.port,
        database=parts.path.removeprefix("/"),
        query={"connect_timeout": "10"},
    )


def _read(location: str) -> Mapping[str, Any] | None:
    """A metadata file; `None` if it is not on this machine, or is none."""
    if not location.startswith(_LOCAL):
        return None
    path = Path(location.removeprefix("file://").removeprefix("file:"))
    try:
        data = path.read_bytes()
        document = json.loads(gzip.decompress(data) if ".gz." in path.name else data)
    except (OSError, *_BROKEN):
        return None
    return document if isinstance(document, dict) else None


# -- REST catalogs --------------------------------------------------------------------------------


class _RestWatcher:
    """Looks at a REST catalog, with PyIceberg's session: it knows how to sign in."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._opened: Any = None
        self._tags: dict[str, tuple[str, str]] = {}
        """By table: the ETag of its last answer, and the marker that came with it."""
        self._parts: dict[str, tuple[str, ...]] = {}

    def markers(self) -> Mapping[str, str]:
        """The metadata file of each table, or what it is at."""
        try:
            client = self._client()
            self._parts = {show_name(parts): parts for parts in self._listed(client, ())}
            with ThreadPoolExecutor(_AT_ONCE) as threads:
                found = dict(zip(self._parts, threads.map(self._marker, self._parts), strict=True))
        except CatalogUnusable:
            raise
        except Exception as error:  # of many kinds, and their messages may quote addresses and tokens
            raise self._unusable(error) from None
        if {marker for marker in found.values() if marker is not None} == {UNKNOWN}:
            raise CatalogUnusable(f"the catalog {self._catalog.name} cannot be asked for changes of any table")
        self._tags = {table: tag for table, tag in self._tags.items() if table in found}
        return {table: marker for table, marker in found.items() if marker is not None}

    def metadata(self, table: str) -> TableMetadata | None:
        """With all snapshots."""
        document = self._document(table)
        try:
            return None if document is None else _metadata(document["metadata"])
        except _BROKEN:
            return None

    def history(self, table: str) -> TableHistory | None:
        """With all snapshots."""
        document = self._document(table) or {}
        return _history(document.get("metadata"), str(document.get("metadata-location") or ""))

    def partitions(self, table: str, newest: int) -> Mapping[str, Sequence[datetime]]:
        """From the manifests that these commits have added, with what the catalog gives to read them."""
        document = self._document(table)
        if document is None:
            return {}
        return _partitions(document["metadata"], newest, {**self._catalog.properties, **(document.get("config") or {})})

    def _document(self, table: str) -> Mapping[str, Any] | None:
        try:
            answer = self._asked(self._parts.get(table) or parse_levels(table), "all")
            return dict(answer.json()) if answer.status_code == 200 else None
        except ValueError:  # what it says of this table is no JSON
            return None
        except Exception as error:
            raise self._unusable(error) from None

    def _marker(self, table: str) -> str | None:
        """What a table is at; `None` if it was dropped meanwhile. A table of which the catalog cannot tell is there all
        the same, and keeps nobody from hearing of others."""
        tag, known = self._tags.get(table, ("", ""))
        answer = self._asked(self._parts[table], "refs", tag)
        if answer.status_code == 304:
            return known
        if answer.status_code == 404:
            return None
        try:
            answer.raise_for_status()
            document = answer.json()
            marker = document.get("metadata-location") or f"{document['metadata'].get('last-updated-ms')}"
        except (OSError, *_BROKEN) as error:  # requests' own errors are OSErrors
            _log.info("the catalog cannot tell of %s: %s", table, type(error).__name__)
            return UNKNOWN
        if answer.headers.get("ETag"):
            self._tags[table] = answer.headers["ETag"], marker
        return str(marker)

    def _asked(self, parts: Sequence[str], snapshots: str, tag: str = "") -> Any:
        client = self._client()
        from pyiceberg.catalog.rest import Endpoints

        address = client.url(Endpoints.load_table, prefixed=True, **client._split_identifier_for_path(tuple(parts)))
        headers = {"If-None-Match": tag} if tag else {}
        return client._session.get(address, params={"snapshots": snapshots}, headers=headers, timeout=30)

    def _listed(self, client: Any, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for namespace in client.list_namespaces(above):
            yield from client.list_tables(namespace)
            yield from self._listed(client, namespace)

    def _client(self) -> Any:
        if self._opened is None:
            from pyiceberg.catalog.rest import RestCatalog

            given = {key: value for key, value in self._catalog.properties.items() if not key.startswith("rest.client")}
            self._opened = RestCatalog(self._catalog.name, **given)
        return self._opened

    def _unusable(self, error: Exception) -> CatalogUnusable:
        return CatalogUnusable(f"the catalog {self._catalog.name} cannot be asked for changes: {type(error).__name__}")


def _history(document: Mapping[str, Any] | None, location: str) -> TableHistory | None:
    try:
        return None if document is None else history_of(document, location)
    except _BROKEN:
        return None


def _metadata(document: Mapping[str, Any]) -> TableMetadata:
    """What Iceberg's metadata says."""
    snapshots = sorted(document.get("snapshots") or (), key=lambda one: int(one["timestamp-ms"]))
    properties = document.get("properties") or {}
    return TableMetadata(
        properties={key: value for key, value in properties.items() if key.startswith(_SAID_BY_POLICIES)},
        commits=tuple(_commit(one) for one in snapshots if _by_writer(one.get("summary") or {})),
        known_since=_moment(snapshots[0]) if snapshots else None,
    )


def _by_writer(summary: Mapping[str, str]) -> bool:
    return summary.get("operation", "append") in _WRITES and COMMIT_ID not in summary


def _commit(snapshot: Mapping[str, Any]) -> WriterCommit:
    return WriterCommit(snapshot_id=int(snapshot["snapshot-id"]), at=_moment(snapshot))


def _moment(snapshot: Mapping[str, Any]) -> datetime:
    return datetime.fromtimestamp(int(snapshot["timestamp-ms"]) / 1000, UTC)


def _partitions(
    document: Mapping[str, Any], newest: int, properties: Mapping[str, str]
) -> Mapping[str, Sequence[datetime]]:
    """When writers changed each partition, by what the newest of their commits have added to manifests."""
    from pyiceberg.io import load_file_io
    from pyiceberg.table.metadata import TableMetadataUtil

    found: dict[str, list[datetime]] = {}
    try:
        known = {commit.snapshot_id: commit.at for commit in _metadata(document).commits[-newest:]}
        metadata = TableMetadataUtil.parse_obj(dict(document))
        specs, schema = metadata.specs(), metadata.schema()
        for snapshot in metadata.snapshots:
            at = known.get(snapshot.snapshot_id)
            if at is None or snapshot.manifest_list is None:
                continue
            file_io = load_file_io(dict(properties), snapshot.manifest_list)
            names = {
                unquote(specs[manifest.partition_spec_id].partition_to_path(entry.data_file.partition, schema))
                for manifest in snapshot.manifests(file_io)
                if manifest.added_snapshot_id == snapshot.snapshot_id
                for entry in manifest.fetch_manifest_entry(file_io, discard_deleted=False)
                if entry.snapshot_id == snapshot.snapshot_id
            }
            for name in names:
                found.setdefault(name, []).append(at)
    except Exception as error:  # of storage, formats and PyIceberg's own: a forecast does without
        _log.info("which partitions are written to cannot be read: %s", type(error).__name__)
        return {}
    return {name: tuple(sorted(moments)) for name, moments in found.items() if name}
