"""What deleting files takes: requests, and seconds on one core."""

import math

from icepact.model.cost import Cost
from icepact.model.effort import Estimate
from icepact.model.housekeeping import FileTotals
from icepact.model.prices import Prices

KEYS_PER_REQUEST = 1000
_SECONDS_PER_FILE = 0.0002
"""Of working out that nobody needs it, and of deleting it; measured with 100,000 files."""
_SPREAD = 4.0
"""By how much that may be wrong: stores differ."""


def deletion_cost(prices: Prices, files: FileTotals, *, local: bool) -> Cost:
    """What it takes to delete files; requests that delete are free in all price lists, those that read are not."""
    requests = 0 if local else math.ceil(files.files / KEYS_PER_REQUEST) + files.manifests + files.manifest_lists
    seconds = Estimate(likely=files.files * _SECONDS_PER_FILE)
    spread = Estimate(likely=seconds.likely, low=seconds.likely / _SPREAD, high=seconds.likely * _SPREAD).rounded(3)
    compute, request = prices.compute(spread.likely), prices.requests(reads=requests, writes=0)
    money = Estimate(likely=compute + request, low=(compute + request) / _SPREAD, high=(compute + request) * _SPREAD)
    return Cost(
        seconds=spread,
        requests=requests,
        compute_money=round(compute, 9),
        request_money=round(request, 9),
        money=money.rounded(9),
    )
