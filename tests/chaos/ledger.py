"""The ledger: one line of JSON for every trial, added as it ends, so that a long form can be run in pieces.

Every line names the commit of the code that was tried; the oldest do not.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.code import code

LEDGER = Path(__file__).with_name("ledger.jsonl")
COUNTED = (
    *("rows", "lost", "duplicated", "resurrected", "changed", "leftovers"),
    *("uploads", "stuck", "missing", "alarms", "untrue"),
)
"""What every trial tells of itself: rows compared, and what must be nought."""
_CONFIDENCE = 1.959963984540054
"""Of 95%, in standard deviations."""


def add(entry: Mapping[str, Any], path: Path = LEDGER) -> None:
    """Write one trial down."""
    stamped = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "commit": code(), **entry}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(stamped, default=str) + "\n")


def entries(path: Path = LEDGER) -> list[dict[str, Any]]:
    """All trials so far, oldest first."""
    if not path.is_file():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def next_number(kind: str, seed: int, path: Path = LEDGER) -> int:
    """The number that the next trial of a kind has: the same seed goes on where it stopped."""
    told = [e["number"] for e in entries(path) if e["kind"] == kind and e["seed"] == seed]
    return max(told, default=-1) + 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """All trials of one kind."""

    kind: str
    trials: int
    hit: int
    """Trials in which what was meant to happen did: a run can be over before its time comes."""
    unclean: int
    committed: int
    """Runs whose every group was in the table, before anybody helped."""
    counts: Mapping[str, int]
    """Sums over all trials, by the names in `COUNTED`."""
    statuses: Mapping[str, int]
    """How the runs ended, before anybody helped."""
    seeds: Sequence[int]
    commits: Sequence[str]
    """Of the code that was tried, in the order in which they first appear."""

    @property
    def interval(self) -> tuple[float, float]:
        """Where the rate of committed runs lies, with 95% confidence."""
        return wilson(self.committed, self.trials)


def summarise(trials: Iterable[Mapping[str, Any]]) -> list[Summary]:
    """One summary for each kind, in the order in which kinds first appear."""
    kinds: dict[str, list[Mapping[str, Any]]] = {}
    for trial in trials:
        kinds.setdefault(trial["kind"], []).append(trial)
    return [
        Summary(
            kind=kind,
            trials=len(some),
            hit=sum(bool(t.get("hit", True)) for t in some),
            unclean=sum(not t["clean"] for t in some),
            committed=sum(t.get("status") == "committed" for t in some),
            counts={name: sum(int(t.get(name, 0)) for t in some) for name in COUNTED},
            statuses=Counter(str(t["status"]) for t in some if "status" in t),
            seeds=sorted({int(t["seed"]) for t in some}),
            commits=list(dict.fromkeys(str(t["commit"]) for t in some if t.get("commit"))),
        )
        for kind, some in kinds.items()
    ]


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """The 95% interval of a rate, after Wilson: it holds near 0 and 1 too."""
    if not trials:
        return 0.0, 1.0
    z, rate = _CONFIDENCE, successes / trials
    middle = rate + z * z / (2 * trials)
    spread = z * math.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials * trials))
    whole = 1 + z * z / trials
    return max(0.0, (middle - spread) / whole), min(1.0, (middle + spread) / whole)
