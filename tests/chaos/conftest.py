"""One Spark session for all; the processes that are killed have their own. Servers start when a test asks for them."""

import pytest

from tests.spark.conftest import compactor, namespace, spark  # noqa: F401
from tests.support.servers.fixtures import (  # noqa: F401
    pytest_runtest_makereport,
    rest_catalog,
    s3_server,
    servers_folder,
)


@pytest.fixture
def table(namespace: str) -> str:  # noqa: F811
    """The name of a table that does not exist yet."""
    return f"{namespace}.t"
