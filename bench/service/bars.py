"""The bars of the service: a small job beside the library, cached health beside nothing, the first answer, and load."""

import socket
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench.result import Result
from bench.service.latency import in_turn
from bench.service.load import CLIENTS, Load, load
from bench.service.processes import Library, Place, Serve
from icepact.client import Client

JOB_BAR, HEALTH_BAR, START_BAR, GROWTH_BAR = 1.3, 20.0, 1.5, 1.1
JOBS, TABLES, MINUTES = 1000, 100, 5.0
"""Of the load as it was asked for; shorter ones have as many jobs a minute."""
_WARM = 4
"""Runs of each side before any is counted."""
_PAUSE = 3.0
"""Seconds after each run: a worker looks at the table anew once it has nothing else to do."""
_AT_ONCE = 8
"""Clients that ask for health at once."""
_SECONDS = 10.0
_LEAST_TABLES = 10
PARTS = ("start", "health", "job", "load")


def service(
    rounds: int, minutes: float, folder: Path, *, store: str | None = None, parts: tuple[str, ...] = PARTS
) -> list[Result]:
    """All of them; `store` is the address of the record store under load, a file if not given."""
    folder.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    for part, measure in (
        ("start", partial(_starts, rounds)),
        ("health", _health),
        ("job", partial(_jobs, rounds)),
        ("load", partial(_load, minutes, store)),
    ):
        if part in parts:
            _say(part)
            results += measure(folder)
    return results


# -- the parts ------------------------------------------------------------------------------------


def _starts(rounds: int, folder: Path) -> list[Result]:
    """From nothing to the first answer, with a worker that starts beside it."""
    seconds = []
    with _place(folder) as place:
        for _ in range(rounds):
            with _serving(place, workers=1) as serve:
                seconds.append(serve.until_alive)
    detail = f"median of {len(seconds)}, slowest {max(seconds):.2f} s; its worker starts meanwhile"
    return [Result("`icepact serve` until its first `/healthz`", statistics.median(seconds), "s", START_BAR, detail)]


def _health(folder: Path) -> list[Result]:
    """A path with health that is known, and one that does nothing, asked by the same clients in turn."""
    with _place(folder) as place:
        place.make(filled=1)
        key = place.new_key()
        with _serving(place, workers=1) as serve, Client(serve.url, key) as client:
            client.health("bench.t0")
            time.sleep(_PAUSE)
            paths = ("/api/v1/tables/bench.t0/health", "/healthz")
            in_turn(serve.url, paths, key=key, clients=_AT_ONCE, seconds=2.0)
            (known, empty), rate = in_turn(serve.url, paths, key=key, clients=_AT_ONCE, seconds=_SECONDS)
            (alone, nothing), _ = in_turn(serve.url, paths, key=key, clients=1, seconds=_SECONDS / 2)
    at_once = f"{_AT_ONCE} clients that never pause, {rate:.0f} requests/s"
    detail = f"p50 {known.p50:.1f} ms against {empty.p50:.1f} ms of `/healthz`, {at_once}"
    tail = f"p99 {known.p99:.1f} ms against {empty.p99:.1f} ms, {at_once}"
    one = f"p50 {alone.p50:.1f} ms against {nothing.p50:.1f} ms, p99 {alone.p99:.1f} ms against {nothing.p99:.1f} ms"
    what = "`GET` of cached health over an empty handler"
    return [
        Result(f"{what}, p50", known.p50 - empty.p50, "ms", HEALTH_BAR, detail),
        Result(f"{what}, p99", known.p99 - empty.p99, "ms", None, tail),
        Result(f"{what}, p50 of one client", alone.p50 - nothing.p50, "ms", HEALTH_BAR, one),
    ]


def _jobs(rounds: int, folder: Path) -> list[Result]:
    """A small job over HTTP and the same call in a warm process, in turn."""
    ours: list[float] = []
    theirs: list[float] = []
    with _place(folder) as place:
        place.make(filled=2 * (rounds + _WARM))
        library = Library(place, place.folder / "library.log")
        try:
            with _serving(place, workers=1) as serve, Client(serve.url) as client:
                for number in range(rounds + _WARM):
                    theirs.append(library.compact(f"bench.t{2 * number}"))
                    time.sleep(_PAUSE)
                    ours.append(_over_http(client, f"bench.t{2 * number + 1}"))
                    time.sleep(_PAUSE)
        finally:
            library.end()
    ours, theirs = ours[_WARM:], theirs[_WARM:]
    above, below = statistics.median(ours), statistics.median(theirs)
    detail = f"median {above:.2f} s against {below:.2f} s, {rounds} rounds in turn, 20 files and 5 MB"
    return [Result("small job by the API / `Compactor.compact` in a warm process", above / below, "x", JOB_BAR, detail)]


def _over_http(client: Client, table: str) -> float:
    began = time.perf_counter()
    job = client.result(client.wait(client.compact(table)))
    seconds = time.perf_counter() - began
    outcome = job.result or {}
    assert (outcome["status"], outcome["files_before"]) == ("committed", 20), outcome
    return seconds


def _load(minutes: float, store: str | None, folder: Path) -> list[Result]:
    """Two processes of the API with a worker each."""
    share = min(1.0, minutes / MINUTES)
    jobs, tables = round(JOBS * minutes / MINUTES), max(_LEAST_TABLES, round(TABLES * share))
    with _place(folder, store=store, conf="spark: {master: 'local[1]'}") as place:
        place.make(empty=tables)
        key = place.new_key()
        with _serving(place, workers=1) as first, _serving(place, workers=1) as second:
            for serve in (first, second):
                _await_workers(serve, key)
            found = load(place, (first, second), key=key, minutes=minutes, jobs=jobs, tables=tables)
    for error, times in Counter(found.errors).most_common(20):
        _say(f"{times} x {error}")
    return _of_load(found, jobs, tables)


def _await_workers(serve: Serve, key: str) -> None:
    with Client(serve.url, key) as client:
        client.result(client.submit("health", "bench.e0"))


def _of_load(found: Load, jobs: int, tables: int) -> list[Result]:
    name = f"load of {CLIENTS} clients"
    answers = ", ".join(f"{count:,} {answer}" for answer, count in sorted(found.answers.items()))
    waited = statistics.quantiles(found.waited, n=100) if len(found.waited) > 1 else [0.0] * 99
    looked = statistics.quantiles(found.looked, n=100) if len(found.looked) > 1 else [0.0] * 99
    detail = (
        f"{jobs} jobs on {tables} tables in {found.minutes:g} minutes, all ended after {found.seconds:.0f} s; "
        f"{answers}; a job took {waited[49]:.1f} s (p50) and {waited[98]:.1f} s (p99), any other request "
        f"{1000 * looked[49]:.0f} ms and {1000 * looked[98]:.0f} ms"
    )
    results = [Result(f"{name}: answers and jobs that were wrong", len(found.errors), "", 0.0, detail)]
    for kind, bar in (("API", GROWTH_BAR), ("worker", GROWTH_BAR), ("JVM", None)):
        how = f"the last quarter of the time over the second, the worst process; {found.size(kind):.0f} MB in the end"
        results.append(Result(f"{name}: memory, {kind}", found.growth(kind), "x", bar, how))
    return results


# -- parts of them --------------------------------------------------------------------------------


@contextmanager
def _place(folder: Path, *, store: str | None = None, conf: str = "") -> Iterator[Place]:
    with tempfile.TemporaryDirectory(dir=folder, prefix="service-", ignore_cleanup_errors=True) as name:
        place = Place(folder=Path(name))
        place.configure(store=store, conf=conf)
        yield place


@contextmanager
def _serving(place: Place, *, workers: int) -> Iterator[Serve]:
    serve = Serve(place, workers=workers, log=place.folder / "serve.log", port=_free_port())
    try:
        yield serve
    finally:
        serve.end()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr)
