"""Which catalog is meant, and how Iceberg is told about it."""

import json
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from icepact.iceberg.catalogs import choose_catalog, embedded, embedded_has, embedded_is_small, spark_properties
from icepact.model.errors import BadInput
from icepact.policy.config import Catalog, Config

SECRET = "hunter2"


@pytest.fixture(autouse=True)
def _nobody_elses_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home without PyIceberg's file, and a working folder of our own."""
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in [name for name in os.environ if name.startswith("PYICEBERG_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path / "work")


def chosen(**settings: Any) -> Catalog:
    """The catalog of a configuration."""
    return choose_catalog(Config.model_validate(settings))


def unlimited(**settings: Any) -> Mapping[str, str]:
    """Its properties, without limits for calls."""
    return chosen(catalog_timeout=None, **settings).properties


def refusal(**settings: Any) -> str:
    """Why a configuration is refused."""
    with pytest.raises(BadInput) as refused:
        chosen(**settings)
    assert "\n" not in str(refused.value)
    return str(refused.value)


# -- the embedded one -----------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"catalog": "local"}])
def test_with_nothing_configured_it_is_sqlite_beside_a_local_warehouse(settings: dict[str, Any]) -> None:
    catalog = chosen(**settings)
    folder = Path("icepact-warehouse").resolve()
    assert (catalog.name, catalog.embedded) == ("local", folder)
    assert catalog.properties == {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{folder}/catalog.db",
        "warehouse": str(folder),
        "jdbc.schema-version": "V1",
    }


def test_a_warehouse_alone_is_embedded_wherever_it_is(tmp_path: Path) -> None:
    for spelled in (str(tmp_path / "wh"), f"file://{tmp_path}/wh"):
        assert chosen(warehouse=spelled).embedded == tmp_path / "wh"
    assert chosen(warehouse="~/wh").embedded == tmp_path / "home" / "wh"


def test_a_remote_warehouse_needs_a_catalog() -> None:
    assert refusal(warehouse="s3://lake/wh") == (
        "the warehouse s3://lake/wh needs a catalog: name one with --catalog or --catalog-uri"
    )


def test_embedded_tables_are_found_without_spark(tmp_path: Path) -> None:
    catalog = embedded(str(tmp_path))
    assert not embedded_has(catalog, ("db", "events"))
    _list_events(tmp_path, "file:/anywhere.json")
    assert embedded_has(catalog, ("db", "sub", "events"))
    assert not embedded_has(catalog, ("db", "events"))
    (tmp_path / "catalog.db").write_text("not a database, so it is not ours to judge")
    assert embedded_has(catalog, ("db", "events"))


def _list_events(warehouse: Path, metadata: str) -> None:
    """An embedded catalog with one table."""
    with sqlite3.connect(warehouse / "catalog.db") as connection:
        columns = "catalog_name, table_namespace, table_name, metadata_location"
        connection.execute(f"CREATE TABLE iceberg_tables ({columns})")
        connection.execute("INSERT INTO iceberg_tables VALUES ('local', 'db.sub', 'events', ?)", (metadata,))
    connection.close()


SMALL = {"total-files-size": "5000000", "total-data-files": "20"}


@pytest.mark.parametrize(
    ("summary", "more", "small"),
    [
        pytest.param(SMALL, {}, True, id="small"),
        pytest.param(SMALL | {"total-files-size": str(10**9)}, {}, False, id="many bytes"),
        pytest.param(SMALL | {"total-data-files": "100000"}, {}, False, id="many files"),
        pytest.param({}, {}, False, id="nobody counted"),
        pytest.param(SMALL, {"default-sort-order-id": 1}, False, id="Spark sorts it"),
        pytest.param(SMALL, {"properties": {"write.format.default": "orc"}}, False, id="Spark writes it"),
        pytest.param(SMALL, {"current-snapshot-id": None}, False, id="no snapshot"),
        pytest.param(SMALL, {"padding": "x" * 5_000_000}, False, id="much metadata"),
    ],
)
def test_what_is_small_is_known_without_spark(
    tmp_path: Path, summary: dict[str, str], more: dict[str, Any], *, small: bool
) -> None:
    metadata = {"snapshots": [{"snapshot-id": 7, "summary": summary}], "current-snapshot-id": 7, **more}
    (tmp_path / "m.json").write_text(json.dumps(metadata))
    _list_events(tmp_path, f"file:{tmp_path}/m.json")
    assert embedded_is_small(embedded(str(tmp_path)), ("db", "sub", "events")) is small


def test_what_cannot_be_read_is_not_small(tmp_path: Path) -> None:
    catalog = embedded(str(tmp_path))
    assert not embedded_is_small(catalog, ("db", "sub", "events"))
    _list_events(tmp_path, "s3://elsewhere/m.json")
    assert not embedded_is_small(catalog, ("db", "sub", "events"))
    assert not embedded_is_small(catalog, ("db", "other"))
    assert not embedded_is_small(Catalog(name="prod", properties={}), ("db", "other"))


# -- types ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("http://localhost:8181", "rest"),
        ("https://polaris.example/api/catalog", "rest"),
        ("thrift://hms:9083", "hive"),
        ("jdbc:postgresql://db/iceberg", "jdbc"),
        ("sqlite:///catalog.db", "jdbc"),
        ("postgresql://db/iceberg", "jdbc"),
        ("postgresql+psycopg2://db/iceberg", "jdbc"),
        ("postgresql+psycopg://db/iceberg", "jdbc"),
        ("mysql+pymysql://db/iceberg", "jdbc"),
        ("HTTPS://polaris.example", "rest"),
    ],
)
def test_the_uri_tells_the_type(uri: str, kind: str) -> None:
    catalog = chosen(catalog_uri=uri)
    assert (catalog.name, catalog.embedded) == ("local", None)
    assert catalog.properties["type"] == kind


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"catalog_uri": "https://Rest.example:443/api/", "warehouse": "lake"}, "rest.example/api (lake)"),
        ({"catalog_uri": "https://rest.example/api", "warehouse": "other/"}, "rest.example/api (other)"),
        ({"catalog_uri": f"http://me:{SECRET}@rest:8181?token={SECRET}"}, "rest:8181"),
        (
            {"catalog_uri": f"postgresql://me:{SECRET}@db/ice", "warehouse": f"s3://me:{SECRET}@b/wh"},
            "db/ice (s3://b/wh)",
        ),
        ({"catalog_uri": "thrift://meta:9083"}, "meta:9083"),
        ({"catalog_uri": "jdbc:sqlite:/x/catalog.db"}, "sqlite:/x/catalog.db (/x)"),
        ({"catalog_type": "glue", "warehouse": "s3://lake/wh"}, "glue (s3://lake/wh)"),
        ({"catalog_uri": "http://other", "catalogs": {"prod": {"uri": "http://prod"}}}, "other"),
        ({"catalogs": {"prod": {"uri": "http://prod"}}}, "prod"),
        ({"catalog": "mine", "catalog_uri": "http://prod"}, "mine"),
        ({}, "local"),
    ],
)
def test_catalogs_without_a_name_are_recorded_by_their_place(settings: dict[str, Any], place: str) -> None:
    assert chosen(**settings).recorded_as == place


def test_properties_from_flags_go_over_all_others() -> None:
    given = {"s3.endpoint": "http://there", "x": "z"}
    prod = {"uri": "http://prod", "x": "y", "s3.region": "r"}
    found = chosen(catalogs={"prod": prod}, catalog_properties=given).properties
    assert {k: found[k] for k in ("s3.endpoint", "x", "client.region", "io-impl")} == {
        "s3.endpoint": "http://there",
        "x": "z",
        "client.region": "r",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    }
    with pytest.raises(BadInput, match="catalog properties are given, but no catalog"):
        chosen(catalog_properties=given)


def test_a_given_type_wins_over_the_uri() -> None:
    assert chosen(catalog_uri="https://nessie:19120/api/v2", catalog_type="nessie").properties["type"] == "nessie"
    assert chosen(catalog_uri="https://x", catalog_type="REST").properties["type"] == "rest"
    assert chosen(catalog_type="glue", warehouse="s3://lake/wh").properties == {
        "type": "glue",
        "warehouse": "s3://lake/wh",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    }


def test_an_implementation_of_the_users_own_needs_no_type() -> None:
    own = {"catalog-impl": "com.example.Mine", "x": "y"}
    assert spark_properties("prod", own) == own


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"catalog_uri": "https://x", "catalog_type": "magic"},
            "catalog 'local': unknown type 'magic'; there is: glue, hadoop, hive, jdbc, nessie, rest, sql",
        ),
        (
            {"catalog_uri": "ftp://host:99/path?x=y"},
            "catalog 'local': cannot tell its type from ftp://host: "
            "give --catalog-type or a URI with http(s), thrift, jdbc, sqlite, postgresql, mysql",
        ),
        ({"catalog_type": "rest"}, "catalog 'local' of type rest has no uri"),
        ({"catalog_type": "sql"}, "catalog 'local' of type sql has no uri"),
        ({"catalog_type": "hive", "catalogs": {"prod": {"x": "y"}}}, "catalog 'prod' of type hive has no uri"),
        (
            {"catalogs": {"prod": {"warehouse": "s3://x", "token": SECRET}}},
            "catalog 'prod': cannot tell its type from a missing uri: "
            "give --catalog-type or a URI with http(s), thrift, jdbc, sqlite, postgresql, mysql",
        ),
        (
            {"catalog_uri": "sqlite://"},
            "catalog 'local': a SQLite catalog needs a file, as in sqlite:///catalog.db",
        ),
        (
            {"catalog_uri": "sqlite:///:memory:"},
            "catalog 'local': a SQLite catalog needs a file, as in sqlite:///catalog.db",
        ),
    ],
)
def test_what_is_refused_says_what_is_right(settings: dict[str, Any], message: str) -> None:
    assert refusal(**settings) == message


# -- databases ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("postgresql://db/iceberg", {"uri": "jdbc:postgresql://db/iceberg"}),
        (
            "postgresql+psycopg2://me:p%40ss%2Fword@db:5433/iceberg",
            {"uri": "jdbc:postgresql://db:5433/iceberg", "jdbc.user": "me", "jdbc.password": "p@ss/word"},
        ),
        ("postgresql://me@db/iceberg", {"uri": "jdbc:postgresql://db/iceberg", "jdbc.user": "me"}),
        ("postgresql:///iceberg", {"uri": "jdbc:postgresql://localhost/iceberg"}),
        ("postgresql://[::1]:5432/iceberg", {"uri": "jdbc:postgresql://[::1]:5432/iceberg"}),
        ("postgresql://db/x?sslmode=verify-full", {"uri": "jdbc:postgresql://db/x?sslmode=verify-full"}),
        ("mysql+pymysql://db/iceberg", {"uri": "jdbc:mysql://db/iceberg"}),
        ("jdbc:postgresql://db/x?user=me", {"uri": "jdbc:postgresql://db/x?user=me"}),
    ],
)
def test_database_urls_become_jdbc(uri: str, expected: dict[str, str]) -> None:
    assert spark_properties("prod", {"uri": uri}) == {"type": "jdbc", **expected}
    assert spark_properties("prod", {"uri": uri, "type": "jdbc"}) == {"type": "jdbc", **expected}
    assert spark_properties("prod", {"uri": uri, "type": "sql"}) == {"type": "jdbc", **expected}


@pytest.mark.parametrize(
    ("uri", "file"),
    [
        ("sqlite:///sub/catalog.db", "sub/catalog.db"),
        ("sqlite:////srv/me%20and@you/catalog.db", "/srv/me and@you/catalog.db"),
        ("jdbc:sqlite:/srv/catalog.db", "/srv/catalog.db"),
    ],
)
def test_a_sqlite_catalog_has_its_warehouse_beside_it(uri: str, file: str) -> None:
    path = Path(file).resolve()
    assert spark_properties("prod", {"uri": uri}) == {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:{path}",
        "warehouse": str(path.parent),
    }
    assert spark_properties("prod", {"uri": uri, "warehouse": "/wh"})["warehouse"] == "/wh"


# -- PyIceberg's configuration, and who wins ------------------------------------------------------


def pyiceberg(home: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyIceberg's file in a home of its own."""
    home.mkdir(exist_ok=True)
    (home / ".pyiceberg.yaml").write_text(text)
    monkeypatch.setenv("PYICEBERG_HOME", str(home))


PROD = f"""
catalog:
  prod:
    uri: https://from-pyiceberg
    token: {SECRET}
    s3.region: eu-west-1
    py-io-impl: pyiceberg.io.pyarrow.PyArrowFileIO
    downcast-ns-timestamp-to-us-on-write: "true"
"""


def test_a_catalog_of_pyiceberg_is_used_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyiceberg(tmp_path / "py", PROD, monkeypatch)
    assert chosen(catalog="prod").name == "prod"
    assert unlimited(catalog="prod") == {
        "type": "rest",
        "uri": "https://from-pyiceberg",
        "token": SECRET,
        "client.region": "eu-west-1",
    }


def test_pyicebergs_variables_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", "https://from-variable")
    assert chosen(catalog="prod").properties["uri"] == "https://from-variable"


def test_icepact_yaml_wins_over_pyiceberg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyiceberg(tmp_path / "py", PROD, monkeypatch)
    own = {"prod": {"uri": "https://from-yaml"}}
    assert unlimited(catalog="prod", catalogs=own) == {"type": "rest", "uri": "https://from-yaml"}


def test_a_uri_on_top_replaces_uri_and_type_and_keeps_the_rest() -> None:
    own = {"prod": {"uri": "thrift://hms:9083", "type": "hive", "token": SECRET}}
    found = unlimited(catalog="prod", catalogs=own, catalog_uri="https://other", warehouse="wh1")
    assert found == {"type": "rest", "uri": "https://other", "token": SECRET, "warehouse": "wh1"}


def test_the_only_catalog_need_not_be_named() -> None:
    assert chosen(catalogs={"prod": {"uri": "https://x"}}).name == "prod"


def test_of_several_catalogs_one_must_be_named() -> None:
    several = {"b": {"uri": "https://b"}, "a": {"uri": "https://a"}}
    assert refusal(catalogs=several) == "several catalogs are configured, name one with --catalog: a, b"
    assert chosen(catalogs=several, catalog="b").properties["uri"] == "https://b"
    assert chosen(catalogs=several, catalog_uri="https://c").name == "local"


def test_an_unknown_catalog_says_where_was_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    end = "PyIceberg's configuration has no such name, no URI was given"
    assert refusal(catalog="prod") == f"no catalog 'prod' is configured: icepact.yaml names none, {end}"
    known = {"b": {"uri": "https://b"}, "a": {"uri": "https://a"}}
    assert refusal(catalog="prod", catalogs=known) == f"no catalog 'prod' is configured: icepact.yaml has a, b, {end}"
    pyiceberg(tmp_path / "py", PROD, monkeypatch)
    assert refusal(catalog="qa") == f"no catalog 'qa' is configured: icepact.yaml names none, {end}"


def test_storage_on_s3_uses_icebergs_own_client() -> None:
    for more in ({"s3.endpoint": "http://minio:9000"}, {"warehouse": "s3://lake/wh"}):
        found = spark_properties("prod", {"uri": "https://x", **more})
        assert found["io-impl"] == "org.apache.iceberg.aws.s3.S3FileIO"
    assert spark_properties("prod", {"uri": "https://x", "s3.endpoint": "e", "io-impl": "mine"})["io-impl"] == "mine"
    assert "io-impl" not in spark_properties("prod", {"uri": "https://x", "warehouse": "gs://lake"})


# -- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "timeout", "limits"),
    [
        (
            {"uri": "https://x"},
            "60s",
            {"rest.client.connection-timeout-ms": "10000", "rest.client.socket-timeout-ms": "60000"},
        ),
        (
            {"uri": "https://x", "rest.client.socket-timeout-ms": "5"},
            "0.5s",
            {"rest.client.connection-timeout-ms": "500", "rest.client.socket-timeout-ms": "5"},
        ),
        (
            {"uri": "https://x", "catalog-impl": "org.apache.iceberg.rest.RESTCatalog"},
            "2m",
            {"rest.client.connection-timeout-ms": "10000", "rest.client.socket-timeout-ms": "120000"},
        ),
        (
            {"uri": "postgresql://me@db/x"},
            "1m",
            {"jdbc.connectTimeout": "10", "jdbc.loginTimeout": "60", "jdbc.socketTimeout": "60"},
        ),
        (
            {"uri": "jdbc:postgresql://db/x?ssl=true&socketTimeout=7", "jdbc.loginTimeout": "8"},
            "0.2s",
            {"jdbc.connectTimeout": "1", "jdbc.loginTimeout": "8"},
        ),
        ({"uri": "jdbc:mysql://db/x"}, "60s", {"jdbc.connectTimeout": "10000", "jdbc.socketTimeout": "60000"}),
        ({"uri": "jdbc:mariadb://db/x"}, "60s", {"jdbc.connectTimeout": "10000", "jdbc.socketTimeout": "60000"}),
        ({"uri": "jdbc:sqlite:/x.db"}, "60s", {}),
        ({"uri": "jdbc:other://db/x"}, "60s", {}),
        ({"uri": "thrift://hms:9083"}, "60s", {}),
        ({"uri": "https://x"}, None, {}),
        ({"uri": "postgresql://me@db/x"}, None, {}),
    ],
)
def test_calls_are_limited_unless_the_catalog_says_otherwise(
    properties: dict[str, str], timeout: str | None, limits: dict[str, str]
) -> None:
    found = chosen(catalogs={"prod": properties}, catalog_timeout=timeout).properties
    assert {name: value for name, value in found.items() if "imeout" in name and name != "uri"} == limits


def test_a_limit_holds_if_nobody_asks_for_one() -> None:
    assert chosen(catalog_uri="https://x").properties["rest.client.socket-timeout-ms"] == "60000"


# -- secrets --------------------------------------------------------------------------------------


def test_secrets_are_in_the_properties_and_nowhere_else() -> None:
    catalog = chosen(catalog_uri=f"postgresql://me:{SECRET}@db/x")
    assert catalog.properties["jdbc.password"] == SECRET
    assert SECRET not in repr(catalog)
    assert SECRET not in str(catalog)


@pytest.mark.parametrize(
    "settings",
    [
        {"catalog_uri": f"ftp://me:{SECRET}@host/x"},
        {"catalog_uri": f"ftp://me:a/{SECRET}@host/x"},
        {"catalog_uri": f"oracle:thin:me/{SECRET}@host"},
        {"catalog_uri": f"me:{SECRET}@host/x"},
        {"catalog_uri": f"ftp://host/x?password={SECRET}"},
        {"catalog_uri": f"/{SECRET}"},
        {"catalog_uri": f"postgresql://me:{SECRET}#more@host/x"},
        {"catalog_uri": f"postgresql://me:{SECRET}/more@host/x"},
        {"catalog_uri": f"postgresql://me:12/{SECRET}@host/x"},
        {"catalog_uri": f"postgresql://me:1?{SECRET}@host/x"},
        {"catalog_uri": f"postgresql://[{SECRET}"},
        {"catalog_uri": f"me:{SECRET}@host/x", "catalog_type": "magic"},
        {"catalogs": {"prod": {"type": "rest", "token": SECRET}}},
        {"catalog": "qa", "catalogs": {"prod": {"type": "rest", "token": SECRET}}},
    ],
)
def test_secrets_are_never_in_a_message(settings: dict[str, Any]) -> None:
    assert SECRET not in refusal(**settings)


@pytest.mark.parametrize(
    "text",
    [f"catalog: {{token: {SECRET}}}", f"catalog: {SECRET}", f"- {SECRET}\n  x: [", f"catalog:\n  prod: {SECRET}"],
)
def test_a_broken_file_of_pyiceberg_is_one_line(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pyiceberg(tmp_path / "py", text, monkeypatch)
    message = refusal(catalog="prod")
    assert message.startswith("PyIceberg's configuration cannot be read (")
    assert SECRET not in message
