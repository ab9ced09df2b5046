"""Limits that a plan and a run keep to, each with its name in messages."""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from icepact.model.documents import Document
from icepact.model.effort import Additive


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
class Demand(Additive):
    """How much of each resource some work uses up."""

    files: int = 0
    bytes: int = 0
    seconds: float = 0.0
    money: float = 0.0

    def of(self, resource: Resource) -> float:
        """How much of one resource."""
        match resource:
            case Resource.FILES:
                return self.files
            case Resource.BYTES:
                return self.bytes
            case Resource.SECONDS:
                return self.seconds
            case Resource.MONEY:
                return self.money
            case _:
                assert_never(resource)


NO_DEMAND = Demand()


@dataclass(frozen=True, kw_only=True, slots=True)
class Limit(Document):
    """How much of one thing a plan may use up."""

    resource: Resource
    amount: int | float
    """What is left of it; nothing if that is zero or below."""
    name: str
    """The option and its value, and what was spent before."""
