"""Storage and catalogs that fail during a run: it ends committed, or cleanly failed, and never half.

Tables are in a real S3 server, listed by a real REST catalog, each behind a proxy that fails on purpose. Everything of
a run goes through the proxies, the driver's requests and those of the Python tasks; the mess before it and the judge
after it go through them when they are calm. The catalog's own requests to the store go to the store itself.
"""

import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from icepact import Compactor
from tests.chaos.judge import RECOVERIES, Bucket, Files, Verdict, judge, look, recover
from tests.chaos.soak import ERRORS
from tests.chaos.streaming import Stream, in_bucket
from tests.support.servers.faulty import Asked, Fault, Proxy, Rates, Weather, calm, faulty
from tests.support.servers.rest import RestCatalog, rest_catalog
from tests.support.servers.s3 import s3_server
from tests.support.servers.trial import configuration

STORAGE = "storage"
CATALOG = "catalog"
DAYS = 3
TRIALS_PER_TABLE = 10
"""Then there is a new table."""
LARGE = 9_000_000
"""Bytes of a file that is uploaded, and copied, in parts."""
PATIENT = {"s3.retry.min-wait-ms": "50", "s3.retry.max-wait-ms": "1000"}
"""Java's client for S3 waits 2 to 20 seconds before it tries again; here it tries as often, but sooner."""
_COMMIT = re.compile(r"/v1/(?:[^/]+/)?namespaces/[^/]+/tables/[^/]+")


class Away:
    """A rule for a catalog that goes away with the first commit and comes back after a while."""

    def __init__(self, fault: Fault, seconds: float) -> None:
        self._fault = fault
        self._seconds = seconds
        self._until: float | None = None

    def __call__(self, asked: Asked) -> Fault | None:
        """Nothing, until somebody commits."""
        now = time.monotonic()
        if self._until is None:
            if asked.method == "POST" and _COMMIT.fullmatch(asked.path):
                self._until = now + self._seconds
                return self._fault
            return None
        return Fault.DROP if now < self._until else None

    @property
    def hit(self) -> bool:
        """Whether somebody committed."""
        return self._until is not None


class Shore:
    """A lake behind faulty proxies."""

    def __init__(self, folder: Path, rest: RestCatalog, storage: Proxy, catalog: Proxy) -> None:
        self.storage = storage
        self.catalog = catalog
        addresses = {"uri": catalog.endpoint, "s3.endpoint": storage.endpoint}
        config = configuration(folder, {**rest.properties, **addresses, **PATIENT})
        self.compactor = Compactor(config=config, short=True)
        self.spark = self.compactor.spark
        self.spark.conf.set("spark.sql.shuffle.partitions", "2")
        self.files = Bucket(rest.s3)
        self._put = in_bucket(rest.s3)
        self._tables: dict[int, _Table] = {}

    def table(self, version: int, name: str) -> "_Table":
        """One that has not seen too much yet; `name` is that of a new one."""
        found = self._tables.get(version)
        if found is None or found.messes == TRIALS_PER_TABLE:
            self.spark.sql("CREATE NAMESPACE IF NOT EXISTS faults")
            found = self._tables[version] = _Table(self, f"faults.{name}", version)
        return found

    def calm(self) -> None:
        """Nothing fails any more."""
        self.storage.rule = self.catalog.rule = calm

    def storage_trial(self, number: int, *, seed: int, rates: Rates | None = None) -> dict[str, Any]:
        """A run on a store that fails at these rates."""
        dice = random.Random(f"{seed}/{STORAGE}/{number}")
        table = self.table(2 + number % 2, f"{STORAGE}{seed}n{number}")
        table.mess(dice, large=dice.random() < 0.15)
        faults = self.storage.faults.copy()
        weather = Weather(f"{seed}/{STORAGE}/{number}/weather", rates)
        options = {"method": dice.choice(["auto", "auto", "auto", "spark"]), "max_commits": dice.randint(1, 3)}

        def storm() -> None:
            self.storage.rule = weather

        told = self._tried(table.name, dice, options, storm)
        injected = self.storage.faults - faults
        return {
            "kind": STORAGE,
            "seed": seed,
            "number": number,
            "hit": bool(injected),
            "requests": weather.requests,
            "faults": {fault.value: count for fault, count in sorted(injected.items())},
            "options": options,
            **told,
        }

    def catalog_trial(self, number: int, *, seed: int, longest: float = 6.0) -> dict[str, Any]:
        """A run whose catalog goes away while its first commit is under way, and comes back after some seconds."""
        dice = random.Random(f"{seed}/{CATALOG}/{number}")
        table = self.table(2 + number % 2, f"{CATALOG}{seed}n{number}")
        table.mess(dice)
        fault = (Fault.DROP, Fault.LOSE, Fault.FAIL, Fault.CUT)[number // 2 % 4]
        away = Away(fault, dice.uniform(0.0, longest))
        options = {"max_commits": dice.randint(1, 2)}

        def leave() -> None:
            self.catalog.rule = away

        told = self._tried(table.name, dice, options, leave)
        return {
            "kind": CATALOG,
            "seed": seed,
            "number": number,
            "hit": away.hit,
            "faults": {fault.value: 1},
            "options": options,
            **told,
        }

    def _tried(
        self, table: str, dice: random.Random, options: dict[str, Any], storm: Callable[[], object]
    ) -> dict[str, Any]:
        """Compact in a storm; when it is calm again, recover and judge."""
        options |= {"target_file_size": "64MB", "rewrite_all": True}
        recovery = dice.choice(RECOVERIES)
        return tried(self.compactor, table, options, recovery, self.files, storm, self.calm)


def tried(
    compactor: Compactor,
    table: str,
    options: dict[str, Any],
    recovery: str,
    files: Files,
    begin: Callable[[], object],
    end: Callable[[], object],
) -> dict[str, Any]:
    """Compact between the begin and the end of something bad, recover, judge; part of an entry for the ledger."""
    before = look(compactor, compactor.spark, table)
    started = time.monotonic()
    error = failed = ""
    begin()
    try:
        outcome = compactor.compact(table, **options)
        status, error = outcome.status.value, outcome.error or ""
        error = error or "; ".join(sorted({group.reason for group in outcome.groups if group.reason}))
    except ERRORS as raised:
        status, error = "raised", told_of(raised)
    finally:
        end()
    seconds = round(time.monotonic() - started, 1)
    verdict = None
    try:
        recover(compactor, table, recovery)
        verdict = judge(compactor, compactor.spark, table, before, files, failing=True)
        compactor.forgive(table)
    except ERRORS as raised:
        failed = told_of(raised)
    told = asdict(verdict or Verdict(rows=0))
    ended = {run.status.value for run in compactor.runs(table, limit=1)}
    return {
        "status": status,
        "error": error[:500],
        "recovery": recovery,
        "ended": min(ended, default=""),
        "seconds": seconds,
        **told,
        "failed": failed,
        "clean": not failed and verdict is not None and verdict.clean,
    }


def told_of(error: Exception) -> str:
    """What happened, and what lay at the bottom of it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return f"{type(error).__name__}: {' '.join([*lines[:2], *causes[-1:]])[:480]}"


class _Table:
    """One table of a row of trials."""

    def __init__(self, shore: Shore, name: str, version: int) -> None:
        self.name = name
        self.messes = 0
        self._shore = shore
        self._next = 0
        shore.spark.sql(
            f"CREATE TABLE {name} (id bigint, day int, text string, bytes binary) USING iceberg PARTITIONED BY (day)"
            f" TBLPROPERTIES ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read')"
        )

    def mess(self, dice: random.Random, *, large: bool = False) -> None:
        """Small files in every partition, deletes of both kinds, and perhaps two large files."""
        stream = Stream(self._shore.spark, f"lake.{self.name}", dice, self._shore._put)
        key = stream.columns()[0]
        batches = [(f"day={day}", self._rows(day, 40, 40)) for day in range(DAYS) for _ in range(2)]
        if large:
            batches += [("day=0", self._rows(0, 3, LARGE // 3, dice)) for _ in range(2)]
        stream.append(batches)
        [first] = batches[0][1][:1]
        stream.delete(key, [first[key.id]], "day=0")
        self._shore.spark.sql(f"REFRESH TABLE {self.name}")
        self._shore.spark.sql(f"DELETE FROM {self.name} WHERE id % 37 = {self.messes}")
        self.messes += 1

    def _rows(self, day: int, count: int, length: int, dice: random.Random | None = None) -> list[dict[int, Any]]:
        rows = []
        for _ in range(count):
            number = self._next * DAYS + day
            content = dice.randbytes(length) if dice else str(number).encode() * (length // 8)
            rows.append({1: number, 2: day, 3: f"row {number}", 4: content})
            self._next += 1
        return rows


@contextmanager
def shore(folder: Path) -> Iterator[Shore]:
    """Servers, proxies and a compactor."""
    with s3_server(folder) as s3, rest_catalog(folder, s3) as rest, shore_of(folder / "client", rest) as found:
        yield found


@contextmanager
def shore_of(folder: Path, rest: RestCatalog) -> Iterator[Shore]:
    """Proxies and a compactor in front of servers that run."""
    with faulty(rest.s3.endpoint) as storage, faulty(rest.uri) as catalog:
        yield Shore(folder, rest, storage, catalog)
