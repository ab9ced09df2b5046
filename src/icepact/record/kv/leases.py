"""Leases and failures over keys and values.

A lease is a key like others, and goes by the clock of the server: one that went by itself could not say who had it, and
its tokens would not grow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import timedelta

from icepact.model.errors import TableBusy
from icepact.model.run import Failure, Lease, Owner
from icepact.record.documents import lease_of, owner_document
from icepact.record.kv.base import KvBase
from icepact.record.kv.keys import below, key
from icepact.record.kv.rows import row_bytes, row_of
from icepact.record.kv.space import Change

LEASE_MOMENTS = ("since", "expires_at")
FAILURE_MOMENTS = ("last_at",)


class KvLeases(KvBase):
    """The part of a store that knows who holds which table, and what fails there."""

    def acquire(self, key: str, run_id: str, owner: Owner, *, seconds: float, over: Lease | None = None) -> Lease:
        """Acquire the lease on a table."""
        name = _lease(key)

        def decide(values: Mapping[str, bytes]) -> Change[Lease]:
            now = self.now()
            row = row_of(values[name], LEASE_MOMENTS) if name in values else {"held": False, "token": 0}
            if row["held"]:
                holder = lease_of(row)
                if now < holder.expires_at and (over is None or over.token != holder.token):
                    raise TableBusy(
                        f"run {holder.run_id} works on this table since {holder.since:%Y-%m-%d %H:%M:%S} UTC "
                        f"({holder.owner})"
                    )
            lease = Lease(
                key=key,
                run_id=run_id,
                owner=owner,
                token=row["token"] + 1,
                since=now,
                expires_at=now + timedelta(seconds=seconds),
            )
            written = row_bytes({**asdict(lease), "owner": owner_document(owner), "held": True})
            return Change(result=lease, puts={name: written})

        return self._space.change([name], decide)

    def renew(self, lease: Lease, *, seconds: float) -> Lease | None:
        """Renew a lease."""
        name = _lease(lease.key)

        def decide(values: Mapping[str, bytes]) -> Change[Lease | None]:
            row = row_of(values[name], LEASE_MOMENTS) if name in values else {"token": None}
            if row["token"] != lease.token or not row["held"]:
                return Change(result=None)
            until = self.now() + timedelta(seconds=seconds)
            renewed = replace(lease, expires_at=until)
            return Change(result=renewed, puts={name: row_bytes({**row, "expires_at": until})})

        return self._space.change([name], decide)

    def release(self, lease: Lease) -> None:
        """Release a lease; the key stays, because tokens must grow."""
        name = _lease(lease.key)

        def decide(values: Mapping[str, bytes]) -> Change[None]:
            row = row_of(values[name], LEASE_MOMENTS) if name in values else {"token": None}
            held = row["token"] == lease.token and row["held"]
            return Change(result=None, puts={name: row_bytes({**row, "held": False})} if held else {})

        self._space.change([name], decide)

    def lease(self, key: str) -> Lease | None:
        """Who holds a table."""
        found = self._space.one(_lease(key))
        row = {"held": False} if found is None else row_of(found, LEASE_MOMENTS)
        return lease_of(row) if row["held"] else None

    # -- what keeps failing -----------------------------------------------------------------------

    def failed(self, uuid: str, failure: Failure) -> None:
        """A group failed once more."""
        name = key("failure", uuid, failure.signature)

        def decide(values: Mapping[str, bytes]) -> Change[None]:
            count = row_of(values[name], ())["count"] if name in values else 0
            return Change(result=None, puts={name: row_bytes({**asdict(failure), "uuid": uuid, "count": count + 1})})

        self._space.change([name], decide)

    def failures(self, uuid: str) -> Sequence[Failure]:
        """Groups of a table that failed, and whose failures are not forgotten."""
        rows = [row_of(value, FAILURE_MOMENTS) for _, value in self._space.scan(below("failure", uuid))]
        return [Failure(**{name: row[name] for name in Failure.__slots__}) for row in rows]

    def forget_failures(self, uuid: str, signatures: Sequence[str] | None = None) -> int:
        """Forget failures."""
        if signatures is None:
            names = [name for name, _ in self._space.scan(below("failure", uuid))]
        else:
            names = [key("failure", uuid, signature) for signature in signatures]
        return sum(self._space.remove(name) for name in names)


def _lease(name: str) -> str:
    return key("lease", name)
