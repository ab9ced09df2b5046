"""Sizes at which requests to S3 change their kind."""

from dataclasses import dataclass

from icepact.execute.storage.base import GIB, KIB, MIB

LEAST_PART = 5 * MIB
"""Fewest bytes that S3 demands of every part but the last."""
MOST_PARTS = 10_000
"""Most parts that S3 allows in one upload."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """All in bytes, unless said otherwise."""

    whole: int = 8 * MIB
    """Files below this are fetched whole, in one request."""
    tail: int = 64 * KIB
    """What is fetched of a larger file when its end is first asked for."""
    gap: int = MIB
    """Preloaded ranges with less than this between them are one request."""
    piece: int = 8 * MIB
    """Larger preloaded ranges are fetched in pieces of this size, in parallel."""
    part: int = 16 * MIB
    """Size of the parts that are sent."""
    in_flight: int = 3
    """Number of parts that are being sent while the next one fills."""
    copy: int = GIB
    """Largest part that is copied inside the store. S3 allows 5 GiB, but an answer may then take minutes."""
    step: int = 8 * MIB
    """What is read at once where a copy has to pass through this process."""
    parts_per_size: int = 2_000
    """Number of parts after which part sizes double, so that a file of any size S3 takes has parts enough."""
