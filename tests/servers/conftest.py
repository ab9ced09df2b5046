"""Real servers, started when a test asks for them; every test has tables of its own."""

import itertools

import pytest

from tests.support.servers.fixtures import (  # noqa: F401
    etcd_server,
    postgres,
    pytest_runtest_makereport,
    redis_server,
    rest_catalog,
    s3_server,
    server,
    servers_folder,
    spark_cluster,
    vending_catalog,
)

_numbers = itertools.count(1)


@pytest.fixture
def table() -> str:
    """The name of a table that nobody else uses; it does not exist yet."""
    return f"ns{next(_numbers)}.t"
