"""Budgets: limits that a plan and a run keep to, each with the name by which people are told of it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from icepact.model.durations import format_duration
from icepact.model.policy import Options, Policy
from icepact.model.sizes import format_size
from icepact.model.words import money, seconds


class Resource(StrEnum):
    """What a rewrite uses up."""

    FILES = "files"
    """Inputs."""
    BYTES = "bytes"
    """Of inputs."""
    SECONDS = "seconds"
    """Of work, on one core."""
    MONEY = "money"
    """In the currency of the prices."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit:
    """How much of one thing a plan may use up."""

    resource: Resource
    amount: float
    """What is left of it; nothing if that is zero or below."""
    name: str
    """The option and its value, and what was spent before."""

    def to_dict(self) -> dict[str, str | float]:
        """The limit as it is printed with `--json`."""
        return {"resource": self.resource.value, "amount": self.amount, "name": self.name}


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
            name += f", of which a run takes {seconds(overhead)} besides its work"
        yield Limit(resource=Resource.SECONDS, amount=(policy.max_duration - overhead) * cores, name=name)
    if policy.max_cost is not None:
        yield Limit(
            resource=Resource.MONEY, amount=policy.max_cost, name=f"max_cost {money(policy.max_cost, currency)}"
        )


def fleet_limits(request: Options, currency: str) -> tuple[Limit, ...]:
    """What a request allows all tables together; time on the clock is not among it."""
    limits = run_limits(request.model_copy(update={"max_duration": None}), cores=1, currency=currency)
    return tuple(replace(limit, name=f"{limit.name} for all tables") for limit in limits)
