"""The command line as a user has it, on a real warehouse: in processes of its own, or in this one, which is faster."""

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from icepact import Compactor
from icepact.entrypoints.cli import main
from icepact.entrypoints.cli.render import Renderer
from icepact.iceberg.spark.catalog import SparkCatalog

BIN = Path(sys.executable).parent


class Answer:
    """What a command printed and how it ended."""

    def __init__(self, code: Any, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


Run = Callable[..., Answer]


@pytest.fixture(scope="session")
def icepact(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run `icepact` (or another of our programs) in a process of its own, in an empty folder."""
    home = tmp_path_factory.mktemp("home")

    def run(
        *words: str, program: str = "icepact", cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> Answer:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("ICEPACT_", "PYICEBERG_"))}
        done = subprocess.run(
            [str(BIN / program), *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=cwd or home,
            env={**clean, **(env or {})},
            stdin=subprocess.DEVNULL,
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run a program of ours in this process, in an empty folder; nobody is at the terminal."""
    for name in list(os.environ):
        if name.startswith(("ICEPACT_", "PYICEBERG_")):
            monkeypatch.delenv(name)

    def run(
        *words: str, program: str = "icepact", env: Mapping[str, str] | None = None, typed: str | None = None
    ) -> Answer:
        """`typed` is what a person at a terminal answers."""
        out, err = io.StringIO(), io.StringIO()
        with monkeypatch.context() as now, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            now.chdir(tmp_path)
            now.setattr(sys, "stdin", io.StringIO(typed))
            if typed is not None:
                now.setattr(Renderer, "interactive", True)
            for name, value in (env or {}).items():
                now.setenv(name, value)
            code = main.run([*(["compact"] if program == "iceberg-compact" else []), *words])
        return Answer(code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever opens a catalog is found out."""

    def refuse(*args: object, **named: object) -> None:
        raise AssertionError("a catalog was opened")

    monkeypatch.setattr(SparkCatalog, "open", refuse)


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An embedded warehouse with `db.events` (20 small files in 2 partitions, some rows deleted) and `db.calm`."""
    folder = tmp_path_factory.mktemp("warehouse")
    spark = Compactor(warehouse=folder).spark
    spark.sql("CREATE NAMESPACE db")
    for name in ("events", "again", "asked"):
        spark.sql(
            f"CREATE TABLE db.{name} (id bigint, day int) USING iceberg PARTITIONED BY (day) TBLPROPERTIES"
            " ('format-version' = '2', 'write.delete.mode' = 'merge-on-read', 'write.distribution-mode' = 'none')"
        )
        rows = spark.range(0, 1000, 1, 10).selectExpr("id", "cast(id % 2 as int) AS day")
        rows.writeTo(f"db.{name}").option("fanout-enabled", "true").append()
        spark.sql(f"DELETE FROM db.{name} WHERE id % 100 = 7")
    spark.sql("CREATE TABLE db.calm (id bigint) USING iceberg")
    return folder
