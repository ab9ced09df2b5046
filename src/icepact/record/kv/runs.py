"""Runs over keys and values, with an index for each way in which they are asked for, newest first."""

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from icepact.model.errors import Conflict, RunLost
from icepact.model.outcome import Outcome
from icepact.model.run import Attempt, Checkpoint, Claim, CommittedBatch, Owner, RunRecord
from icepact.model.status import TRANSITIONS, Status
from icepact.record.documents import (
    attempts_document,
    landed_document,
    landed_of,
    owner_document,
    owner_of,
    run_columns,
    run_of,
)
from icepact.record.kv.base import KvBase
from icepact.record.kv.keys import all_below, ascending, below, descending, inverted, key, parts_of
from icepact.record.kv.rows import index_change, row_bytes, row_of
from icepact.record.kv.space import Change

RUN_MOMENTS = ("started_at", "finished_at", "swept_at")
_LATER: Mapping[str, Any] = {
    "finished_at": None,
    "attempt": None,
    "landed": "[]",
    "cancel_asked": False,
    "swept_at": None,
    "plan": False,
}
"""Columns of a run that begins; `plan` says whether there is one."""

_PAGE = 50

Edit = Callable[[dict[str, Any]], dict[str, bytes]]
"""Changes a row, and returns what else is written with it."""


class KvRuns(KvBase):
    """The part of a store that keeps runs."""

    def begin(self, record: RunRecord, plan: bytes = b"") -> Claim:
        """Record the intent."""
        row = {**_LATER, **run_columns(record), "plan": bool(plan)}
        name = key("run", record.run_id)

        def decide(values: Mapping[str, bytes]) -> Change[None]:
            if name in values:
                raise Conflict(f"there is a run {record.run_id} already")
            more = {key("plan", record.run_id): zlib.compress(plan, 1)} if plan else {}
            return Change(result=None, puts={name: row_bytes(row), **run_index(row), **more})

        self._space.change([name], decide)
        return Claim(run_id=record.run_id, epoch=record.epoch)

    def take(self, record: RunRecord, owner: Owner, *, to: Status) -> Claim:
        """Take a run over from whoever had it."""
        claim = Claim(run_id=record.run_id, epoch=record.epoch + 1)

        def edit(row: dict[str, Any]) -> dict[str, bytes]:
            _go(row, replace(claim, epoch=record.epoch), to)
            row |= {"owner": owner_document(owner), "epoch": claim.epoch}
            return {}

        self._edit_run(record.run_id, edit, as_seen=record)
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
        now = self.now() if not to.open else None

        def edit(row: dict[str, Any]) -> dict[str, bytes]:
            _go(row, claim, to)
            if attempts is not None:
                row["attempt"] = attempts_document(attempts)
            if landed is not None:
                row["landed"] = landed_document(landed)
            if now is not None:
                row["finished_at"] = now
            return {}

        self._edit_run(claim.run_id, edit)

    def finish(
        self, claim: Claim, outcome: Outcome, *, landed: Sequence[CommittedBatch] = (), attempts: Sequence[Attempt] = ()
    ) -> None:
        """Record how a run ended."""
        finished_at = max(outcome.started_at + timedelta(seconds=outcome.seconds), self.now())
        document = zlib.compress(json.dumps(outcome.to_dict()).encode(), 1)

        def edit(row: dict[str, Any]) -> dict[str, bytes]:
            _go(row, claim, outcome.status)
            row |= {
                "finished_at": finished_at,
                "landed": landed_document(landed),
                "attempt": attempts_document(attempts),
            }
            return {key("outcome", claim.run_id): document}

        self._edit_run(claim.run_id, edit, over=[key("outcome", claim.run_id)])

    def reconciled(self, record: RunRecord, *, attempts: Sequence[Attempt], landed: Sequence[CommittedBatch]) -> None:
        """Record what became of attempts of a run that has ended."""

        def edit(row: dict[str, Any]) -> dict[str, bytes]:
            row |= {
                "attempt": attempts_document(attempts),
                "landed": landed_document([*record.landed, *landed]),
            }
            return {}

        self._edit_run(record.run_id, edit, as_seen=record)

    def ask_to_cancel(self, run_id: str) -> bool:
        """Ask whoever works on a run to stop."""

        def decide(values: Mapping[str, bytes]) -> Change[bool]:
            row = _row(values, run_id)
            if row is None or not Status(row["status"]).open:
                return Change(result=False)
            return Change(result=True, puts={key("run", run_id): row_bytes(row | {"cancel_asked": True})})

        return self._space.change([key("run", run_id)], decide)

    def swept(self, run_id: str, at: datetime) -> None:
        """Remember that a run's folder was cleaned up."""

        def decide(values: Mapping[str, bytes]) -> Change[None]:
            row = _row(values, run_id)
            return Change(result=None, puts={key("run", run_id): row_bytes(row | {"swept_at": at})} if row else {})

        self._space.change([key("run", run_id)], decide)

    def _edit_run(self, run_id: str, edit: Edit, *, as_seen: RunRecord | None = None, over: Sequence[str] = ()) -> None:
        name = key("run", run_id)

        def decide(values: Mapping[str, bytes]) -> Change[None]:
            before = _row(values, run_id)
            if as_seen is not None and not _is_as_seen(before, as_seen):
                raise RunLost(f"run {run_id} has moved on since it was looked at")
            if before is None:
                raise RunLost(f"there is no run {run_id}")
            row = dict(before)
            more = edit(row)
            puts, deletes = index_change(run_index(before), run_index(row))
            return Change(result=None, puts={name: row_bytes(row), **puts, **more}, deletes=deletes)

        self._space.change([name], decide, over=over)

    # -- reading ----------------------------------------------------------------------------------

    def run(self, run_id: str) -> RunRecord | None:
        """One run."""
        return next(iter(self._records([run_id], outcomes=True)), None)

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
        if open_only:
            span = below("run-open", catalog) if table is None else below("run-open", catalog, table)
            found = list(self._listed(span, outcomes=outcomes))
            found = [record for record in found if record.status.open and not worked_only]
            found = [record for record in found if before is None or _age(record) < before]
            return sorted(found, key=_age, reverse=True)[:limit]
        index = "worked" if worked_only else "all"
        last = None if before is None else _newest(*before)
        names = (f"run-{index}", catalog) if table is None else (f"run-{index}-of", catalog, table)
        span = below(*names, after=last)
        return list(islice(self._listed(span, outcomes=outcomes, page=min(limit, _PAGE)), limit))

    def recent(self, *, catalog: str, since: datetime) -> Sequence[RunRecord]:
        """Runs that ended since a moment, or began since then and are still open."""
        lately = below("run-ended", catalog, before=descending(since))
        found = {
            record.run_id: record for span in (below("run-open", catalog), lately) for record in self._listed(span)
        }
        recent = [one for one in found.values() if (one.finished_at or one.started_at) > since]
        return sorted(recent, key=_age, reverse=True)

    def _listed(self, span: tuple[str, str], *, outcomes: bool = True, page: int = _PAGE) -> Iterator[RunRecord]:
        """Runs in the order of an index, so many at a time."""
        names = (value.decode() for _, value in self._space.scan(span, page=page))
        while some := list(islice(names, page)):
            yield from self._records(some, outcomes=outcomes)

    def _records(self, run_ids: Sequence[str], *, outcomes: bool) -> list[RunRecord]:
        wanted = [key("run", run_id) for run_id in run_ids]
        values = self._space.get(wanted + ([key("outcome", run_id) for run_id in run_ids] if outcomes else []))
        found = []
        for run_id in run_ids:
            row = _row(values, run_id)
            if row is not None:
                outcome = values.get(key("outcome", run_id))
                found.append(run_of(row | {"outcome": zlib.decompress(outcome) if outcome else None}))
        return found

    def plan(self, run_id: str) -> bytes:
        """What a run began with."""
        found = self._space.one(key("plan", run_id))
        return zlib.decompress(found) if found else b""

    # -- checkpoints ------------------------------------------------------------------------------

    def checkpoint(self, claim: Claim, units: Sequence[Checkpoint]) -> None:
        """Remember finished units; some of them may be kept when others are refused."""
        run = key("run", claim.run_id)
        documents = {
            key("unit", claim.run_id, unit.unit_id): zlib.compress(json.dumps(unit.document).encode(), 1)
            for unit in units
        }
        for some in self._space.batches(documents, keys_each=2, beside=2):

            def decide(values: Mapping[str, bytes], some: Mapping[str, bytes] = some) -> Change[None]:
                row = _row(values, claim.run_id)
                if row is None or row["epoch"] != claim.epoch or not Status(row["status"]).open:
                    raise RunLost(f"run {claim.run_id} was taken over")
                return Change(result=None, puts=some)

            self._space.change([run], decide, over=list(some))

    def checkpoints(self, run_id: str) -> Sequence[Checkpoint]:
        """Finished units of a run."""
        return [
            Checkpoint(unit_id=parts_of(name)[-1], document=json.loads(zlib.decompress(value)))
            for name, value in self._space.scan(below("unit", run_id))
        ]

    def forget(self, *, before: datetime) -> int:
        """Drop plans and checkpoints of runs that ended before a moment."""
        old = [value.decode() for _, value in self._space.scan(below("run-plan", before=ascending(before)))]
        return sum(self._forget_plan(run_id) for run_id in old)

    def _forget_plan(self, run_id: str) -> bool:
        run, plan = key("run", run_id), key("plan", run_id)
        units = dict.fromkeys((name for name, _ in self._space.scan(below("unit", run_id))), b"")
        for some in self._space.batches(units, keys_each=2, beside=2):
            change: Change[None] = Change(result=None, deletes=list(some))
            self._space.change([run], lambda _, change=change: change, over=list(some))  # type: ignore[misc]

        def decide(values: Mapping[str, bytes]) -> Change[bool]:
            row = _row(values, run_id)
            if row is None or not row["plan"]:
                return Change(result=False)
            after = row | {"plan": False}
            puts, deletes = index_change(run_index(row), run_index(after))
            return Change(result=True, puts={run: row_bytes(after), **puts}, deletes=[plan, *deletes])

        return self._space.change([run], decide, over=[plan])

    # -- names ------------------------------------------------------------------------------------

    def rename_catalog(self, old: str, new: str, *, table: str, uuid: str) -> None:
        """Runs on a table are recorded under another name of its catalog."""
        [found] = self._space.read([all_below("run-uuid", old, uuid)])
        for entry in found:

            def edit(row: dict[str, Any]) -> dict[str, bytes]:
                row["catalog"] = new
                return {}

            self._edit_run(entry.value.decode(), edit)
        theirs, ours = key("lessons", old, table), key("lessons", new, table)

        def decide(values: Mapping[str, bytes]) -> Change[None]:
            known = theirs in values and ours not in values
            return Change(result=None, puts={ours: values[theirs]} if known else {})

        if found:
            self._space.change([theirs, ours], decide)


def _newest(started_at: datetime, run_id: str) -> str:
    """The place of a run in the indexes."""
    return f"{descending(started_at)} {inverted(run_id)}"


def run_index(row: Mapping[str, Any]) -> dict[str, bytes]:
    """The keys under which a run is found."""
    catalog, table, run_id = row["catalog"], row["table_name"], row["run_id"]
    newest = _newest(row["started_at"], run_id)
    names = [
        key("run-all", catalog, newest),
        key("run-all-of", catalog, table, newest),
        key("run-uuid", catalog, row["uuid"], run_id),
    ]
    if Status(row["status"]).open:
        names.append(key("run-open", catalog, table, newest))
    else:
        ended_at = row["finished_at"] or row["started_at"]
        names.append(key("run-ended", catalog, f"{descending(ended_at)} {inverted(run_id)}"))
        if row["plan"] and row["finished_at"]:
            names.append(key("run-plan", ascending(ended_at), run_id))
        if row["status"] != Status.NOTHING_TO_DO.value:
            names += [key("run-worked", catalog, newest), key("run-worked-of", catalog, table, newest)]
    return dict.fromkeys(names, run_id.encode())


def _row(values: Mapping[str, bytes], run_id: str) -> dict[str, Any] | None:
    value = values.get(key("run", run_id))
    return None if value is None else row_of(value, RUN_MOMENTS)


def _is_as_seen(row: Mapping[str, Any] | None, seen: RunRecord) -> bool:
    """The same status may by now stand for another attempt."""
    if row is None:
        return False
    now = run_of({**row, "outcome": None})
    return (now.epoch, now.status, tuple(now.attempts), landed_of(row["landed"])) == (
        *(seen.epoch, seen.status, tuple(seen.attempts)),
        tuple(seen.landed),
    )


def _go(row: dict[str, Any], claim: Claim, to: Status) -> None:
    """Change the status of a run that is in these hands, and can go there from where it is."""
    if row["epoch"] != claim.epoch or to not in TRANSITIONS[Status(row["status"])]:
        holder = owner_of(row["owner"])
        raise RunLost(f"run {claim.run_id} is {row['status']} by now, in the hands of {holder}: it cannot become {to}")
    row["status"] = to.value


def _age(record: RunRecord) -> tuple[datetime, str]:
    return record.started_at, record.run_id
