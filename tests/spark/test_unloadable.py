"""A catalog with one good table and many that cannot be used, each broken in its own way.

In a Hadoop catalog, which says at once what is wrong; others look twenty times, for a minute and a half.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.entrypoints.cli.main import _guarded, exit_code
from icepact.iceberg.java.bridge import JavaError, error_class, error_line
from icepact.model.errors import BadInput, IcepactError
from icepact.model.fleet import VisitStatus
from icepact.model.run import RunRecord
from icepact.model.status import Status
from tests.support.oracle import data_files
from tests.support.servers.trial import configuration
from tests.support.tables import create

Document = dict[str, Any]
GOOD = "db.good"


def newest(folder: Path) -> Path:
    """The metadata file that a Hadoop catalog reads."""
    version = (folder / "metadata/version-hint.text").read_text()
    return folder / f"metadata/v{version}.metadata.json"


def changed(folder: Path, content: str) -> None:
    """Other metadata, without the checksum that Hadoop keeps beside it."""
    file = newest(folder)
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    file.write_text(content)


def edited(change: Callable[[Document], object]) -> Callable[[Path], None]:
    """A change in the metadata."""

    def edit(folder: Path) -> None:
        document = json.loads(newest(folder).read_text())
        change(document)
        changed(folder, json.dumps(document))

    return edit


def odd_default(document: Document) -> None:
    document["format-version"] = 3
    document["next-row-id"] = 0
    document["schemas"][0]["fields"][1] |= {"type": "date", "initial-default": "2026-13-01"}


def without_lists(folder: Path) -> None:
    for file in folder.glob("metadata/snap-*"):
        file.unlink()


def typed(kind: str) -> Callable[[Path], None]:
    return edited(lambda document: document["schemas"][0]["fields"][0].update(type=kind))


BROKEN: dict[str, tuple[Callable[[Path], None], str, str]] = {
    "not_json": (lambda f: changed(f, "{"), "RuntimeIOException", "Failed to read file"),
    "a_list": (lambda f: changed(f, "[]"), "IllegalArgumentException", "Cannot parse metadata from a non-object"),
    "of_2031": (
        edited(lambda d: d.update({"format-version": 9})),
        "IllegalArgumentException",
        "Cannot read unsupported version 9",
    ),
    "strange": (typed("frob"), "IllegalArgumentException", "Cannot parse type string to primitive: frob"),
    "huge": (typed("fixed[99999999999]"), "NumberFormatException", 'For input string: "99999999999"'),
    "undated": (edited(odd_default), "DateTimeParseException", "Text '2026-13-01' could not be parsed"),
    "gone": (lambda f: newest(f).unlink(), "ValidationException", "Metadata file for version 3 is missing"),
    "no_spec": (edited(lambda d: d.update({"default-spec-id": 7})), "", "its metadata names a partition spec that"),
    "no_order": (
        edited(lambda d: d.update({"default-sort-order-id": 7})),
        "",
        "its metadata names a sort order",
    ),
    "no_lists": (without_lists, "NotFoundException", "Failed to open input stream for file: "),
}
"""How, what Java says of it, and what people read."""
CONVERTED = {"a_list", "of_2031", "strange", "huge", "undated"}
"""By PySpark, into exceptions of its own."""
LOADED = {"no_lists"}
"""What is broken is found later."""
JAVA_LOADS = LOADED | {"no_order", "no_spec"}
"""What is broken, icepact finds."""


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Compactor:
    """A run died over every table."""
    folder = tmp_path_factory.mktemp("broken")
    config = configuration(folder, {"type": "hadoop", "warehouse": str(folder / "wh")})
    maker = Compactor(config=config)
    maker.spark.sql("CREATE NAMESPACE db")
    create(maker.spark, GOOD, "id bigint, day int")
    for _ in range(2):
        maker.spark.range(0, 10, 1, 1).selectExpr("id", "0 AS day").writeTo(GOOD).append()
    uuids = {GOOD: maker.application.spark_catalog.table(GOOD).uuid}
    for name, (spoil, _, _) in BROKEN.items():
        uuids[f"db.{name}"] = another(folder / "wh/db/good", name)
        spoil(folder / "wh/db" / name)
    for name, uuid in uuids.items():
        run = f"dead-{name}"
        facts: dict[str, Any] = {
            "catalog": "lake",
            "branch": "main",
            "status": Status.RUNNING,
            "started_at": datetime.now(UTC),
        }
        maker.application.store.begin(RunRecord(run_id=run, table=name, uuid=uuid, **facts))
    return Compactor(config=config)


def config_of(lake: Compactor) -> str:
    """Its configuration, which is beside its warehouse."""
    return str(Path(lake.catalog.properties["warehouse"]).with_name("icepact.yaml"))


def another(good: Path, name: str) -> str:
    """A copy of a table, with a uuid of its own."""
    shutil.copytree(good, good.with_name(name))
    file = newest(good.with_name(name))
    text = file.read_text().replace("/wh/db/good", f"/wh/db/{name}")
    uuid, other = json.loads(text)["table-uuid"], str(uuid4())
    changed(good.with_name(name), text.replace(uuid, other))
    return other


@pytest.mark.parametrize("name", BROKEN)
def test_what_java_says_is_known_by_its_class(lake: Compactor, name: str) -> None:
    """These are the exceptions that the other tests are about."""
    _, kind, line = BROKEN[name]
    java = lake.application.spark_catalog.java
    identifier = java.iceberg.catalog.TableIdentifier.of(lake.application.spark_catalog._namespace(("db",)), name)

    def look() -> None:
        found = lake.application.spark_catalog._catalog().loadTable(identifier)
        found.currentSnapshot().allManifests(found.io())

    if not kind:
        look()
        return
    with pytest.raises(JavaError) as raised:
        look()
    assert isinstance(raised.value, PySparkException) == (name in CONVERTED)
    assert error_class(raised.value) == kind
    assert error_line(raised.value).startswith(line)


@pytest.mark.parametrize("name", BROKEN)
def test_health_says_what_is_wrong_in_one_line(lake: Compactor, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, line = BROKEN[name]
    with pytest.raises(IcepactError) as told:
        lake.health(f"db.{name}")
    assert line in str(told.value)
    assert "\n" not in str(told.value)
    assert isinstance(told.value, BadInput) or name in LOADED | {"not_json"}
    assert _guarded(["--config", config_of(lake), "health", f"db.{name}"]) == exit_code(told.value)
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", f"icepact: {told.value}\n")


def test_on_request_the_whole_story_is_told(lake: Compactor, capsys: pytest.CaptureFixture[str]) -> None:
    assert _guarded(["--config", config_of(lake), "-v", "health", "db.a_list"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("Traceback (most recent call last):")
    assert "at org.apache.iceberg.TableMetadataParser" in told
    assert told.endswith("icepact: db.a_list cannot be loaded: Cannot parse metadata from a non-object: []\n")


@pytest.mark.parametrize(
    ("uri", "line"),
    [
        ("jdbc:frob://h/db?user=me&password=hush", "catalog 'lake' needs a JDBC driver that Spark does not have: "),
        ("jdbc:sqlite:/nowhere/at/all.db?password=hush", "catalog 'lake' cannot be opened: "),
        ("jdbc:sqlite:file:/nowhere/all.db?cipher=frob&key=hush", "catalog 'lake' cannot be opened: "),
    ],
)
def test_no_word_of_java_carries_a_password(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], uri: str, line: str
) -> None:
    config = configuration(tmp_path, {"uri": uri, "warehouse": str(tmp_path)})
    for more in ([], ["-v"]):
        assert _guarded(["--config", str(config), *more, "tables"]) in (1, 2)
        told = capsys.readouterr().err
        assert f"icepact: {line}" in told
        assert "hush" not in told


def test_cleaning_up_goes_on_with_the_others(lake: Compactor) -> None:
    swept = {entry.table: entry for entry in lake.cleanup(delete=True)}
    assert set(swept) == {GOOD, *(f"db.{name}" for name in BROKEN)}
    good = swept.pop(GOOD)
    assert (good.left_alone, good.status) == (False, "abandoned")
    for name, (_, _, line) in BROKEN.items():
        entry = swept[f"db.{name}"]
        assert entry.left_alone
        assert line in entry.reason
        assert "\n" not in entry.reason


def test_orphans_leave_the_folders_of_the_others_alone(lake: Compactor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Catalogs in folders tell where a table is that they cannot load; of one that nobody tells it of, nobody knows."""
    exclude: dict[str, str] = {}
    for _ in set(BROKEN) - JAVA_LOADS:
        with pytest.raises(BadInput) as refused:
            lake.orphans(GOOD, exclude=list(exclude.values()))
        told = r"db\.(\w+) cannot be loaded: .* --exclude (\S*/wh/db/\1), where .*"
        [(name, folder)] = re.findall(told, str(refused.value))
        exclude[name] = folder
    assert set(exclude) == set(BROKEN) - JAVA_LOADS
    assert lake.orphans(GOOD, exclude=list(exclude.values()), dry_run=True).status is Status.NOTHING_TO_DO
    monkeypatch.setitem(vars(lake.application.spark_catalog), "settings", {})
    with pytest.raises(BadInput, match=r"db\.a_list cannot be loaded: .*, and its catalog does not tell where it is"):
        lake.orphans(GOOD, exclude=list(exclude.values()))


def test_a_round_goes_on_with_the_others(lake: Compactor) -> None:
    fleet = lake.fleet()
    assert [entry.summary.table for entry in fleet.tables] == [GOOD]
    assert {entry.table for entry in fleet.failed} == {f"db.{name}" for name in BROKEN}
    visits = {visit.table: visit for visit in lake.fleet_run(fleet=fleet).visits}
    assert visits.pop(GOOD).ended is VisitStatus.DONE
    assert len(data_files(lake.spark, GOOD)) == 1
    for name, (_, _, line) in BROKEN.items():
        visit = visits[f"db.{name}"]
        assert visit.ended is VisitStatus.FAILED
        assert line in visit.reason
        assert "\n" not in visit.reason
        assert "Py4J" not in visit.reason


def test_a_table_that_nobody_can_commit_to_is_refused_before_anything_is_written(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    table = create(spark, f"{namespace}.t", "id bigint")
    spark.range(0, 10, 1, 2).writeTo(table).append()
    plan = compactor.plan(table, rewrite_all=True)
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('commit.retry.num-retries' = 'many')")
    with pytest.raises(BadInput) as refused:
        compactor.apply(plan)
    assert str(refused.value) == (
        f"{table} has commit.retry.num-retries=many, which is not a number for Iceberg: mend the table property"
    )
    assert compactor.runs(table) == []
    assert len(data_files(spark, table)) == 2


KILLED = """
import os, signal, sys
from pyspark import SparkContext
from tests.support.compactors import short_compactor

class Killer:
    def advance(self, done):
        pass

    def step(self, name):
        if name == "attempting":
            java = SparkContext._gateway.proc.pid
            os.kill(java, signal.SIGKILL)
            os.waitid(os.P_PID, java, os.WEXITED | os.WNOWAIT)

print(short_compactor(warehouse=sys.argv[1]).compact(sys.argv[2], rewrite_all=True, progress=Killer()).error)
"""


def test_a_java_that_is_killed_is_told_of_in_one_line(
    compactor: Compactor, spark: SparkSession, namespace: str
) -> None:
    """In the middle of a commit, by somebody who needs its memory."""
    table = create(spark, f"{namespace}.t", "id bigint")
    spark.range(0, 10, 1, 2).writeTo(table).append()
    command = [sys.executable, "-c", KILLED, str(compactor.catalog.embedded), table]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Spark's Java has ended, or does not answer any more (")
    assert done.stdout.endswith("): start again\n")
    assert "Traceback" not in done.stderr
    [run] = compactor.runs(table)
    assert run.status is Status.UNKNOWN
    assert compactor.resume(run.run_id).status is Status.COMMITTED
    spark.sql(f"REFRESH TABLE {table}")
    assert len(data_files(spark, table)) == 1
