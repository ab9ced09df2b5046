"""The scheduler: puts jobs into the queue by itself, in one process at a time.

It ticks. In each tick it notices commits, and submits a job for every table that is due. What it does to a table it
first writes into the table's document, which only changes if nobody else has changed it: the job that is meant, by
a name under which it is queued at most once. Whoever leads after a crash finds that and submits it; whoever wakes up
and believes to lead still, finds the document changed. So no schedule fires twice, and none is lost.
"""

import hashlib
import logging
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol

from icepact.model.document import StoredDocument
from icepact.model.errors import BadInput, Conflict, IcepactError, JobNotFound, StoreUnusable
from icepact.model.job import DEFAULT_TENANT, Job, JobRequest, JobStatus
from icepact.model.schedule import Chosen, Due, Fired
from icepact.policy.windows import next_open, open_spans
from icepact.record.store import RecordStore
from icepact.schedule.commits import CommitNote
from icepact.schedule.leader import Leader
from icepact.schedule.state import (
    COMMITS,
    SCHEDULES,
    TableSchedule,
    Value,
    body_of,
    key_of,
    value_of,
    with_commits,
)
from icepact.schedule.triggers import Past, Timing, fired, next_due

TICK = 2.0
"""Seconds between two ticks."""
_JOB_AGAIN = timedelta(seconds=5)
_BUDGET_AGAIN = timedelta(minutes=1)
_FAILED_AGAIN = timedelta(minutes=5)
_NEVER = timedelta(days=1)
"""A table of which nothing is known to come is looked at again after so long."""
_TIDY, _NOTES = timedelta(hours=1), timedelta(days=7)
"""So often notes are dropped that are so old: of tables that nobody knows."""
_PAGE = 1000
_AHEAD = timedelta(days=9)
"""So far the end of a window is looked for."""
_log = logging.getLogger("icepact")


class Submits(Protocol):
    """Who takes jobs; see `Jobs`."""

    def submit(
        self,
        request: JobRequest,
        *,
        tenant: str = DEFAULT_TENANT,
        priority: int | None = None,
        deadline: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> Job:
        """Put a job into the queue, unless its tenant has named one so before."""

    def get(self, job_id: str) -> Job:
        """One job; JobNotFound if there is none."""


class Fleet(Protocol):
    """What the scheduler asks of tables, besides what it writes itself."""

    def tables(self, now: datetime) -> Sequence[str] | None:
        """The tables of the catalog; `None` while nobody knows them."""

    def policies(self) -> object:
        """What the timings follow from; another object once that was changed."""

    def timing(self, schedule: TableSchedule) -> Timing:
        """When jobs on a table are wanted; BadInput if its policy says what cannot be."""

    def look(self, schedules: Collection[TableSchedule], now: datetime) -> Sequence[TableSchedule]:
        """Look for commits, if it is time: the schedules that have changed, with what was seen."""

    def counted(self, table: str) -> Collection[int]:
        """Snapshots of a table that are no commits of writers."""

    def held_back(self, schedule: TableSchedule, now: datetime) -> str:
        """Why nothing may be begun now on a table that is due, such as a budget that is used up; empty if it may."""

    def choose(self, table: str, timing: Timing, due: Due, now: datetime) -> Chosen:
        """When to begin what is due, where there is slack."""

    def tenant(self, table: str) -> str:
        """For whom a table's jobs are done."""


@dataclass(slots=True)
class _Entry:
    """A table in the memory of the leader."""

    schedule: TableSchedule
    version: int
    """Of its document as it was seen; 0 if there is none."""
    wake_at: datetime
    """Not looked at before."""
    timing: Timing = field(default_factory=Timing)
    refused: str = ""
    """What is wrong with its policy; empty if nothing is."""


class Scheduler:
    """Schedules of the tables of one catalog."""

    def __init__(
        self, store: RecordStore, jobs: Submits, fleet: Fleet, *, catalog: str, leader: Leader | None = None
    ) -> None:
        """`catalog` is its name in the record store."""
        self._store = store
        self._jobs = jobs
        self._fleet = fleet
        self._catalog = catalog
        self.leader = leader or Leader(store, catalog)
        self._entries: dict[str, _Entry] | None = None
        self._policies: object = None
        """That the timings of the entries follow from."""
        self._unreadable: set[tuple[str, str]] = set()
        """Documents, by kind and key, that another version has written: their tables are left alone."""
        self._ticked_at: datetime | None = None
        self._tidied_at: datetime | None = None

    def run(self, stop: threading.Event, *, seconds: float = TICK) -> None:
        """Tick until told to stop; what goes wrong in one tick is tried again in the next."""
        try:
            while not stop.is_set():
                try:
                    self.tick()
                except IcepactError as error:
                    _log.warning("schedules: %s", error)
                except Exception:
                    _log.exception("schedules: this tick failed")
                    self._entries = None
                stop.wait(seconds)
        finally:
            self.leader.step_down()

    def tick(self) -> int:
        """Do what is due now; returns how many jobs were submitted. Does nothing if somebody else leads."""
        if not self.leader.lead():
            self._entries = None
            return 0
        now = self._store.now()
        entries = self._known(now)
        if self._ticked_at is not None and now < self._ticked_at:  # the clock went back: nothing may sleep until then
            for entry in entries.values():
                entry.wake_at = now
        self._ticked_at = now
        self._take_notes(entries)
        if self._tidied_at is None or now - self._tidied_at > _TIDY:
            self._store.forget_documents(COMMITS, before=now - _NOTES)
            self._tidied_at = now
        for changed in self._fleet.look([entry.schedule for entry in entries.values()], now):
            if self._goes_on() and changed.table in entries:
                self._seen(entries[changed.table], changed, now)
        submitted = 0
        for entry in [entry for entry in entries.values() if entry.wake_at <= now]:
            if not self._goes_on():
                break
            try:
                submitted += self._advance(entry, now)
            except Conflict:  # somebody else has changed it: as it is now, it is looked at in the next tick
                self._reload(entry, now)
            except StoreUnusable:
                raise
            except Exception:  # whatever is wrong with one table, the others do not wait for it
                _log.exception("schedules: that of %s failed", entry.schedule.table)
                entry.wake_at = now + _FAILED_AGAIN
        return submitted

    def _goes_on(self) -> bool:
        """Whether it still leads; the lease is renewed in long ticks, too."""
        return self.leader.leads or self.leader.lead()

    # -- which tables there are -------------------------------------------------------------------

    def _known(self, now: datetime) -> dict[str, _Entry]:
        tables, policies = self._fleet.tables(now), self._fleet.policies()
        if self._entries is None or policies is not self._policies:
            self._entries, self._policies = self._loaded(now), policies
        entries = self._entries
        if tables is None:
            return entries
        for table in set(entries).difference(tables):
            self._store.remove_document(SCHEDULES, key_of(self._catalog, table))
            self._store.remove_document(COMMITS, key_of(self._catalog, table))
            del entries[table]
        for table in tables:
            if table not in entries and (SCHEDULES, key_of(self._catalog, table)) not in self._unreadable:
                schedule = TableSchedule(table=table, past=Past(since=now))
                entries[table] = self._timed(_Entry(schedule=schedule, version=0, wake_at=now))
        return entries

    def _loaded(self, now: datetime) -> dict[str, _Entry]:
        prefix, after = key_of(self._catalog, ""), ""
        found: dict[str, _Entry] = {}
        self._unreadable = set()
        while page := self._store.documents(SCHEDULES, prefix=prefix, after=after, limit=_PAGE):
            for document in page:
                schedule = self._read(TableSchedule, document)
                if schedule is None:
                    continue
                entry = _Entry(schedule=schedule, version=document.version, wake_at=now)
                found[schedule.table] = self._timed(entry)
            after = page[-1].key
        return found

    def _read(self, kind: type[Value], document: StoredDocument) -> Value | None:
        """The value of a document; `None` if it cannot be read, which is said once."""
        try:
            return value_of(kind, document)
        except StoreUnusable as error:
            if (document.kind, document.key) not in self._unreadable:
                _log.warning("schedules: %s", error)
            self._unreadable.add((document.kind, document.key))
            return None

    def _timed(self, entry: _Entry) -> _Entry:
        try:
            entry.timing, entry.refused = self._fleet.timing(entry.schedule), ""
        except StoreUnusable:
            raise
        except Exception as error:  # the others shall not go without theirs for it
            entry.timing, entry.refused = Timing(), str(error)
            _log.warning(
                "the schedule of %s: %s", entry.schedule.table, error, exc_info=not isinstance(error, BadInput)
            )
        return entry

    def _reload(self, entry: _Entry, now: datetime) -> None:
        document = self._store.document(SCHEDULES, key_of(self._catalog, entry.schedule.table))
        schedule = None if document is None else self._read(TableSchedule, document)
        if document is None:
            entry.version = 0
        elif schedule is not None:
            entry.schedule, entry.version = schedule, document.version
        elif self._entries is not None:
            self._entries.pop(entry.schedule.table, None)
        entry.wake_at = now

    def _save(self, entry: _Entry, schedule: TableSchedule) -> None:
        """Write the document of a table; Conflict if somebody else has changed it."""
        key = key_of(self._catalog, schedule.table)
        stored = self._store.put_document(SCHEDULES, key, body_of(schedule), version=entry.version)
        entry.schedule, entry.version = schedule, stored.version

    # -- commits ----------------------------------------------------------------------------------

    def _take_notes(self, entries: dict[str, _Entry]) -> None:
        """Count what was noted, and then remove the note, unless there is more in it by then."""
        prefix, after = key_of(self._catalog, ""), ""
        while page := self._store.documents(COMMITS, prefix=prefix, after=after, limit=_PAGE):
            for document in page:
                note, entry = self._read(CommitNote, document), entries.get(document.key.removeprefix(prefix))
                if note is None or entry is None or not self._goes_on():
                    continue  # nobody knows such a table yet, or never will: notes are small, and go after a while
                try:
                    if entry.timing.wanted or entry.version:
                        self._count(entry, note)
                    self._store.remove_document(COMMITS, document.key, version=document.version)
                except Conflict:
                    self._reload(entry, self._store.now())
            after = page[-1].key

    def _count(self, entry: _Entry, note: CommitNote) -> None:
        schedule = entry.schedule
        known = {*schedule.snapshots, *self._fleet.counted(schedule.table)}
        counted_before = schedule.noted if schedule.note == note.note else 0
        fresh = note.seen.count - counted_before
        twice = [number for number in note.snapshots[-fresh:] if number in known] if fresh > 0 else []
        seen = replace(note.seen, count=max(0, fresh - len(twice)))
        schedule = with_commits(schedule, seen, note.snapshots)
        self._save(entry, replace(schedule, note=note.note, noted=note.seen.count))
        entry.wake_at = min(entry.wake_at, self._store.now())

    def _seen(self, entry: _Entry, changed: TableSchedule, now: datetime) -> None:
        """Remember what a look has found; of a table with which nothing is ever done, in this process only."""
        before, entry.schedule = entry.schedule, changed
        self._timed(entry)
        if entry.timing.wanted or entry.version:
            entry.schedule = before
            try:
                self._save(entry, changed)
            except Conflict:
                self._reload(entry, now)
        entry.wake_at = now

    # -- jobs -------------------------------------------------------------------------------------

    def _advance(self, entry: _Entry, now: datetime) -> int:
        """Go on with one table: submit what was decided, hear how it ended, decide what is next."""
        if not entry.timing.wanted and entry.schedule.fired is None:
            entry.wake_at = now + _NEVER
            return 0
        if entry.version == 0:  # from now on its schedule counts, whoever leads
            self._save(entry, entry.schedule)
        submitted = 0
        if entry.schedule.fired is not None and entry.schedule.fired.job_id is None:
            submitted += self._submit(entry, entry.schedule.fired)
        if not self._has_ended(entry, now):
            entry.wake_at = now + _JOB_AGAIN
            return submitted
        return submitted + self._decide(entry, now)

    def _has_ended(self, entry: _Entry, now: datetime) -> bool:
        """Whether the newest job has ended, and count how."""
        last = entry.schedule.fired
        if last is None or last.ended or last.job_id is None:
            return True
        try:
            job = self._jobs.get(last.job_id)
        except JobNotFound:  # forgotten: that is long ago
            self._save(entry, replace(entry.schedule, fired=replace(last, ended=True)))
            return True
        if not job.status.ended:
            return False
        past = entry.schedule.past
        if job.status is JobStatus.SUCCEEDED:
            past = replace(past, failures=0, failed_at=None)
        elif job.status is JobStatus.FAILED:
            past = replace(past, failures=past.failures + 1, failed_at=job.finished_at or now)
        self._save(entry, replace(entry.schedule, past=past, fired=replace(last, ended=True, status=job.status.value)))
        return True

    def _decide(self, entry: _Entry, now: datetime) -> int:
        schedule, timing = entry.schedule, entry.timing
        if not timing.wanted:
            entry.wake_at = now + _NEVER
            return 0
        chosen = schedule.chosen
        if chosen is None or not self._is_open(timing, max(chosen.at, now)):
            due = next_due(schedule.table, timing, schedule.past, now)
            if due is None or due.earliest > now:
                entry.wake_at = now + _NEVER if due is None else min(due.earliest, now + _NEVER)
                return 0
            chosen = self._chosen(entry, due, now)
        if chosen.at > now:
            if chosen != schedule.chosen:
                self._save(entry, replace(schedule, chosen=chosen))
            entry.wake_at = chosen.at
            return 0
        if why := self._fleet.held_back(schedule, now):
            if why != schedule.held_back:
                self._save(entry, replace(schedule, held_back=why))
            entry.wake_at = now + _BUDGET_AGAIN
            return 0
        return self._fire(entry, chosen.due, now)

    def _chosen(self, entry: _Entry, due: Due, now: datetime) -> Chosen:
        if due.latest <= now or not entry.timing.slack:
            return Chosen(due=due, at=now)
        return self._fleet.choose(entry.schedule.table, entry.timing, due, now)

    def _fire(self, entry: _Entry, due: Due, now: datetime) -> int:
        """Decide on a job, so that it is submitted whatever happens from here on, and submit it."""
        schedule, timing = entry.schedule, entry.timing
        last = Fired(
            due=due,
            request=JobRequest(operation=timing.operation, table=schedule.table),
            idempotency_key=self._name_of(schedule.table, timing, due),
            priority=timing.priority,
            at=now,
        )
        past = fired(schedule.table, timing, schedule.past, due, now)
        self._save(entry, replace(schedule, past=past, chosen=None, fired=last, held_back=""))
        submitted = self._submit(entry, last)
        entry.wake_at = now
        return submitted

    def _submit(self, entry: _Entry, last: Fired) -> int:
        table = entry.schedule.table
        try:
            job = self._jobs.submit(
                last.request,
                tenant=self._fleet.tenant(table),
                priority=last.priority,
                deadline=self._deadline(entry.timing, last),
                idempotency_key=last.idempotency_key,
            )
        except StoreUnusable:
            raise
        except BadInput as error:  # it will not be taken in the next tick either
            _log.warning("the job on %s that its schedule wants is refused: %s", table, error)
            past = replace(entry.schedule.past, failures=entry.schedule.past.failures + 1, failed_at=self._store.now())
            refused = replace(last, job_id="", ended=True, status="refused")
            self._save(entry, replace(entry.schedule, past=past, fired=refused, held_back=str(error)))
            return 0
        self._save(entry, replace(entry.schedule, fired=replace(last, job_id=job.job_id)))
        return 1

    def _deadline(self, timing: Timing, last: Fired) -> datetime | None:
        """When the window closes in which a job was begun; `None` if none does, or it has closed meanwhile."""
        if timing.windows is None and timing.blackouts is None:
            return None
        now = self._store.now()
        spans = open_spans(timing.windows, timing.blackouts, timing.zone, now, now + _AHEAD)
        start, end = next(spans, (now, now + _AHEAD))
        return end if start <= now and end < now + _AHEAD and last.at <= end else None

    def _name_of(self, table: str, timing: Timing, due: Due) -> str:
        """Of the job for one planned moment: the same, whoever asks for it and however often."""
        words = (self._catalog, table, timing.operation, due.trigger, due.planned.isoformat())
        return "schedule-" + hashlib.sha256("\0".join(words).encode()).hexdigest()[:40]

    def _is_open(self, timing: Timing, at: datetime) -> bool:
        return next_open(timing.windows, timing.blackouts, timing.zone, at) == at
