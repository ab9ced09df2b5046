"""Every command on a real warehouse, as a user types it."""

import os
import pty
import select
import subprocess
from pathlib import Path
from typing import Any

from icepact import Compactor
from tests.acceptance.conftest import BIN, Run


def without_clock(plan: dict[str, Any]) -> dict[str, Any]:
    """A plan without what changes while nobody writes: how often files came lately."""
    return {**plan, "steps": [{**step, "features": None} for step in plan["steps"]]}


def test_a_table_from_health_to_rollback(icepact: Run, shell: Run, warehouse: Path) -> None:
    there = ("--warehouse", str(warehouse))

    health = shell("health", "db.events", "--json", *there)
    assert (health.code, health.err) == (0, "")
    assert {k: health.json[k] for k in ("table", "data_files", "small_files", "rows", "delete_files")} == {
        "table": "db.events",
        "data_files": 20,
        "small_files": 20,
        "rows": 1000,
        "delete_files": 10,
    }
    assert 0 < health.json["score"] < 100
    assert [p["partition"] for p in health.json["partitions"]] == ["day=0", "day=1"]

    plan = shell("--json", "plan", "db.events", *there)
    assert (plan.code, plan.err) == (0, "")
    assert plan.json["snapshot_id"] == health.json["snapshot_id"]
    assert [(s["partition"], s["input_files"], s["predicted_files"]) for s in plan.json["steps"]] == [
        ("day=1", 10, 1),
        ("day=0", 10, 1),
    ]
    assert plan.json["predicted"]["files_after"] == 2
    assert plan.json["left_out"] == []

    dry = shell("compact", "db.events", "--dry-run", "--json", *there)
    assert without_clock(dry.json) == without_clock(plan.json)

    done = icepact("compact", "db.events", "--json", *there)
    assert (done.code, done.err) == (0, "")
    expected = {
        "status": "committed",
        "files_before": 20,
        "files_after": 2,
        "rows_before": 1000,
        "rows_after": 990,
        "rows_deleted": 10,
        "delete_files_removed": 10,
        "methods": {"assemble": 2},
    }
    assert {k: done.json[k] for k in expected} == expected
    assert done.json["bytes_after"] < done.json["bytes_before"]

    again = shell("compact", "db.events", "--json", *there)
    assert (again.code, again.json["status"]) == (0, "nothing-to-do")
    assert again.json["snapshot_id"] == done.json["snapshot_id"]
    assert again.json["reason"].startswith("nothing was written since the run that made snapshot")

    history = icepact("runs", "db.events", "--json", *there, env={"JAVA_HOME": "/nowhere"})
    assert [run["status"] for run in history.json["runs"]] == ["nothing-to-do", "committed"]
    assert history.json["runs"][1]["run_id"] == done.json["run_id"]
    late = shell("cancel", done.json["run_id"], *there)
    assert (late.code, "has ended (committed): there is nothing to cancel" in late.err) == (2, True)
    assert history.json["runs"][1]["snapshots"] == done.json["snapshots"] == [done.json["snapshot_id"]]

    checked = shell("verify", "db.events", "--run", done.json["run_id"], "--json", *there)
    assert (checked.code, [commit["same"] for commit in checked.json["commits"]]) == (0, [True])
    back = shell("rollback", "db.events", "--run", done.json["run_id"], "--yes", *there)
    assert (back.code, back.out) == (0, f"db.events is back at snapshot {plan.json['snapshot_id']}\n")
    assert shell("health", "db.events", "--json", *there).json["data_files"] == 20
    left = shell("cleanup", "--json", *there)
    assert (left.code, left.json) == (0, {"runs": []})


def test_for_people(icepact: Run, shell: Run, warehouse: Path) -> None:
    there = ("--warehouse", str(warehouse))
    tables = shell("tables", *there)
    assert tables.out.splitlines() == ["db.again", "db.asked", "db.calm", "db.events"]
    done = icepact("--table", "db.again", "--strategy", "small-files", *there, program="iceberg-compact")
    assert done.code == 0
    assert done.out.startswith("committed  run ")
    assert "20 -> 2" in done.out
    assert done.err == ""
    assert shell("health", "db.again", *there).out.startswith("db.again  score 100")


def test_a_person_is_asked_before_a_table_changes(warehouse: Path) -> None:
    """On a terminal the plan is shown first; a no changes nothing."""
    terminal, inner = pty.openpty()
    command = [str(BIN / "icepact"), "compact", "db.asked", "--warehouse", str(warehouse)]
    process = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, close_fds=True)
    os.close(inner)
    shown = ""
    while "Go ahead?" not in shown:
        ready, _, _ = select.select([terminal], [], [], 120)
        assert ready, f"no question was asked: {shown}"
        shown += os.read(terminal, 4096).decode(errors="replace")
    assert "day=1: 10 files" in shown
    os.write(terminal, b"n\n")
    code = process.wait(timeout=60)
    os.close(terminal)
    assert code == 1
    assert len(Compactor(warehouse=warehouse).plan("db.asked").rewrites) == 2


def test_a_catalog_of_pyiceberg_works_by_name(icepact: Run, shell: Run, tmp_path: Path) -> None:
    """What PyIceberg's own file calls `lake` is `--catalog lake` here."""
    (tmp_path / ".pyiceberg.yaml").write_text(
        f"catalog:\n  lake:\n    type: sql\n    uri: sqlite:///{tmp_path}/pyiceberg.db\n    warehouse: {tmp_path}/wh\n"
    )
    make = (
        "import pyarrow as pa; from pyiceberg.catalog import load_catalog\n"
        "lake = load_catalog('lake'); lake.create_namespace('db')\n"
        "rows = pa.table({'id': pa.array(range(10), pa.int64())})\n"
        "table = lake.create_table('db.t', rows.schema)\n"
        "for _ in range(6): table.append(rows)\n"
    )
    check = (
        "from pyiceberg.catalog import load_catalog\n"
        "scan = load_catalog('lake').load_table('db.t').scan()\n"
        "print(len(list(scan.plan_files())), scan.to_arrow().column('id').to_pylist() == sorted(list(range(10)) * 6,"
        " key=lambda i: 0) or sorted(scan.to_arrow().column('id').to_pylist()) == sorted(list(range(10)) * 6))\n"
    )
    (tmp_path / "wh").mkdir()
    env = {"PYICEBERG_HOME": str(tmp_path), "ICEPACT_STATE": str(tmp_path / "state")}
    assert icepact("-c", make, program="python", env=env).code == 0
    done = shell("compact", "db.t", "--catalog", "lake", "--json", env=env)
    assert (done.code, done.json["status"], done.json["files_before"], done.json["files_after"]) == (
        0,
        "committed",
        6,
        1,
    )
    assert icepact("-c", check, program="python", env=env).out == "1 True\n"
    runs = shell("runs", "--catalog", "lake", "--json", env=env).json["runs"]
    assert [run["table"] for run in runs] == ["db.t"]


def test_a_catalog_by_its_uri_and_a_table_without_its_namespace(shell: Run, warehouse: Path, tmp_path: Path) -> None:
    uri, state = f"sqlite:///{warehouse}/catalog.db", {"ICEPACT_STATE": str(tmp_path)}
    answer = shell("health", "db.calm", "--json", "--catalog-uri", uri, env=state)
    assert (answer.code, answer.json["data_files"], answer.json["score"]) == (0, 0, 100.0)
    words = (f"--catalog-uri={uri}", "--table=calm", "--strategy=small-files")
    lost = shell(*words, program="iceberg-compact", env=state)
    assert (lost.code, "default.calm" in lost.err) == (2, True)
    done = shell(*words, "--json", program="iceberg-compact", env={**state, "ICEPACT_NAMESPACE": "db"})
    assert (done.code, done.json["table"], done.json["status"]) == (0, "db.calm", "nothing-to-do")
    (tmp_path / "nightly.yaml").write_text(
        "apiVersion: compaction.io/v1\nkind: CompactionPolicy\nmetadata: {name: nightly}\nspec:\n"
        f"  catalog: {{type: jdbc, database: db, uri: '{uri}'}}\n"
        "  tables: [{name: calm, targetFileSize: 1Gi}]\n"
        "  resources: {memory: 4Gi, cpu: 2}\n  costLimit: {hourly: 5}\n"
    )
    held = shell("policy", "show", "db.calm", "--policy", "nightly.yaml", "--json", env=state).json["values"]
    assert {name: held[name]["value"] for name in ("target_file_size", "max_cost_per_hour", "resources")} == {
        "target_file_size": 1024**3,
        "max_cost_per_hour": 5,
        "resources": {"memory": "4Gi", "cpu": 2},
    }
