"""What it takes to join keys by Spark: both sides are read, shuffled and sorted."""

from icepact.model.cost import Cost
from icepact.model.effort import Estimate
from icepact.model.key_join import lookup_limit
from icepact.model.prices import Prices

_SECONDS, _SECONDS_PER_KEY = 3.0, 2e-6
"""Of work on one core: to begin and to write down what was found, and for each key of either side."""
BYTES_PER_ROW = 100
"""Of a data file, where nobody says how many rows it has."""
_BYTES_PER_KEY = 72
"""Of a lookup in memory, where of deletes nothing but their records is known."""


def join_seconds(keys: int) -> Estimate:
    """Work on one core for so many keys, those of deletes and those of rows."""
    seconds = _SECONDS + _SECONDS_PER_KEY * keys
    return Estimate(likely=seconds, low=seconds / 3, high=seconds * 3)


def join_cost(prices: Prices, *, keys: int, size: int, task_memory: int) -> Cost | None:
    """What a join costs that some data files probably need, by their bytes and the keys that apply to them; `None` if a
    task can look these up."""
    if keys * _BYTES_PER_KEY <= lookup_limit(task_memory):
        return None
    work = join_seconds(keys + size // BYTES_PER_ROW)
    return Cost(
        seconds=work.rounded(3),
        compute_money=round(prices.compute(work.likely), 9),
        money=work.each(lambda seconds: round(prices.compute(seconds), 9)),
    )
