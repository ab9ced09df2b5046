"""The interface of a backend. One behaviour suite in the tests runs over all of them."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from icepact.record.hearing import Heard


@dataclass(frozen=True, slots=True)
class Entry:
    """A key with its value."""

    key: str
    value: bytes
    version: int
    """Another one after each change of the key, and never one that it had before, even if it was gone in between."""


@dataclass(frozen=True, slots=True)
class Span:
    """Keys from one on, sorted as bytes of UTF-8, up to another one that is not among them."""

    start: str
    end: str
    limit: int | None = None
    """Only so many, the first; `None` for all."""

    @classmethod
    def of(cls, key: str) -> "Span":
        """One key alone."""
        return cls(key, key + "\0")

    @property
    def single(self) -> bool:
        """Whether no other key than the first can be in it."""
        return self.end == self.start + "\0"


class KeyValue(Protocol):
    """Keys and values that change in transactions of compares.

    Every call tries again within bounds if the server does not answer, and then raises StoreUnusable. A transaction
    whose answer was lost is not carried out twice.
    """

    most_keys: int
    """Of one transaction, and of one read."""
    most_bytes: int
    """Of all values of one transaction."""
    cache_bytes: int
    """How much it has room for that can be read from tables again."""

    def now(self) -> datetime:
        """The time, by a clock that is the same for all who share the store."""

    def read(self, spans: Sequence[Span]) -> Sequence[Sequence[Entry]]:
        """What is in each of some spans, all as it is at one moment."""

    def commit(
        self,
        compares: Mapping[str, int],
        puts: Mapping[str, bytes],
        deletes: Collection[str] = (),
        *,
        persists: Collection[str] = (),
        tells: str | None = None,
    ) -> bool:
        """Change keys, if all compared ones have these versions, 0 for none; false if one has another. What was parked
        under `persists` stays for good. Those who watch are told of the job `tells`, if that is possible."""

    def park(self, key: str, value: bytes, *, seconds: float) -> None:
        """Write a key that nobody else writes, and that goes by itself unless a transaction makes it stay; until then
        it is found by its name alone."""

    def watch(self, heard: Heard) -> AbstractContextManager[object]:
        """Have a function called with what transactions tell, until the answer is left, and with nothing when some of
        it may have been missed. It never raises."""

    def concerns(self) -> Sequence[str]:
        """What of the server's settings endangers what is kept there, in one line each."""

    def close(self) -> None:
        """Close all connections; the backend can be used again."""
