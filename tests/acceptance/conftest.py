"""The command line as a user has it: real processes, a real warehouse."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from icepact import Compactor

BIN = Path(sys.executable).parent


class Answer:
    """What a command printed and how it ended."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code = done.returncode
        self.out = done.stdout
        self.err = done.stderr

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
        return Answer(
            subprocess.run(
                [str(BIN / program), *words],
                capture_output=True,
                text=True,
                check=False,
                cwd=cwd or home,
                env={**clean, **(env or {})},
                stdin=subprocess.DEVNULL,
            )
        )

    return run


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
