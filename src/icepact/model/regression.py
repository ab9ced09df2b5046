"""Robust regression in logarithms: what seconds are made of, learned from few and noisy measurements.

Seconds are a sum of parts, one for each thing that is counted (units, files, bytes). Of each part a start value is
known. Learned is by what factor the start values are wrong: one factor for all parts, and one for each. All are
positive, so that more work never gets cheaper. Errors count in proportion; large ones pull no harder than moderate ones
(Huber). A belief about the factors goes in, and comes out narrower, with the noise that was seen and a reach: by how
many standard deviations a prediction must be widened to have held for what was measured.
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]

HUBER = 1.345
"""Standard deviations up to which an error pulls in full."""
JITTER = 0.03
"""Seconds by which anything may be off, however short it is."""
COVERED = 0.93
"""Share of the measurements that the interval shall hold."""
_ROUNDS = 40
_SETTLED = 1e-7
_LONGEST_STEP = 1.0
_LEAST_NOISE = 0.04
_TRUST_IN_NOISE = 2.0
"""How many measurements the earlier belief about noise is worth."""
_TRUST_IN_NORMAL = 3.0
"""How many measurements the normal distribution is worth, where the reach is concerned."""
_HALF_NORMAL = (0.04, 0.13, 0.21, 0.3, 0.39, 0.48, 0.57, 0.67, 0.79, 0.91, 1.04, 1.2, 1.38, 1.63, 2.13)
"""Its quantiles in the middles of fifteen equal parts."""
_REACH = (1.2, 6.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Belief:
    """What is believed about the logarithms of the factors: the common one first, then one for each part."""

    mean: tuple[float, ...]
    spread: tuple[tuple[float, ...], ...]
    """Covariance."""
    noise: float
    """Standard deviation of one measurement, in logarithms."""
    reach: float
    """Standard deviations from the middle of an interval to its ends."""

    @staticmethod
    def start(*, common: float, each: float, parts: int, noise: float) -> "Belief":
        """Before anything was measured: standard deviations of the common factor and of each."""
        sizes = [common**2, *([each**2] * parts)]
        spread = tuple(tuple(v if i == j else 0.0 for j in range(parts + 1)) for i, v in enumerate(sizes))
        nothing = np.zeros(0)
        return Belief(mean=(0.0,) * (parts + 1), spread=spread, noise=noise, reach=_reach(nothing, nothing))

    def widened(self, *, common: float, each: float, shift: float = 0.0) -> "Belief":
        """The same for another one of its kind: factors may differ by so much, and the common one is moved."""
        more = [common**2, *([each**2] * (len(self.mean) - 1))]
        spread = tuple(
            tuple(v + more[i] if i == j else v for j, v in enumerate(row)) for i, row in enumerate(self.spread)
        )
        return Belief(mean=(self.mean[0] + shift, *self.mean[1:]), spread=spread, noise=self.noise, reach=self.reach)

    def predict(self, parts: tuple[float, ...]) -> tuple[float, float, float]:
        """Likely, lowest and highest sum of parts that are given as their start values say."""
        common, *each = self.mean
        scaled = [part * math.exp(common + own) for part, own in zip(parts, each, strict=True)]
        total = sum(scaled)
        if total <= 0:
            return 0.0, 0.0, 0.0
        slopes = [1.0, *(part / total for part in scaled)]
        variance = sum(
            a * sum(b * v for b, v in zip(slopes, row, strict=True)) for a, row in zip(slopes, self.spread, strict=True)
        )
        wide = math.exp(self.reach * math.sqrt(max(0.0, variance) + self.noise**2 + (JITTER / total) ** 2))
        return total, total / wide, total * wide


def learn(prior: Belief, parts: Array, seconds: Array, weights: Array, runs: Array) -> Belief:
    """What is believed after measurements: a row of parts for each, its seconds, its weight, and the run it is from."""
    theta, inverse = np.array(prior.mean), np.linalg.inv(np.array(prior.spread))
    start, seen = theta.copy(), np.log(np.maximum(seconds, 1e-3))
    off, _ = _errors(theta, parts, seen)
    theta[0] += weighted_median(off, weights)
    noise = prior.noise
    for _ in range(_ROUNDS):
        off, slopes = _errors(theta, parts, seen)
        variance = noise**2 + (JITTER / np.exp(seen - off)) ** 2
        pull = weights * _huber(off / np.sqrt(variance)) / variance
        precision = (slopes * pull[:, None]).T @ slopes + inverse
        step = np.linalg.solve(precision, (slopes * pull[:, None]).T @ off + inverse @ (start - theta))
        step = np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
        theta = theta + step
        before, noise = noise, _noise(prior.noise, off, variance, weights, _unsure(slopes, precision))
        if float(np.abs(step).max()) < _SETTLED and abs(noise - before) < _SETTLED:
            break
    spread = np.linalg.inv(precision)
    found = _left_out(off, slopes, variance, pull, precision, runs)
    return Belief(
        mean=tuple(float(v) for v in theta),
        spread=tuple(tuple(float(v) for v in row) for row in spread),
        noise=noise,
        reach=_reach(found, weights),
    )


def center(values: Array, weights: Array, *, least_spread: float) -> float:
    """The middle of some values: their weighted median, moved by Huber's rule."""
    middle = weighted_median(values, weights)
    spread = max(least_spread, 1.4826 * weighted_median(np.abs(values - middle), weights))
    for _ in range(_ROUNDS):
        pull = weights * _huber((values - middle) / spread)
        middle = float((pull * values).sum() / pull.sum())
    return middle


def weighted_median(values: Array, weights: Array) -> float:
    """The value with half of the weight on either side; between two, their middle."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    low = int(np.searchsorted(reached, 0.5 - 1e-9))
    high = int(np.searchsorted(reached, 0.5 + 1e-9))
    return float((values[order[low]] + values[order[min(high, len(values) - 1)]]) / 2)


def _errors(theta: Array, parts: Array, seen: Array) -> tuple[Array, Array]:
    """Errors in logarithms, and how the prediction follows each factor."""
    scaled = parts * np.exp(theta[0] + theta[1:])
    total = scaled.sum(axis=1)
    slopes = np.concatenate([np.ones((len(parts), 1)), scaled / total[:, None]], axis=1)
    return seen - np.log(total), slopes


def _huber(errors: Array) -> Array:
    size = np.abs(errors)
    pulls: Array = HUBER / np.maximum(size, HUBER)
    return pulls


def _unsure(slopes: Array, precision: Array) -> Array:
    """Variance of predictions that comes from not knowing the factors."""
    found: Array = (slopes.T * np.linalg.solve(precision, slopes.T)).sum(axis=0)
    return found


def _noise(before: float, off: Array, variance: Array, weights: Array, unsure: Array) -> float:
    """Of all errors, none counted as more than two and a half standard deviations. A belief that follows few
    measurements closely makes their errors small, and knows its factors badly: both together are the noise."""
    squares = np.minimum(off**2, 6.25 * variance) + np.minimum(unsure, variance)
    total = _TRUST_IN_NOISE * before**2 + float((weights * squares).sum())
    return max(_LEAST_NOISE, math.sqrt(total / (_TRUST_IN_NOISE + float(weights.sum()))))


def _left_out(off: Array, slopes: Array, variance: Array, pull: Array, precision: Array, runs: Array) -> Array:
    """Errors in standard deviations, each predicted from the other runs alone."""
    found = np.zeros(len(off))
    for run in np.unique(runs):
        mine = runs == run
        here, pulled = slopes[mine], slopes[mine] * pull[mine][:, None]
        rest = precision - pulled.T @ here
        error = off[mine] + here @ np.linalg.solve(rest, pulled.T @ off[mine])
        found[mine] = np.abs(error) / np.sqrt(variance[mine] + _unsure(here, rest))
    return found


def _reach(found: Array, weights: Array) -> float:
    """How far the wanted share of errors goes; the fewer there are, the more the normal distribution counts."""
    values = np.concatenate([found, _HALF_NORMAL])
    masses = np.concatenate([weights, [_TRUST_IN_NORMAL / len(_HALF_NORMAL)] * len(_HALF_NORMAL)])
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(masses[order]) / masses.sum()
    far = float(values[order[min(int(np.searchsorted(reached, COVERED)), len(values) - 1)]])
    return min(max(far, _REACH[0]), _REACH[1])
