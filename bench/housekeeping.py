"""Expiry and orphans of a table of 100,000 data files and 1,000 snapshots against Spark's procedures, on this machine
and on an S3 server; and the memory and the requests that they take."""

import datetime
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import million
from bench.manifests import PARTITIONS, described
from bench.result import Result
from bench.session import neutral_compactor
from bench.stores import LONG_AGO, LocalStore, Store, counted, s3_store
from icepact import Compactor
from icepact.housekeeping import orphans as orphans_module
from icepact.iceberg.table.scan import described_files
from icepact.iceberg.table.table import IcebergTable
from icepact.model.expiry import ExpireResult
from icepact.model.orphans import OrphansResult
from icepact.model.outcome import Outcome

FILES, SNAPSHOTS, ORPHANS = 100_000, 1_000, 5_000
RETAIN = 5
REPLACE_EVERY = 20
"""One commit of so many replaces small files of the commits before, as a compaction does."""
REPLACED_PARTITIONS = 17
LISTED = 1_000_000
NAMESPACE = "bench"
_APPEND = "org.apache.iceberg.AppendFiles", "appendFile", "org.apache.iceberg.DataFile"
_DELETE_AFTER_COMMIT = "write.metadata.delete-after-commit.enabled"
_TINY = b"PAR1"
_PAUSE = 2.0
"""Seconds between the last write and what deletes: what is older than one second is to go."""


def housekeeping(rounds: int, files: int = FILES, snapshots: int = SNAPSHOTS, orphans: int = ORPHANS) -> list[Result]:
    """Each store in a process of its own."""
    results = []
    for where in ("local", "S3"):
        facts = _measured("sides", where, min(rounds, 3), files, snapshots, orphans)
        results += _ratios(where, facts)
    requests = _measured("requests", "S3", 1, files, snapshots, orphans)
    results += [
        Result(
            f"requests of {operation} that delete on S3 / one for 1,000 keys",
            found["bulk"] / -(-found["deleted"] // 1000) if not found["single"] else float("inf"),
            "x",
            1.0,
            f"{found['bulk']:,} for {found['deleted']:,} objects, {found['single']} single ones, "
            f"{found['refused']} answers that ask to try again",
        )
        for operation, found in requests.items()
    ]
    memory = _measured("memory", "local", 1, LISTED, 1, orphans)
    return [
        *results,
        Result(
            f"driver Python memory while removing orphans among {memory['listed']:,} files",
            memory["peak_mb"],
            "MB",
            500.0,
            f"peak resident size; {memory['deleted']:,} orphans",
        ),
    ]


def _ratios(where: str, facts: dict[str, Any]) -> list[Result]:
    results = []
    shape = f"{facts['files']:,} live files, {facts['snapshots']:,} snapshots"
    procedures = {"expire": "expire_snapshots", "orphans": "remove_orphan_files"}
    for operation, procedure in procedures.items():
        ours, theirs = (statistics.median(facts[f"{operation}/{side}"]) for side in ("ours", "theirs"))
        results.append(
            Result(
                f"{operation} / Spark's {procedure}, {where}",
                ours / theirs,
                "x",
                1 / 3,
                f"median {ours:.2f} s against {theirs:.2f} s, {len(facts[f'{operation}/ours'])} rounds, {shape}, "
                f"{facts[f'{operation}/deleted']:,} files deleted by each; load {facts['load']:.1f}",
                headline=True,
            )
        )
    return results


def _measured(what: str, *words: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.housekeeping", what, *map(str, words)]
    return dict(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))


# -- the table ------------------------------------------------------------------------------------


@dataclass
class Made:
    """A table and all its files, so that each side can begin with the same."""

    store: Store
    compactor: Compactor
    folder: str
    metadata: str
    """Where its metadata is when a side begins."""
    contents: dict[str, bytes]
    """Of everything but data files."""
    paths: set[str]
    live: int

    def restored(self, number: int) -> IcebergTable:
        """The same table under a new name, with every file it had."""
        now = self.store.files(self.folder)
        self.store.put({path: self.contents.get(path, _TINY) for path in self.paths - now})
        catalog, spark = self.compactor.application.spark_catalog, self.compactor.spark
        for row in spark.sql(f"SHOW TABLES IN {NAMESPACE}").collect():
            spark.sql(f"DROP TABLE {NAMESPACE}.{row.tableName}")
        for path in now - self.paths:  # what a side has written
            assert path.startswith(f"{self.folder}/metadata/"), path
            self.store.remove(path)
        name = f"{NAMESPACE}.t{number}"
        spark.sql(f"CALL {_catalog(self.compactor)}.system.register_table('{name}', '{self.metadata}')").collect()
        orphans_module._KNOWN.clear()  # of a table with the same id
        return catalog.table(name)

    def gone(self) -> set[str]:
        """Which files that it had are not there any more, table metadata aside."""
        gone = self.paths - self.store.files(self.folder)
        return {path for path in gone if not path.endswith(".metadata.json")}


def make_table(store: Store, compactor: Compactor, files: int, snapshots: int, orphans: int, name: str) -> Made:
    """Appends that merge manifests, as Flink's do; one of twenty commits replaces small files of some partitions."""
    spark = compactor.spark
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {NAMESPACE}")
    columns = ", ".join(f"c{n} bigint" for n in range(10))
    spark.sql(
        f"CREATE TABLE {NAMESPACE}.{name} (day date, {columns}) USING iceberg PARTITIONED BY (day) TBLPROPERTIES "
        f"('format-version' = '2', '{_DELETE_AFTER_COMMIT}' = 'true', "
        "'write.metadata.previous-versions-max' = '5')"
    )
    table = compactor.application.spark_catalog.table(f"{NAMESPACE}.{name}")
    location = str(table.table.location()).removeprefix("file:")
    replaces = snapshots // REPLACE_EVERY
    appended = round(files / (1 - REPLACED_PARTITIONS / PARTITIONS) / (snapshots - replaces))
    number, since, paths, live = 0, list[dict[str, Any]](), set[str](), 0
    for commit in range(1, snapshots + 1):
        if commit % REPLACE_EVERY:
            new = [described(location, n) for n in range(number, number + appended)]
            number += appended
            since += new
            _append(table, new)
            live += len(new)
        else:
            old, new = _compaction(location, since, commit // REPLACE_EVERY)
            since = []
            _replace(table, old, new)
            live += len(new) - len(old)
        paths.update(file["file-path"] for file in new)
    lost = [f"{location}/data/day=2026-01-{1 + n % 28:02d}/{n:05d}-7-died-00001.parquet" for n in range(orphans)]
    store.put(dict.fromkeys([*sorted(paths), *lost], _TINY))
    everything = store.files(location)
    contents = {path: store.get(path) for path in everything if path.startswith(f"{location}/metadata/")}
    if store.dated:  # of the embedded catalog's metadata: nobody else is at work here
        for path in everything:
            os.utime(path, (LONG_AGO, LONG_AGO))
    metadata = str(table.table.operations().current().metadataFileLocation())
    return Made(store, compactor, location, metadata, contents, everything, live)


def _compaction(location: str, files: Sequence[dict[str, Any]], number: int) -> tuple[list[Any], list[Any]]:
    """Small files of some partitions, and the one of each partition that they become."""
    first = number * REPLACED_PARTITIONS
    days = {described(location, first + n)["partition"][0] for n in range(REPLACED_PARTITIONS)}
    old = [file for file in files if file["partition"][0] in days]
    new = []
    for file in {file["partition"][0]: file for file in old}.values():
        new.append({**file, "file-path": f"{file['file-path'].removesuffix('.parquet')}-c{number:04d}.parquet"})
    return old, new


def _append(table: IcebergTable, files: Sequence[dict[str, Any]]) -> None:
    java = table.java
    append = table.table.newAppend()
    add = java.bind(java.method(*_APPEND), 0, append)
    described_files(java, table.table, files).forEach(java.as_interface("java.util.function.Consumer", add))
    append.commit()


def _replace(table: IcebergTable, old: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> None:
    java = table.java
    rewrite = table.table.newRewrite()
    for method, files in (("deleteFile", old), ("addFile", new)):
        of_each = java.method("org.apache.iceberg.RewriteFiles", method, "org.apache.iceberg.DataFile")
        consumer = java.as_interface("java.util.function.Consumer", java.bind(of_each, 0, rewrite))
        described_files(java, table.table, files).forEach(consumer)
    rewrite.commit()


# -- the sides ------------------------------------------------------------------------------------


def _our_expire(made: Made, table: IcebergTable) -> int:
    outcome = made.compactor.expire(table.name, older_than="1s", retain_last=RETAIN, allow_young=True)
    return _files_of(outcome)


def _files_of(outcome: Outcome) -> int:
    """Files that were deleted, by its own account."""
    return sum(result.files.files for result in outcome.steps if isinstance(result, (ExpireResult, OrphansResult)))


def _their_expire(made: Made, table: IcebergTable) -> int:
    """Its deletes are in bulk wherever the table's files are."""
    before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=1)
    made.compactor.spark.sql(
        f"CALL {_catalog(made.compactor)}.system.expire_snapshots(table => '{table.name}', "
        f"older_than => TIMESTAMP '{before:%Y-%m-%d %H:%M:%S.%f}+00:00', retain_last => {RETAIN})"
    ).collect()
    return 0


def _our_orphans(made: Made, table: IcebergTable) -> int:
    if made.store.dated:
        return _files_of(made.compactor.orphans(table.name))
    return _files_of(made.compactor.orphans(table.name, older_than="1s", allow_young=True))


def _their_orphans(made: Made, table: IcebergTable) -> int:
    """The procedure; where files are not old enough for it, the action behind it. It lists S3 by prefix, which is the
    only way it can, and this machine in its own way, which is faster there."""
    if made.store.dated:
        before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=3)
        made.compactor.spark.sql(
            f"CALL {_catalog(made.compactor)}.system.remove_orphan_files(table => '{table.name}', "
            f"older_than => TIMESTAMP '{before:%Y-%m-%d %H:%M:%S}+00:00', stream_results => false)"
        ).collect()
        return 0
    actions = table.java.iceberg.spark.actions.SparkActions.get()
    cutoff = int(time.time() * 1000) - 1000
    actions.deleteOrphanFiles(table.table).olderThan(cutoff).usePrefixListing(True).execute()
    return 0


_SIDES: dict[str, dict[str, Callable[[Made, IcebergTable], int]]] = {
    "orphans": {"ours": _our_orphans, "theirs": _their_orphans},
    "expire": {"ours": _our_expire, "theirs": _their_expire},
}


def _catalog(compactor: Compactor) -> str:
    return compactor.application.spark_catalog.catalog


def measure_sides(store: Store, rounds: int, files: int, snapshots: int, orphans: int) -> dict[str, Any]:
    """Both sides and both operations on a small table first; then in turn, each side on the same table again."""
    compactor = store.open()
    compactor.spark.conf.set("spark.sql.shuffle.partitions", str(2 * (os.cpu_count() or 1)))  # Spark's side is faster
    small = make_table(store, compactor, 2_000, 50, 200, "small")
    _turns(small, 1, 0)
    found: dict[str, Any] = {}
    made = make_table(store, compactor, files, snapshots, orphans, "large")
    _say(f"made {made.live:,} live files, {len(made.paths):,} in all")
    found = _turns(made, rounds, 100)
    return {**found, "files": made.live, "snapshots": snapshots, "load": os.getloadavg()[0]}


def _turns(made: Made, rounds: int, first: int) -> dict[str, Any]:
    found: dict[str, Any] = {f"{operation}/{side}": [] for operation, sides in _SIDES.items() for side in sides}
    for number in range(rounds):
        gone: dict[str, dict[str, set[str]]] = {operation: {} for operation in _SIDES}
        for place, side in enumerate(("ours", "theirs")[:: 1 if number % 2 else -1]):
            table = made.restored(first + 2 * number + place)
            time.sleep(_PAUSE)
            before: set[str] = set()
            for operation, sides in _SIDES.items():
                made.compactor.application.spark_catalog.java.jvm.java.lang.System.gc()
                os.sync()
                started = time.monotonic()
                sides[side](made, table)
                seconds = time.monotonic() - started
                _say(f"{operation} {side}: {seconds:.2f} s")
                found[f"{operation}/{side}"].append(seconds)
                after = made.gone()
                gone[operation][side], before = after - before, after
            _check_readable(made, table)
        for operation, by_side in gone.items():
            different = by_side["ours"] ^ by_side["theirs"]
            assert not different, f"{operation}: {len(different)} files, such as {min(different)}"
            found[f"{operation}/deleted"] = len(by_side["ours"])
    return found


def _check_readable(made: Made, table: IcebergTable) -> None:
    """Every live file is there, and there are as many as before."""
    table.refresh()
    live = {str(row[0]) for row in made.compactor.spark.sql(f"SELECT file_path FROM {table.name}.files").collect()}
    assert len(live) == made.live, f"{len(live):,} live files, not {made.live:,}"
    missing = live - made.store.files(made.folder)
    assert not missing, f"{len(missing)} live files are gone, such as {min(missing)}"


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


# -- requests and memory --------------------------------------------------------------------------


def measure_requests(folder: Path, files: int, snapshots: int, orphans: int) -> dict[str, Any]:
    """Our own requests that delete, on S3."""
    found: dict[str, Any] = {}
    with s3_store(folder) as server, counted(server) as (store, requests):
        made = make_table(store, store.open(), files, snapshots, orphans, "large")
        table = made.restored(1)
        # else each commit of Iceberg's deletes the oldest table metadata, by a request of its own
        made.compactor.spark.sql(f"ALTER TABLE {table.name} UNSET TBLPROPERTIES ('{_DELETE_AFTER_COMMIT}')")
        time.sleep(_PAUSE)
        before: set[str] = set()
        for operation, sides in _SIDES.items():
            bulk, single, refused = requests.bulk, requests.single, requests.refused
            told = sides["ours"](made, table)
            gone = made.gone()
            assert told >= len(gone - before)  # what came with the run itself is not among those that were made
            found[operation] = {
                "deleted": told,
                "bulk": requests.bulk - bulk,
                "single": requests.single - single,
                "refused": requests.refused - refused,
            }
            before = gone
    return found


def measure_memory(folder: Path, files: int, orphans: int) -> dict[str, Any]:
    """Empty files and a table that describes them, which is made in a process of its own."""
    subprocess.run(
        [sys.executable, "-m", "bench.housekeeping", "describe", str(folder), *("0", str(files), "0", "0")],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    compactor = neutral_compactor(folder)
    table = compactor.application.spark_catalog.table(million.NAME)
    location = str(table.table.location()).removeprefix("file:")
    for day in range(million.PARTITIONS):
        os.makedirs(Path(million._data(location, day, 1)["file-path"]).parent, exist_ok=True)
    for number in range(files):
        os.close(os.open(million._data(location, number, 1)["file-path"], os.O_CREAT | os.O_WRONLY))
    LocalStore(folder).put({f"{location}/data/lost-{number:07d}.parquet": _TINY for number in range(orphans)})
    before = _peak()
    outcome = compactor.orphans(million.NAME)
    [result] = outcome.steps
    facts: Any = result
    return {"peak_mb": _peak(), "before_mb": before, "listed": facts.listed, "deleted": facts.files.files}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _main(what: str, where: str, rounds: int, files: int, snapshots: int, orphans: int) -> dict[str, Any]:
    if what == "describe":
        million.describe_small(neutral_compactor(Path(where)), files)
        return {}
    with tempfile.TemporaryDirectory(prefix="hk-", ignore_cleanup_errors=True) as name, ExitStack() as running:
        folder = Path(name)
        if what == "memory":
            return measure_memory(folder, files, orphans)
        if what == "requests":
            return measure_requests(folder, files, snapshots, orphans)
        store: Store = LocalStore(folder) if where == "local" else running.enter_context(s3_store(folder))
        return measure_sides(store, rounds, files, snapshots, orphans)


if __name__ == "__main__":
    _what, _where, *_numbers = sys.argv[1:]
    _rounds, _files, _snapshots, _orphans = map(int, _numbers)
    print(json.dumps(_main(_what, _where, _rounds, _files, _snapshots, _orphans)))
