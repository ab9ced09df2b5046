"""Price of the steps of housekeeping: before they are carried out, and by what was measured afterwards."""

from dataclasses import replace

from icepact.economics.deletion import deletion_cost, deletion_requests
from icepact.model.cost import Cost
from icepact.model.effort import NO_EFFORT, Effort
from icepact.model.expiry import ExpireResult, ExpireSnapshots
from icepact.model.orphans import OrphansResult, RemoveOrphans
from icepact.model.outcome import ChoreResult, StepCost
from icepact.model.plan import Chore
from icepact.model.prices import Prices


def priced(prices: Prices, step: Chore, *, local: bool) -> Chore:
    """A step with what it is predicted to cost; for files of this machine nobody makes requests."""
    if isinstance(step, ExpireSnapshots):
        return replace(step, cost=deletion_cost(prices, step.files, local=local))
    if isinstance(step, RemoveOrphans):
        return replace(step, cost=deletion_cost(prices, step.files, listed=step.listed, local=local))
    cost = replace(step.cost, requests=0, write_requests=0) if local else step.cost
    return replace(step, cost=_with_money(prices, cost))


def _with_money(prices: Prices, cost: Cost) -> Cost:
    request = prices.requests(reads=cost.read_requests, writes=cost.write_requests)
    money = cost.seconds.each(lambda seconds: round(prices.compute(seconds) + request, 9))
    compute = round(prices.compute(cost.seconds.likely), 9)
    return replace(cost, compute_money=compute, request_money=round(request, 9), money=money)


def step_cost(prices: Prices, step: Chore, result: ChoreResult | None, *, seconds: float, local: bool) -> StepCost:
    """What a step really took; without a result it failed on the way, and only its seconds are known."""
    counted = NO_EFFORT if local or result is None else _requests(step.cost, result)
    effort = replace(counted, seconds=round(seconds, 3))
    requests = prices.requests(reads=effort.read_requests, writes=effort.write_requests)
    return StepCost(
        kind=step.kind,
        finished=result is not None,
        effort=effort,
        predicted_seconds=step.cost.seconds,
        predicted_money=step.cost.money.likely,
        money=round(prices.compute(seconds) + requests, 9),
    )


def _requests(predicted: Cost, result: ChoreResult) -> Effort:
    """The requests of a step that has ended: by the files that it deleted, or as they were predicted; one that found
    nothing to do has only read."""
    if isinstance(result, ExpireResult):
        return deletion_requests(result.files)
    if isinstance(result, OrphansResult):
        return deletion_requests(result.files, listed=result.listed)
    if not result.done:
        return Effort(requests=predicted.read_requests)
    return Effort(requests=predicted.requests, write_requests=predicted.write_requests)
