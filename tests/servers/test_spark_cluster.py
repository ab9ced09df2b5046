"""A Spark standalone cluster with two workers, whose Python does not have icepact: what executors need, we bring.

One application does everything here, because its driver and executors take long to start: first a table on a
disk that driver and executors share, in a JDBC catalog on PostgreSQL, then one in S3, in a REST catalog. Each is
compacted, and what is left of it expires.
"""

import json
from pathlib import Path

import pytest

from tests.support.servers.cluster import SparkCluster
from tests.support.servers.postgres import Postgres
from tests.support.servers.rest import RestCatalog
from tests.support.servers.trial import Elsewhere, Task, Trial, configuration, elsewhere


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shared disk."""
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def application(spark_cluster: SparkCluster, postgres: Postgres, rest_catalog: RestCatalog, folder: Path) -> Elsewhere:
    """What the application did; the JDBC driver must be on its class path when Java starts."""
    conf = {**spark_cluster.settings, "spark.driver.extraClassPath": str(postgres.driver)}
    jdbc = {"type": "sql", "uri": postgres.uri, "warehouse": str(folder / "warehouse")}
    tasks = [
        Task(
            config=configuration(folder / name, catalog, master=spark_cluster.master, conf=conf),
            table=f"cluster_{name}.t",
            version=version,
            expire=True,
        )
        for name, catalog, version in [("jdbc", jdbc, 2), ("rest", rest_catalog.properties, 3)]
    ]
    return elsewhere(tasks, folder=folder, env={"PYSPARK_PYTHON": str(spark_cluster.python)})


@pytest.fixture
def on_disk(application: Elsewhere) -> Trial:
    """The table on the shared disk."""
    return application.trials[0]


@pytest.fixture
def in_s3(application: Elsewhere) -> Trial:
    """The table in S3."""
    return application.trials[1]


def test_both_executors_worked_and_nobody_else(application: Elsewhere) -> None:
    assert sorted(application.executors) == ["0", "1"]


def test_files_on_a_shared_disk(on_disk: Trial, folder: Path) -> None:
    paths = [Path(file.removeprefix("file:")) for file in on_disk.inputs | on_disk.outputs]
    assert [path for path in paths if not path.is_relative_to(folder / "warehouse")] == []
    there = {str(path) for path in paths if path.is_file()}
    assert there == {file.removeprefix("file:") for file in on_disk.outputs}, "executors found out what expired"


def test_a_password_in_the_catalogs_uri_goes_nowhere(on_disk: Trial, postgres: Postgres, folder: Path) -> None:
    """It is given as Python people give it, inside the URI."""
    assert postgres.password in postgres.uri
    history = b"".join(
        file.read_bytes() for file in (folder / "jdbc").glob("icepact.db*")
    )  # the newest may be beside it
    assert on_disk.outcome["run_id"].encode() in history
    assert postgres.password.encode() not in history
    assert postgres.password not in json.dumps([on_disk.plan, on_disk.outcome])


def test_files_in_s3(in_s3: Trial, rest_catalog: RestCatalog) -> None:
    there = rest_catalog.s3.objects("wh/cluster_rest/t/data/")
    assert there & (in_s3.inputs | in_s3.outputs) == in_s3.outputs, "executors found out what expired"
    assert rest_catalog.s3.unfinished_uploads() == set()
