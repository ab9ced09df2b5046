"""Robust regression in logarithms: what seconds are made of, learned from few and noisy measurements.

Seconds are a sum of parts, one for each thing that is counted (units, files, bytes). Of each part a start value is
known. Learned is by what factor the start values are wrong: one factor for all parts, and one for each. All are
positive, so that more work never gets cheaper. Errors count in proportion; large ones pull no harder than moderate
ones, and those that cannot be chance not at all (Hampel). A belief about the factors goes in, and comes out narrower,
with the noise that was seen and a reach: by how many standard deviations a prediction must be widened to have held for
what was measured.
"""

import math
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from icepact.model.effort import NO_ESTIMATE, Estimate

Array: TypeAlias = npt.NDArray[np.float64]

_FULL, _SAME, _NOTHING = 1.345, 2.5, 4.5
"""Standard deviations up to which an error pulls in full, up to which no harder, and from which it does not pull."""
JITTER = 0.03
"""Seconds by which anything may be off, however short it is."""
COVERED = 0.94
"""Share of the measurements that the interval shall hold."""
_ROUNDS = 40
_CONVERGED = 1e-7
_LONGEST_STEP = 1.0
_LEAST_NOISE = 0.04
_LEAST_FREEDOM = 0.02
_TRUST_IN_NOISE = 1.5
"""How many measurements the earlier belief about noise is worth."""
_TRUST_IN_REACH = 3.0
"""How many measurements Student's distribution is worth, where the reach is concerned."""
_HALF_NORMAL = (0.04, 0.13, 0.21, 0.3, 0.39, 0.48, 0.57, 0.67, 0.79, 0.91, 1.04, 1.2, 1.38, 1.63, 2.13)
"""Sizes of normal errors: quantiles in the middles of fifteen equal parts."""
_HALF_STUDENT = (0.04, 0.13, 0.22, 0.32, 0.41, 0.52, 0.62, 0.74, 0.87, 1.02, 1.19, 1.4, 1.69, 2.13, 3.19)
"""The same of Student's, with four degrees of freedom: noise is not known exactly."""
_FIRST_REACH, _REACH = 1.8, (1.2, 6.0)


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
        nothing = (0.0,) * (parts + 1)
        certain = Belief(mean=nothing, spread=(nothing,) * (parts + 1), noise=noise, reach=_FIRST_REACH)
        return certain.widened(common=common, each=each)

    def widened(self, *, common: float, each: float) -> "Belief":
        """The same for another one of its kind: factors may differ by so much."""
        more = [common**2, *([each**2] * (len(self.mean) - 1))]
        spread = tuple(
            tuple(v + more[i] if i == j else v for j, v in enumerate(row)) for i, row in enumerate(self.spread)
        )
        return replace(self, spread=spread)

    def predict(self, parts: tuple[float, ...]) -> Estimate:
        """The sum of parts that are given as their start values say."""
        common, *each = self.mean
        scaled = [part * math.exp(common + own) for part, own in zip(parts, each, strict=True)]
        total = sum(scaled)
        if total <= 0:
            return NO_ESTIMATE
        slopes = [1.0, *(part / total for part in scaled)]
        variance = sum(
            a * sum(b * v for b, v in zip(slopes, row, strict=True)) for a, row in zip(slopes, self.spread, strict=True)
        )
        wide = math.exp(self.reach * math.sqrt(max(0.0, variance) + self.noise**2 + (JITTER / total) ** 2))
        return Estimate(likely=total, low=total / wide, high=total * wide)


def learn(prior: Belief, parts: Array, seconds: Array, weights: Array, runs: Array) -> Belief:
    """What is believed after measurements: a row of parts for each, its seconds, its weight, and the run it is from."""
    theta, inverse = np.array(prior.mean), np.linalg.inv(np.array(prior.spread))
    start, seen = theta.copy(), np.log(np.maximum(seconds, 1e-3))
    off, slopes = _errors(theta, parts, seen)
    theta[0] += weighted_median(off, weights)
    off, slopes = _errors(theta, parts, seen)
    # no larger than around the median: else what lies far from it would come to look like noise
    most = noise = _noise(prior.noise, off, weights / weights.sum(), weights)
    for _ in range(_ROUNDS):
        variance = noise**2 + (JITTER / np.exp(seen - off)) ** 2
        pull = weights * _hampel_weights(off / np.sqrt(variance)) / variance
        precision = (slopes * pull[:, None]).T @ slopes + inverse
        step = np.linalg.solve(precision, (slopes * pull[:, None]).T @ off + inverse @ (start - theta))
        step = np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
        theta = theta + step
        off, slopes = _errors(theta, parts, seen)
        before, noise = noise, min(most, _noise(prior.noise, off, pull * _factor_variance(slopes, precision), weights))
        if float(np.abs(step).max()) < _CONVERGED and abs(noise - before) < _CONVERGED:
            break
    spread = np.linalg.inv(precision)
    chance = weights * (pull > 0)
    noise = max(noise, _noise(prior.noise, off, pull * _factor_variance(slopes, precision), chance))
    errors = _held_out_errors(off, slopes, variance, pull, precision, runs)
    return Belief(
        mean=tuple(float(v) for v in theta),
        spread=tuple(tuple(float(v) for v in row) for row in spread),
        noise=noise,
        reach=_reach(errors, weights),
    )


def center(values: Array, weights: Array, *, least_spread: float) -> float:
    """The middle of some values: their weighted median, moved by Hampel's rule."""
    middle = weighted_median(values, weights)
    spread = max(least_spread, 1.4826 * weighted_median(np.abs(values - middle), weights))
    for _ in range(_ROUNDS):
        pull = weights * _hampel_weights((values - middle) / spread)
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


def _hampel_weights(errors: Array) -> Array:
    """How much of each error pulls, by Hampel's rule: all of a small one, nothing of one that cannot be chance."""
    size = np.abs(errors)
    fading = np.clip((_NOTHING - size) / (_NOTHING - _SAME), 0.0, 1.0)
    pulls: Array = _FULL / np.maximum(size, _FULL) * fading
    return pulls


def _factor_variance(slopes: Array, precision: Array) -> Array:
    """Variance of predictions that comes from not knowing the factors."""
    variance: Array = (slopes.T * np.linalg.solve(precision, slopes.T)).sum(axis=0)
    return variance


def _noise(before: float, off: Array, leverage: Array, weights: Array) -> float:
    """From the median error, which few bad ones do not move; the earlier belief counts as some more measurements. What
    the belief follows closely shows a smaller error than it has, and tells little about noise."""
    free = np.clip(1 - leverage, _LEAST_FREEDOM, 1.0)
    expected = before * np.array(_HALF_NORMAL)
    masses = np.full(len(expected), _TRUST_IN_NOISE / len(expected))
    errors = np.concatenate([np.abs(off) / np.sqrt(free), expected])
    middle = weighted_median(errors, np.concatenate([weights * free, masses]))
    return max(_LEAST_NOISE, middle / _HALF_NORMAL[len(_HALF_NORMAL) // 2])


def _held_out_errors(off: Array, slopes: Array, variance: Array, pull: Array, precision: Array, runs: Array) -> Array:
    """Errors in standard deviations, each predicted from the other runs alone."""
    errors = np.zeros(len(off))
    for run in np.unique(runs):
        mine = runs == run
        here, pulled = slopes[mine], slopes[mine] * pull[mine][:, None]
        rest = precision - pulled.T @ here
        error = off[mine] + here @ np.linalg.solve(rest, pulled.T @ off[mine])
        errors[mine] = np.abs(error) / np.sqrt(variance[mine] + _factor_variance(here, rest))
    return errors


def _reach(errors: Array, weights: Array) -> float:
    """How far the wanted share of errors goes; the fewer there are, the more Student's distribution counts."""
    values = np.concatenate([errors, _HALF_STUDENT])
    masses = np.concatenate([weights, np.full(len(_HALF_STUDENT), _TRUST_IN_REACH / len(_HALF_STUDENT))])
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(masses[order]) / masses.sum()
    far = float(values[order[min(int(np.searchsorted(reached, COVERED)), len(values) - 1)]])
    return min(max(far, _REACH[0]), _REACH[1])
