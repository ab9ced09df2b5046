"""The activity of writers on a table: when they commit, to all of it and to single partitions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from icepact.model.documents import Document, Moment


@dataclass(frozen=True, kw_only=True, slots=True)
class Activity(Document):
    """When writers have committed. What icepact itself commits is none of it."""

    table: str
    since: Moment
    """From when on all commits are known."""
    until: Moment
    """As of when."""
    commits: Sequence[Moment] = ()
    """Oldest first."""
    partitions: Mapping[str, Sequence[Moment]] = field(default_factory=dict)
    """By partition: its commits as far as they are known, oldest first."""
