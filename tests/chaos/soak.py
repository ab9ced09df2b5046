"""The soak: icepact compacts in a loop while writers and other compactors commit to the same table.

After every cycle all stop, and the whole table is held against its oracle. Writers and what they do are in
`writers.py`. Other compactors are Spark's own procedures, and an icepact that knows nothing of this one: it has a
record store of its own, so that no lease keeps the two apart.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from icepact import Compactor
from icepact.model.errors import IcepactError
from tests.chaos.judge import RECOVERIES, LocalFiles, left, recover
from tests.chaos.kills import drive, random_kill
from tests.chaos.writers import DAYS, World
from tests.support.compactors import short_compactor
from tests.support.later import clean_up_later

KIND = "soak"
WRITERS = 2
ERRORS = (IcepactError, Py4JError, PySparkException)
"""What a run may end with, if it leaves the table as it was: the judge sees whether it did."""
_A_RUN = 4.0
"""Seconds, about, from the start of a run to its end, if writers are busy: kills come within it."""
_MOST_TOLD = 300


class Soak:
    """One Spark application with everybody in it."""

    def __init__(self, folder: Path, *, seed: int, namespace: str = "soak") -> None:
        self._seed = seed
        self._folder = folder
        self._warehouse = folder / "warehouse"
        self._compactor = short_compactor(warehouse=self._warehouse)
        self._writers = Compactor(warehouse=self._warehouse)
        alone = folder / "alone.yaml"
        folder.mkdir(parents=True, exist_ok=True)
        alone.write_text(yaml.safe_dump({"warehouse": str(self._warehouse), "store": "memory"}))
        self._others = Compactor(config=alone)
        for compactor in (self._compactor, self._writers, self._others):
            compactor.runs()  # record stores are made before there are threads
            compactor.spark.conf.set("spark.sql.shuffle.partitions", "2")
        self._compactor.spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {namespace}")
        self._namespace = namespace
        self._worlds: dict[str, World] = {}

    def world(self, number: int) -> World:
        """The table of a cycle: of version 2, of version 3, and one that is upgraded on the way, by turns."""
        name = ("v2", "v3", "upgraded")[number % 3]
        if name not in self._worlds:
            self._worlds[name] = World(
                self._writers.spark,
                f"{self._namespace}.{name}",
                version=3 if name == "v3" else 2,
                seed=f"{self._seed}/{KIND}/{number}",
                upgrades=name == "upgraded",
            )
            self._worlds[name].fill()
        return self._worlds[name]

    def cycle(self, number: int, *, seconds: float, kills: bool = True) -> dict[str, Any]:
        """Compact for a while under fire, then compare; an entry for the ledger."""
        world = self.world(number)
        dice = random.Random(f"{self._seed}/{KIND}/{number}/compactor")
        done, refused = world.done.copy(), world.refused.copy()
        runs: Counter[str] = Counter()
        others: Counter[str] = Counter()
        stop = threading.Event()
        threads = [_thread(world.act, stop) for _ in range(WRITERS)]
        rivals = random.Random(f"{self._seed}/{KIND}/{number}/others")
        threads.append(_thread(lambda: self._compete(world, rivals, others), stop))
        started = time.monotonic()
        try:
            while not runs or time.monotonic() < started + seconds:
                runs[self._compact(world, dice, kills=kills)] += 1
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        verdict = self._judge(world, dice)
        entry = {
            "kind": KIND,
            "seed": self._seed,
            "number": number,
            "table": world.name.rpartition(".")[2],
            "writes": dict(world.done - done),
            "refused": dict(world.refused - refused),
            "runs": dict(runs),
            "others": dict(others),
            "seconds": round(time.monotonic() - started, 1),
            **verdict,
        }
        if not entry["clean"]:
            (self._folder / f"journal-{number}.txt").write_text("\n".join(world.journal))
        return entry

    # -- those who compact ------------------------------------------------------------------------

    def _compact(self, world: World, dice: random.Random, *, kills: bool) -> str:
        """One run, or something else that a person or a schedule would do; says how it ended."""
        what = dice.random()
        try:
            if kills and what < 0.1:
                driven = drive(self._warehouse, world.name, random_kill(dice, _A_RUN))
                told = driven.told.get("status") or f"driver ended with {driven.code}"
                return "killed" if driven.hit else str(told)
            if what < 0.2:
                clean_up_later(self._compactor, world.name)
                return "cleanup"
            if what < 0.3:
                resumed = self._compactor.resume_dead(world.name)
                return f"resumed: {resumed.status.value}" if resumed else "nothing to resume"
            outcome = self._compactor.compact(world.name, **_options(dice))
        except ERRORS as error:
            world.journal.append(f"run: {type(error).__name__}: {str(error)[:_MOST_TOLD]}")
            return type(error).__name__
        world.journal.append(
            f"run {outcome.run_id}: {outcome.status.value} {outcome.snapshots} {outcome.error or ''} "
            + "; ".join(sorted({g.reason[:_MOST_TOLD] for g in outcome.groups if g.reason}))
        )
        return outcome.status.value

    def _compete(self, world: World, dice: random.Random, others: Counter[str]) -> None:
        """Another compactor, once."""
        rivals: list[tuple[str, Callable[[], str | None]]] = [
            ("spark: data files", lambda: self._rewrite_data_files(world, dice.randrange(DAYS))),
            ("spark: data files", lambda: self._rewrite_data_files(world, dice.randrange(DAYS))),
            ("spark: position deletes", lambda: self._procedure(world, "rewrite_position_delete_files", _ALL)),
            ("spark: manifests", lambda: self._procedure(world, "rewrite_manifests")),
            ("icepact", lambda: self._others.compact(world.name, **_options(dice)).status.value),
            ("icepact", lambda: self._others.compact(world.name, **_options(dice)).status.value),
            ("icepact", lambda: self._others.compact(world.name, **_options(dice)).status.value),
        ]
        name, call = dice.choice(rivals)
        try:
            ended = call() or "done"
        except ERRORS as error:
            ended = "refused" if name.startswith("spark") else type(error).__name__
            world.journal.append(f"{name}: {str(error)[:_MOST_TOLD]}")
        else:
            world.journal.append(f"{name}: {ended}")
        others[f"{name}: {ended}"] += 1

    def _rewrite_data_files(self, world: World, day: int) -> None:
        with world.without_equality_deletes():
            self._procedure(world, "rewrite_data_files", f"where => 'day = {day}', {_ALL}")

    def _procedure(self, world: World, procedure: str, more: str = "") -> None:
        spark = self._others.spark
        spark.sql(f"REFRESH TABLE {world.name}")
        spark.sql(f"CALL local.system.{procedure}(table => '{world.name}'{', ' if more else ''}{more})").collect()

    # -- judging ----------------------------------------------------------------------------------

    def _judge(self, world: World, dice: random.Random) -> dict[str, Any]:
        """Nobody acts any more: end what died, and compare."""
        failed = ""
        try:
            recover(self._compactor, world.name, dice.choice(RECOVERIES))
            recover(self._others, world.name, "cleanup")
        except ERRORS as error:
            failed = f"{type(error).__name__}: {error}"
            world.journal.append(f"recovery: {failed}")
        told: dict[str, Any] = asdict(world.compare())
        spark = self._writers.spark
        told |= left(self._compactor, spark, world.name, LocalFiles(), of_writers_too=False)
        others = left(self._others, spark, world.name, LocalFiles())
        for name in ("stuck", "alarms"):
            told[name] += others[name]
        for compactor in (self._compactor, self._others):
            compactor.unblock(world.name)
        clean = not failed and not any(told[name] for name in told if name not in ("rows", "orphans"))
        return {**told, "failed": failed, "clean": clean}


_ALL = "options => map('rewrite-all', 'true')"


def _options(dice: random.Random) -> dict[str, Any]:
    """Small targets, so that there is always something to do."""
    return {
        "target_file_size": dice.choice(["16KB", "64KB", "1MB", None]),
        "min_input_files": 2,
        "max_delete_ratio": dice.choice([0.0, 0.1]),
        "max_group_files": dice.choice([4, 20, None]),
        "min_row_group_size": dice.choice(["1KB", None]),
        "max_commits": dice.randint(1, 4),
        "method": dice.choice(["auto", "spark", "assemble"]),
        "verify": dice.choice(["footers", "full"]),
        "rewrite_all": dice.random() < 0.4,
    }


def _thread(act: Callable[[], object], stop: threading.Event) -> threading.Thread:
    """Acts again and again."""

    def again() -> None:
        while not stop.is_set():
            act()

    thread = threading.Thread(target=again, daemon=True)
    thread.start()
    return thread
