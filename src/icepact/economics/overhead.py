"""What a run takes besides its work: lease, staging, starting tasks, proof and commit, in seconds on the clock.

The first run of a process also pays for what is loaded, compiled and started once. Start values are corrected by what
runs took: by how much this machine is off in general, and each kind of run by itself.
"""

from collections.abc import Iterable

import numpy as np

from icepact.economics.regression import Belief, learn
from icepact.economics.speeds import on_the_clock
from icepact.model.effort import Estimate
from icepact.model.outcome import Outcome
from icepact.model.status import Status

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


def learned_overhead(outcomes: Iterable[Outcome], *, first: bool) -> Estimate:
    """What the next run takes besides its work, after outcomes, newest first."""
    measured = [o for o in outcomes if o.overhead_seconds and o.status is Status.COMMITTED][:_MEMORY]
    belief = _BELIEF
    if measured:
        belief = learn(
            _BELIEF,
            np.array([_parts(first=o.first_run) for o in measured]),
            np.array([o.overhead_seconds for o in measured]),
            np.array([_FORGETTING**n / (1 + o.effort.seconds / _TELLING) for n, o in enumerate(measured)]),
            np.array([o.run_id for o in measured]),
        )
    return belief.predict(_parts(first=first))


def _parts(*, first: bool) -> tuple[float, float]:
    return (_START["first"], 0.0) if first else (0.0, _START["later"])
