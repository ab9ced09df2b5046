"""What durability and proof cost: checkpoints, states and the comparison of footers, of all CPU seconds of a run."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil

from bench.result import Result
from bench.rewrite.measure import open_workshop
from bench.rewrite.sides import rewrite_by_icepact
from bench.rewrite.workloads import TARGET, chosen
from icepact.commit.proof import prove
from icepact.maintain import rounds as rounds_module
from icepact.record.store import RecordStore

BAR = 3.0
"""Percent, from `BAR_SCALE` on."""
BAR_SCALE = 4.0


class Spent:
    """CPU seconds of this thread inside some calls; calls inside calls count once."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    def counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """The same call, measured."""

        def measured(*args: Any, **kwargs: Any) -> Any:
            started = time.thread_time()
            self._depth += 1
            try:
                return call(*args, **kwargs)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += time.thread_time() - started

        return measured


class CountedStore:
    """A record store whose calls are measured."""

    def __init__(self, store: RecordStore, spent: Spent) -> None:
        self._store = store
        self._spent = spent

    def __getattr__(self, name: str) -> Any:
        return self._spent.counted(getattr(self._store, name))


def safety(rounds: int, scale: float, folder: Path, heap: str) -> list[Result]:
    """Workload (a), several times; the median share."""
    [workload] = chosen("a")
    folder.mkdir(parents=True, exist_ok=True)
    shares = []
    with tempfile.TemporaryDirectory(dir=folder, prefix="safety-", ignore_cleanup_errors=True) as place:
        workshop = open_workshop(Path(place), heap)
        pile = workload.pile(workshop, scale)
        for _ in range(rounds + 1):  # the first warms up
            table = workload.make(workshop, pile, scale)
            spent = Spent()
            store = workshop.compactor.application.store
            workshop.compactor.application.store = CountedStore(store, spent)
            before = _all_cpu()
            try:
                with patch.object(rounds_module, "prove", spent.counted(prove)):
                    rewrite_by_icepact(workshop.compactor, table, TARGET)
            finally:
                workshop.compactor.application.store = store
            shares.append((100 * spent.seconds / (_all_cpu() - before), spent.seconds))
            workshop.drop(table)
    share, seconds = sorted(shares[1:])[len(shares[1:]) // 2]
    bar = BAR if scale >= BAR_SCALE else None
    detail = f"{seconds:.3f} s of CPU on workload (a), median of {rounds}"
    what = f"checkpoints, states and proof of footers at scale {scale:g}"
    return [Result(what, share, "% of all CPU seconds", bar, detail)]


def _all_cpu() -> float:
    """CPU seconds of this process and all it has started, ended ones included."""
    this = psutil.Process()
    total = 0.0
    for process in [this, *this.children(recursive=True)]:
        try:
            spent = process.cpu_times()
        except psutil.Error:
            continue
        total += spent.user + spent.system + spent.children_user + spent.children_system
    return total
