"""One Spark session and one warehouse for all tests here; every test has its own namespace."""

import itertools
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from tests.support.java import items, java_array, jvm

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def compactor(tmp_path_factory: pytest.TempPathFactory) -> Compactor:
    """A compactor on an embedded catalog of its own."""
    return Compactor(warehouse=tmp_path_factory.mktemp("warehouse"))


@pytest.fixture(scope="session")
def spark(compactor: Compactor) -> SparkSession:
    """The session in use; the catalog is `local` and also the default."""
    return compactor.spark


@pytest.fixture
def namespace(spark: SparkSession) -> Iterator[str]:
    """A namespace nobody else uses. It is forgotten in the end, with its tables: who asks a catalog for all of them, as
    the removal of orphans does, would go through those of hundreds of tests."""
    name = f"ns{next(_numbers)}"
    spark.sql(f"CREATE NAMESPACE {name}")
    yield name
    java = jvm(spark)
    catalog = java.org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog(spark._jsparkSession, "local")
    namespace = java.org.apache.iceberg.catalog.Namespace.of(java_array(spark, java.java.lang.String, [name]))
    for table in items(catalog.listTables(namespace)):
        catalog.dropTable(table, False)
    spark.sql(f"DROP NAMESPACE {name}")
