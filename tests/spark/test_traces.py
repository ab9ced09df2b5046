"""What a commit that never landed left in the table's metadata: it goes with the run, and nothing else does."""

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.commit import protocol
from icepact.iceberg.commit.orphan_metadata import orphan_metadata
from icepact.iceberg.commit.replace import manifest_prefix_of, replace_files
from icepact.iceberg.commit.run_files import run_folder
from icepact.iceberg.table.table import IcebergTable
from icepact.maintain import cleanup
from icepact.model.errors import CommitUnknown
from icepact.model.run import Attempt
from icepact.model.status import Status
from tests.support.later import clean_up_later
from tests.support.oracle import seen


@pytest.fixture
def table(compactor: Compactor, spark: SparkSession, namespace: str) -> IcebergTable:
    """A table with three small files."""
    spark.sql(f"CREATE TABLE {namespace}.t (id bigint) USING iceberg")
    spark.range(0, 30, 1, 3).writeTo(f"{namespace}.t").append()
    return compactor.application.spark_catalog.table(f"{namespace}.t")


def metadata(table: IcebergTable) -> set[str]:
    """Names of all files in the metadata folder."""
    folder = Path(str(table.table.location()).removeprefix("file:")) / "metadata"
    return {path.name for path in folder.iterdir() if not path.name.endswith(".crc")}


def dying(how: Callable[[IcebergTable, Any], None]) -> Callable[..., int]:
    """A commit whose process ends before it is heard of, after it has done something."""

    def commit(table: IcebergTable, view: Any, rewrite: Any, **given: Any) -> int:
        class Dead(Exception):
            pass

        class Dying:
            """Java's own commit, which does not come to an end."""

            def __getattr__(self, name: str) -> Any:
                if name == "commit":
                    how(table, rewrite)
                    raise Dead
                method = getattr(rewrite, name)
                return lambda *args: (method(*args), self)[1]

        try:
            return replace_files(table, view, Dying(), **given)
        except Dead:
            raise CommitUnknown("the connection broke") from None

    return commit


def write_manifests(table: IcebergTable, rewrite: Any) -> None:
    """As far as Iceberg gets before it writes the metadata."""
    rewrite.apply()


def write_metadata(table: IcebergTable, rewrite: Any) -> None:
    """As far as it gets before it asks the catalog."""
    snapshot = rewrite.apply()
    base = table.table.operations().current()
    new = table.java.iceberg.TableMetadata.buildFrom(base).setBranchSnapshot(snapshot, "main").build()
    version = int(str(base.metadataFileLocation()).rpartition("/")[2][:5]) + 1
    path = f"{table.table.location()}/metadata/{version:05d}-{uuid.uuid4()}.metadata.json"
    table.java.iceberg.TableMetadataParser.write(new, table.table.io().newOutputFile(path))


@pytest.mark.parametrize("far", [write_manifests, write_metadata])
@pytest.mark.parametrize("since", ["nothing", "an append", "a delete"])
def test_what_a_dead_commit_wrote_beside_the_data_goes_with_it(
    compactor: Compactor,
    spark: SparkSession,
    table: IcebergTable,
    monkeypatch: pytest.MonkeyPatch,
    far: Callable[[IcebergTable, Any], None],
    since: str,
) -> None:
    before = metadata(table)
    with monkeypatch.context() as patched:
        patched.setattr(protocol, "replace_files", dying(far))
        outcome = compactor.compact(table.name)
    assert outcome.status is Status.UNKNOWN
    left = metadata(table) - before
    assert sum(name.endswith(".avro") for name in left) >= 3 * (protocol.UNANSWERED + 1)
    assert sum(name.endswith(".json") for name in left) == (protocol.UNANSWERED + 1) * (far is write_metadata)
    if since == "an append":
        spark.range(30, 40, 1, 1).writeTo(table.name).append()
    elif since == "a delete":
        spark.sql(f"DELETE FROM {table.name} WHERE id = 3")
    others = metadata(table) - left
    rows = seen(spark, table.name)
    [told] = compactor.cleanup(table.name, delete=True)
    assert told.left_alone  # it might still land
    assert metadata(table) == others | left
    clean_up_later(compactor, table.name)
    assert metadata(table) == others
    assert seen(spark, table.name) == rows


def test_attempts_stay_on_record_until_what_they_left_is_gone(
    compactor: Compactor, table: IcebergTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = metadata(table)
    with monkeypatch.context() as patched:
        patched.setattr(protocol, "replace_files", dying(write_manifests))
        compactor.compact(table.name)
    with monkeypatch.context() as patched:
        patched.setattr(cleanup, "delete_files", lambda *_: None)  # as storage that refuses without a word
        clean_up_later(compactor, table.name)
    assert metadata(table) > before
    [record] = compactor.runs(table.name)
    assert record.attempts
    clean_up_later(compactor, table.name)
    assert metadata(table) == before
    [record] = compactor.runs(table.name)
    assert (record.attempts, record.status) == ((), Status.ABANDONED)


def test_nothing_is_deleted_where_others_may_need_it(
    compactor: Compactor, spark: SparkSession, table: IcebergTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(protocol, "replace_files", dying(write_manifests))
        outcome = compactor.compact(table.name)
    spark.sql(f"ALTER TABLE {table.name} SET TBLPROPERTIES ('gc.enabled' = 'false')")
    before = metadata(table)
    clean_up_later(compactor, table.name)
    folder = Path(str(run_folder(table, outcome.run_id)).removeprefix("file:"))
    assert before <= metadata(table)
    assert len(list(folder.rglob("*.parquet"))) == 1
    [told] = compactor.cleanup(table.name, delete=True)
    assert (told.left_alone, told.status) == (True, "abandoned")
    assert "gc.enabled=false" in told.reason


def test_a_resumed_run_leaves_nothing_of_the_attempts_before(
    compactor: Compactor, spark: SparkSession, table: IcebergTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, rows = metadata(table), seen(spark, table.name)
    with monkeypatch.context() as patched:
        patched.setattr(protocol, "replace_files", dying(write_metadata))
        assert compactor.compact(table.name).status is Status.UNKNOWN
    left = metadata(table) - before
    resumed = compactor.resume_dead(table.name)
    assert resumed is not None
    assert resumed.status is Status.COMMITTED
    clean_up_later(compactor, table.name)
    assert not metadata(table) & left
    assert seen(spark, table.name) == rows


def test_manifests_of_a_commit_that_landed_stay_and_those_of_its_earlier_tries_go(
    compactor: Compactor, spark: SparkSession, table: IcebergTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else was faster the first time; the second time its process was killed when the catalog had heard it."""
    marks: list[str] = []

    def marked(*given: Any) -> str:
        marks.append(manifest_prefix_of(*given))
        return marks[-1]

    with monkeypatch.context() as patched:
        patched.setattr(protocol, "manifest_prefix_of", marked)
        outcome = compactor.compact(table.name)
    assert outcome.status is Status.COMMITTED
    [mark] = marks
    folder, _, word = mark.removeprefix("file:").rpartition("/")
    assert sum(word in name for name in metadata(table)) >= 3  # a list, a manifest of new files, one of replaced ones
    for name in (f"{word}-m9.avro", f"snap-123-1-{word}.avro"):
        (Path(folder) / name).write_bytes(b"x")
    [record] = compactor.runs(table.name)
    [landed] = record.landed
    attempt = Attempt(
        commit_id=landed.commit_id, head=landed.parent_id or 0, groups=[], started_at=record.started_at, mark=mark
    )
    found = orphan_metadata(table, [attempt], lost=())
    assert {Path(path).name: size for path, size in found.items()} == {
        f"{word}-m9.avro": 1,
        f"snap-123-1-{word}.avro": 1,
    }


def test_metadata_of_others_is_left_alone(compactor: Compactor, table: IcebergTable) -> None:
    """Of writers that died in the same way, unreadable, or of a commit that landed."""
    outcome = compactor.compact(table.name)
    [record] = compactor.runs(table.name)
    assert outcome.status is Status.COMMITTED
    folder = Path(str(table.table.location()).removeprefix("file:")) / "metadata"
    current = Path(str(table.table.operations().refresh().metadataFileLocation()).removeprefix("file:"))
    number = current.name[:5]
    (folder / f"{number}-{uuid.uuid4()}.metadata.json").write_text("{")
    (folder / f"{uuid.uuid4()}.metadata.json").write_text("")
    (folder / f"{number}-{uuid.uuid4()}.metadata.json").write_bytes(current.read_bytes())
    (folder / f"{uuid.uuid4()}-m0.avro").write_bytes(b"")
    attempt = Attempt(
        commit_id=f"{outcome.run_id}/0.1/9",
        head=outcome.snapshot_id or 0,
        groups=[],
        started_at=record.started_at,
        mark=f"{table.table.location()}/metadata/{uuid.uuid4()}",
    )
    assert orphan_metadata(table, [attempt], lost={attempt.commit_id}) == {}
