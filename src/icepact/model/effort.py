"""Effort and estimates: what work took, and what it is predicted to take. Both add up."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, Self


class Additive:
    """Base of values that add up, field by field; without any field given they are nothing."""

    __slots__: ClassVar[tuple[str, ...]] = ()

    def __add__(self, other: Self) -> Self:
        """Both together."""
        return type(self)(**{name: getattr(self, name) + getattr(other, name) for name in self.__slots__})

    @classmethod
    def sum(cls, values: Iterable[Self]) -> Self:
        """All of them together."""
        return sum(values, cls())


@dataclass(frozen=True, kw_only=True, slots=True)
class Effort(Additive):
    """What work took, of one unit or of many."""

    seconds: float = 0.0
    """Of work on one core, whichever lanes did it."""
    copied_bytes: int = 0
    """Bytes of row groups that were copied as they were."""
    encoded_bytes: int = 0
    """Bytes of row groups that were encoded anew."""
    transferred_bytes: int = 0
    """Bytes that passed through the tasks, in either direction, where the method counts them."""
    requests: int = 0
    """Requests to an object store."""
    write_requests: int = 0
    """Those of them that write."""

    @property
    def read_requests(self) -> int:
        """Requests that read."""
        return self.requests - self.write_requests


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate(Additive):
    """A predicted amount: seconds or money."""

    likely: float = 0.0
    low: float = 0.0
    high: float = 0.0
    """Between these two it is, nine times out of ten; they are wide as long as little is known."""

    def each(self, change: Callable[[float], float]) -> "Estimate":
        """All three, changed in the same way."""
        return Estimate(likely=change(self.likely), low=change(self.low), high=change(self.high))

    def rounded(self, digits: int) -> "Estimate":
        """All three, rounded."""
        return self.each(lambda amount: round(amount, digits))


NO_EFFORT = Effort()
NO_ESTIMATE = Estimate()
