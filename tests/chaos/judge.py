"""The judge of a trial: what readers saw before and see now, what lies on storage, what is still open.

Rows are read by Spark's own reader; what is on storage is held against what any snapshot refers to. icepact is asked
about nothing but its open runs and its leases.
"""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from icepact import Compactor
from icepact.maintain.failures import BROKEN
from icepact.model.status import Status
from icepact.record.process import is_gone
from tests.support.later import clean_up_later
from tests.support.messy import load
from tests.support.oracle import LINEAGE, hashed
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
    untrue: int = 0
    """Statuses of a run that are not so: what it says it has committed, and what is in the table."""
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


def look(compactor: Compactor, spark: SparkSession, table: str, *, below: int | None = None) -> Look:
    """Read the whole table, or the rows with an id below a number."""
    spark.sql(f"REFRESH TABLE {table}")
    extra = f", {', '.join(LINEAGE)}" if compactor.application.spark_catalog.table(table).format_version >= 3 else ""
    where = "" if below is None else f" WHERE id < {below}"
    frame = spark.sql(f"SELECT *{extra} FROM {table}{where}")
    [[count, total, ids]] = frame.agg(F.count(F.lit(1)), F.sum(hashed(frame)), F.collect_list("id")).collect()
    return Look(rows=(count, total), ids=Counter(ids))


def recover(compactor: Compactor, table: str, recovery: str) -> None:
    """What a person would do after a crash; then clean up twice, past the task timeout."""
    if recovery == "resume":
        compactor.resume_dead(table)
    for _ in range(2):
        clean_up_later(compactor, table)


def judge(
    compactor: Compactor,
    spark: SparkSession,
    table: str,
    before: Look,
    files: Files,
    *,
    failing: bool = False,
    newcomers: "Newcomers | None" = None,
) -> Verdict:
    """Compare with what was there before; nobody may have written since but compactors, and who is told of here.
    `failing` if storage was, or the catalog: Iceberg deletes what it wrote for nothing, but asks only once."""
    after = look(compactor, spark, table, below=newcomers.first if newcomers else None)
    duplicated = sum((Counter({i: n for i, n in after.ids.items() if n > 1}) - before.ids).values())
    lost = sum((before.ids - after.ids).values())
    resurrected = len(after.ids.keys() - before.ids.keys())
    otherwise = before.rows != after.rows and not (lost or duplicated or resurrected)
    told = Verdict(
        rows=after.rows[0],
        lost=lost,
        duplicated=duplicated,
        resurrected=resurrected,
        changed=int(otherwise),
        **left(compactor, spark, table, files, failing=failing, of_writers_too=newcomers is None),
    )
    return told if newcomers is None else _with_newcomers(spark, table, told, newcomers)


@dataclass(frozen=True, kw_only=True, slots=True)
class Newcomers:
    """Rows that somebody else appends in the course of a trial."""

    first: int
    """No row that was there before has such an id or a greater one."""
    rows: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    """That were committed, by id: all columns."""


def _with_newcomers(spark: SparkSession, table: str, told: Verdict, newcomers: Newcomers) -> Verdict:
    found = [tuple(row) for row in spark.sql(f"SELECT * FROM {table} WHERE id >= {newcomers.first}").collect()]
    ids = Counter(row[0] for row in found)
    return replace(
        told,
        rows=told.rows + len(found),
        lost=told.lost + len(newcomers.rows.keys() - ids.keys()),
        duplicated=told.duplicated + sum(count - 1 for count in ids.values()),
        changed=told.changed + sum(newcomers.rows.get(row[0], row) != row for row in found),
    )


def untrue(compactor: Compactor, table: str, run_id: str, status: Status, snapshots: Sequence[int]) -> bool:
    """Whether a run says something of itself that is not so: it names its snapshots that are in the table's history,
    however it ended. Nobody may have expired them since."""
    java = load(compactor.spark, f"{compactor.catalog.name}.{table}")
    made, snapshot = set(), java.currentSnapshot()
    while snapshot is not None:
        if snapshot.summary().get("icepact.run-id") == run_id:
            made.add(int(snapshot.snapshotId()))
        parent = snapshot.parentId()
        snapshot = None if parent is None else java.snapshot(parent)
    if status.open:  # it says that it does not know
        return not set(snapshots) <= made
    return set(snapshots) != made or (status in (Status.COMMITTED, Status.PARTLY_COMMITTED) and not made)


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
    java = load(spark, f"{compactor.catalog.name}.{table}")
    location = str(java.location()).rstrip("/")
    metadata = files.below(f"{location}/metadata")
    referred = _names(spark, f"SELECT file_path FROM {table}.all_files")
    stored = files.below(f"{location}/data")
    data = [path for path in stored if _name(path) not in referred]
    data = [path for path in data if of_writers_too or "/data/icepact-" in path]
    manifests, without = _manifests(java, metadata)
    beside = _beside(java, metadata, manifests)
    judged = of_writers_too and not failing
    lease = compactor.application.store.lease(compactor.application.spark_catalog.table(table).uuid)
    return {
        "leftovers": len(data) + (len(beside) if judged else 0),
        "uploads": files.uploads(location),
        "stuck": len(compactor.runs(table, open_only=True)) + (lease is not None and not is_gone(lease.owner)),
        "missing": len(referred - {_name(path) for path in stored}) + without,
        "alarms": sum(
            f.signature == BROKEN
            for f in compactor.application.store.failures(compactor.application.spark_catalog.table(table).uuid)
        ),
        "orphans": 0 if judged else len(beside),
    }


def missing(compactor: Compactor, table: str, files: Files) -> int:
    """How many files are not there that a snapshot refers to: then there is hardly more to be said about a table. If
    manifests are missing, nobody knows of more."""
    java = load(compactor.spark, f"{compactor.catalog.name}.{table}")
    location = str(java.location()).rstrip("/")
    without = _manifests(java, files.below(f"{location}/metadata"))[1]
    if without:
        return without
    compactor.spark.sql(f"REFRESH TABLE {table}")
    referred = _names(compactor.spark, f"SELECT file_path FROM {table}.all_files")
    return len(referred - {_name(path) for path in files.below(f"{location}/data")})


def _manifests(java: Any, metadata: Sequence[str]) -> tuple[set[str], int]:
    """Names of all manifests, and lists of them, that a snapshot refers to; how many are not among these files."""
    stored = {_name(path) for path in metadata}
    lists = {_name(str(snapshot.manifestListLocation())): snapshot for snapshot in _listed(java.snapshots())}
    there = [snapshot for name, snapshot in lists.items() if name in stored]
    found = {_name(str(m.path())) for snapshot in there for m in _listed(snapshot.allManifests(java.io()))}
    found |= lists.keys()
    return found, len(found - stored)


def _listed(collection: Any) -> list[Any]:
    array = collection.toArray()
    return [array[number] for number in range(len(array))]


def _beside(java: Any, metadata: Sequence[str], manifests: Collection[str]) -> list[str]:
    """Manifests that no snapshot refers to, and metadata that is as new as what the table's log tells of, and not told
    of there. What was cut off in the middle is nobody's."""
    current = java.operations().current()
    log = {_name(str(entry.file())) for entry in _listed(current.previousFiles())}
    log.add(_name(str(current.metadataFileLocation())))
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
