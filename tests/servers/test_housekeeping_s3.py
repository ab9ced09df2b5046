"""Housekeeping on an S3 server: what goes and what stays, how many requests that takes, and a store that refuses,
answers 503, drops requests, or fails half-way."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.housekeeping import expire, orphans
from icepact.iceberg.commit.deletion import BulkDeletion
from icepact.iceberg.commit.expire import commit_expiry
from icepact.model.errors import BadInput, IcepactError
from icepact.model.expiry import ExpireResult
from icepact.model.orphans import OrphansResult
from icepact.model.status import Status
from tests.servers.test_storage_s3_faults import Gate, Refuse, Rule, Seen, gate  # noqa: F401
from tests.support.compactors import short_compactor
from tests.support.java import jvm
from tests.support.oracle import data_files, seen
from tests.support.servers.faulty import Asked, Fault, Proxy, faulty
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


def test_a_store_whose_objects_are_not_to_be_deleted(
    rest_catalog: RestCatalog,
    gate: Gate,  # noqa: F811
    table: str,
    tmp_path: Path,
) -> None:
    """Somebody else's rules delete them: Iceberg is told so, and is asked."""
    properties = {"s3.endpoint": f"http://127.0.0.1:{gate.port}", "s3.delete-enabled": "false"}
    compactor = short_compactor(config=configuration(tmp_path, rest_catalog.properties | properties))
    compactor.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.split('.')[0]}")
    create(compactor.spark, table, "id bigint", version=2)
    deletion = BulkDeletion(compactor.application.spark_catalog.table(table))
    s3, key = rest_catalog.s3, f"{prefix_of(compactor, table)}data/lost.parquet"
    s3.client.put_object(Bucket=s3.bucket, Key=key, Body=b"x")
    assert deletion.delete([f"s3://{s3.bucket}/{key}"]) == []
    assert key in {path.partition(f"{s3.bucket}/")[2] for path in s3.objects(prefix_of(compactor, table))}
    assert deletions(gate) == 0


# -- a store that fails -----------------------------------------------------------------------------

IMPATIENT = {"s3.retry.num-retries": "1", "s3.retry.min-wait-ms": "10", "s3.retry.max-wait-ms": "20"}
"""Iceberg would wait for minutes."""
LOST = 1_050
"""Orphans: more than one page of a listing, and more than one request deletes."""
Trouble = Callable[[Asked], Fault | None]


@pytest.fixture
def proxy(rest_catalog: RestCatalog) -> Iterator[Proxy]:
    """In front of the store; the catalog has its own way to it."""
    with faulty(rest_catalog.s3.endpoint) as running:
        yield running


@pytest.fixture
def careful(rest_catalog: RestCatalog, proxy: Proxy, tmp_path: Path) -> Compactor:
    """A compactor behind it."""
    properties = rest_catalog.properties | IMPATIENT | {"s3.endpoint": proxy.endpoint}
    return short_compactor(config=configuration(tmp_path, properties))


def needed(spark: SparkSession, table: str) -> set[str]:
    """Every file that a table needs, by Spark's metadata tables and its metadata."""
    spark.sql(f"REFRESH TABLE {table}")
    columns = {"all_data_files": "file_path", "all_delete_files": "file_path"}
    columns |= {"all_manifests": "path", "snapshots": "manifest_list"}
    found = {
        row[0]
        for name, column in columns.items()
        for row in spark.sql(f"SELECT {column} FROM {table}.{name}").collect()
    }
    loaded = jvm(spark).org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, f"lake.{table}")
    current = loaded.operations().current()
    return found | {str(current.metadataFileLocation()), *(str(entry.file()) for entry in current.previousFiles())}


def with_history(spark: SparkSession, table: str, snapshots: int = 6) -> str:
    """A table whose old snapshots may all go."""
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {table.split('.')[0]}")
    create(spark, table, "id bigint", version=2, properties={"history.expire.max-snapshot-age-ms": "1"})
    for number in range(snapshots):
        spark.range(number, number + 5, 1, 1).writeTo(table).append()
        if number % 2:
            spark.sql(f"DELETE FROM {table} WHERE id = {number}")
            spark.sql(f"INSERT OVERWRITE {table} SELECT id FROM range({number}, 20, 1, 1)")
    return table


def deletes(fault: Fault) -> Trouble:
    """What happens to requests that delete."""
    return lambda asked: fault if asked.method == "POST" and "delete" in asked.path else None


def every_other(fault: Fault) -> Trouble:
    """Whatever is asked for, what happens to every other request."""
    numbers = count()
    return lambda asked: fault if next(numbers) % 2 else None


def reads_of(word: str, fault: Fault) -> Trouble:
    """What happens to requests that read certain files."""
    return lambda asked: fault if asked.method in ("GET", "HEAD") and word in asked.path else None


def in_one_line(use_case: Callable[..., Any], *given: Any, **named: Any) -> str:
    """What an operation says that went wrong; empty if all went well."""
    try:
        outcome = use_case(*given, **named)
    except IcepactError as error:
        told = str(error)
    else:
        told = outcome.error or next((step.reason for step in outcome.steps if step.reason), "")
    assert "\n" not in told
    assert "Traceback" not in told
    return told


@pytest.mark.parametrize(
    ("trouble", "since"),
    [
        pytest.param(deletes(Fault.SLOW_DOWN), "begin", id="deletions are told to slow down"),
        pytest.param(deletes(Fault.DROP), "begin", id="deletions are dropped", marks=pytest.mark.matrix),
        pytest.param(deletes(Fault.LOSE), "begin", id="deletions lose their answers", marks=pytest.mark.matrix),
        pytest.param(every_other(Fault.SLOW_DOWN), "begin", id="every other request is told to slow down"),
        pytest.param(reads_of(".avro", Fault.SLOW_DOWN), "begin", id="no manifest is read", marks=pytest.mark.matrix),
        pytest.param(reads_of(".avro", Fault.DROP), "commit", id="manifests cannot be read after the commit"),
        pytest.param(reads_of(".avro", Fault.CUT), "commit", id="half of a manifest", marks=pytest.mark.matrix),
        pytest.param(lambda asked: Fault.FAIL, "commit", id="nothing works after the commit"),
    ],
)
def test_expire_on_a_store_that_fails(
    careful: Compactor,
    rest_catalog: RestCatalog,
    proxy: Proxy,
    table: str,
    trouble: Trouble,
    since: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What must stay is there, and the next run finishes what the first one has begun, and leaves nothing."""
    spark, s3 = careful.spark, rest_catalog.s3
    with_history(spark, table)
    before, prefix = seen(spark, table), prefix_of(careful, table)

    def committed(*given: Any) -> None:
        commit_expiry(*given)
        spark.range(90, 95, 1, 1).writeTo(table).append()  # which is looked at before anything is deleted
        given[0].refresh()
        proxy.rule = trouble

    if since == "commit":
        monkeypatch.setattr(expire, "commit_expiry", committed)
    else:
        proxy.rule = trouble
    told = in_one_line(careful.expire, table)
    proxy.calm()
    monkeypatch.undo()
    assert proxy.faults
    assert needed(spark, table) <= s3.objects(prefix)
    before = before if since == "begin" else seen(spark, table)
    assert seen(spark, table) == before
    left = s3.objects(prefix) - needed(spark, table)
    still_open = careful.runs(table, open_only=True)
    assert bool(left) == bool(told and still_open) or not left, told
    finished = careful.expire(table)
    assert finished.error is None
    assert careful.runs(table, open_only=True) == []
    assert s3.objects(prefix) == needed(spark, table)
    assert seen(spark, table) == before


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.matrix)])
def test_orphans_on_a_store_that_fails(
    careful: Compactor,
    rest_catalog: RestCatalog,
    proxy: Proxy,
    table: str,
    monkeypatch: pytest.MonkeyPatch,
    every: bool,
) -> None:
    """Half of a listing deletes nothing; and what a deletion leaves, the next one finds."""
    spark, s3 = careful.spark, rest_catalog.s3
    with_history(spark, table, snapshots=2)
    prefix, before, must_stay = prefix_of(careful, table), seen(spark, table), needed(spark, table)
    keys = [f"{prefix}data/lost-{number:04}.parquet" for number in range(LOST)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: s3.client.put_object(Bucket=s3.bucket, Key=key, Body=b"x"), keys))
    time.sleep(3)
    there = s3.objects(prefix)
    wishes: dict[str, Any] = {"older_than": "2s", "allow_young": True}

    def later_pages(fault: Fault) -> Trouble:
        return lambda asked: fault if "list-type" in asked.path and "continuation-token" in asked.path else None

    some = later_pages(Fault.CUT), reads_of(".avro", Fault.DROP)
    others = (
        *(later_pages(Fault.SLOW_DOWN), later_pages(Fault.DROP), later_pages(Fault.RESET)),
        *(reads_of("list-type", Fault.SLOW_DOWN), reads_of(".avro", Fault.SLOW_DOWN)),
    )
    for trouble in (*some, *others) if every else some:
        monkeypatch.setattr(orphans, "_KNOWN", {})  # so that manifests are read
        proxy.rule = trouble
        assert in_one_line(careful.orphans, table, **wishes)
        proxy.calm()
        assert s3.objects(prefix) == there
        assert careful.runs(table, open_only=True) == []
    for trouble in (deletes(Fault.SLOW_DOWN), deletes(Fault.DROP))[: 2 if every else 1]:
        proxy.rule = trouble
        assert "1050 files could not be deleted" in in_one_line(careful.orphans, table, **wishes).replace(",", "")
        proxy.calm()
        assert s3.objects(prefix) == there
    proxy.rule = deletes(Fault.LOSE)
    assert in_one_line(careful.orphans, table, **wishes) == ""
    proxy.calm()
    assert s3.objects(prefix) == needed(spark, table) == must_stay
    assert careful.runs(table, open_only=True) == []
    assert seen(spark, table) == before
    assert careful.orphans(table, **wishes).status is Status.NOTHING_TO_DO
