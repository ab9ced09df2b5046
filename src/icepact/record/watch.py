"""Holding a table while a run goes on, and seeing when it must stop."""

import logging
import threading
from types import TracebackType

from icepact.model.errors import Cancelled, IcepactError, TableBusy
from icepact.model.run import Lease
from icepact.record.store import RunsAndLeases

LEASE_SECONDS = 120.0
"""A holder that is not heard of for so long is taken for dead."""
_BEATS_PER_LEASE = 6
_LONGEST_BEAT = 2.0
"""Seconds: who asks for an end waits so long at most until it is heard."""


class Watch:
    """Renews a lease from a thread of its own. `check` raises once the lease is lost or the run was cancelled."""

    def __init__(self, store: RunsAndLeases, lease: Lease, *, seconds: float = LEASE_SECONDS) -> None:
        self._store = store
        self._lease = lease
        self._seconds = seconds
        self._stop = threading.Event()
        self._why: IcepactError | None = None
        self._thread = threading.Thread(target=self._beat, name="icepact-lease", daemon=True)

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        del kind, error, at
        self._stop.set()
        self._thread.join()
        try:
            self._store.release(self._lease)
        except IcepactError as why:  # it expires
            logging.getLogger("icepact").warning("the lease on %s was not given back: %s", self._lease.key, why)

    def check(self) -> None:
        """Raise if the run must stop."""
        if self._why is not None:
            raise self._why

    def stop(self, why: str) -> None:
        """Ask for an end from inside this process."""
        self._why = self._why or Cancelled(why)

    def look(self) -> None:
        """Renew the lease and see whether somebody asked for an end; what cannot be reached now is asked later."""
        try:
            renewed = self._store.renew(self._lease, seconds=self._seconds)
            record = self._store.run(self._lease.run_id)
            holder = self._store.lease(self._lease.key) if renewed is None else None
        except IcepactError:
            return
        if renewed is None:
            now = f"run {holder.run_id} ({holder.owner})" if holder else "nobody"
            self._why = TableBusy(f"run {self._lease.run_id} lost the table: {now} has it now")
        elif record is not None and record.cancel_asked:
            self._why = Cancelled(f"run {self._lease.run_id} was cancelled")

    def _beat(self) -> None:
        while not self._stop.wait(min(_LONGEST_BEAT, self._seconds / _BEATS_PER_LEASE)) and self._why is None:
            self.look()
