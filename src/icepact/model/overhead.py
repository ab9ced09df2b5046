"""What a run takes besides its work: lease, staging, starting tasks, proof and commit, in seconds on the clock.

The first run of a process also pays for what is loaded, compiled and started once. Start values are corrected by what
runs took: by how much this machine is off in general, and each kind of run by itself.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from icepact.model.rates import Estimate, on_the_clock
from icepact.model.regression import Belief, learn

_START = {"first": 1.5, "later": 0.6}
"""Seconds, as they were seen on two busy cores: a first guess, until runs of one's own are recorded."""
_BELIEF = Belief.start(parts=2, common=0.6, each=0.3, noise=0.25)
_FORGETTING = 0.85
"""What a run counts for, next to the one after it."""
_MEMORY = 24
"""Runs that are learned from, the newest ones."""
_TELLING = 10.0
"""Seconds of work of which a run tells half as much: that cores were not equally busy is no overhead."""


def overhead_of(*, seconds: float, work: float, units: int, cores: int, encoded: float) -> float:
    """What a run took besides its work, which so many units shared on so many cores, and lanes the `encoded` part."""
    return max(0.0, seconds - on_the_clock(work, units=units, cores=cores, encoded=encoded))


def learned_overhead(outcomes: Iterable[Mapping[str, Any]], *, first: bool) -> Estimate:
    """What the next run takes besides its work, after documents of outcomes, newest first."""
    told = [o for o in outcomes if o.get("overhead_seconds") and o.get("status") == "committed"][:_MEMORY]
    belief = _BELIEF
    if told:
        belief = learn(
            _BELIEF,
            np.array([_parts(first=bool(o.get("first_run"))) for o in told]),
            np.array([float(o["overhead_seconds"]) for o in told]),
            np.array([_FORGETTING**n / (1 + o.get("work_seconds", 0.0) / _TELLING) for n, o in enumerate(told)]),
            np.array([str(o.get("run_id", n)) for n, o in enumerate(told)]),
        )
    likely, low, high = belief.predict(_parts(first=first))
    return Estimate(seconds=likely, low=low, high=high)


def _parts(*, first: bool) -> tuple[float, float]:
    return (_START["first"], 0.0) if first else (0.0, _START["later"])
