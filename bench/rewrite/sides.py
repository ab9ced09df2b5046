"""Three ways to rewrite: Spark's own action, icepact, and `cp` as the floor."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.rewrite.results import Effort
from bench.rewrite.tables import Workshop, settings
from icepact import Compactor
from icepact.model.status import Status

CP_FILES = 1000
"""Files per `cp` command: command lines are limited."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tuning:
    """How Spark's action is run."""

    options: Mapping[str, str] = field(default_factory=lambda: concurrency(os.cpu_count() or 1))
    """Of the procedure."""
    conf: Mapping[str, str] = field(default_factory=dict)
    """Of the session."""

    @property
    def named(self) -> dict[str, str]:
        """Options and settings together."""
        return {**self.options, **self.conf}


def concurrency(groups: int) -> dict[str, str]:
    """The option that says how many groups are rewritten at a time."""
    return {"max-concurrent-file-group-rewrites": str(groups)}


def rewrite_by_spark(workshop: Workshop, table: str, target: int, tuning: Tuning, *, where: str | None = None) -> None:
    """Spark's `rewrite_data_files`."""
    options = {"target-file-size-bytes": str(target), **tuning.options}
    listed = ", ".join(f"'{word}'" for pair in options.items() for word in pair)
    condition = f', where => "{where}"' if where else ""
    catalog = workshop.compactor.catalog.name
    with settings(workshop.spark, dict(tuning.conf)):
        workshop.spark.sql(
            f"CALL {catalog}.system.rewrite_data_files(table => '{table}', options => map({listed}){condition})"
        ).collect()


def rewrite_by_icepact(compactor: Compactor, table: str, target: int, **options: Any) -> Effort:
    """icepact, as its users call it: plan, rewrite, proof and commit."""
    outcome = compactor.compact(table, target_file_size=target, **options)
    if outcome.status is not Status.COMMITTED:
        reasons = sorted({group.reason for group in outcome.groups if group.reason})
        raise RuntimeError(f"{outcome.status}: {outcome.error or '; '.join(reasons)}")
    return Effort(
        methods=dict(outcome.methods),
        copied_bytes=outcome.effort.copied_bytes,
        encoded_bytes=outcome.effort.encoded_bytes,
        requests=outcome.effort.requests,
    )


def copy_files(paths: Sequence[str], folder: Path) -> None:
    """`cp` of the input files. Real copies: a file system that shares blocks would copy nothing."""
    flags = ["--reflink=never"] if sys.platform == "linux" else []
    for start in range(0, len(paths), CP_FILES):
        subprocess.run(["cp", *flags, *paths[start : start + CP_FILES], str(folder)], check=True)


def remove(paths: Sequence[str]) -> None:
    """Delete files of a run that was rolled back."""
    for path in paths:
        Path(path).unlink(missing_ok=True)


def empty(folder: Path) -> Path:
    """A new empty folder in the place of an old one."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
