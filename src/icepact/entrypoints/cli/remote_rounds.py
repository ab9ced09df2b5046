"""A round over the fleet of a service: for each table a job that compacts it, and one that keeps house."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from icepact.client import Client
from icepact.economics.rounds import applied_visit, in_turn, less, maintained_visit, over_budget, planned_visit
from icepact.model.documents import from_json
from icepact.model.errors import BadInput, NotAllowed, Unauthorized
from icepact.model.fleet import Fleet, RankedTable, Visit, VisitStatus
from icepact.model.job import Job, JobStatus, Operation
from icepact.model.limits import Limit
from icepact.model.maintenance import MaintenanceOutcome
from icepact.model.outcome import Outcome
from icepact.model.status import Status

_AHEAD = 8
"""Jobs that are submitted before the first of them has ended, for several workers. With a budget there is one: what is
left of it for the next is known only then."""
_OF_THE_KEY = (NotAllowed, Unauthorized)
"""Errors that end a round: no other table would fare better."""
_COMPACT = "compact"


class RemoteRound:
    """One round over a fleet, table by table."""

    def __init__(
        self, client: Client, fleet: Fleet, *, follow: Callable[[Job], Job], dry_run: bool, maintain: bool
    ) -> None:
        """`follow` waits for a job, and returns it as it ended."""
        self._client = client
        self._fleet = fleet
        self._follow = follow
        self._dry_run = dry_run
        self._maintain = maintain
        self._left: Sequence[Limit] = fleet.budget
        self._jobs: dict[str, Job | BadInput] = {}
        """By table: the job that compacts it, or why there is none."""
        self._dead: frozenset[str] = frozenset()
        """Tables with runs that died: there is something to do on them, whatever the ranking says."""

    @property
    def ahead(self) -> int:
        """Jobs that were submitted, and that nobody has waited for yet."""
        return sum(isinstance(job, Job) for job in self._jobs.values())

    def visits(self, on_table: Callable[[str], None]) -> Iterator[Visit]:
        """Each table once; `on_table` is called before."""
        for entry in self._fleet.failed:
            yield Visit(table=entry.table, ended=VisitStatus.FAILED, reason=entry.reason)
        order = in_turn(self._fleet)
        if order and not self._dry_run:
            self._dead = frozenset(run.table for run, why in self._client.runs(open_only=True) if why is not None)
        ahead = 1 if self._fleet.budget else _AHEAD
        for at, ranked in enumerate(order):
            on_table(ranked.summary.table)
            for later in order[at : at + ahead]:
                self._submit(later)
            visit = self._visit(ranked)
            if self._maintain and ranked.summary.off is None and visit.ended is not VisitStatus.FAILED:
                visit = self._maintained(visit)
            self._left = less(self._left, visit)
            yield visit

    def _refused(self, ranked: RankedTable) -> Visit | None:
        """The visit to a table for which nothing is asked for; `None` if something is."""
        visit = Visit(table=ranked.summary.table, ended=VisitStatus.NOTHING)
        if ranked.summary.off is not None:
            return replace(visit, ended=VisitStatus.SKIPPED, reason=ranked.summary.off)
        if not ranked.summary.input_files and visit.table not in self._dead:
            return visit
        reason = over_budget(self._left)
        return None if reason is None else replace(visit, ended=VisitStatus.SKIPPED, reason=reason)

    def _submit(self, ranked: RankedTable) -> None:
        """Ask for the compaction of a table, unless that is done already, or nothing is to be done."""
        table = ranked.summary.table
        if table in self._jobs or self._refused(ranked) is not None:
            return
        try:
            self._jobs[table] = self._client.compact(table, dry_run=self._dry_run, budget=self._left, most_failures=1)
        except _OF_THE_KEY:
            raise
        except BadInput as error:
            self._jobs[table] = error

    def _visit(self, ranked: RankedTable) -> Visit:
        """What became of a table."""
        refused, table = self._refused(ranked), ranked.summary.table
        if refused is not None:
            return refused
        job = self._jobs.pop(table)
        if isinstance(job, BadInput):
            return Visit(table=table, ended=VisitStatus.FAILED, reason=str(job))
        ended = self._follow(job)
        visit = Visit(table=table, ended=VisitStatus.NOTHING)
        if ended.status is JobStatus.CANCELLED:
            return replace(visit, ended=VisitStatus.SKIPPED, reason=f"job {job.job_id} was cancelled")
        if ended.status is JobStatus.SUCCEEDED and self._dry_run:
            return planned_visit(visit, self._client.plan_of(ended).plan)
        if ended.result is None:
            return replace(visit, ended=VisitStatus.FAILED, reason=ended.error or f"job {job.job_id} failed")
        return _done(visit, Outcome.from_json(json.dumps(ended.result)))

    def _maintained(self, visit: Visit) -> Visit:
        """A visit with the housekeeping that the table's policy names."""
        how: dict[str, Any] = {"dry_run": self._dry_run, "without": [_COMPACT], "most_failures": 1}
        ended = self._follow(self._client.submit(Operation.MAINTAIN, visit.table, **how))
        if ended.result is None:
            return replace(visit, ended=VisitStatus.FAILED, reason=ended.error or f"job {ended.job_id} failed")
        done = from_json(MaintenanceOutcome, json.dumps(ended.result))
        return maintained_visit(visit, done, dry_run=self._dry_run)


def _done(visit: Visit, outcome: Outcome) -> Visit:
    """A visit with what its job did, which may be nothing."""
    visit, outcome = replace(visit, resumed=outcome.resumed), replace(outcome, resumed=None)
    if outcome.status is not Status.NOTHING_TO_DO:
        return applied_visit(visit, outcome)
    if outcome.complete:
        return visit
    return replace(visit, ended=VisitStatus.SKIPPED, reason=outcome.reason or "")
