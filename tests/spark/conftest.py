"""One Spark session and one warehouse for all tests here; every test has its own namespace."""

import itertools

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor

_numbers = itertools.count(1)


QUICK = "spark: {conf: {spark.driver.extraJavaOptions: '-XX:TieredStopAtLevel=1'}}\n"
"""Java's second compiler would take half of the processor's time for queries of which each is asked once."""


@pytest.fixture(scope="session")
def compactor(tmp_path_factory: pytest.TempPathFactory) -> Compactor:
    """A compactor on an embedded catalog of its own."""
    config = tmp_path_factory.mktemp("config") / "icepact.yaml"
    config.write_text(QUICK)
    return Compactor(config=config, warehouse=tmp_path_factory.mktemp("warehouse"))


@pytest.fixture(scope="session")
def spark(compactor: Compactor) -> SparkSession:
    """The session in use; the catalog is `local` and also the default."""
    session = compactor.spark
    session.conf.set("spark.sql.shuffle.partitions", "2")
    session.conf.set("spark.sql.codegen.wholeStage", "false")  # each query would be compiled, for a few rows
    return session


@pytest.fixture
def namespace(spark: SparkSession) -> str:
    """A namespace nobody else uses."""
    name = f"ns{next(_numbers)}"
    spark.sql(f"CREATE NAMESPACE {name}")
    return name
