"""One Spark session and one warehouse for all tests here; every test has its own namespace."""

import itertools

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor

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
def namespace(spark: SparkSession) -> str:
    """A namespace nobody else uses."""
    name = f"ns{next(_numbers)}"
    spark.sql(f"CREATE NAMESPACE {name}")
    return name
