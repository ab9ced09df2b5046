"""Limits of a run and of a round over the fleet, from the budgets in options."""

from collections.abc import Iterator
from dataclasses import replace

from icepact.model.formatting import format_duration, format_money, format_seconds, format_size
from icepact.model.limits import Limit, Resource
from icepact.model.policy import Policy
from icepact.policy.options import Options


def run_limits(policy: Policy | Options, *, cores: int, overhead: float = 0.0, currency: str = "") -> Iterator[Limit]:
    """What a policy allows one run, on a cluster of so many cores, where a run takes so many seconds besides its
    work."""
    if policy.max_files is not None:
        yield Limit(resource=Resource.FILES, amount=policy.max_files, name=f"max_files {policy.max_files}")
    if policy.max_bytes is not None:
        name = f"max_bytes {format_size(policy.max_bytes)}"
        yield Limit(resource=Resource.BYTES, amount=policy.max_bytes, name=name)
    if policy.max_duration is not None:
        name = f"max_duration {format_duration(policy.max_duration)}"
        if overhead:
            name += f", of which a run takes {format_seconds(overhead)} besides its work"
        yield Limit(resource=Resource.SECONDS, amount=(policy.max_duration - overhead) * cores, name=name)
    if policy.max_cost is not None:
        yield Limit(
            resource=Resource.MONEY, amount=policy.max_cost, name=f"max_cost {format_money(policy.max_cost, currency)}"
        )


def fleet_limits(request: Options, currency: str) -> tuple[Limit, ...]:
    """What a request allows all tables together; time on the clock is not among it."""
    limits = run_limits(request.model_copy(update={"max_duration": None}), cores=1, currency=currency)
    return tuple(replace(limit, name=f"{limit.name} for all tables") for limit in limits)
