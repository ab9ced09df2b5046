"""`make chaos`: the long forms. Every trial is added to the ledger as it ends; all of them can be run in pieces.

python -m tests.chaos kills --count 100 --seed 1
python -m tests.chaos soak --minutes 20 --seed 1
python -m tests.chaos faults --runs 300 --seed 1
python -m tests.chaos workers --count 20 --seed 1
python -m tests.chaos search --minutes 30 --seed 1
python -m tests.chaos answers --count 200 --seed 1 --only sqlite
python -m tests.chaos orphans --count 60 --seed 1
python -m tests.chaos disks --count 60 --seed 1
python -m tests.chaos services --count 200 --seed 1
python -m tests.chaos docs
"""

import argparse
import contextlib
import itertools
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.chaos import answers, disks, faults, kills, ledger, orphans, search, services, soak, workers
from tests.chaos.page import write_page
from tests.support.servers.cluster import spark_cluster
from tests.support.servers.faulty import Rates

CYCLE = 25.0
"""Seconds of a soak between two comparisons, about."""
CATALOG_TRIALS = 10
"""One for so many runs on a faulty store."""
DELAY_TRIALS = 10
"""One for so many runs on a faulty store."""
DOCS = "docs"
"""No trial: only writes the page from what is in the ledger."""
_TOLD = ("hit", "how", "status", "recovery", "runs", "writes", "others", "faults", "seconds", "error", "failed")
Trials = Iterator[dict[str, Any]]


def main() -> int:
    """Run what was asked for; 1 if any trial was unclean."""
    arguments = _arguments()
    if arguments.what == DOCS:
        write_page(arguments.ledger)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers end
    folder = Path(tempfile.mkdtemp(prefix="icepact-chaos-"))
    unclean = 0
    try:
        for entry in _TRIALS[arguments.what](arguments, folder):
            ledger.add(entry, arguments.ledger)
            print(_line(entry), flush=True)
            unclean += not entry["clean"]
    finally:
        if unclean:
            print(f"{unclean} unclean; tables and journals are in {folder}", flush=True)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if unclean else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("what", choices=[*_TRIALS, DOCS])
    parser.add_argument("--seed", type=int, default=1, help="of all dice; the same seed goes on where it stopped")
    parser.add_argument("--first", type=int, help="number of the first trial, to do one again")
    parser.add_argument("--count", type=int, default=20, help="of trials; of kills that hit; with each catalog, store")
    parser.add_argument("--minutes", type=float, default=20, help="of soak or search")
    parser.add_argument("--runs", type=int, default=300, help="on a faulty store; others come on top")
    parser.add_argument("--truncated", type=float, help="part of the answers of a faulty store that break off")
    parser.add_argument(
        "--only", nargs="+", choices=answers.CATALOGS, default=answers.CATALOGS, help="catalogs that lose answers"
    )
    parser.add_argument(
        "--stores", nargs="+", choices=services.STORES, default=services.STORES, help="under a service that is killed"
    )
    parser.add_argument("--worst", action="store_true", help="lose nothing but the answer to the first commit")
    parser.add_argument("--ledger", type=Path, default=ledger.LEDGER, help="default %(default)s")
    return parser.parse_args()


def _line(entry: dict[str, Any]) -> str:
    found = [f"{name}={entry[name]}" for name in ledger.COUNTED if entry.get(name)]
    told = [f"{name}={entry[name]}" for name in _TOLD if entry.get(name)]
    verdict = "clean" if entry["clean"] else "UNCLEAN"
    return f"{entry['kind']} {entry['seed']}/{entry['number']}: {verdict} {' '.join([*found, *told])}"


def _first(arguments: argparse.Namespace, kind: str) -> int:
    if arguments.first is not None:
        return int(arguments.first)
    return ledger.next_number(kind, arguments.seed, arguments.ledger)


# -- trials ---------------------------------------------------------------------------------------


def _kills(arguments: argparse.Namespace, folder: Path) -> Trials:
    """Until so many runs were killed in the middle."""
    hits = 0
    for entry in kills.kills(folder / "warehouse", first=_first(arguments, kills.KIND), seed=arguments.seed):
        yield entry
        hits += entry["hit"]
        if hits >= arguments.count:
            return


def _soak(arguments: argparse.Namespace, folder: Path) -> Trials:
    everybody = soak.Soak(folder, seed=arguments.seed)
    deadline = time.monotonic() + 60 * arguments.minutes
    for number in itertools.count(_first(arguments, soak.KIND)):
        if time.monotonic() > deadline:
            return
        yield everybody.cycle(number, seconds=CYCLE)


def _faults(arguments: argparse.Namespace, folder: Path) -> Trials:
    """Runs on a faulty store, then with a catalog that goes away, then on both that are slow."""
    seed, runs = arguments.seed, arguments.runs
    rates = Rates() if arguments.truncated is None else Rates(truncated=arguments.truncated)
    with faults.shore(folder) as shore:
        for number in _numbers(arguments, faults.STORAGE, runs):
            yield shore.storage_trial(number, seed=seed, rates=rates)
        for number in _numbers(arguments, faults.CATALOG, runs // CATALOG_TRIALS):
            yield shore.catalog_trial(number, seed=seed)
        for number in _numbers(arguments, faults.DELAY, runs // DELAY_TRIALS):
            yield shore.delay_trial(number, seed=seed)


def _disks(arguments: argparse.Namespace, folder: Path) -> Trials:
    """Runs on a disk that fails."""
    with disks.small_disk() as disk, disks.small_disk() as whole, disks.small_disk() as scratch:
        trials = disks.DiskTrials(folder / "disk", disk, whole, scratch)
        for number in _numbers(arguments, disks.KIND, arguments.count):
            yield trials.trial(number, seed=arguments.seed)


def _orphans(arguments: argparse.Namespace, folder: Path) -> Trials:
    """Runs whose finished files somebody removes."""
    trials = orphans.OrphanTrials(folder)
    for number in _numbers(arguments, orphans.KIND, arguments.count):
        yield trials.trial(number, seed=arguments.seed)


def _numbers(arguments: argparse.Namespace, kind: str, count: int) -> range:
    first = _first(arguments, kind)
    return range(first, first + count)


def _workers(arguments: argparse.Namespace, folder: Path) -> Trials:
    """Half of them Python workers in local mode, the others executors of a cluster."""
    warehouse, count = folder / "warehouse", arguments.count
    local = workers.worker_trials(warehouse, first=_first(arguments, workers.WORKER), seed=arguments.seed)
    yield from itertools.islice(local, (count + 1) // 2)
    if count < 2:
        return
    with spark_cluster(folder) as cluster:
        first = _first(arguments, workers.EXECUTOR)
        remote = workers.executor_trials(warehouse, cluster, folder, first=first, seed=arguments.seed)
        yield from itertools.islice(remote, count // 2)


def _services(arguments: argparse.Namespace, folder: Path) -> Trials:
    """So many kills of processes of a service over each kind of record store."""
    folder.chmod(0o711)  # PostgreSQL may run as another user
    for kind in arguments.stores:
        home = folder / f"service-{kind}"
        home.mkdir(mode=0o711)
        first = _first(arguments, services.KIND)
        with services.store_place(kind, home) as place:
            kills_of_one = services.service_kills(home, first=first, seed=arguments.seed, place=place)
            with contextlib.closing(kills_of_one):
                for entry in itertools.islice(kills_of_one, arguments.count):
                    yield {**entry, "store": kind}


def _search(arguments: argparse.Namespace, folder: Path) -> Trials:
    deadline = time.monotonic() + 60 * arguments.minutes
    for entry in search.pieces(first=_first(arguments, search.KIND), seed=arguments.seed):
        yield entry
        if time.monotonic() > deadline:
            return


def _answers(arguments: argparse.Namespace, folder: Path) -> Trials:
    """So many with each of the catalogs whose answers are lost, in one Spark application."""
    folder.chmod(0o711)  # PostgreSQL may run as another user
    with answers.application(folder, arguments.only) as places:
        for place in places:
            for number in _numbers(arguments, place.kind, arguments.count):
                yield place.trial(number, seed=arguments.seed, worst=arguments.worst)


_TRIALS: dict[str, Callable[[argparse.Namespace, Path], Trials]] = {
    "kills": _kills,
    "soak": _soak,
    "faults": _faults,
    "workers": _workers,
    "search": _search,
    "answers": _answers,
    "orphans": _orphans,
    "disks": _disks,
    "services": _services,
}

if __name__ == "__main__":
    sys.exit(main())
