"""Which method rewrites a group: the cheapest that is allowed, and why."""

from dataclasses import dataclass

from pydantic_core import from_json

from icepact.economics.speeds import Rates, Workload
from icepact.model.cost import Cost
from icepact.model.formatting import format_seconds, format_size
from icepact.model.methods import METHODS, Method
from icepact.model.policy import MethodOption, Policy
from icepact.model.prices import Prices
from icepact.model.schema import primitive_types
from icepact.model.snapshot import PinnedSnapshot

_NOT_WRITTEN = ("variant", "geometry", "geography", "unknown", "timestamp_ns", "timestamptz_ns", "time")


@dataclass(frozen=True, kw_only=True, slots=True)
class MethodChoice:
    """A method, what it is predicted to cost, and why it was chosen."""

    method: Method
    cost: Cost
    reason: str


def cheapest(
    pin: PinnedSnapshot,
    policy: Policy,
    rates: Rates,
    prices: Prices,
    *,
    against: str | None,
    workload: Workload,
    outputs: int | None = None,
) -> MethodChoice:
    """The cheapest method that is allowed; what the user asked for comes first. `against` says why row groups cannot be
    assembled."""
    costs = {method: cost_of(method, workload, rates, prices, outputs=outputs) for method in Method}
    by_seconds = sorted(Method, key=lambda method: costs[method].seconds.likely)
    best, other, *_ = by_seconds
    if against is not None:
        best, reason = next(method for method in by_seconds if METHODS[method].every_table), against
    elif policy.method is not MethodOption.AUTO:
        best, reason = Method(policy.method.value), "as asked"
    elif pin.sort_order != "unsorted":
        best = next(method for method in by_seconds if METHODS[method].keeps_order)
        reason = "the table has a sort order, and this method keeps outputs sorted"
    else:
        took, instead = (format_seconds(costs[method].seconds.likely) for method in (best, other))
        reason = f"about {took} of work, {instead} by {other}"
        if costs[best].copied_bytes:
            reason += f"; {format_size(costs[best].copied_bytes)} can be copied"
    return MethodChoice(method=best, cost=costs[best], reason=reason)


def cost_of(method: Method, workload: Workload, rates: Rates, prices: Prices, *, outputs: int | None = None) -> Cost:
    """What a method takes for a workload, if it copies all that can be copied.

    `outputs` are as many as units, if they are not given. Prices are those for the table (`Prices.for_table`).
    """
    if not METHODS[method].copies:
        workload = workload._replace(copied=0, encoded=workload.copied + workload.encoded)
    units, files, copied, encoded = workload
    work = rates.seconds(method, workload)
    reads, writes = rates.requests(method, files=files, outputs=units if outputs is None else outputs)
    asked, kept = prices.requests(reads=reads, writes=writes), prices.storage(copied + encoded)
    return Cost(
        seconds=work.rounded(3),
        copied_bytes=copied,
        encoded_bytes=encoded,
        requests=reads + writes,
        write_requests=writes,
        compute_money=round(prices.compute(work.likely), 9),
        request_money=round(asked, 9),
        storage_money=round(kept, 9),
        money=work.each(lambda seconds: round(prices.compute(seconds) + asked + kept, 9)),
    )


def why_not_assembled(pin: PinnedSnapshot, *, regroup: bool) -> str | None:
    """Why no row groups of this table can be assembled; `None` if they can."""
    if regroup:
        return "rows of old partition specs are sorted into other partitions"
    wanted = pin.properties.get("write.format.default", "parquet").lower()
    if wanted != "parquet":
        return f"the table is written as {wanted}"
    strange = sorted(primitive_types(from_json(pin.schema)) & set(_NOT_WRITTEN))
    return f"a column is of type {strange[0]}" if strange else None
