"""The store in a database: SQLite in a file, PostgreSQL."""

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Select, and_, delete, func, insert, or_, select, update

from icepact.model.errors import RunLost, TableBusy
from icepact.model.outcome import Outcome
from icepact.model.run import Attempt, Checkpoint, Claim, CommittedBatch, Failure, Lease, Owner, RunRecord
from icepact.model.status import TRANSITIONS, Status
from icepact.record.clock import utc_now
from icepact.record.database import batches, insert_if_absent
from icepact.record.documents import (
    attempts_document,
    attempts_of,
    landed_document,
    landed_of,
    lease_of,
    owner_document,
    owner_of,
    run_columns,
    run_of,
)
from icepact.record.retries import tried_again
from icepact.record.sql_documents import SqlDocuments
from icepact.record.sql_jobs import SqlJobs
from icepact.record.sql_rows import SqlRows
from icepact.record.sql_stats import SqlStats
from icepact.record.tables import CHECKPOINTS, FAILURES, LEASES, RUNS

_ENDED = [status.value for status in Status if not status.open]
_OPEN = [status.value for status in Status if status.open]
_RUN_COLUMNS = [column for column in RUNS.c if column.name != "plan"]
_LEAN_COLUMNS = [column for column in _RUN_COLUMNS if column.name != "outcome"]


@tried_again
class SqlStore(SqlJobs, SqlStats, SqlDocuments, SqlRows):
    """Runs in a database; what is missing there is made on the first write."""

    @classmethod
    def in_file(cls, path: Path, *, clock: Callable[[], datetime] = utc_now) -> "SqlStore":
        """The embedded store: one SQLite file, shared by processes on one machine."""
        return cls(f"sqlite:///{path}", clock=clock)

    # -- runs -------------------------------------------------------------------------------------

    def begin(self, record: RunRecord, plan: bytes = b"") -> Claim:
        """Record the intent."""
        with self._writing() as connection:
            connection.execute(
                insert(RUNS).values(**run_columns(record), plan=zlib.compress(plan, 1) if plan else None)
            )
        return Claim(run_id=record.run_id, epoch=record.epoch)

    def take(self, record: RunRecord, owner: Owner, *, to: Status) -> Claim:
        """Take a run over from whoever had it."""
        claim = Claim(run_id=record.run_id, epoch=record.epoch + 1)
        with self._writing() as connection:
            self._compare(connection, record)
            before = replace(claim, epoch=record.epoch)
            self._change(connection, before, to, {"owner": owner_document(owner), "epoch": claim.epoch})
        return claim

    def move(
        self,
        claim: Claim,
        to: Status,
        *,
        attempts: Sequence[Attempt] | None = None,
        landed: Sequence[CommittedBatch] | None = None,
    ) -> None:
        """Go on to another state."""
        with self._writing() as connection:
            values: dict[str, Any] = {}
            if attempts is not None:
                values["attempt"] = attempts_document(attempts)
            if landed is not None:
                values["landed"] = landed_document(landed)
            if not to.open:
                values["finished_at"] = self.now()
            self._change(connection, claim, to, values)

    def finish(
        self, claim: Claim, outcome: Outcome, *, landed: Sequence[CommittedBatch] = (), attempts: Sequence[Attempt] = ()
    ) -> None:
        """Record how a run ended."""
        with self._writing() as connection:
            self._change(
                connection,
                claim,
                outcome.status,
                {
                    "finished_at": max(outcome.started_at + timedelta(seconds=outcome.seconds), self.now()),
                    "outcome": json.dumps(outcome.to_dict()),
                    "landed": landed_document(landed),
                    "attempt": attempts_document(attempts),
                },
            )

    def reconciled(self, record: RunRecord, *, attempts: Sequence[Attempt], landed: Sequence[CommittedBatch]) -> None:
        """Record what became of attempts of a run that has ended."""
        with self._writing() as connection:
            self._compare(connection, record)
            document = landed_document([*record.landed, *landed])
            change = update(RUNS).where(RUNS.c.run_id == record.run_id)
            connection.execute(change.values(attempt=attempts_document(attempts), landed=document))

    def _compare(self, connection: Connection, record: RunRecord) -> None:
        """RunLost unless a run is as it was: the same status may by now stand for another attempt."""
        columns = [RUNS.c.epoch, RUNS.c.status, RUNS.c.attempt, RUNS.c.owner, RUNS.c.landed]
        row = connection.execute(select(*columns).where(RUNS.c.run_id == record.run_id).with_for_update()).one_or_none()
        now = row and (row.epoch, row.status, attempts_of(row._mapping), landed_of(row.landed))
        if now != (record.epoch, record.status.value, tuple(record.attempts), tuple(record.landed)):
            raise RunLost(f"run {record.run_id} has moved on since it was looked at")

    def _change(self, connection: Connection, claim: Claim, to: Status, values: Mapping[str, Any]) -> None:
        origins = [s for s, after in TRANSITIONS.items() if to in after]
        change = update(RUNS).where(
            RUNS.c.run_id == claim.run_id, RUNS.c.epoch == claim.epoch, RUNS.c.status.in_([s.value for s in origins])
        )
        changed = connection.execute(change.values(status=to.value, **values))
        if changed.rowcount != 1:
            row = connection.execute(
                select(RUNS.c.status, RUNS.c.owner).where(RUNS.c.run_id == claim.run_id)
            ).one_or_none()
            raise RunLost(
                f"there is no run {claim.run_id}"
                if row is None
                else f"run {claim.run_id} is {row[0]} by now, in the hands of {owner_of(row[1])}: it cannot become {to}"
            )

    def run(self, run_id: str) -> RunRecord | None:
        """One run."""
        rows = self._rows(select(*_RUN_COLUMNS).where(RUNS.c.run_id == run_id))
        return run_of(rows[0]._mapping) if rows else None

    def runs(
        self,
        *,
        catalog: str,
        table: str | None = None,
        limit: int = 100,
        open_only: bool = False,
        worked_only: bool = False,
        outcomes: bool = True,
        before: tuple[datetime, str] | None = None,
    ) -> Sequence[RunRecord]:
        """The newest runs first."""
        wanted = select(*(_RUN_COLUMNS if outcomes else _LEAN_COLUMNS)).where(RUNS.c.catalog == catalog)
        if table is not None:
            wanted = wanted.where(RUNS.c.table_name == table)
        if open_only:
            wanted = wanted.where(RUNS.c.status.in_(_OPEN))
        if worked_only:
            wanted = wanted.where(RUNS.c.status.not_in([*_OPEN, Status.NOTHING_TO_DO.value]))
        if before is not None:
            began, run_id = before
            at_once = and_(RUNS.c.started_at == began, RUNS.c.run_id < run_id)
            wanted = wanted.where(or_(RUNS.c.started_at < began, at_once))
        return self._newest_first(wanted.limit(limit))

    def recent(self, *, catalog: str, since: datetime) -> Sequence[RunRecord]:
        """Runs that ended since a moment, or began since then and are still open."""
        moment = func.coalesce(RUNS.c.finished_at, RUNS.c.started_at)
        return self._newest_first(select(*_RUN_COLUMNS).where(RUNS.c.catalog == catalog, moment > since))

    def _newest_first(self, wanted: Select[Any]) -> list[RunRecord]:
        ordered = wanted.order_by(RUNS.c.started_at.desc(), RUNS.c.run_id.desc())
        return [run_of(row._mapping) for row in self._rows(ordered)]

    def plan(self, run_id: str) -> bytes:
        """What a run began with."""
        rows = self._rows(select(RUNS.c.plan).where(RUNS.c.run_id == run_id))
        return zlib.decompress(rows[0].plan) if rows and rows[0].plan else b""

    def ask_to_cancel(self, run_id: str) -> bool:
        """Ask whoever works on a run to stop."""
        mine = update(RUNS).where(RUNS.c.run_id == run_id, RUNS.c.status.in_(_OPEN))
        return self._changed(mine.values(cancel_asked=True)) == 1

    def swept(self, run_id: str, at: datetime) -> None:
        """Remember that a run's folder was cleaned up."""
        self._changed(update(RUNS).where(RUNS.c.run_id == run_id).values(swept_at=at))

    # -- checkpoints ------------------------------------------------------------------------------

    def checkpoint(self, claim: Claim, units: Sequence[Checkpoint]) -> None:
        """Remember finished units."""
        with self._writing() as connection:
            held = select(RUNS.c.run_id).where(
                RUNS.c.run_id == claim.run_id, RUNS.c.epoch == claim.epoch, RUNS.c.status.in_(_OPEN)
            )
            if connection.execute(held.with_for_update()).first() is None:
                raise RunLost(f"run {claim.run_id} was taken over")
            for names in batches([unit.unit_id for unit in units]):
                connection.execute(
                    delete(CHECKPOINTS).where(CHECKPOINTS.c.run_id == claim.run_id, CHECKPOINTS.c.unit_id.in_(names))
                )
            connection.execute(
                insert(CHECKPOINTS),
                [
                    {
                        "run_id": claim.run_id,
                        "unit_id": unit.unit_id,
                        "document": zlib.compress(json.dumps(unit.document).encode(), 1),
                    }
                    for unit in units
                ],
            )

    def checkpoints(self, run_id: str) -> Sequence[Checkpoint]:
        """Finished units of a run."""
        wanted = select(CHECKPOINTS).where(CHECKPOINTS.c.run_id == run_id).order_by(CHECKPOINTS.c.unit_id)
        return [
            Checkpoint(unit_id=row.unit_id, document=json.loads(zlib.decompress(row.document)))
            for row in self._rows(wanted)
        ]

    def forget(self, *, before: datetime) -> int:
        """Drop plans and checkpoints of runs that ended before a moment."""
        old = (
            select(RUNS.c.run_id)
            .where(RUNS.c.status.in_(_ENDED), RUNS.c.finished_at < before)
            .where(RUNS.c.plan.is_not(None))
        )
        with self._writing() as connection:
            found = list(connection.execute(old).scalars())
            for names in batches(found):
                connection.execute(delete(CHECKPOINTS).where(CHECKPOINTS.c.run_id.in_(names)))
                connection.execute(update(RUNS).where(RUNS.c.run_id.in_(names)).values(plan=None))
        return len(found)

    # -- leases -----------------------------------------------------------------------------------

    def acquire(self, key: str, run_id: str, owner: Owner, *, seconds: float, over: Lease | None = None) -> Lease:
        """Acquire the lease on a table."""
        now = self.now()
        with self._writing() as connection:
            nobody = {"run_id": "", "owner": "", "token": 0, "held": False, "since": now, "expires_at": now}
            insert_if_absent(connection, LEASES, {"key": key, **nobody})
            found = connection.execute(select(LEASES).where(LEASES.c.key == key).with_for_update()).one()
            if found.held:
                holder = lease_of(found._mapping)
                if now < holder.expires_at and (over is None or over.token != holder.token):
                    raise TableBusy(
                        f"run {holder.run_id} works on this table since {holder.since:%Y-%m-%d %H:%M:%S} UTC "
                        f"({holder.owner})"
                    )
            lease = Lease(
                key=key,
                run_id=run_id,
                owner=owner,
                token=found.token + 1,
                since=now,
                expires_at=now + timedelta(seconds=seconds),
            )
            values = {**asdict(lease), "owner": owner_document(owner), "held": True}
            connection.execute(update(LEASES).where(LEASES.c.key == key).values(values))
        return lease

    def renew(self, lease: Lease, *, seconds: float) -> Lease | None:
        """Renew a lease."""
        until = self.now() + timedelta(seconds=seconds)
        mine = update(LEASES).where(LEASES.c.key == lease.key, LEASES.c.token == lease.token, LEASES.c.held)
        return replace(lease, expires_at=until) if self._changed(mine.values(expires_at=until)) == 1 else None

    def release(self, lease: Lease) -> None:
        """Release a lease; the row stays, because tokens must grow."""
        mine = update(LEASES).where(LEASES.c.key == lease.key, LEASES.c.token == lease.token)
        self._changed(mine.values(held=False))

    def lease(self, key: str) -> Lease | None:
        """Who holds a table."""
        rows = self._rows(select(LEASES).where(LEASES.c.key == key, LEASES.c.held))
        return lease_of(rows[0]._mapping) if rows else None

    # -- what keeps failing -----------------------------------------------------------------------

    def failed(self, uuid: str, failure: Failure) -> None:
        """A group failed once more."""
        mine = (FAILURES.c.uuid == uuid) & (FAILURES.c.signature == failure.signature)
        values = {name: value for name, value in asdict(failure).items() if name != "count"}
        with self._writing() as connection:
            insert_if_absent(connection, FAILURES, {"uuid": uuid, "count": 0, **values})
            connection.execute(update(FAILURES).where(mine).values(count=FAILURES.c.count + 1, **values))

    def failures(self, uuid: str) -> Sequence[Failure]:
        """Groups of a table that failed, and whose failures are not forgotten."""
        wanted = select(*(FAILURES.c[name] for name in Failure.__slots__)).where(FAILURES.c.uuid == uuid)
        return [Failure(**row._mapping) for row in self._rows(wanted.order_by(FAILURES.c.signature))]

    def forget_failures(self, uuid: str, signatures: Sequence[str] | None = None) -> int:
        """Forget failures."""
        mine = delete(FAILURES).where(FAILURES.c.uuid == uuid)
        unwanted = (
            [mine]
            if signatures is None
            else [mine.where(FAILURES.c.signature.in_(some)) for some in batches(signatures)]
        )
        with self._writing() as connection:
            return sum(connection.execute(one).rowcount for one in unwanted)
