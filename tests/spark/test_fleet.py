"""A fleet of three tables, one of them broken and one switched off: ranked, and compacted in one round."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.entrypoints.cli.main import _guarded
from icepact.model.fleet import VisitStatus
from icepact.model.run import RunRecord
from icepact.model.status import Status
from icepact.record.process import this_process
from tests.support.messy import load
from tests.support.oracle import data_files, seen
from tests.support.tables import create


def fill(spark: SparkSession, table: str, files: int, rows: int = 50) -> None:
    """So many small files."""
    create(spark, table, "id bigint, day int", "day")
    spark.range(0, files * rows, 1, files).selectExpr("id", "cast(0 as int) AS day").writeTo(table).append()


@pytest.fixture
def lake(compactor: Compactor, spark: SparkSession, namespace: str, tmp_path: Path) -> Iterator[Compactor]:
    """`events` has 6 small files, `clicks` 3, `off` is switched off, and the metadata of `broken` is gone."""
    for name, files in (("events", 6), ("clicks", 3), ("off", 4), ("broken", 2)):
        fill(spark, f"{namespace}.{name}", files)
    metadata = Path(str(load(spark, f"local.{namespace}.broken").location()).removeprefix("file:"), "metadata")
    metadata.rename(tmp_path / "metadata")
    policies = tmp_path / "lake.yaml"
    policies.write_text(
        "defaults: {min_input_files: 2}\n"
        "rules:\n"
        f'  - match: "{namespace}.off"\n'
        "    options: {enabled: false}\n"
        '  - match: "typo.*"\n'
        "    options: {max_files: 10}\n"
    )
    assert compactor.catalog.embedded is not None
    yield Compactor(warehouse=compactor.catalog.embedded, policies=policies)
    (tmp_path / "metadata").rename(metadata)  # nobody would remove orphans beside a table that cannot be loaded


def test_the_ranking(lake: Compactor, namespace: str) -> None:
    told: list[tuple[str, int]] = []
    fleet = lake.fleet(f"{namespace}.*", on_table=lambda name, total: told.append((name, total)))
    assert told == [(f"{namespace}.{name}", 4) for name in ("broken", "clicks", "events", "off")]
    found = {entry.summary.table.split(".")[1]: entry for entry in fleet.tables}
    assert set(found) == {"events", "clicks", "off"}
    assert (found["events"].chosen, found["clicks"].chosen, found["off"].chosen) == (True, True, False)
    assert found["off"].rank == 3
    assert "compaction is off for this table" in found["off"].reason
    assert (found["events"].summary.small_files, found["events"].summary.input_files) == (6, 6)
    assert found["events"].summary.gain_seconds > found["clicks"].summary.gain_seconds > 0
    [broken] = fleet.failed
    assert broken.table == f"{namespace}.broken"
    assert broken.reason
    assert [warning.split(": ")[1] for warning in fleet.warnings] == ["typo.* matches no table"]

    [first] = lake.fleet(f"{namespace}.*", max_files=6).chosen
    assert first.table == f"{namespace}.events"
    [second] = lake.fleet(f"{namespace}.*", max_files=5).chosen
    assert second.table == f"{namespace}.clicks"


def test_one_round(lake: Compactor, namespace: str) -> None:
    names = ("events", "clicks", "off")
    before = {name: seen(lake.spark, f"{namespace}.{name}") for name in names}
    dry = lake.fleet_run(f"{namespace}.*", dry_run=True)
    assert {visit.table.split(".")[1]: visit.ended for visit in dry.visits} == {
        "events": VisitStatus.PLANNED,
        "clicks": VisitStatus.PLANNED,
        "off": VisitStatus.SKIPPED,
        "broken": VisitStatus.FAILED,
    }
    assert len(data_files(lake.spark, f"{namespace}.events")) == 6

    done = lake.fleet_run(f"{namespace}.*")
    ended = {visit.table.split(".")[1]: visit for visit in done.visits}
    assert {name: visit.ended for name, visit in ended.items()} == {
        "events": VisitStatus.DONE,
        "clicks": VisitStatus.DONE,
        "off": VisitStatus.SKIPPED,
        "broken": VisitStatus.FAILED,
    }
    assert "compaction is off" in ended["off"].reason
    assert {name: len(data_files(lake.spark, f"{namespace}.{name}")) for name in names} == {
        "events": 1,
        "clicks": 1,
        "off": 4,
    }
    assert {name: seen(lake.spark, f"{namespace}.{name}") for name in names} == before

    runs = len(lake.runs())
    again = lake.fleet_run(f"{namespace}.*")
    assert [again.count(ended) for ended in VisitStatus] == [0, 0, 2, 1, 1]
    assert len(lake.runs()) == runs  # a round in which nothing is to do leaves no runs

    [visit] = lake.fleet_run(f"{namespace}.events", maintain=True).visits
    assert visit.maintenance is not None
    operations = {one.operation: one for one in visit.maintenance.operations}
    assert list(operations) == ["tags", "ttl", "deletes", "manifests", "statistics", "expire", "orphans"]
    assert (visit.ended, operations["orphans"].failed) == (VisitStatus.FAILED, True)
    assert ".broken cannot be loaded" in operations["orphans"].reason  # nobody knows where that one is
    assert operations["expire"].failed is False


def test_a_budget_for_all_tables(lake: Compactor, namespace: str) -> None:
    """8 files: events as a whole, and 2 of clicks."""
    done = lake.fleet_run(f"{namespace}.*", max_files=8)
    files = {
        visit.table.split(".")[1]: sum(g.input_files for g in visit.outcome.groups)
        for visit in done.visits
        if visit.outcome
    }
    assert files == {"events": 6, "clicks": 2}
    assert len(data_files(lake.spark, f"{namespace}.clicks")) == 2
    spent = lake.fleet_run(f"{namespace}.*", max_files=1)
    [clicks] = [visit for visit in spent.visits if visit.table.endswith("clicks")]
    assert clicks.ended is VisitStatus.SKIPPED
    assert clicks.reason == "over the budget (max_files 1 for all tables)"


def test_what_died_is_carried_on_with_first(lake: Compactor, namespace: str) -> None:
    """A run that has begun and is not worked on is resumed; after it there is nothing to do."""
    name = f"{namespace}.events"
    before = seen(lake.spark, name)
    plan = lake.plan(name)
    dead = RunRecord(
        run_id="dead",
        catalog="local",
        table=name,
        branch="main",
        status=Status.RUNNING,
        started_at=datetime.now(UTC),
        uuid=plan.uuid,
        owner=this_process(),
    )
    lake.application.store.begin(dead, plan.to_json())  # and nobody holds the table
    done = lake.fleet_run(name)
    [visit] = done.visits
    assert visit.resumed is not None
    assert (visit.resumed.run_id, visit.resumed.status) == (dead.run_id, Status.COMMITTED)
    assert visit.ended is VisitStatus.NOTHING
    assert seen(lake.spark, name) == before


def test_the_command_line(lake: Compactor, namespace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = ["--warehouse", str(lake.catalog.embedded), "--policy", str(tmp_path / "lake.yaml")]
    assert _guarded([*here, "fleet", f"{namespace}.*"]) == 0
    told = capsys.readouterr()
    assert told.out.index(f"{namespace}.events") < told.out.index(f"{namespace}.off")
    assert f"failed: {namespace}.broken: " in told.out
    assert "4 tables, 1 failed; worth doing: 2 with 9 files" in told.out
    assert "typo.* matches no table" in told.err
    assert _guarded([*here, "--json", "fleet", f"{namespace}.*", "--limit", "1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (len(document["tables"]), document["total"]["tables"], document["total"]["chosen"]) == (1, 4, 2)
    assert _guarded([*here, "fleet", f"{namespace}x.*"]) == 0
    told = capsys.readouterr()
    assert f"warning: {namespace}x.* matches no table" in told.err
    assert "no tables" in told.out

    assert _guarded([*here, "fleet", "run", f"{namespace}.*", "--dry-run"]) == 1  # one is broken
    told = capsys.readouterr()
    assert f"{namespace}.events: would rewrite 6 files" in told.out
    assert "4 tables: 2 planned, 1 skipped, 1 failed" in told.out
    assert _guarded([*here, "--json", "fleet", "run", f"{namespace}.[ceo]*"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["total"]["done"] == 2
    assert {table["ended"] for table in document["tables"]} == {"done", "skipped"}
    assert _guarded([*here, "fleet", "run", f"{namespace}.*"]) == 1
    assert "4 tables: 2 nothing-to-do, 1 skipped, 1 failed" in capsys.readouterr().out
