"""Which method rewrites a group: the cheapest that is allowed, and why."""

from dataclasses import dataclass

from pydantic_core import from_json

from icepact.model.plan import Cost, Method
from icepact.model.policy import MethodWish, Policy
from icepact.model.prices import Prices
from icepact.model.rates import Effort, Rates
from icepact.model.schema import primitive_types
from icepact.model.sizes import format_size
from icepact.model.table import Pinned
from icepact.model.words import seconds

_NOT_WRITTEN = ("variant", "geometry", "geography", "unknown", "timestamp_ns", "timestamptz_ns", "time")


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """A method, what it is predicted to cost, and why it was chosen."""

    method: Method
    cost: Cost
    reason: str


def cheapest(
    pin: Pinned,
    policy: Policy,
    rates: Rates,
    prices: Prices,
    *,
    against: str | None,
    files: int,
    units: int,
    copied: int,
    encoded: int,
    outputs: int | None = None,
) -> Chosen:
    """The cheapest method that is allowed; what the user asked for comes first. `against` says why row groups cannot be
    assembled."""
    costs = {
        method: cost_of(
            method,
            files=files,
            units=units,
            copied=copied,
            encoded=encoded,
            rates=rates,
            prices=prices,
            outputs=outputs,
        )
        for method in Method
    }
    if against is not None:
        return Chosen(method=Method.SPARK, cost=costs[Method.SPARK], reason=against)
    if policy.method is MethodWish.AUTO and pin.sort_order != "unsorted":
        reason = "the table has a sort order, and this method keeps outputs sorted"
        return Chosen(method=Method.SPARK, cost=costs[Method.SPARK], reason=reason)
    if policy.method is not MethodWish.AUTO:
        asked = Method(policy.method.value)
        return Chosen(method=asked, cost=costs[asked], reason="as asked")
    best = min(Method, key=lambda method: (costs[method].seconds, list(Method).index(method)))
    other = next(method for method in Method if method is not best)
    reason = f"about {seconds(costs[best].seconds)} of work, {seconds(costs[other].seconds)} by {other}"
    if costs[best].copied_bytes:
        reason += f"; {format_size(costs[best].copied_bytes)} can be copied"
    return Chosen(method=best, cost=costs[best], reason=reason)


def cost_of(
    method: Method,
    *,
    files: int,
    units: int,
    copied: int,
    encoded: int,
    rates: Rates,
    prices: Prices,
    outputs: int | None = None,
) -> Cost:
    """What a method takes for so many inputs, units, and bytes that can be copied or must be encoded.

    `outputs` are as many as units, if they are not given. Prices are those for the table (`Prices.for_table`).
    """
    if method is Method.SPARK:  # it copies nothing
        copied, encoded = 0, copied + encoded
    effort = Effort(units=units, files=files, copied=copied, encoded=encoded)
    work = rates.seconds(method, effort)
    reads, writes = rates.requests(method, files=files, outputs=units if outputs is None else outputs)
    asked, kept = prices.requests(reads=reads, writes=writes), prices.storage(copied + encoded)
    compute = prices.compute(work.seconds)
    return Cost(
        seconds=round(work.seconds, 3),
        baseline_seconds=round(rates.baseline(method, effort), 3),
        copied_bytes=copied,
        encoded_bytes=encoded,
        requests=reads + writes,
        write_requests=writes,
        seconds_low=round(work.low, 3),
        seconds_high=round(work.high, 3),
        compute_money=round(compute, 9),
        request_money=round(asked, 9),
        storage_money=round(kept, 9),
        money=round(compute + asked + kept, 9),
        money_low=round(prices.compute(work.low) + asked + kept, 9),
        money_high=round(prices.compute(work.high) + asked + kept, 9),
    )


def why_not_assembled(pin: Pinned, *, regroup: bool) -> str | None:
    """Why no row groups of this table can be assembled; null if they can."""
    if regroup:
        return "rows of old partition specs are sorted into other partitions"
    wanted = pin.properties.get("write.format.default", "parquet").lower()
    if wanted != "parquet":
        return f"the table is written as {wanted}"
    strange = sorted(primitive_types(from_json(pin.schema)) & set(_NOT_WRITTEN))
    return f"a column is of type {strange[0]}" if strange else None
