"""`make bench`: every benchmark, printed as ratios with the bar it should stay under."""

import argparse
import json
import sys
from collections.abc import Callable
from typing import NamedTuple

from bench.cold_start import cold_health
from bench.pinning import pinning
from bench.result import Result


class Benchmark(NamedTuple):
    """One benchmark and its name on the command line."""

    name: str
    run: Callable[[int], list[Result]]


BENCHMARKS = (Benchmark("cold", cold_health), Benchmark("pin", pinning))


def main() -> None:
    """Run what was asked for and print the ratios."""
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(b.name for b in BENCHMARKS)}; default all")
    parser.add_argument("--rounds", type=int, default=7, help="measurements of each side")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    results: list[Result] = []
    for benchmark in BENCHMARKS:
        if not arguments.names or benchmark.name in arguments.names:
            print(f"running {benchmark.name} ...", file=sys.stderr)
            results += benchmark.run(arguments.rounds)
    if arguments.json:
        print(json.dumps([r._asdict() for r in results], indent=2))
        return
    for r in results:
        verdict = "met" if r.value <= r.bar else "MISSED"
        print(f"{r.what}: {r.value:.2f} {r.unit} (bar {r.bar:g}, {verdict}); {r.detail}")


if __name__ == "__main__":
    main()
