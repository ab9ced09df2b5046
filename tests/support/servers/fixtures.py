"""The servers as session fixtures: started when the first test asks, stopped at the end of all tests.

A `conftest.py` imports the ones its tests need, and `pytest_runtest_makereport` with them, which shows the
servers' logs when a test fails.
"""

import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.support.servers.cluster import SparkCluster
from tests.support.servers.cluster import spark_cluster as start_spark_cluster
from tests.support.servers.durable import KINDS, Server, durable_server
from tests.support.servers.etcd import EtcdServer
from tests.support.servers.etcd import etcd_server as start_etcd
from tests.support.servers.postgres import Postgres
from tests.support.servers.postgres import postgres as start_postgres
from tests.support.servers.process import running_logs, tail
from tests.support.servers.proxy import Handing, VendingCatalog
from tests.support.servers.proxy import vending_catalog as start_vending_catalog
from tests.support.servers.redis import RedisServer
from tests.support.servers.redis import redis_server as start_redis
from tests.support.servers.rest import RestCatalog
from tests.support.servers.rest import rest_catalog as start_rest_catalog
from tests.support.servers.s3 import S3Server
from tests.support.servers.s3 import s3_server as start_s3_server


@pytest.fixture(scope="session")
def servers_folder() -> Iterator[Path]:
    """Data and logs of all servers; with a short name, because sockets in it may not have a long one."""
    with tempfile.TemporaryDirectory(prefix="icepact-servers-") as name:
        Path(name).chmod(0o711)  # PostgreSQL may run as another user
        yield Path(name)


@pytest.fixture(scope="session")
def s3_server(servers_folder: Path) -> Iterator[S3Server]:
    """An S3 server with the bucket `lake`."""
    with start_s3_server(servers_folder) as server:
        yield server


@pytest.fixture(scope="session")
def rest_catalog(servers_folder: Path, s3_server: S3Server) -> Iterator[RestCatalog]:
    """A REST catalog on that bucket; clients bring the S3 keys."""
    with start_rest_catalog(servers_folder, s3_server) as server:
        yield server


@pytest.fixture(scope="session", params=list(Handing), ids=str)
def vending_catalog(request: pytest.FixtureRequest, rest_catalog: RestCatalog) -> Iterator[VendingCatalog]:
    """The same catalog behind a token that hands the S3 keys to its clients, in both ways there are."""
    with start_vending_catalog(rest_catalog, request.param) as server:
        yield server


@pytest.fixture(scope="session")
def postgres(servers_folder: Path) -> Iterator[Postgres]:
    """PostgreSQL."""
    with start_postgres(servers_folder) as server:
        yield server


@pytest.fixture(scope="session")
def redis_server(servers_folder: Path) -> Iterator[RedisServer]:
    """Redis."""
    with start_redis(servers_folder) as server:
        yield server


@pytest.fixture(scope="session")
def etcd_server(servers_folder: Path) -> Iterator[EtcdServer]:
    """etcd."""
    with start_etcd(servers_folder) as server:
        yield server


@pytest.fixture(scope="session", params=KINDS)
def server(request: pytest.FixtureRequest, servers_folder: Path) -> Iterator[Server]:
    """Each server that keeps a record store; it may be killed and started again."""
    with durable_server(request.param, servers_folder) as found:
        yield found


@pytest.fixture(scope="session")
def spark_cluster(servers_folder: Path) -> Iterator[SparkCluster]:
    """A Spark standalone cluster with two workers."""
    with start_spark_cluster(servers_folder) as server:
        yield server


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the servers said when a test fails."""
    report = yield
    if report.failed:
        report.sections += [(f"log of {file.name}", tail(file)) for file in running_logs()]
    return report
