"""Ctrl-C at a terminal, at many moments: always one line, what became of the run, how to go on, exit code 130."""

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from icepact import Compactor
from icepact.model.status import Status
from tests.acceptance.conftest import Run
from tests.support.oracle import seen

UNCHANGED = "icepact: interrupted: nothing was changed: run the same command again\n"
LONGEST = 120


def pressed(warehouse: Path, moment: str, *, times: int = 1) -> str:
    """What `icepact compact` says on stderr; nothing of it is left running."""
    words = ["compact", "db.events", "--rewrite-all", "--warehouse", str(warehouse)]
    process = psutil.Popen(
        [sys.executable, "-m", "tests.support.pressing", moment, str(times), *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    out, err = process.communicate(timeout=LONGEST)
    assert (process.returncode, out) == (130, ""), err
    of_it = [p for p in psutil.process_iter() if session_of(p.pid) == process.pid]
    _, left = psutil.wait_procs(of_it, timeout=LONGEST)  # Python's workers see that Java is gone
    assert not left
    return str(err)


def session_of(pid: int) -> int | None:
    """Of a process; null if it has ended."""
    try:
        return os.getsid(pid)
    except OSError:
        return None


@pytest.mark.parametrize("moment", ["loading", "java"])
def test_before_a_run_begins(warehouse: Path, moment: str) -> None:
    assert pressed(warehouse, moment) == UNCHANGED


def test_the_first_press_cancels_a_run(warehouse: Path) -> None:
    told = pressed(warehouse, "written")
    [run] = Compactor(warehouse=warehouse).runs("db.events", limit=1)
    again = "`icepact compact db.events` begins anew"
    assert told == f"icepact: interrupted: run {run.run_id} is cancelled, db.events is as it was: {again}\n"
    assert run.status is Status.CANCELLED
    assert not list((warehouse / "db").rglob(f"*{run.run_id}*/*.parquet"))


def test_the_second_press_leaves_at_once_and_whoever_comes_next_finds_out(shell: Run, warehouse: Path) -> None:
    compactor = Compactor(warehouse=warehouse)
    before = seen(compactor.spark, "db.events")
    told = pressed(warehouse, "attempting", times=2)
    [run] = compactor.runs("db.events", limit=1)
    assert run.status is Status.COMMITTING
    assert re.fullmatch(
        rf"icepact: interrupted: run {run.run_id} was left while a commit was under way: `icepact compact db.events` "
        r"finds out whether it landed\n",
        told,
    )
    done = shell("compact", "db.events", "--json", "--warehouse", str(warehouse))
    assert (done.code, done.err) == (
        0,
        f"resumed run {run.run_id}: committed; with options that it began with, not those of now: rewrite-all true\n",
    )
    outcome = {name: done.json[name] for name in ("run_id", "status", "files_before", "files_after", "kept_options")}
    assert outcome == {
        "run_id": run.run_id,
        "status": "committed",
        "files_before": 20,
        "files_after": 2,
        "kept_options": {"rewrite_all": True},
    }
    compactor.spark.sql("REFRESH TABLE db.events")
    assert seen(compactor.spark, "db.events") == before
