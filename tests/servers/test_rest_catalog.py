"""Tables in S3, listed by a REST catalog; the client brings the S3 keys."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from icepact.iceberg.commit.run_files import run_folder
from icepact.iceberg.polling import watcher_of
from icepact.maintain.past_runs import past_runs
from icepact.model.run import RunRecord
from icepact.model.status import Status
from tests.support.compactors import short_compactor
from tests.support.servers.rest import RestCatalog
from tests.support.servers.trial import configuration, try_out


@pytest.mark.parametrize(("version", "method"), [(2, "assemble"), (3, "assemble"), (3, "spark")])
def test_compaction(rest_catalog: RestCatalog, table: str, tmp_path: Path, version: int, method: str) -> None:
    compactor = short_compactor(config=configuration(tmp_path, rest_catalog.properties))

    trial = try_out(compactor, table, version=version, method=method)

    stored = rest_catalog.s3.objects(f"wh/{table.replace('.', '/')}/data/")
    assert trial.outputs < stored
    assert trial.inputs < stored, "readers of older snapshots still need them"
    assert not trial.inputs & trial.outputs
    assert rest_catalog.s3.unfinished_uploads() == set()
    assert table in compactor.tables()
    watcher = watcher_of(compactor.application.catalog)
    assert watcher is not None
    assert table in (watcher.markers() or {})
    assert watcher.markers() == watcher.markers()
    found = watcher.metadata(table)
    assert found is not None
    assert found.commits, "those that were there before, without the compaction"
    ours = {commit.snapshot_id for run in compactor.application.runs(table) for commit in run.landed}
    assert ours
    assert not ours & {commit.snapshot_id for commit in found.commits}
    assert all(watcher.partitions(table, 50).values())
    told = past_runs(compactor.application.catalog, table, lambda: pytest.fail("Spark was asked"))
    assert {run.run_id: run.landed[-1].snapshot_id for run in told} == {
        run.run_id: run.landed[-1].snapshot_id for run in compactor.application.runs(table) if run.landed
    }


def test_uploads_of_a_dead_run_are_aborted(rest_catalog: RestCatalog, table: str, tmp_path: Path) -> None:
    """Exactly those: another upload to the same table stays."""
    compactor = short_compactor(config=configuration(tmp_path, rest_catalog.properties))
    try_out(compactor, table, version=2)
    java_table = compactor.application.spark_catalog.table(table)
    run_id = f"dead-{table}"
    folder = run_folder(java_table, run_id)
    assert folder is not None
    compactor.application.store.begin(
        RunRecord(
            run_id=run_id,
            catalog=compactor.application.spark_catalog.catalog,
            table=table,
            branch="main",
            status=Status.RUNNING,
            started_at=datetime.now(UTC),
            uuid=java_table.uuid,
            folder=folder,
        )
    )
    server = rest_catalog.s3
    base = folder.removeprefix(f"s3://{server.bucket}/")
    keys = {f"{base}/day=1/half.parquet", f"{base.rpartition('/')[0]}/of-somebody-else.parquet"}
    for key in keys:
        server.client.create_multipart_upload(Bucket=server.bucket, Key=key)
    assert server.unfinished_uploads() == keys
    [found] = compactor.cleanup(table)
    assert (found.uploads, found.deleted) == (1, False)
    [swept] = [swept for swept in compactor.cleanup(table, delete=True) if swept.run_id == run_id]
    assert (swept.uploads, swept.status) == (1, "abandoned")
    [left] = server.unfinished_uploads()
    assert left.endswith("of-somebody-else.parquet")
    for upload in server.client.list_multipart_uploads(Bucket=server.bucket)["Uploads"]:
        server.client.abort_multipart_upload(Bucket=server.bucket, Key=upload["Key"], UploadId=upload["UploadId"])
