"""Which method rewrites a group: the cheapest that is allowed, and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from pydantic_core import from_json

from icepact.model.plan import Cost, Method, Unit
from icepact.model.policy import MethodWish, Policy
from icepact.model.rates import Rates
from icepact.model.schema import primitive_types
from icepact.model.sizes import format_size
from icepact.model.table import DataFile, DeleteFile, DeleteKind, TableState

_NOT_WRITTEN = ("variant", "geometry", "geography", "unknown", "timestamp_ns", "timestamptz_ns", "time")
_FOOTER_REQUESTS = 2
"""Requests for an input: its footer, and its bytes."""
_OUTPUT_REQUESTS = 4
"""Requests for an output: begin, end, the last part, and looking at it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """A method, what it is predicted to cost, and why it was chosen."""

    method: Method
    cost: Cost
    reason: str


def choose(state: TableState, units: Sequence[Unit], policy: Policy, rates: Rates, *, regroup: bool) -> Chosen:
    """The cheapest method that is allowed; what the user asked for comes first."""
    costs = {method: _cost(method, state, units, policy, rates) for method in Method}
    against = _why_not_assembled(state, units, regroup=regroup)
    if against is not None:
        return Chosen(method=Method.SPARK, cost=costs[Method.SPARK], reason=against)
    if policy.method is MethodWish.AUTO and state.sort_order != "unsorted":
        reason = "the table has a sort order, and this method keeps outputs sorted"
        return Chosen(method=Method.SPARK, cost=costs[Method.SPARK], reason=reason)
    if policy.method is not MethodWish.AUTO:
        asked = Method(policy.method.value)
        return Chosen(method=asked, cost=costs[asked], reason="as asked")
    cheapest = min(Method, key=lambda method: (costs[method].seconds, list(Method).index(method)))
    other = next(method for method in Method if method is not cheapest)
    reason = f"about {_seconds(costs[cheapest])} of work, {_seconds(costs[other])} by {other}"
    if costs[cheapest].copied_bytes:
        reason += f"; {format_size(costs[cheapest].copied_bytes)} can be copied"
    return Chosen(method=cheapest, cost=costs[cheapest], reason=reason)


def _seconds(cost: Cost) -> str:
    return f"{cost.seconds:.1f} s" if cost.seconds < 10 else f"{cost.seconds:,.0f} s"


def _why_not_assembled(state: TableState, units: Sequence[Unit], *, regroup: bool) -> str | None:
    """Why row groups cannot be assembled; null if they can."""
    if regroup:
        return "rows of old partition specs are sorted into other partitions"
    wanted = state.properties.get("write.format.default", "parquet").lower()
    if wanted != "parquet":
        return f"the table is written as {wanted}"
    formats = {f.format for unit in units for f in unit.files} - {"parquet"}
    if formats:
        return f"some files are {sorted(formats)[0]}"
    strange = sorted(primitive_types(from_json(state.schema)) & set(_NOT_WRITTEN))
    if strange:
        return f"a column is of type {strange[0]}"
    if any(_unspeakable(value) for unit in units for f in unit.files for value in f.partition):
        return "a partition value is NaN or infinite"
    return None


def _unspeakable(value: Any) -> bool:
    """True for a partition value that Iceberg's JSON writes and cannot read."""
    return value in ("NaN", "Infinity", "-Infinity") or (isinstance(value, float) and not isfinite(value))


def _cost(method: Method, state: TableState, units: Sequence[Unit], policy: Policy, rates: Rates) -> Cost:
    files = [f for unit in units for f in unit.files]
    total = sum(f.size for f in files)
    speed = rates.of(method)
    copied = 0 if method is Method.SPARK else sum(_copied(f, state.deletes, policy) for f in files)
    seconds = (
        len(units) * speed.seconds_per_unit
        + len(files) * speed.seconds_per_file
        + copied / speed.copied_per_second
        + (total - copied) / speed.encoded_per_second
    )
    return Cost(
        seconds=round(seconds * speed.correction, 3),
        baseline_seconds=round(seconds, 3),
        copied_bytes=copied,
        encoded_bytes=total - copied,
        requests=_FOOTER_REQUESTS * len(files) + _OUTPUT_REQUESTS * len(units),
    )


def _copied(file: DataFile, deletes: Sequence[DeleteFile], policy: Policy) -> int:
    """Bytes of the row groups that are probably copied: large enough, and few deletes touch few of them."""
    starts = file.row_groups or (0,)
    sizes = [end - start for start, end in zip(starts, (*starts[1:], file.size), strict=True)]
    large = [size for size in sizes if size >= policy.min_row_group_size]
    if not large or policy.recode:
        return 0
    mine = [deletes[i] for i in file.deletes]
    if any(d.kind is DeleteKind.EQUALITY for d in mine):
        return 0
    touched = sum(min(len(sizes), d.records) for d in mine)
    return int(sum(large) * max(0.0, 1 - touched / len(sizes)))
