"""The whole record store over keys and values."""

from collections.abc import Callable
from datetime import datetime
from typing import Self

from icepact.record.clock import utc_now
from icepact.record.kv.caches import KvCaches
from icepact.record.kv.documents import KvDocuments
from icepact.record.kv.jobs import KvJobs
from icepact.record.kv.leases import KvLeases
from icepact.record.kv.memory import Memory
from icepact.record.kv.runs import KvRuns
from icepact.record.kv.shelves import KvShelves


class KvStore(KvRuns, KvLeases, KvJobs, KvCaches, KvDocuments, KvShelves):
    """A record store that needs nothing of its backend but compare-and-set."""

    @classmethod
    def in_memory(cls, *, clock: Callable[[], datetime] = utc_now) -> Self:
        """A store that forgets when the process ends."""
        return cls(Memory(), clock=clock)
