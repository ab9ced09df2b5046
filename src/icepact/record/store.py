"""What every record store does. One behaviour suite in the tests runs over all of them."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from icepact.model.outcome import Outcome
from icepact.model.run import Attempt, Checkpoint, Claim, Failure, Landed, Lease, Owner, RunRecord, Status


class RecordStore(Protocol):
    """Remembers runs."""

    def now(self) -> datetime:
        """The time, by a clock that is the same for all who share the store."""
        ...

    # -- runs -------------------------------------------------------------------------------------

    def begin(self, record: RunRecord, plan: bytes = b"") -> Claim:
        """Record the intent, before the first byte is written."""
        ...

    def take(self, record: RunRecord, owner: Owner, *, to: Status) -> Claim:
        """Take a run over from whoever had it; RunLost if it is not as the record says any more."""
        ...

    def move(
        self,
        claim: Claim,
        to: Status,
        *,
        attempts: Sequence[Attempt] | None = None,
        landed: Sequence[Landed] | None = None,
    ) -> None:
        """Go on to another state; RunLost if somebody took the run over, or if it cannot go there from where it is.

        `attempts` are all whose end is not known, and `landed` all commits of the run, from now on; null leaves them as
        they are.
        """
        ...

    def finish(
        self, claim: Claim, outcome: Outcome, *, landed: Sequence[Landed] = (), attempts: Sequence[Attempt] = ()
    ) -> None:
        """Record how a run ended, with all its commits, and the attempts whose end nobody knows; RunLost if somebody
        took it over."""
        ...

    def settled(self, record: RunRecord, *, attempts: Sequence[Attempt], landed: Sequence[Landed]) -> None:
        """What became of attempts of a run that has ended; RunLost if the run is not as the record says any more."""
        ...

    def run(self, run_id: str) -> RunRecord | None:
        """One run; null if there is none of that name."""
        ...

    def runs(
        self,
        *,
        catalog: str,
        table: str | None = None,
        limit: int = 100,
        open_only: bool = False,
        worked_only: bool = False,
        outcomes: bool = True,
    ) -> Sequence[RunRecord]:
        """The newest runs on a catalog, or on one of its tables; newest first, and without outcomes if nobody needs
        them. `worked_only` leaves out those that go on, or had nothing to do."""
        ...

    def recent(self, *, catalog: str, since: datetime) -> Sequence[RunRecord]:
        """Runs on a catalog that ended since a moment, or began since then and are still open; newest first."""
        ...

    def plan(self, run_id: str) -> bytes:
        """What a run began with; empty if it is not kept any more."""
        ...

    def ask_to_cancel(self, run_id: str) -> bool:
        """Ask whoever works on a run to stop; false if it has ended."""
        ...

    def swept(self, run_id: str, at: datetime) -> None:
        """Remember that a run's folder was cleaned up."""
        ...

    def rename_catalog(self, old: str, new: str, *, table: str, uuid: str) -> None:
        """Runs on a table, and what was forgotten about it, are recorded under another name of its catalog."""
        ...

    # -- checkpoints ------------------------------------------------------------------------------

    def checkpoint(self, claim: Claim, units: Sequence[Checkpoint]) -> None:
        """Remember finished units; RunLost if somebody took the run over."""
        ...

    def checkpoints(self, run_id: str) -> Sequence[Checkpoint]:
        """Finished units of a run."""
        ...

    def forget(self, *, before: datetime) -> int:
        """Drop plans and checkpoints of runs that ended before a moment; returns of how many runs."""
        ...

    # -- leases -----------------------------------------------------------------------------------

    def acquire(self, key: str, run_id: str, owner: Owner, *, seconds: float, over: Lease | None = None) -> Lease:
        """Hold a table, if nobody does or what somebody held has expired; TableBusy otherwise.

        `over` is a lease that is known to be dead.
        """
        ...

    def renew(self, lease: Lease, *, seconds: float) -> Lease | None:
        """Hold on; null if somebody else holds it by now."""
        ...

    def release(self, lease: Lease) -> None:
        """Let go; no error if somebody else holds it by now."""
        ...

    def lease(self, key: str) -> Lease | None:
        """Who holds a table, expired or not; null if nobody does."""
        ...

    # -- what was learned -------------------------------------------------------------------------

    def forget_lessons(self, catalog: str, table: str) -> None:
        """From now on, only what later runs teach about a table counts."""
        ...

    def lessons_since(self, catalog: str, table: str) -> datetime | None:
        """Since when what runs teach about a table counts; null if that was never forgotten."""
        ...

    # -- what keeps failing -----------------------------------------------------------------------

    def failed(self, uuid: str, failure: Failure) -> None:
        """A group of a table failed once more; the count that is given does not matter."""
        ...

    def failures(self, uuid: str) -> Sequence[Failure]:
        """Groups of a table that failed and have not been forgiven."""
        ...

    def forgive(self, uuid: str, signatures: Sequence[str] | None = None) -> int:
        """Forget failures: of these groups, or of all; returns how many."""
        ...

    # -- what was counted -------------------------------------------------------------------------

    def sheets(self, paths: Sequence[str]) -> Mapping[str, bytes]:
        """What is kept of these manifests."""
        ...

    def keep_sheets(self, uuid: str, sheets: Mapping[str, bytes], *, live: Collection[str], room: int) -> None:
        """Keep what was counted in manifests of a table. What is not `live` any more goes a day later; if all that is
        kept needs more room than that, in bytes, the oldest goes."""
        ...

    # -- clocks -----------------------------------------------------------------------------------

    def clocks(self, uuid: str, branch: str) -> Mapping[str, Mapping[str, datetime]]:
        """When each place of a table was last compacted, by tier."""
        ...

    def compacted(self, uuid: str, branch: str, tiers: Mapping[str, str], at: datetime) -> None:
        """Places were compacted, each by a tier."""
        ...
