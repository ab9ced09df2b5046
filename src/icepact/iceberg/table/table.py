"""`IcebergTable`: pinning a snapshot, the view of a head, and what else a rewrite and a commit read of a table."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from icepact.iceberg.java.bridge import (
    READ_ATTEMPTS,
    Java,
    JavaError,
    error_line,
    mute_pyspark_errors,
    retry_reads,
    through_a_file,
)
from icepact.iceberg.java.classes import instance_of
from icepact.iceberg.table.scan import ScanTasks, live_deletes
from icepact.model.errors import BadInput, Unsupported
from icepact.model.files import DataFile, DeleteFile, PartitionKey, PartitionSpec, SpecField, is_odd
from icepact.model.schema import primitive_types
from icepact.model.snapshot import LastRun, PinnedFiles, PinnedSnapshot, SnapshotInfo
from icepact.stats.table import FileStats

HIGHEST_FORMAT_VERSION = 3
FACT_PREFIX = "icepact."
NAME_MAPPING = "schema.name-mapping.default"
_ENCRYPTION = "encryption.key-id"
_RUN_FACTS = ("complete", "layout", "pinned-sequence-number", "earlier-sequence-numbers", "planned-at", "tier")
"""Summary properties, without their prefix, of the last snapshot of a complete run."""
_TIMELINE_LENGTH = 200
"""Snapshots in a timeline at most."""
_UNREADABLE_BY_SPARK = ("time", "timestamp_ns", "timestamptz_ns")


@dataclass(frozen=True, kw_only=True)
class HeadView:
    """Live files and deletes at the head of a branch, around some paths: all that judging a group needs."""

    snapshot_id: int
    """0 if the branch has no snapshot any more."""
    sequence_number: int
    format_version: int
    interpretation: str
    """`IcebergTable.interpretation` at the head."""
    files: Sequence[DataFile]
    """Live files in the partitions of the paths asked for."""
    deletes: Sequence[DeleteFile]
    """All live deletes."""
    everything: ScanTasks
    """All live files."""
    tasks: ScanTasks
    """The live files in the partitions of the paths asked for, Java's own."""
    java_deletes: Any

    def oldest_elsewhere(self) -> int | None:
        """Smallest sequence number of the live files in other partitions; `None` if there are none."""
        if self.everything.tasks.size() == self.tasks.tasks.size():
            return None
        return self.everything.oldest_without(self.tasks.paths())

    def oldest_without(self, paths: Collection[str]) -> int | None:
        """Smallest sequence number of the live files of the whole table but these; `None` if there are no others."""
        return self.everything.oldest_without(paths)


class SnapshotLine(NamedTuple):
    """One snapshot as `SnapshotLog.java` writes it."""

    id: int
    parent: int | None
    """`None` for a first one. It may have expired."""
    number: int
    """Its sequence number; 0 on format version 1."""
    time: int
    """Milliseconds since 1970."""
    facts: Sequence[str]
    """Values of `_RUN_FACTS` but the first, if a complete run ended with it; otherwise empty."""

    @staticmethod
    def parse(line: str) -> "SnapshotLine":
        """From tab-separated text."""
        name, parent, number, time, *facts = line.split("\t")
        return SnapshotLine(int(name), int(parent) if parent else None, int(number), int(time), facts)


class IcebergTable:
    """A loaded table, behind which Java's own is hidden."""

    def __init__(self, *, java: Java, session: SparkSession, table: Any, name: str, sql_name: str) -> None:
        self.java = java
        self.session = session
        self.table = table
        self.name = name
        self.sql_name = sql_name
        self.uuid = str(table.operations().current().uuid() or table.location())
        """What stays the same when a table is renamed; very old tables have no uuid."""
        self._check()

    def _check(self) -> None:
        for what, current in (("partition spec", self.table.spec()), ("sort order", self.table.sortOrder())):
            if current is None:
                raise BadInput(f"{self.name} cannot be used: its metadata names a {what} that it does not have")
        if self.format_version > HIGHEST_FORMAT_VERSION:
            raise Unsupported(
                f"{self.name} has format version {self.format_version}: icepact knows up to {HIGHEST_FORMAT_VERSION}"
            )
        if _ENCRYPTION in self.properties:
            raise Unsupported(f"{self.name} is encrypted: icepact does not rewrite encrypted tables")
        unreadable = sorted(primitive_types(json.loads(self.schema)) & set(_UNREADABLE_BY_SPARK))
        if unreadable:
            raise Unsupported(f"{self.name} has a column of type {unreadable[0]}, which Spark's Iceberg cannot load")

    def _check_partitions(self, snapshot: Any) -> None:
        """Refuse files whose partition Iceberg cannot write down again.

        When the source column of a partition field is dropped, the field's type becomes `unknown`, and
        its values become null in every manifest that is rewritten: partition-scoped deletes then no
        longer find their files, and deleted rows come back.
        """
        specs = self.table.specs()
        lost = {
            number
            for number in self.java.keys(specs)
            if any(str(f.type()) == "unknown" for f in self.java.items(specs[number].partitionType().fields()))
        }
        if not lost or snapshot is None:
            return
        for manifest in self.java.items(snapshot.allManifests(self.table.io())):
            if manifest.partitionSpecId() in lost and (manifest.hasAddedFiles() or manifest.hasExistingFiles()):
                raise Unsupported(
                    f"{self.name} has files of partition spec {manifest.partitionSpecId()}, whose column was dropped: "
                    "Iceberg would lose their partitions, and with them deletes"
                )

    # -- facts ------------------------------------------------------------------------------------

    @property
    def format_version(self) -> int:
        """1, 2 or 3."""
        return int(self.table.operations().current().formatVersion())

    @property
    def last_sequence_number(self) -> int:
        """Of all commits that the table, as it was last read, has ever seen; 0 on format version 1."""
        return int(self.table.operations().current().lastSequenceNumber())

    @property
    def interpretation(self) -> str:
        """Digest of schema, name mapping and partition specs: what files and their partitions mean. Columns of files
        without field ids are found by the name mapping, or by position: another mapping, or another schema, gives them
        another meaning, and no snapshot tells of it. Nor are ids enough: once an expiry has removed an unused schema or
        partition spec, another one may get its id."""
        documents = [self.schema, self.properties.get(NAME_MAPPING, ""), *self.spec_documents.values()]
        return hashlib.sha256("\n".join(documents).encode()).hexdigest()[:16]

    @property
    def schema(self) -> str:
        """The current schema as Iceberg's JSON."""
        return str(self.java.iceberg.SchemaParser.toJson(self.table.schema()))

    @property
    def specs(self) -> dict[int, PartitionSpec]:
        """All partition specs the table has had."""
        name_of = self.table.schema().findColumnName
        specs = {}
        for spec_id, text in self.spec_documents.items():
            fields = tuple(
                SpecField(name=f["name"], transform=f["transform"], source=str(name_of(f["source-id"]) or ""))
                for f in json.loads(text)["fields"]
            )
            specs[spec_id] = PartitionSpec(spec_id=spec_id, fields=fields)
        return specs

    @property
    def spec_documents(self) -> dict[int, str]:
        """Iceberg's JSON of all partition specs, by id."""
        specs, to_json = self.table.specs(), self.java.iceberg.PartitionSpecParser.toJson
        return {int(spec_id): str(to_json(specs[spec_id])) for spec_id in self.java.keys(specs)}

    @property
    def location(self) -> str:
        """Where it is."""
        return str(self.table.location())

    @property
    def is_local(self) -> bool:
        """Whether its files are on this machine, as far as its location tells."""
        return self.location.startswith(("/", "file:"))

    @property
    def properties(self) -> dict[str, str]:
        """Table properties."""
        return self.java.mapping(self.table.properties())

    @retry_reads
    def refresh(self) -> None:
        """Read the newest metadata."""
        self.table.refresh()

    def head(self, branch: str) -> Any:
        """The newest snapshot of a branch, Java's own; `None` if the table has none yet."""
        if branch == "main":
            return self.table.currentSnapshot()
        ref = self.table.refs().get(branch)
        if ref is None:
            raise BadInput(f"{self.name} has no branch {branch!r}; there is: {', '.join(self._branches())}")
        if not ref.isBranch():
            raise BadInput(f"{branch!r} of {self.name} is a tag, not a branch: tags never change")
        return self.table.snapshot(ref.snapshotId())

    def head_id(self, branch: str) -> int | None:
        """The id of a branch's newest snapshot; `None` if the table has none yet."""
        head = self.head(branch)
        return None if head is None else int(head.snapshotId())

    def has_branch(self, branch: str) -> bool:
        """Whether there is a branch of that name; `main` is there even before the first snapshot."""
        ref = self.table.refs().get(branch)
        return branch == "main" or (ref is not None and ref.isBranch())

    def _branches(self) -> list[str]:
        refs = self.table.refs()
        return sorted({"main", *(str(name) for name in self.java.keys(refs) if refs[name].isBranch())})

    def new_commit(self) -> Any:
        """An empty replace commit, Java's own, for `replace_files`; nothing is sent before that."""
        return self.table.newRewrite()

    # -- pinning ----------------------------------------------------------------------------------

    @retry_reads
    def pin(self, *, branch: str, where: str | None = None, snapshot_id: int | None = None) -> PinnedFiles:
        """A snapshot of a branch, or the newest, with its files, read once and in bulk."""
        return self._with_files(self.pinned(branch, snapshot_id), where)

    @retry_reads
    def listed(self, stats: FileStats, partitions: Collection[PartitionKey]) -> PinnedFiles:
        """A pinned snapshot with the files of some of its partitions, read from the manifests that have any."""
        pin = stats.pin
        if not partitions:
            return PinnedFiles(**_pin_fields(pin), files=[], deletes=[])
        if any(is_odd(value) for _, partition in partitions for value in partition):
            return self._with_files(pin, None)  # Iceberg's JSON cannot say these
        snapshot = self.table.snapshot(pin.snapshot_id)
        manifests = snapshot.allManifests(self.table.io())
        paths = self.manifest_paths(manifests)
        data = self.java.jvm.java.util.ArrayList()
        for at, path in enumerate(paths):
            manifest_stats = stats.stats_by_manifest[path]
            if not manifest_stats.deletes and any(
                (manifest_stats.spec_id, partition) in partitions for partition in manifest_stats.partitions
            ):
                data.add(manifests[at])
        _, deletes = live_deletes(self.java, self.table, snapshot)
        tasks = ScanTasks.of_partitions(
            self.java,
            self.table,
            data=data,
            deletes=snapshot.deleteManifests(self.table.io()),
            partitions=partitions,
        )
        files = tasks.files(deletes)
        return PinnedFiles(**_pin_fields(pin), files=files, deletes=deletes, live_twice=live_twice(files))

    def _with_files(self, pin: PinnedSnapshot, where: str | None) -> PinnedFiles:
        expression = None if where is None else self.expression(where)
        files: list[DataFile] = []
        deletes: list[DeleteFile] = []
        if pin.snapshot_id is not None:
            _, deletes = live_deletes(self.java, self.table, self.table.snapshot(pin.snapshot_id))
            tasks = ScanTasks.plan(self.java, self.table, pin.snapshot_id, expression=expression)
            files = tasks.files(deletes)
        return PinnedFiles(**_pin_fields(pin), files=files, deletes=deletes, where=where, live_twice=live_twice(files))

    @retry_reads
    def pinned(self, branch: str, snapshot_id: int | None = None) -> PinnedSnapshot:
        """A snapshot of a branch, or the newest, without its files."""
        snapshot = self.head(branch) if snapshot_id is None else self._earlier(branch, snapshot_id)
        self._check_partitions(snapshot)
        order = json.loads(str(self.java.iceberg.SortOrderParser.toJson(self.table.sortOrder())))["fields"]
        log = self._snapshot_log()
        return PinnedSnapshot(
            table=self.name,
            uuid=self.uuid,
            format_version=self.format_version,
            branch=branch,
            snapshot_id=None if snapshot is None else int(snapshot.snapshotId()),
            sequence_number=0 if snapshot is None else int(snapshot.sequenceNumber()),
            schema=self.schema,
            specs=self.specs,
            spec_id=int(self.table.spec().specId()),
            sort_order=_sort_order(order),
            sort_key=_sort_key(order),
            moments=sorted((line.number, line.time) for line in log),
            properties=self.properties,
            manifests=0 if snapshot is None else len(snapshot.allManifests(self.table.io())),
            snapshots=len(log),
            last_runs=() if snapshot is None else _last_runs(log, int(snapshot.snapshotId())),
        )

    def _earlier(self, branch: str, snapshot_id: int) -> Any:
        """A snapshot in the history of a branch, Java's own."""
        head = self.head(branch)
        if not self.has_snapshot(snapshot_id):
            raise BadInput(f"{self.name} has no snapshot {snapshot_id}: it may have expired")
        if head is None or not self.is_ancestor(snapshot_id, of=head.snapshotId()):
            raise BadInput(f"snapshot {snapshot_id} of {self.name} is not in the history of branch {branch}")
        return self.table.snapshot(snapshot_id)

    @retry_reads
    def still_there(self, state: PinnedFiles) -> PinnedFiles:
        """Pinned files without those that the branch has lost since."""
        head = self.head(state.branch)
        if head is None or not state.files or int(head.snapshotId()) == state.snapshot_id:
            return state
        tasks = ScanTasks.plan(self.java, self.table, head.snapshotId())
        live = set(tasks.with_paths([file.path for file in state.files]).paths())
        return replace(state, files=[file for file in state.files if file.path in live])

    def _snapshot_log(self) -> list[SnapshotLine]:
        """All snapshots in the table's metadata, in one transfer."""
        java = self.java
        facts = java.from_json([FACT_PREFIX + fact for fact in _RUN_FACTS], "java.util.ArrayList")
        snapshots = self.table.operations().current().snapshots()
        log = instance_of(java, "SnapshotLog")
        return [SnapshotLine.parse(line) for line in _lines(lambda path: log.snapshots(snapshots, facts, path))]

    def manifest_paths(self, manifests: Any) -> list[str]:
        """Paths of Java's own manifests, in order."""
        log = instance_of(self.java, "SnapshotLog")
        return _lines(lambda path: log.paths(manifests, path))

    def expression(self, where: str) -> Any:
        """A row filter in Spark's SQL as Iceberg's expression, or one line that says why not."""
        spark = self.java.jvm.org.apache.spark.sql
        converter = spark.execution.datasources.SparkExpressionConverter
        try:
            with self.java.active(), mute_pyspark_errors():
                parsed = self.java.session.sessionState().sqlParser().parseExpression(where)
                if spark.catalyst.expressions.SubqueryExpression.hasSubquery(parsed):
                    # whether other tables are there, and with which columns, is not for whoever may look at this one
                    raise BadInput(f"where {where!r}: it is about rows of this table, and takes no subqueries")
                resolved = converter.collectResolvedSparkExpression(self.java.session, self.sql_name, where)
                return converter.convertToIcebergExpression(resolved)
        except (Py4JError, PySparkException) as error:
            raise BadInput(f"where {where!r}: {error_line(error)}") from None

    @retry_reads
    def timeline(self, snapshot_id: int | None) -> list[SnapshotInfo]:
        """The newest of a snapshot's ancestors and itself, oldest first; all in one transfer."""
        if snapshot_id is None:
            return []
        java = self.java
        ancestors = java.iceberg.util.SnapshotUtil.ancestorsBetween(self.table, snapshot_id, None)
        newest = java.listed(
            java.iceberg.relocated.com.google.common.collect.Iterables.limit(ancestors, _TIMELINE_LENGTH)
        )
        parser = "org.apache.iceberg.SnapshotParser", "toJson", "org.apache.iceberg.Snapshot", "boolean"
        documents = java.texts(newest, java.bind(java.method(*parser), 1, False))
        return [_snapshot_info(json.loads(document)) for document in reversed(documents)]

    # -- looking at the head ----------------------------------------------------------------------

    @retry_reads
    def view(self, branch: str, paths: Sequence[str]) -> HeadView:
        """Refresh, and see what is live around these paths at the head; at a newer one if that expires meanwhile."""
        self.table.refresh()
        for _ in range(READ_ATTEMPTS):
            snapshot = self.head(branch)
            try:
                return self._view_of(snapshot, paths)
            except JavaError:
                self.table.refresh()
                if snapshot is None or self.has_snapshot(snapshot.snapshotId()):
                    raise
        return self._view_of(self.head(branch), paths)

    def _view_of(self, snapshot: Any, paths: Sequence[str]) -> HeadView:
        if snapshot is None:  # the table was made anew: nothing is live
            nothing = self.java.jvm.java.util.ArrayList()
            java_deletes, deletes, everything = nothing, list[DeleteFile](), ScanTasks(self.java, self.table, nothing)
        else:
            self._check_partitions(snapshot)
            java_deletes, deletes = live_deletes(self.java, self.table, snapshot)
            everything = ScanTasks.plan(self.java, self.table, snapshot.snapshotId())
        around = everything.in_partitions_of(everything.with_paths(paths))
        files = around.files(deletes)
        return HeadView(
            snapshot_id=0 if snapshot is None else int(snapshot.snapshotId()),
            sequence_number=0 if snapshot is None else int(snapshot.sequenceNumber()),
            format_version=self.format_version,
            interpretation=self.interpretation,
            files=files,
            deletes=deletes,
            everything=everything,
            tasks=around,
            java_deletes=java_deletes,
        )

    @retry_reads
    def deletes_of(self, snapshot_id: int) -> Sequence[DeleteFile]:
        """All live deletes of a snapshot."""
        _, deletes = live_deletes(self.java, self.table, self.table.snapshot(snapshot_id))
        return deletes

    def has_snapshot(self, snapshot_id: int | None) -> bool:
        """Whether a snapshot is in the table's metadata, and has not expired."""
        return snapshot_id is not None and self.table.snapshot(snapshot_id) is not None

    def made_since(self, number: int) -> list[Any]:
        """All snapshots with this sequence number or a later one, Java's own, on whichever branch or none. Not every
        catalog keeps them in the order in which they were made; on format version 1 all have number 0."""
        snapshots = self.table.operations().current().snapshots()
        numbers = self.java.numbers(snapshots, self.java.method("org.apache.iceberg.Snapshot", "sequenceNumber"))
        return [snapshots[at] for at, own in enumerate(numbers) if (own or 0) >= number]

    def committed_at(self, snapshot_id: int | None) -> datetime | None:
        """When a snapshot was committed; `None` if there is none, or it has expired."""
        snapshot = None if snapshot_id is None else self.table.snapshot(snapshot_id)
        return None if snapshot is None else datetime.fromtimestamp(snapshot.timestampMillis() / 1000, UTC)

    def is_ancestor(self, snapshot_id: int, *, of: int) -> bool:
        """Whether a snapshot is in the history of another, or is it; also one that has expired just before the rest."""
        util = self.java.iceberg.util.SnapshotUtil
        return bool(
            util.isAncestorOf(self.table, of, snapshot_id) or util.isParentAncestorOf(self.table, of, snapshot_id)
        )

    def newest(self, branch: str, count: int) -> list[int]:
        """The newest snapshots of a branch, newest first."""
        ids: list[int] = []
        snapshot = self.head(branch)
        while snapshot is not None and len(ids) < count:
            ids.append(int(snapshot.snapshotId()))
            parent = snapshot.parentId()
            snapshot = None if parent is None else self.table.snapshot(parent)
        return ids

    @retry_reads
    def changed_paths(self, snapshot_id: int) -> tuple[list[str], list[str]]:
        """Data files that a snapshot removed, and those that it added."""
        snapshot = self.table.snapshot(snapshot_id)
        changes = self.java.iceberg.SnapshotChanges.builderFor(self.table).snapshot(snapshot).build()
        location = self.java.method("org.apache.iceberg.ContentFile", "location")
        removed = self.java.texts(self.java.listed(changes.removedDataFiles()), location)
        return removed, self.java.texts(self.java.listed(changes.addedDataFiles()), location)

    @retry_reads
    def added_paths(self, snapshot_id: int) -> list[str]:
        """Files that a snapshot added: of data, and of deletes."""
        snapshot = self.table.snapshot(snapshot_id)
        changes = self.java.iceberg.SnapshotChanges.builderFor(self.table).snapshot(snapshot).build()
        location = self.java.method("org.apache.iceberg.ContentFile", "location")
        added = changes.addedDataFiles(), changes.addedDeleteFiles()
        return [path for files in added for path in self.java.texts(self.java.listed(files), location)]

    @retry_reads
    def paths_with_deletes(self, snapshot_id: int) -> list[str]:
        """Data files of a snapshot that some delete applies to."""
        return ScanTasks.plan(self.java, self.table, snapshot_id).with_deletes().paths()

    @retry_reads
    def tasks_of(self, snapshot_id: int, paths: Sequence[str]) -> Any:
        """Scan tasks of these files as a snapshot has them, Java's own list."""
        return ScanTasks.plan(self.java, self.table, snapshot_id).with_paths(paths).tasks

    @retry_reads
    def ancestry(self, branch: str) -> list[SnapshotLine]:
        """The snapshots of a branch, newest first, as far as they have not expired; in one transfer."""
        return list(_ancestors(self._snapshot_log(), self.head_id(branch)))

    def fact(self, snapshot_id: int, name: str) -> str | None:
        """What icepact wrote into a snapshot's summary; `None` if that is nothing of this name."""
        value = (self.table.snapshot(snapshot_id).summary() or {}).get(f"{FACT_PREFIX}{name}")
        return None if value is None else str(value)

    def parent_of(self, snapshot_id: int) -> int | None:
        """The parent of a snapshot; `None` if it is the first."""
        parent = self.table.snapshot(snapshot_id).parentId()
        return None if parent is None else int(parent)

    def sequence_number_of(self, snapshot_id: int) -> int:
        """A snapshot's own sequence number; 0 on format version 1."""
        return int(self.table.snapshot(snapshot_id).sequenceNumber())

    def total_rows(self, snapshot_id: int) -> int | None:
        """Records in all live data files, as the snapshot's summary counts them; `None` if it does not."""
        total = (self.table.snapshot(snapshot_id).summary() or {}).get("total-records")
        return int(total) if total is not None and str(total).isdecimal() else None

    @retry_reads
    def paths_in_position_deletes(self, snapshot_id: int, delete_paths: Sequence[str]) -> dict[str, set[str]]:
        """Which data files each of these position-delete files speaks of; one Spark job for all.

        A file that nothing is found in is not in the answer: unknown, not empty.
        """
        if not delete_paths:
            return {}
        from pyspark.sql import functions as F

        frame = (
            self.session.read.option("versionAsOf", snapshot_id)
            .table(f"{self.sql_name}.position_deletes")
            .where(F.col("delete_file_path").isin(list(delete_paths)))
            .select("delete_file_path", "file_path")
            .distinct()
        )
        paths: dict[str, set[str]] = {}
        for row in frame.collect():
            paths.setdefault(row[0], set()).add(row[1])
        return paths


def _pin_fields(pin: PinnedSnapshot) -> dict[str, Any]:
    return {field.name: getattr(pin, field.name) for field in fields(PinnedSnapshot)}


def live_twice(files: Sequence[DataFile]) -> frozenset[str]:
    """Paths that are listed more than once."""
    if len({f.path for f in files}) == len(files):
        return frozenset()
    return frozenset(path for path, count in Counter(f.path for f in files).items() if count > 1)


def _lines(write: Callable[[str], object]) -> list[str]:
    return through_a_file(write).decode().split("\n")[:-1]


def _last_runs(log: Sequence[SnapshotLine], head: int) -> list[LastRun]:
    """Complete runs among the head and its ancestors, newest first."""
    if not any(line.facts for line in log):
        return []
    runs: list[LastRun] = []
    for line in _ancestors(log, head):
        if line.facts:
            layout, pinned, earlier, planned_at, tier = line.facts
            numbers = [line.number, *map(int, earlier.split(",") if earlier else ())]
            runs.append(
                LastRun(
                    layout=layout,
                    snapshot_id=line.id,
                    own_sequence_numbers=frozenset(numbers),
                    pinned_sequence_number=int(pinned or 0),
                    planned_at=datetime.fromisoformat(planned_at) if planned_at else None,
                    tier=tier or None,
                )
            )
    return runs


def _ancestors(log: Sequence[SnapshotLine], head: int | None) -> Iterator[SnapshotLine]:
    """A snapshot and its ancestors, newest first."""
    by_id = {line.id: line for line in log}
    while head is not None and head in by_id:
        yield by_id[head]
        head = by_id[head].parent


def _snapshot_info(document: Mapping[str, Any]) -> SnapshotInfo:
    """A snapshot from Iceberg's JSON of it."""
    summary = document.get("summary") or {}

    def total(name: str) -> int | None:
        value = str(summary.get(name, ""))
        return int(value) if value.isdigit() else None

    return SnapshotInfo(
        snapshot_id=document["snapshot-id"],
        at=datetime.fromtimestamp(document["timestamp-ms"] / 1000, UTC),
        operation=str(summary.get("operation", "")),
        data_files=total("total-data-files"),
        delete_files=total("total-delete-files"),
        bytes=total("total-files-size"),
    )


_KEEP_ORDER = re.compile(r"identity|year|month|day|hour|truncate\[\d+\]")


def _sort_order(fields: Sequence[Mapping[str, Any]]) -> str:
    if not fields:
        return "unsorted"
    return ", ".join(f"{f['transform']}(#{f['source-id']}) {f['direction']}" for f in fields)


def _sort_key(fields: Sequence[Mapping[str, Any]]) -> int:
    """The column whose bounds tell how files overlap: transforms such as buckets do not keep the order."""
    return int(fields[0]["source-id"]) if fields and _KEEP_ORDER.fullmatch(fields[0]["transform"]) else 0
