"""`make bench`: every benchmark, printed as ratios with the bar it should stay under."""

import argparse
import json
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from bench.cold_start import cold_health
from bench.conversion import conversion
from bench.encoding import encoding
from bench.fleet import fleet
from bench.housekeeping import housekeeping
from bench.key_join import key_join
from bench.lanes import lanes
from bench.manifests import manifests
from bench.million import million
from bench.pinning import pinning
from bench.predictions import predictions
from bench.result import Result, keep
from bench.rewrite.measure import Wishes, default_heap, run
from bench.rewrite.page import write_pages
from bench.rewrite.report import as_text, figures
from bench.rewrite.results import RESULTS, Measured
from bench.rewrite.workloads import chosen
from bench.safety import safety
from bench.savings import savings
from bench.service.bars import PARTS, service
from bench.soak import soak
from bench.starts import starts
from bench.stream import stream
from bench.task_memory import task_memory


class Benchmark(NamedTuple):
    """One benchmark and its name on the command line."""

    name: str
    run: Callable[[int], list[Result]]
    listed: bool = True
    """Whether its figures are kept beside those of the others; else it keeps them itself."""


BENCHMARKS = (
    Benchmark("cold", cold_health),
    Benchmark("pin", pinning),
    Benchmark("million", million),
    Benchmark("savings", savings),
    Benchmark("predictions", predictions),
    Benchmark("memory", task_memory),
    Benchmark("encoding", encoding, listed=False),
    Benchmark("fleet", fleet),
    Benchmark("manifests", manifests),
    Benchmark("housekeeping", housekeeping),
)
LISTED = [benchmark.name for benchmark in BENCHMARKS if benchmark.listed]
REWRITE = "rewrite"
STREAM = "stream"
CONVERT = "convert"
LARGE: Mapping[str, Callable[..., list[Result]]] = {
    "safety": safety,
    "starts": starts,
    "lanes": lanes,
    CONVERT: conversion,
    "join": key_join,
    STREAM: stream,
}
"""Benchmarks with tables of rewrite's."""
SOAK = "soak"
SERVICE = "service"
DOCS = "docs"
"""Not a benchmark: only writes the pages from the results that are kept."""
FOLDER = Path(__file__).parents[1] / ".bench"


def main() -> None:
    """Run what was asked for and print the ratios."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that temporary tables are removed
    names = arguments.names or [*(b.name for b in BENCHMARKS), *LARGE, SOAK, SERVICE, REWRITE]
    results: list[Result] = []
    for benchmark in BENCHMARKS:
        if benchmark.name in names:
            print(f"running {benchmark.name} ...", file=sys.stderr)
            found = benchmark.run(arguments.rounds)
            keep(found if benchmark.listed else [])
            results += found
    for name, measure in LARGE.items():
        if name in names:
            print(f"running {name} ...", file=sys.stderr)
            rounds = arguments.runs if name == STREAM else min(arguments.rounds, arguments.repeats)
            more = {"parts": tuple(arguments.parts.split(","))} if name == CONVERT and arguments.parts else {}
            found = measure(rounds, arguments.scale, arguments.folder, arguments.heap, **more)
            keep(found)
            results += found
    if SOAK in names:
        print(f"running {SOAK} ...", file=sys.stderr)
        found = soak(arguments.minutes or 3.0, arguments.folder, arguments.heap)
        keep(found)
        results += found
    if SERVICE in names:
        print(f"running {SERVICE} ...", file=sys.stderr)
        parts = tuple(arguments.parts.split(",")) if arguments.parts else PARTS
        minutes = arguments.minutes or 5.0
        found = service(arguments.rounds, minutes, arguments.folder, store=arguments.store, parts=parts)
        keep(found)
        results += found
    measured = run(_wishes(arguments)) if REWRITE in names else []
    if arguments.write_docs or DOCS in names:
        write_pages(arguments.results, LISTED)
    _print(results, measured, as_json=arguments.json)


def _arguments() -> argparse.Namespace:
    known = [*(b.name for b in BENCHMARKS), *LARGE, SOAK, SERVICE, REWRITE, DOCS]
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(known)}; default all but docs")
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each side, for cold and pin")
    parser.add_argument("--scale", type=float, default=1.0, help="of rewrite's tables: 1 is about 1 GB each")
    parser.add_argument("--workloads", help="of rewrite, such as a,c1; default all")
    parser.add_argument("--repeats", type=int, default=3, help="measurements of each side, for rewrite")
    parser.add_argument(
        "--minutes", type=float, help="of each side, for soak, 3 by default; of the load, for service, 5 by default"
    )
    parser.add_argument("--parts", help="of service, such as job,load, or of convert, small,large; all by default")
    parser.add_argument("--store", help="record store under the load of service; default a file")
    parser.add_argument(
        "--runs", type=int, default=10, help="compactions under the stream, for stream; its bar is for 50"
    )
    parser.add_argument("--heap", default=default_heap(), help="Java heap for rewrite; default %(default)s here")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where rewrite makes its tables; default .bench")
    parser.add_argument("--results", type=Path, default=RESULTS, help="rewrite's figures; default bench/results.json")
    parser.add_argument("--json", action="store_true", help="print figures as JSON")
    parser.add_argument(
        "--write-docs", action="store_true", help="write docs/benchmarks.md and the README's figures from the results"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(known):
        parser.error(f"there is no {min(unknown)}: it is one of {', '.join(known)}")
    if arguments.scale <= 0 or min(arguments.repeats, arguments.runs) < 1:
        parser.error("--scale must be above 0, --repeats and --runs at least 1")
    return arguments


def _wishes(arguments: argparse.Namespace) -> Wishes:
    return Wishes(
        workloads=chosen(arguments.workloads),
        scale=arguments.scale,
        repeats=arguments.repeats,
        folder=arguments.folder,
        results=arguments.results,
        heap=arguments.heap,
    )


def _print(results: list[Result], measured: list[Measured], *, as_json: bool) -> None:
    if as_json:
        ratios = [figure.to_dict() for m in measured for figure in figures(m)]
        print(json.dumps({"results": [r._asdict() for r in results], "rewrite": ratios}, indent=2))
        return
    for r in results:
        verdict = "" if r.bar is None else f" (bar {r.bar:g}, {r.verdict})"
        print(f"{r.what}: {r.value:.2f} {r.unit}{verdict}; {r.detail}")
    if measured:
        print(as_text(measured))


if __name__ == "__main__":
    main()
