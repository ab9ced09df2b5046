"""Which catalog is meant, and its properties for Iceberg.

Looked up in this order: flags, `ICEPACT_*`, `icepact.yaml` (these three are one `Config` by now), then
PyIceberg's own configuration. With nothing configured there is the embedded catalog: SQLite beside a
local warehouse.
"""

import json
import math
import re
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from icepact.model.errors import BadInput
from icepact.policy.config import Catalog, Config

DEFAULT_NAME = "local"
DEFAULT_WAREHOUSE = "./icepact-warehouse"
CATALOG_FILE = "catalog.db"

_TYPE_BY_SCHEME = {
    "http": "rest",
    "https": "rest",
    "thrift": "hive",
    "jdbc": "jdbc",
    "sqlite": "sql",
    "postgresql": "sql",
    "mysql": "sql",
}
_TYPES = {"rest", "hive", "jdbc", "sql", "glue", "hadoop", "nessie"}
_WITH_URI = {"rest", "hive", "jdbc", "sql"}
_RENAMED = {  # PyIceberg's names -> Iceberg's
    "s3.region": "client.region",
}
_JDBC_SQLITE = "jdbc:sqlite:"
_CONNECT_SECONDS = 10.0
"""Seconds: who does not even take up a connection in this time is not there."""
_FORMAT = "write.format.default"
_SMALL_BYTES, _SMALL_FILES, _SMALL_METADATA = 256 * 1024**2, 2000, 4 * 1024**2
"""Of a table: work on it takes seconds, even if Spark has to do it."""
_KINDS = {"org.apache.iceberg.rest.RESTCatalog": "rest", "org.apache.iceberg.jdbc.JdbcCatalog": "jdbc"}
_NOT_FOR_JAVA = ("py-", "downcast-", "legacy-", "echo", "pool_pre_ping", "init_catalog_tables")


def choose_catalog(config: Config) -> Catalog:
    """The catalog that flags and configuration mean."""
    name = config.catalog or (next(iter(config.catalogs)) if len(config.catalogs) == 1 else None)
    if name is None and config.catalogs and config.catalog_uri is None:
        raise BadInput(
            f"several catalogs are configured, name one with --catalog: {', '.join(sorted(config.catalogs))}"
        )
    properties: dict[str, str] = {}
    if name is not None:
        properties = dict(config.catalogs.get(name) or pyiceberg_catalog(name))
        if not properties and config.catalog_uri is None and config.catalog_type is None:
            if name != DEFAULT_NAME:
                raise BadInput(_unknown(name, config))
            return embedded(config.warehouse or DEFAULT_WAREHOUSE)
    if config.catalog_uri is not None:
        properties["uri"] = config.catalog_uri
        properties.pop("type", None)
    if config.catalog_type is not None:
        properties["type"] = config.catalog_type
    if config.warehouse is not None:
        properties["warehouse"] = config.warehouse
    if set(properties) <= {"warehouse"}:
        if config.catalog_properties:
            raise BadInput("catalog properties are given, but no catalog: name one with --catalog or --catalog-uri")
        return embedded(config.warehouse or DEFAULT_WAREHOUSE)
    properties |= config.catalog_properties
    named = config.catalog is not None or (name is not None and config.catalog_uri is None)
    name = name or DEFAULT_NAME
    resolved = spark_properties(name, properties)
    return Catalog(
        name=name,
        properties=with_limits(resolved, config.catalog_timeout),
        location=None if named else _location(resolved),
    )


def _location(properties: Mapping[str, str]) -> str:
    """Where a catalog is, and its tables, without what may be a secret: `host:8181/path (s3://bucket/folder)`."""
    uri, warehouse = properties.get("uri", ""), properties.get("warehouse", "")
    kind, _, rest = re.split("[?;#]", uri)[0].rpartition("://")
    host, slash, path = (rest if kind else rest.removeprefix("jdbc:")).rpartition("@")[2].partition("/")
    default_port = {"http": ":80", "https": ":443"}.get(kind, "")
    where = f"{host.lower().removesuffix(default_port)}{slash}{path}".rstrip("/") or properties.get("type", "")
    folder = re.sub("//[^/@]*@", "//", re.split("[?#]", warehouse)[0]).rstrip("/")
    return f"{where} ({folder})" if folder else where


def embedded(warehouse: str) -> Catalog:
    """SQLite catalog and files in one local folder; PyIceberg opens it under the same name."""
    if "://" in warehouse and not warehouse.startswith("file://"):
        raise BadInput(f"the warehouse {warehouse} needs a catalog: name one with --catalog or --catalog-uri")
    folder = Path(warehouse.removeprefix("file://")).expanduser().resolve()
    return Catalog(
        name=DEFAULT_NAME,
        embedded=folder,
        properties={
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{folder / CATALOG_FILE}",
            "warehouse": str(folder),
            "jdbc.schema-version": "V1",
        },
    )


def embedded_exists(catalog: Catalog) -> bool:
    """Whether anything was ever made in the embedded catalog."""
    return catalog.embedded is not None and (catalog.embedded / CATALOG_FILE).is_file()


def embedded_has(catalog: Catalog, name: tuple[str, ...]) -> bool:
    """Whether the embedded catalog lists a table; answered without starting Spark."""
    assert catalog.embedded is not None
    if not embedded_exists(catalog):
        return False
    try:
        return _metadata_file(catalog.embedded, catalog.name, name) is not None
    except sqlite3.Error:
        return True  # not ours to judge: the catalog itself will say


def embedded_is_small(catalog: Catalog, name: tuple[str, ...]) -> bool:
    """Whether Java has so little to do for a table that its second compiler would not pay off: the table is small, and
    its row groups are assembled by Python. Answered from its metadata, without starting Spark; false if in doubt."""
    try:
        file = None if catalog.embedded is None else _metadata_file(catalog.embedded, catalog.name, name)
        if file is None or file.stat().st_size > _SMALL_METADATA:
            return False
        metadata = json.loads(file.read_bytes())
        current = {s["snapshot-id"]: s for s in metadata["snapshots"]}[metadata["current-snapshot-id"]]["summary"]
        size, files = int(current["total-files-size"]), int(current["total-data-files"])
    except (sqlite3.Error, OSError, ValueError, KeyError, TypeError):
        return False
    sorts, written = metadata.get("default-sort-order-id", 0), metadata.get("properties", {}).get(_FORMAT, "parquet")
    return size <= _SMALL_BYTES and files <= _SMALL_FILES and sorts == 0 and written == "parquet"


def _metadata_file(warehouse: Path, catalog: str, name: tuple[str, ...]) -> Path | None:
    """The metadata file that an embedded catalog names for a table; `None` if it does not list the table."""
    connection = sqlite3.connect(f"{(warehouse / CATALOG_FILE).as_uri()}?mode=ro", uri=True)
    try:
        row = connection.execute(
            "SELECT metadata_location FROM iceberg_tables"
            " WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?",
            (catalog, ".".join(name[:-1]), name[-1]),
        ).fetchone()
    finally:
        connection.close()
    return None if row is None else Path(str(row[0]).removeprefix("file://").removeprefix("file:"))


def pyiceberg_catalog(name: str) -> Mapping[str, str]:
    """What PyIceberg's file and environment say about a catalog of this name; empty if nothing."""
    from pyiceberg.utils.config import Config as PyIcebergConfig

    try:
        found = PyIcebergConfig().get_catalog_config(name)
    except Exception as error:  # its messages quote the file, secrets included
        raise BadInput(
            f"PyIceberg's configuration cannot be read ({type(error).__name__}): mend .pyiceberg.yaml"
        ) from None
    return {str(k): str(v) for k, v in found.items()} if found else {}


def spark_properties(name: str, given: Mapping[str, str]) -> dict[str, str]:
    """Iceberg's properties from Iceberg's or PyIceberg's; the type comes from the URI if it is not given."""
    properties = {_RENAMED.get(key, key): value for key, value in given.items() if not key.startswith(_NOT_FOR_JAVA)}
    kind = properties.pop("type", None)
    if kind is None and ("catalog-impl" in properties or "catalog.impl" in properties):
        return properties
    kind = (kind or _type_of(name, properties.get("uri"))).lower()
    if kind not in _TYPES:
        raise BadInput(f"catalog {name!r}: unknown type {kind!r}; there is: {', '.join(sorted(_TYPES))}")
    if kind in _WITH_URI and not properties.get("uri"):
        raise BadInput(f"catalog {name!r} of type {kind} has no uri")
    if kind in {"sql", "jdbc"}:
        kind = "jdbc"
        properties |= _jdbc(name, properties["uri"])
        if properties["uri"].startswith(_JDBC_SQLITE):
            file = Path(properties["uri"].removeprefix(_JDBC_SQLITE)).resolve()
            properties.setdefault("warehouse", str(file.parent))
    if any(key.startswith("s3.") for key in properties) or properties.get("warehouse", "").startswith("s3"):
        properties.setdefault("io-impl", "org.apache.iceberg.aws.s3.S3FileIO")
    return {"type": kind, **properties}


def shown_properties(kind: str, uri: str | None, warehouse: str | None) -> dict[str, str]:
    """Type, address and warehouse as a chosen catalog has them, as far as they are given."""
    shown = {"type": kind, "uri": uri, "warehouse": warehouse}
    if kind.lower() in {"sql", "jdbc"}:
        shown["type"] = "jdbc"
        shown |= _jdbc("of the resource", uri) if uri else {}
    return {key: value for key, value in shown.items() if value is not None and not key.startswith("jdbc.")}


class _Limit(NamedTuple):
    """A property that limits how long a client waits."""

    name: str
    unit: float
    """Of the property's values, in seconds."""
    connecting: bool = False
    """True for the connection itself, false for an answer."""


_REST_LIMITS = (
    _Limit("rest.client.connection-timeout-ms", 0.001, connecting=True),
    _Limit("rest.client.socket-timeout-ms", 0.001),
)
_JDBC_LIMITS = {
    "postgresql": (_Limit("connectTimeout", 1, connecting=True), _Limit("loginTimeout", 1), _Limit("socketTimeout", 1)),
    "mysql": (_Limit("connectTimeout", 0.001, connecting=True), _Limit("socketTimeout", 0.001)),
    "mariadb": (_Limit("connectTimeout", 0.001, connecting=True), _Limit("socketTimeout", 0.001)),
}
"""By driver. SQLite has no server, and waits three seconds for others that write."""


def with_limits(properties: Mapping[str, str], seconds: float | None) -> dict[str, str]:
    """Properties with limits for calls to the catalog, where it has none of its own: one that never answers must not
    keep a run for ever, and with it the table."""
    kind = properties.get("type") or _KINDS.get(properties.get("catalog-impl", ""))
    limits: dict[str, str] = {}
    if seconds is not None and kind == "rest":
        limits = {limit.name: _limit_value(limit, seconds) for limit in _REST_LIMITS}
    elif seconds is not None and kind == "jdbc":
        limits = dict(_jdbc_limits(properties.get("uri", ""), seconds))
    return {**limits, **properties}


def _jdbc_limits(uri: str, seconds: float) -> Iterator[tuple[str, str]]:
    """Properties of the driver, except for those that the URL sets."""
    driver = uri.removeprefix("jdbc:").partition(":")[0]
    for limit in _JDBC_LIMITS.get(driver, ()):
        if not re.search(rf"[?&]{limit.name}=", uri):
            yield f"jdbc.{limit.name}", _limit_value(limit, seconds)


def _limit_value(limit: _Limit, seconds: float) -> str:
    return str(math.ceil((min(seconds, _CONNECT_SECONDS) if limit.connecting else seconds) / limit.unit))


def _type_of(name: str, uri: str | None) -> str:
    scheme = (uri or "").split(":", 1)[0].split("+", 1)[0].lower()
    if scheme not in _TYPE_BY_SCHEME:
        known = "http(s), thrift, jdbc, sqlite, postgresql, mysql"
        raise BadInput(
            f"catalog {name!r}: cannot tell its type from {_shown(uri)}: give --catalog-type or a URI with {known}"
        )
    return _TYPE_BY_SCHEME[scheme]


def _shown(uri: str | None) -> str:
    """What of a URI is surely no secret: where there is a user, there may be a password anywhere after it."""
    scheme, colon, rest = (uri or "").partition(":")
    if not colon:
        return "a uri without a scheme" if uri else "a missing uri"
    if "@" in rest or not rest.startswith("//"):
        return f"{scheme}:..."
    return f"{scheme}://{re.split('[/?#:]', rest.removeprefix('//'))[0]}"


def _jdbc(name: str, uri: str) -> dict[str, str]:
    """A SQLAlchemy URL as a JDBC one, with its user and password as properties; a JDBC URL stays as it is."""
    if uri.startswith("jdbc:"):
        return {}
    not_a_url = BadInput(f"catalog {name!r}: its uri is not a URL; percent-encode odd characters in user and password")
    try:
        parts = urlsplit(uri)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:  # its message may quote a part of the password
        raise not_a_url from None
    dialect = parts.scheme.split("+")[0]
    if dialect == "sqlite":
        return {"uri": _JDBC_SQLITE + _sqlite_file(name, parts.path)}
    if not dialect or "@" in parts.path + parts.query + parts.fragment:
        raise not_a_url  # a bare / ? or # in the password has ended the host too early
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname or "localhost"
    query = f"?{parts.query}" if parts.query else ""
    found = {"uri": f"jdbc:{dialect}://{host}{port}{parts.path}{query}"}
    if parts.username:
        found["jdbc.user"] = unquote(parts.username)
    if parts.password:
        found["jdbc.password"] = unquote(parts.password)
    return found


def _sqlite_file(name: str, path: str) -> str:
    """sqlite:///relative.db, sqlite:////absolute.db"""
    file = unquote(path).removeprefix("/")
    if file in {"", ":memory:"}:
        raise BadInput(f"catalog {name!r}: a SQLite catalog needs a file, as in sqlite:///catalog.db")
    return str(Path(file).resolve())


def _unknown(name: str, config: Config) -> str:
    known = sorted(config.catalogs)
    hint = f"icepact.yaml has {', '.join(known)}" if known else "icepact.yaml names none"
    return f"no catalog {name!r} is configured: {hint}, PyIceberg's configuration has no such name, no URI was given"
