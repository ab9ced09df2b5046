"""The same lessons learned by scikit-learn, for comparison in the simulator.

One model for each number, over all tables at once: the table, how hot the place is, what was predicted. They see
exactly the measurements that the product's own learner sees.

    python -m tests.support.regressors        prints the comparison of docs/strategies.md; needs scikit-learn
"""

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from icepact.economics import learning
from icepact.economics.lessons import ExpectedGain
from icepact.model.outcome import Outcome
from tests.support.simulator import TABLES, WORLDS, Teacher, compare, seeds_of, taught

FEWEST = 8
"""Measurements below which the analytic model stands."""


class Fitted:
    """Models in the place of lessons."""

    def __init__(self, models: Mapping[str, Any], table: str) -> None:
        self._models = models
        self._table = table
        self._known: dict[tuple[float, ...], ExpectedGain] = {}

    def expect(self, features: Mapping[str, float], partition: str = "") -> ExpectedGain:
        """What the models say of a rewrite with these features."""
        row = tuple(round(2 * value) / 2 for value in _row(self._table, features))
        if row not in self._known:
            self._known[row] = ExpectedGain(
                compression=math.exp(self._said("compression", row)),
                lasting=math.exp(min(0.0, self._said("lasting", row))),
                conflict=min(0.95, max(0.0, self._said("conflict", row))),
            )
        return self._known[row]

    def _said(self, name: str, row: Sequence[float]) -> float:
        model = self._models.get(name)
        return 0.0 if model is None else float(model.predict([row])[0])


def teacher(make: Callable[[], Any]) -> Teacher:
    """A teacher with models of one kind."""

    def teach(outcomes: Sequence[Outcome], table: str, now: datetime) -> Any:
        key = (len(outcomes), str(outcomes[-1].started_at), id(outcomes[0]))
        if memory.get("key") != key:
            memory.update(key=key, models=_fit(outcomes, now, make))
        return Fitted(memory["models"], table)

    memory: dict[str, Any] = {}
    return teach


def _fit(outcomes: Sequence[Outcome], now: datetime, make: Callable[[], Any]) -> dict[str, Any]:
    groups = sorted(learning._groups(outcomes, now, None), key=lambda g: g.at)
    measures: dict[str, list[tuple[Any, float]]] = {
        "compression": [(g, v) for g in groups if (v := learning._compression(g.outcome)) is not None],
        "lasting": [(g, v) for g, v, over in learning._lasted(groups, now) if over or v > 0],
        "conflict": [(g, float(learning._was_lost(g))) for g in groups if g.outcome.committed or learning._was_lost(g)],
    }
    models = {}
    for name, some in measures.items():
        if len(some) >= FEWEST:
            weights = learning._fading([g.weight for g, _ in sorted(some, key=lambda one: one[0].at)], 40.0)
            some = sorted(some, key=lambda one: one[0].at)
            rows = np.array([_row(g.table, g.outcome.features) for g, _ in some])
            models[name] = make().fit(rows, np.array([v for _, v in some]), sample_weight=np.array(weights))
    return models


def _row(table: str, features: Mapping[str, float]) -> list[float]:
    mine = [float(table == f"t{n}") for n in range(TABLES)]
    rate, lasting = features.get("files_per_hour", 0.0), features.get("lasting_hours", 1.0)
    return [*mine, math.log(rate + 0.05), math.log(lasting + 0.05), math.log(features.get("merged_files", 1.0))]


def main(seeds: Sequence[int]) -> None:
    """Print the comparison."""
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.linear_model import Ridge

    kinds: dict[str, Teacher] = {
        "lessons": taught,
        "ridge regression": teacher(lambda: Ridge(alpha=3.0)),
        "boosted trees": teacher(
            lambda: GradientBoostingRegressor(n_estimators=40, max_depth=2, learning_rate=0.1, random_state=1)
        ),
    }
    print(f"| world | at least | {' | '.join(kinds)} |")
    print("|---|---|" + "---|" * len(kinds))
    for world in WORLDS:
        found = [compare(world, kind, seeds).ratio for kind in kinds.values()]
        shown = " | ".join(f"{ratio:.2f}" for ratio in found)
        print(f"| {world.name} | {world.bar:.2f} | {shown} |", flush=True)


if __name__ == "__main__":
    main(seeds_of(sys.argv[1:]))
