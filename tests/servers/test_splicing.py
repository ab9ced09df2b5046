"""Compaction without moving bytes: on S3, copied row groups stay inside the store."""

from pathlib import Path

import pytest

from icepact import Compactor
from tests.support.checks import keeps_rows
from tests.support.servers.rest import RestCatalog
from tests.support.servers.trial import configuration
from tests.support.tables import create

FILES = 12
ROWS = 1_300_000
"""Of a file: random numbers hardly compress, so that it has more than ten megabytes in one row group."""


@pytest.mark.parametrize("version", [2, 3])
def test_the_store_copies(rest_catalog: RestCatalog, table: str, tmp_path: Path, version: int) -> None:
    """At most one percent of the bytes pass through the tasks, with at most 2.5 requests per input.

    On version 3 row ids are added to every row group: they travel, and nothing else.
    """
    compactor = Compactor(config=configuration(tmp_path, rest_catalog.properties), short=True)
    spark = compactor.spark
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.split('.')[0]}")
    create(spark, table, "id bigint, noise double", version=version)
    rows = spark.range(0, FILES * ROWS, 1, FILES).selectExpr("id", "rand(7) AS noise")
    rows.writeTo(table).append()

    outcome = keeps_rows(compactor, table, lineage=version == 3)

    moved = outcome.bytes_before
    assert moved > FILES * 10_000_000
    assert (dict(outcome.methods), outcome.files_after) == ({"assemble": 1}, 1)
    assert outcome.copied_bytes > 0.98 * moved
    assert outcome.transferred_bytes <= 0.01 * moved
    assert outcome.requests <= 2.5 * FILES
    assert rest_catalog.s3.unfinished_uploads() == set()
