"""Cost and gain of a step: what it is predicted to take, and what it saves."""

from dataclasses import dataclass, replace
from typing import Any

from pydantic import ConfigDict, computed_field, with_config

from icepact.model.documents import Document, FlatEstimate
from icepact.model.effort import NO_ESTIMATE, Additive, Estimate


@with_config(ConfigDict(extra="ignore"))  # predictions that other versions made besides are nothing to go by
@dataclass(frozen=True, kw_only=True, slots=True)
class Cost(Document, Additive):
    """What a method is predicted to take for a group."""

    seconds: FlatEstimate = NO_ESTIMATE
    """Of work on one core, corrected by what earlier runs took."""
    copied_bytes: int = 0
    encoded_bytes: int = 0
    requests: int = 0
    """To an object store."""
    write_requests: int = 0
    """Those of them that write."""
    compute_money: float = 0.0
    request_money: float = 0.0
    storage_money: float = 0.0
    """Of what is replaced, until it expires."""
    money: FlatEstimate = NO_ESTIMATE
    """All of it, in the currency of the prices."""

    @computed_field
    @property
    def read_requests(self) -> int:
        """Requests that read."""
        return self.requests - self.write_requests

    def part(self, share: float) -> "Cost":
        """Of a part of the group, by its share of the bytes."""
        parts: dict[str, Any] = {name: _share_of(getattr(self, name), share) for name in self.__slots__}
        return replace(self, **parts)


def _share_of(value: float | Estimate, share: float) -> float | Estimate:
    if isinstance(value, Estimate):
        return value.each(lambda amount: round(amount * share, 9))
    return int(value * share) if isinstance(value, int) else round(value * share, 9)


@dataclass(frozen=True, kw_only=True, slots=True)
class Gain(Document, Additive):
    """What a rewrite saves every later reader."""

    files: int = 0
    """Data files fewer."""
    row_groups: int = 0
    """Row groups fewer, as far as the manifests tell."""
    delete_records: int = 0
    """Delete records that need not be applied any more."""
    delete_files: int = 0
    """Delete files that need not be opened any more."""
    scan_seconds: float = 0.0
    """What one scan of these files takes less, on one core."""


NO_COST = Cost()
NO_GAIN = Gain()
