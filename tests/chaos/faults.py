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
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from icepact import Compactor
from icepact.model.outcome import Outcome
from tests.chaos.judge import (
    RECOVERIES,
    Bucket,
    Files,
    Newcomers,
    Verdict,
    judge,
    look,
    missing,
    recover,
    untrue,
)
from tests.chaos.messes import TRIALS_PER_TABLE, MessyTable
from tests.chaos.soak import ERRORS
from tests.chaos.streaming import in_bucket
from tests.support.compactors import short_compactor
from tests.support.servers.faulty import Asked, Fault, Proxy, Rates, Weather, calm, faulty
from tests.support.servers.rest import RestCatalog, rest_catalog
from tests.support.servers.s3 import s3_server
from tests.support.servers.trial import configuration

STORAGE = "storage"
CATALOG = "catalog"
DELAY = "delay"
SLOW_STORE = Rates(failed=0.02, dropped=0.02, truncated=0.01, delayed=0.03, longest_delay=5)
SLOW_CATALOG = Rates(failed=0, dropped=0, truncated=0, delayed=0.2, longest_delay=5)
PATIENT = {"s3.retry.min-wait-ms": "50", "s3.retry.max-wait-ms": "1000"}
"""Java's client for S3 waits 2 to 20 seconds before it tries again; here it tries as often, but sooner."""
COMMIT = re.compile(r"/v1/(?:[^/]+/)?namespaces/[^/]+/tables/[^/]+")


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
            if asked.method == "POST" and COMMIT.fullmatch(asked.path):
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
        self.compactor = short_compactor(config=config)
        self.spark = self.compactor.spark
        self.spark.conf.set("spark.sql.shuffle.partitions", "2")
        self.files = Bucket(rest.s3)
        self._put = in_bucket(rest.s3)
        self._tables: dict[int, MessyTable] = {}

    def table(self, version: int, name: str) -> MessyTable:
        """One that has not seen too much yet; `name` is that of a new one."""
        found = self._tables.get(version)
        if found is None or found.messes == TRIALS_PER_TABLE:
            self.spark.sql("CREATE NAMESPACE IF NOT EXISTS faults")
            found = self._tables[version] = MessyTable(self.spark, self._put, f"faults.{name}", version)
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

    def delay_trial(self, number: int, *, seed: int) -> dict[str, Any]:
        """A run on a store and with a catalog that take up to five seconds for some answers."""
        dice = random.Random(f"{seed}/{DELAY}/{number}")
        table = self.table(2 + number % 2, f"{DELAY}{seed}n{number}")
        table.mess(dice)
        faults = self.storage.faults.copy()
        weather = [Weather(f"{seed}/{DELAY}/{number}/{rates}", rates) for rates in (SLOW_STORE, SLOW_CATALOG)]
        options = {"method": dice.choice(["auto", "auto", "spark"]), "max_commits": dice.randint(1, 3)}

        def storm() -> None:
            self.storage.rule, self.catalog.rule = weather

        told = self._tried(table.name, dice, options, storm)
        injected = self.storage.faults - faults
        waits = [wait for one in weather for wait in one.waits]
        return {
            "kind": DELAY,
            "seed": seed,
            "number": number,
            "hit": bool(waits),
            "requests": sum(one.requests for one in weather),
            "faults": {"delayed": len(waits), **{fault.value: count for fault, count in sorted(injected.items())}},
            "longest": round(max(waits, default=0.0), 2),
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
    *,
    judging: Compactor | None = None,
    newcomers: Newcomers | None = None,
) -> dict[str, Any]:
    """Compact between the begin and the end of something bad, recover, judge; part of an entry for the ledger.

    `judging` looks at the same table on another way than the run did; `newcomers` grows while others append.
    """
    judging = judging or compactor
    spark = judging.spark
    before = look(judging, spark, table, below=newcomers.first if newcomers else None)
    started = time.monotonic()
    error = failed = ""
    outcome: Outcome | None = None
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
    verdict, ended = Verdict(rows=0), ""
    try:
        wrong = 0
        if outcome is not None:
            wrong += untrue(judging, table, outcome.run_id, outcome.status, outcome.snapshots)
        recover(compactor, table, recovery)
        verdict = replace(verdict, missing=missing(judging, table, files))  # if nothing more can be said
        verdict = judge(judging, spark, table, before, files, failing=True, newcomers=newcomers)
        for record in compactor.runs(table, limit=1):
            ended = record.status.value
            wrong += untrue(judging, table, record.run_id, record.status, [c.snapshot_id for c in record.landed])
        verdict = replace(verdict, untrue=wrong)
        compactor.unblock(table)
    except ERRORS as raised:
        failed = told_of(raised)
    return {
        "status": status,
        "error": error[:500],
        "recovery": recovery,
        "ended": ended,
        "seconds": seconds,
        **asdict(verdict),
        "failed": failed,
        "clean": not failed and verdict.clean,
    }


def told_of(error: Exception) -> str:
    """What happened, and what lay at the bottom of it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return f"{type(error).__name__}: {' '.join([*lines[:2], *causes[-1:]])[:480]}"


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
