"""Compaction without moving bytes: on S3, copied row groups stay inside the store."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepact.execute.assemble import task
from icepact.execute.assemble.messages import Compared, InputFile, UnitReport, UnitWork
from icepact.execute.storage.base import KIB
from icepact.execute.storage.s3_sink import S3Sink
from icepact.execute.storage.s3_source import S3Object
from tests.support.checks import keeps_rows
from tests.support.compactors import short_compactor
from tests.support.kernel import COPY, Kernel, column, given, rows_of, stored, struct
from tests.support.servers.rest import RestCatalog
from tests.support.servers.s3 import S3Server
from tests.support.servers.trial import configuration
from tests.support.tables import create

FILES = 12
ROWS = 11_250
"""Of a file: each has a kilobyte that does not compress, so that it has more than ten megabytes in one row group."""


@pytest.mark.parametrize("version", [2, 3])
def test_the_store_copies(rest_catalog: RestCatalog, table: str, tmp_path: Path, version: int) -> None:
    """About one percent of the bytes pass through the tasks, with at most 2.5 requests per input.

    On version 3 row ids are added to every row group: they travel, and nothing else. Three places of what was copied
    are looked at, here and in the input, up to 64 KiB each.
    """
    compactor = short_compactor(config=configuration(tmp_path, rest_catalog.properties))
    spark = compactor.spark
    for key, value in {"wholeStage": "true", "factoryMode": "FALLBACK"}.items():
        spark.conf.set(f"spark.sql.codegen.{key}", value)  # it pays off for millions of rows
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.split('.')[0]}")
    create(spark, table, "id bigint, noise binary", version=version)
    noise = "unhex(array_join(transform(sequence(1, 16), n -> sha2(concat(id, '-', n), 512)), ''))"
    rows = spark.range(0, FILES * ROWS, 1, FILES).selectExpr("id", f"{noise} AS noise")
    rows.writeTo(table).append()

    outcome = keeps_rows(compactor, table, lineage=version == 3)

    moved = outcome.bytes_before
    assert moved > FILES * 10_000_000
    assert (dict(outcome.methods), outcome.files_after) == ({"assemble": 1}, 1)
    assert outcome.effort.copied_bytes > 0.98 * moved
    looked_at = 2 * (FILES // 4)
    assert outcome.effort.transferred_bytes <= 0.01 * moved + looked_at * 64 * KIB
    assert outcome.effort.requests <= 2.5 * FILES + looked_at
    assert rest_catalog.s3.unfinished_uploads() == set()


# -- what was copied is looked at --------------------------------------------------------------------


ID, NOISE = stored(1, "id", pa.int64()), 1_200_000


def unit(server: S3Server, folder: Path, name: str, how: Compared) -> UnitReport:
    """Two files on S3, large enough to be spliced, as one unit of the kernel."""
    kernel = Kernel(folder=folder, schema=struct(column(1, "id", "long")), writing=COPY, compared=how)
    tables = [rows_of({ID: np.random.default_rng(number).integers(0, 2**63, NOISE)}) for number in range(2)]
    return assembled(server, kernel, name, tables)


def assembled(server: S3Server, kernel: Kernel, name: str, tables: Sequence[pa.Table], **options: Any) -> UnitReport:
    """Tables as files on S3, and these as one unit of the kernel."""
    inputs: list[InputFile] = []
    for number, table in enumerate(tables):
        path = kernel.file(f"{name}-{number}", table, use_dictionary=False, **options)
        server.client.put_object(Bucket=server.bucket, Key=f"copies/{path.name}", Body=path.read_bytes())
        inputs.append(replace(given(path), path=f"s3://{server.bucket}/copies/{path.name}"))
    output = f"s3://{server.bucket}/copies/out-{name}"
    work = UnitWork(unit_id="u", inputs=tuple(inputs), output=output, max_file_size=2**40)
    context = replace(kernel.context, properties=server.properties)
    [report] = task.run_units([work], context, "0", last=True)
    assert report.refused is None
    return report


@pytest.mark.parametrize(("place", "share"), [(0, 0.5), (1, 0.1)], ids=["first", "last"])
def test_a_column_in_another_form_travels_and_no_other(
    s3_server: S3Server, tmp_path: Path, place: int, share: float
) -> None:
    """Its type was widened: it is fetched, encoded and sent, behind all copies.

    If it is the first column, it goes before each of them, with the 5 MiB that the store wants in a part.
    """
    rows = 3_000_000
    columns = [column(1, "id", "long")]
    columns.insert(place, column(2, "n", "long"))
    kernel = Kernel(folder=tmp_path, schema=struct(*columns), writing=COPY, compared=Compared.NOTHING)
    noise = [np.random.default_rng(number).integers(0, 2**63, rows) for number in range(2)]
    steps = np.arange(rows) // 10_000
    tables = [rows_of({ID: some, stored(2, "n", pa.int32()): steps}) for some in noise]
    report = assembled(s3_server, kernel, f"widened-{place}", tables, row_group_size=rows)
    assert report.failed is None
    assert report.effort.copied_bytes > 48_000_000
    assert report.effort.transferred_bytes < share * report.effort.copied_bytes
    [written] = report.outputs
    key = written.path.removeprefix(f"s3://{s3_server.bucket}/")
    data = s3_server.client.get_object(Bucket=s3_server.bucket, Key=key)["Body"].read()
    found = pq.read_table(pa.BufferReader(data))
    assert np.array_equal(found["id"].to_numpy(), np.concatenate(noise))
    assert np.array_equal(found["n"].to_numpy(), np.concatenate([steps, steps]))


def test_copies_inside_the_store_are_looked_at(s3_server: S3Server, tmp_path: Path) -> None:
    """At one place of two inputs, there and here; or all of them."""
    reports = {how: unit(s3_server, tmp_path, how.value, how) for how in Compared}
    plain, default, full = (reports[how] for how in (Compared.NOTHING, Compared.SAMPLE, Compared.ALL))
    assert plain.effort.copied_bytes > 18_000_000
    assert default.effort.requests - plain.effort.requests == 2
    assert 0 < default.effort.transferred_bytes - plain.effort.transferred_bytes <= 2 * 64 * KIB
    assert full.effort.transferred_bytes - plain.effort.transferred_bytes == 2 * full.effort.copied_bytes
    assert {report.effort.write_requests for report in reports.values()} == {plain.effort.write_requests}


@pytest.mark.parametrize("how", Compared)
def test_a_copy_of_the_wrong_bytes_is_noticed(
    s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: Compared
) -> None:
    """The store copies as many bytes as it should, one byte further on."""
    right = S3Sink._copied

    def shifted(self: S3Sink, upload: str, number: int, origin: S3Object, offset: int, length: int) -> str:
        return right(self, upload, number, origin, offset + 1, length)

    monkeypatch.setattr(S3Sink, "_copied", shifted)
    report = unit(s3_server, tmp_path, f"wrong-{how}", how)
    left = s3_server.client.list_objects_v2(Bucket=s3_server.bucket, Prefix=f"copies/out-wrong-{how}")["KeyCount"]
    if how is Compared.NOTHING:
        assert (report.failed, left) == (None, 1)
    else:
        assert report.failed is not None
        assert "which they were copied from" in report.failed
        assert left == 0
