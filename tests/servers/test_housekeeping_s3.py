"""Housekeeping on an S3 server: what goes and what stays, how many requests that takes, and a store that refuses."""

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from icepact import Compactor
from icepact.model.errors import BadInput, IcepactError
from icepact.model.expiry import ExpireResult
from icepact.model.orphans import OrphansResult
from icepact.model.status import Status
from tests.servers.test_storage_s3_faults import Gate, Refuse, Rule, Seen, gate  # noqa: F401
from tests.support.compactors import short_compactor
from tests.support.oracle import data_files, seen
from tests.support.servers.rest import RestCatalog
from tests.support.servers.trial import configuration
from tests.support.tables import create

ODD = ("ü ñ/lost file%20+&=.parquet", "lost//twice.parquet", "kind=a/lost.parquet")


@pytest.fixture
def compactor(rest_catalog: RestCatalog, gate: Gate, tmp_path: Path) -> Compactor:  # noqa: F811
    """Its requests for objects go through the gate."""
    properties = rest_catalog.properties | {"s3.endpoint": f"http://127.0.0.1:{gate.port}"}
    return short_compactor(config=configuration(tmp_path, properties))


def prefix_of(compactor: Compactor, table: str) -> str:
    """Of the keys of a table."""
    location = compactor.application.spark_catalog.table(table).location
    return location.partition("://")[2].partition("/")[2] + "/"


def as_s3(path: str) -> str:
    """As the store spells it."""
    return path.replace("s3a://", "s3://", 1)


def deletions(gate: Gate) -> int:  # noqa: F811
    """Requests that delete many."""
    return sum(seen.method == "POST" and seen.query.split("=")[0] == "delete" for seen in gate.seen)


def refused(query: str) -> Rule:
    """A store that does not allow one kind of request."""

    def rule(seen: Seen) -> Refuse | None:
        return Refuse(403, "AccessDenied") if query in seen.query and seen.method in ("GET", "POST") else None

    return rule


@pytest.mark.parametrize("version", [pytest.param(2, marks=pytest.mark.matrix), 3])
def test_expire_and_orphans(
    compactor: Compactor,
    rest_catalog: RestCatalog,
    gate: Gate,  # noqa: F811
    table: str,
    version: int,
) -> None:
    """Version 2 has more orphans than one request deletes."""
    spark, s3 = compactor.spark, rest_catalog.s3
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.split('.')[0]}")
    age = {"history.expire.max-snapshot-age-ms": "1"}
    create(spark, table, "id bigint", version=version, properties=age)
    prefix = prefix_of(compactor, table)
    elsewhere = f"{prefix}else where"
    spelled = f"s3a://{s3.bucket}/{elsewhere}"  # the table's own location is spelled s3://
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.data.path' = '{spelled}')")
    for _ in range(3):
        spark.range(0, 10, 1, 1).writeTo(table).append()
    spark.sql(f"DELETE FROM {table} WHERE id = 3")
    spark.sql(f"INSERT OVERWRITE {table} SELECT id FROM range(0, 20, 1, 1)")
    before = seen(spark, table)

    gate.rule = refused("delete")
    failed = compactor.expire(table)
    assert failed.status is Status.UNKNOWN, failed
    gate.rule = lambda _: None
    gate.seen.clear()
    done = compactor.expire(table)
    finished = done.resumed or done
    [result] = finished.steps
    assert isinstance(result, ExpireResult)
    assert result.files.data_files == 3
    assert deletions(gate) == 1
    found = s3.objects(elsewhere)
    assert found == {as_s3(path) for path in data_files(spark, table)}
    assert seen(spark, table) == before

    client, bucket = s3.client, s3.bucket
    for name in ODD:
        client.put_object(Bucket=bucket, Key=f"{elsewhere}/{name}", Body=b"x")
    client.create_multipart_upload(Bucket=bucket, Key=f"{elsewhere}/begun long ago")
    many = [f"{prefix}data/lost-{number}.parquet" for number in range(1_050 if version == 2 else 20)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: client.put_object(Bucket=bucket, Key=key, Body=b"x"), many))
    time.sleep(9)
    there = s3.objects(prefix)
    gate.rule = refused("list-type")
    with pytest.raises(IcepactError, match="S3 does not let"):
        compactor.orphans(table, older_than="8s", allow_young=True)
    assert s3.objects(prefix) == there
    gate.rule = lambda _: None
    client.create_multipart_upload(Bucket=bucket, Key=f"{elsewhere}/begun now")
    client.put_object(Bucket=bucket, Key=f"{elsewhere}/written now.parquet", Body=b"x")
    gate.seen.clear()
    cleaned = compactor.orphans(table, older_than="8s", allow_young=True)
    assert cleaned.status is Status.COMMITTED, cleaned.error
    [removed] = cleaned.steps
    assert isinstance(removed, OrphansResult)
    assert deletions(gate) <= 1 + len(many) // 1000
    left = s3.objects(elsewhere) - found
    assert {path.rpartition("/")[2] for path in left} == {"written now.parquet"}
    assert [path for path in s3.objects(f"{prefix}data/") if "lost" in path] == []
    assert removed.uploads_aborted == 1
    uploads = client.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert [upload["Key"] for upload in uploads if upload["Key"].startswith(prefix)] == [f"{elsewhere}/begun now"]
    assert seen(spark, table) == before

    client.put_object(Bucket=bucket, Key=f"{elsewhere}/what?.parquet", Body=b"x")
    with pytest.raises(BadInput, match="cannot be compared"):
        compactor.orphans(table, older_than="1s", allow_young=True)
    assert f"s3://{bucket}/{elsewhere}/what?.parquet" in s3.objects(elsewhere)
    for upload in uploads:
        client.abort_multipart_upload(Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])
