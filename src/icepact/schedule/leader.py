"""One leader of a catalog's schedules, through a lease in the record store.

That two processes believe to lead for a moment does no harm: whatever a leader does it claims first, by changing a
document that nobody may have changed meanwhile. The lease only keeps them from doing the work twice in vain.
"""

import logging
import secrets
import time
from collections.abc import Callable
from datetime import timedelta

from icepact.model.errors import IcepactError, TableBusy
from icepact.model.run import Lease, Owner
from icepact.record.process import is_gone, this_process
from icepact.record.store import LeaseStore

LEASE_SECONDS = 12.0
"""A leader that is not heard of for so long is replaced."""
_ABSURD = 3
"""Leases that are left for so many times as long."""
_MARGIN = 0.25
"""Share of the lease before whose end a leader that cannot renew it stops by itself."""


class Leader:
    """A process that leads, or would if nobody else did."""

    def __init__(
        self,
        store: LeaseStore,
        catalog: str,
        *,
        owner: Owner | None = None,
        seconds: float = LEASE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._key = f"leader:{catalog}"
        self._id = f"leader-{secrets.token_hex(6)}"
        self._owner = owner or this_process()
        self._seconds = seconds
        self._monotonic = monotonic
        self._lease: Lease | None = None
        self._until = 0.0
        """By this machine's clock, which does not jump: until then nobody else leads."""

    @property
    def leads(self) -> bool:
        """Whether this process leads still, as far as it can know without asking."""
        return self._lease is not None and self._monotonic() < self._until

    def lead(self) -> bool:
        """Lead from now on, or go on doing so; false if somebody else does, or if the store cannot be asked."""
        asked = self._monotonic()
        try:
            if self._lease is not None:
                self._lease = self._store.renew(self._lease, seconds=self._seconds)
            if self._lease is None:
                self._lease = self._acquired()
        except TableBusy:
            self._lease = None
        except IcepactError as error:  # the lease that there is may be good still
            logging.getLogger("icepact").warning("the record store cannot be asked who leads: %s", error)
            return self.leads
        if self._lease is not None:
            self._until = asked + self._seconds * (1 - _MARGIN)
        return self.leads

    def step_down(self) -> None:
        """Let another one lead at once."""
        lease, self._lease = self._lease, None
        if lease is not None:
            try:
                self._store.release(lease)
            except IcepactError as error:  # it expires
                logging.getLogger("icepact").warning("the lease of the leader was not given back: %s", error)

    def _acquired(self) -> Lease:
        holder = self._store.lease(self._key)
        over = holder if holder is not None and self._is_dead(holder) else None
        if holder is not None and over is None and holder.expires_at > self._store.now():
            raise TableBusy  # known without a lock
        return self._store.acquire(self._key, self._id, self._owner, seconds=self._seconds, over=over)

    def _is_dead(self, holder: Lease) -> bool:
        """Whether a leader has certainly ended, or has its lease for longer than anyone gives it: a clock went back."""
        left = holder.expires_at - self._store.now()
        return is_gone(holder.owner) or left > timedelta(seconds=_ABSURD * self._seconds)
