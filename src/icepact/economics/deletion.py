"""What deleting files takes: requests, and seconds on one core."""

import math

from icepact.model.cost import Cost
from icepact.model.effort import NO_EFFORT, Effort, Estimate
from icepact.model.housekeeping import FileTotals
from icepact.model.prices import Prices

KEYS_PER_REQUEST = 1000
_SECONDS_PER_FILE = 0.0002
"""Of working out that nobody needs it, and of deleting it; measured with 100,000 files."""
_SECONDS_PER_STEP = 0.1
"""Of reading the table once more, whatever goes."""
_SPREAD = 4.0
"""By how much that may be wrong: stores differ."""


def deletion_requests(files: FileTotals, *, listed: int = 0) -> Effort:
    """Requests to a store for the deletion of files, and for the listing of so many before."""
    pages = math.ceil(listed / KEYS_PER_REQUEST)
    deletions = math.ceil(files.files / KEYS_PER_REQUEST)
    return Effort(requests=deletions + files.manifests + files.manifest_lists + pages, write_requests=pages)


def deletion_cost(prices: Prices, files: FileTotals, *, listed: int = 0, local: bool) -> Cost:
    """What it takes to delete files, of so many that were listed. Price lists have requests that list among those that
    write, and requests that delete for nothing; they are taken for such that read."""
    effort = NO_EFFORT if local else deletion_requests(files, listed=listed)
    seconds = Estimate(likely=_SECONDS_PER_STEP + files.files * _SECONDS_PER_FILE)
    spread = Estimate(likely=seconds.likely, low=seconds.likely / _SPREAD, high=seconds.likely * _SPREAD).rounded(3)
    compute, request = (
        prices.compute(spread.likely),
        prices.requests(reads=effort.read_requests, writes=effort.write_requests),
    )
    money = Estimate(likely=compute + request, low=(compute + request) / _SPREAD, high=(compute + request) * _SPREAD)
    return Cost(
        seconds=spread,
        requests=effort.requests,
        write_requests=effort.write_requests,
        compute_money=round(compute, 9),
        request_money=round(request, 9),
        money=money.rounded(9),
    )
