"""The judge of a trial: what readers saw before and see now, what lies on storage, what is still open.

Rows are read by Spark's own reader; what is on storage is held against what any snapshot refers to. icepact is asked
about nothing but its open runs and its leases.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from icepact import Compactor
from icepact.maintain.work import BROKEN
from tests.support.later import clean_up_later
from tests.support.oracle import seen
from tests.support.servers.s3 import S3Server

RECOVERIES = ("resume", "cleanup")


@dataclass(frozen=True, kw_only=True, slots=True)
class Look:
    """What a reader sees of a table with a column `id`."""

    rows: tuple[int, Any]
    """How many, and the sum of the hashes of whole rows, lineage included on format version 3."""
    ids: Counter[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """What a trial left."""

    rows: int
    """Compared, whole."""
    lost: int = 0
    """Rows that were there and are not."""
    duplicated: int = 0
    """Rows that are there more often than before."""
    resurrected: int = 0
    """Rows that are there and were not: somebody had deleted them."""
    changed: int = 0
    """Rows with other values; 1 if it is only known that there are some."""
    leftovers: int = 0
    """Files of the table that no snapshot refers to."""
    uploads: int = 0
    """Uploads to an object store that nobody finished."""
    stuck: int = 0
    """Open runs, and a lease that keeps the next run waiting. That of a process that is gone does not: it is taken."""
    missing: int = 0
    """Files that a snapshot refers to and that are not on storage."""
    alarms: int = 0
    """Commits that were called broken and are not."""
    orphans: int = 0
    """Manifests and metadata that nothing refers to, where Iceberg may have failed to delete its own: told, not judged.
    Elsewhere they are leftovers."""

    @property
    def clean(self) -> bool:
        """Nothing lost, nothing wrong, nothing left over."""
        told = asdict(self)
        return not any(told[name] for name in told if name not in ("rows", "orphans"))


class Files(Protocol):
    """What is on storage."""

    def below(self, location: str) -> Sequence[str]:
        """Paths of all files below a folder."""
        ...

    def uploads(self, location: str) -> int:
        """Unfinished uploads below a folder."""
        ...


class LocalFiles:
    """A disk."""

    def below(self, location: str) -> list[str]:
        """Hadoop's `.name.crc` counts only if the file it speaks of is gone."""
        found = [path for path in Path(location.removeprefix("file:")).rglob("*") if path.is_file()]
        names = {path.name for path in found}
        return [str(p) for p in found if not (p.name.endswith(".crc") and p.name[1:-4] in names)]

    def uploads(self, location: str) -> int:
        """There are none: what is not finished is a file."""
        return 0


class Bucket:
    """An object store."""

    def __init__(self, server: S3Server) -> None:
        self._server = server

    def below(self, location: str) -> list[str]:
        """Listed by another client than icepact's."""
        return sorted(self._server.objects(self._key(location)))

    def uploads(self, location: str) -> int:
        """Listed in the same way."""
        return sum(key.startswith(self._key(location)) for key in self._server.unfinished_uploads())

    def _key(self, location: str) -> str:
        return location.removeprefix(f"s3://{self._server.bucket}/").rstrip("/") + "/"


def look(compactor: Compactor, spark: SparkSession, table: str) -> Look:
    """Read the whole table."""
    spark.sql(f"REFRESH TABLE {table}")
    lineage = compactor._lake.table(table).format_version >= 3
    rows = seen(spark, table, lineage=lineage)
    return Look(rows=rows, ids=Counter(row[0] for row in spark.sql(f"SELECT id FROM {table}").collect()))


def recover(compactor: Compactor, table: str, recovery: str) -> None:
    """What a person would do after a crash; then clean up twice, past the task timeout."""
    if recovery == "resume":
        compactor.resume_dead(table)
    for _ in range(2):
        clean_up_later(compactor, table)


def judge(
    compactor: Compactor, spark: SparkSession, table: str, before: Look, files: Files, *, failing: bool = False
) -> Verdict:
    """Compare with what was there before; nobody may have written since but compactors. `failing` if storage was, or
    the catalog: Iceberg deletes what it wrote for nothing, but asks only once."""
    after = look(compactor, spark, table)
    duplicated = sum((Counter({i: n for i, n in after.ids.items() if n > 1}) - before.ids).values())
    lost = sum((before.ids - after.ids).values())
    resurrected = len(after.ids.keys() - before.ids.keys())
    otherwise = before.rows != after.rows and not (lost or duplicated or resurrected)
    return Verdict(
        rows=after.rows[0],
        lost=lost,
        duplicated=duplicated,
        resurrected=resurrected,
        changed=int(otherwise),
        **left(compactor, spark, table, files, failing=failing),
    )


def left(
    compactor: Compactor,
    spark: SparkSession,
    table: str,
    files: Files,
    *,
    of_writers_too: bool = True,
    failing: bool = False,
) -> dict[str, int]:
    """What should not be there: by the names of a verdict. Writers that are refused may leave files of their own."""
    location = str(compactor._lake.table(table).table.location()).rstrip("/")
    referred = _names(spark, f"SELECT file_path FROM {table}.all_files")
    stored = files.below(f"{location}/data")
    data = [path for path in stored if _name(path) not in referred]
    data = [path for path in data if of_writers_too or "/data/icepact-" in path]
    beside = _beside(spark, table, files.below(f"{location}/metadata"))
    judged = of_writers_too and not failing
    lease = compactor._store.lease(compactor._lake.table(table).uuid)
    return {
        "leftovers": len(data) + (len(beside) if judged else 0),
        "uploads": files.uploads(location),
        "stuck": len(compactor.runs(table, open_only=True)) + (lease is not None and not lease.owner.gone),
        "missing": len(referred - {_name(path) for path in stored}),
        "alarms": sum(f.signature == BROKEN for f in compactor._store.failures(compactor._lake.table(table).uuid)),
        "orphans": 0 if judged else len(beside),
    }


def _beside(spark: SparkSession, table: str, metadata: Sequence[str]) -> list[str]:
    """Manifests that no snapshot refers to, and metadata that is as new as what the table's log tells of, and not told
    of there. What was cut off in the middle is nobody's."""
    manifests = _names(
        spark, f"SELECT path FROM {table}.all_manifests UNION SELECT manifest_list FROM {table}.snapshots"
    )
    log = _names(spark, f"SELECT file FROM {table}.metadata_log_entries")
    oldest = min(log)  # names begin with a number of five digits
    return [
        path
        for path in metadata
        if (path.endswith(".avro") and _name(path) not in manifests)
        or (path.endswith(".json") and _name(path) not in log and _name(path) >= oldest and not _cut_off(path))
    ]


def _cut_off(path: str) -> bool:
    if not Path(path).is_file():
        return False
    try:
        json.loads(Path(path).read_bytes())
    except ValueError:
        return True
    return False


def _names(spark: SparkSession, query: str) -> set[str]:
    return {_name(row[0]) for row in spark.sql(query).collect()}


def _name(path: str) -> str:
    return path.rsplit("/", 1)[-1]
