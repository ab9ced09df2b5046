"""Many tables: look at each and rank them; then one round, in which each is carried on with, planned and compacted."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import assert_never

from icepact.iceberg.java import in_words
from icepact.maintain.applying import apply
from icepact.maintain.looking import plan, summary
from icepact.maintain.means import Means
from icepact.maintain.recovery import resume_dead
from icepact.model.budget import Limit, Resource
from icepact.model.errors import PermanentError, TableBusy
from icepact.model.fleet import (
    Ended,
    Fleet,
    NotLooked,
    RankBy,
    Ranked,
    TableSummary,
    Visit,
)
from icepact.model.outcome import Outcome
from icepact.model.plan import Plan
from icepact.model.policy import Options
from icepact.model.progress import Silent
from icepact.model.run import NOT_WELL
from icepact.model.spending import spent_by
from icepact.plan.budget import taken
from icepact.plan.fleet import rank

Told = Callable[[str], None]
"""Is told the name of each table before it is looked at."""


def look_around(means: Means, names: Sequence[str], *, by: RankBy, limits: Sequence[Limit], told: Told) -> Fleet:
    """Look at each table and rank them; one that cannot be looked at does not stop the others."""
    found: list[TableSummary] = []
    failed: list[NotLooked] = []
    for name in names:
        told(name)
        try:
            found.append(summary(means, name))
        except Exception as error:
            failed.append(NotLooked(table=name, reason=in_words(error)))
    ranked = rank(found, by=by, limits=limits)
    return Fleet(tables=ranked, failed=failed, budget=tuple(limits), currency=means.prices.currency)


def go_round(means: Means, fleet: Fleet, *, dry_run: bool, told: Told) -> Iterator[Visit]:
    """Visit every table once. What the budget allows whole comes first; what is left of it goes to the others."""
    for entry in fleet.failed:
        yield Visit(table=entry.table, ended=Ended.FAILED, reason=entry.reason)
    left = list(fleet.budget)
    for ranked in sorted(fleet.tables, key=lambda ranked: not ranked.chosen):
        told(ranked.summary.table)
        visit = Visit(table=ranked.summary.table, ended=Ended.SKIPPED, reason=ranked.summary.off or "")
        if ranked.summary.off is None:
            visit = _visit(means, ranked, left, dry_run=dry_run)
        left = [_less(limit, visit) for limit in left]
        yield visit


def _visit(means: Means, ranked: Ranked, left: Sequence[Limit], *, dry_run: bool) -> Visit:
    """One table; whatever goes wrong with it is told, and goes no further."""
    visit = Visit(table=ranked.summary.table, ended=Ended.NOTHING)
    try:
        if not dry_run:
            visit = replace(visit, resumed=resume_dead(means.lake, visit.table, means.store, Silent()))
            _refuse_unwell(visit.resumed)
        if visit.resumed is None and not ranked.summary.input_files:
            return visit
        spent = [limit.name for limit in left if limit.amount <= 0]
        if spent:
            return replace(visit, ended=Ended.SKIPPED, reason=f"over the budget ({', '.join(spent)})")
        visit = _planned(visit, plan(means, visit.table, Options(), limits=left))
        if visit.ended is not Ended.PLANNED or visit.plan is None or dry_run:
            return visit
        return _applied(visit, apply(means.lake, visit.plan, means.store, Silent()))
    except TableBusy as error:
        return replace(visit, ended=Ended.SKIPPED, reason=str(error), plan=None)
    except Exception as error:
        return replace(visit, ended=Ended.FAILED, reason=in_words(error))


def _refuse_unwell(resumed: Outcome | None) -> None:
    if resumed is not None and resumed.status in NOT_WELL:
        raise PermanentError(
            f"run {resumed.run_id} was resumed and is {resumed.status}: {resumed.error or 'see its groups'}"
        )


def _planned(visit: Visit, made: Plan) -> Visit:
    """What is to be done; if that is nothing, because something holds it back, or because there is nothing to do."""
    if made.steps:
        return replace(visit, ended=Ended.PLANNED, plan=made)
    # what is held back stands at the end of what is left out
    return visit if made.complete else replace(visit, ended=Ended.SKIPPED, reason=made.left_out[-1].reason)


def _applied(visit: Visit, outcome: Outcome) -> Visit:
    ended = Ended.FAILED if outcome.status in NOT_WELL else Ended.DONE
    reason = outcome.error or next((group.reason for group in outcome.groups if not group.committed), "")
    return replace(visit, ended=ended, reason=reason, outcome=outcome)


def _less(limit: Limit, visit: Visit) -> Limit:
    """What is left of a limit for the tables that follow."""
    return replace(limit, amount=max(0.0, limit.amount - _spent(visit, limit.resource)))


def _spent(visit: Visit, resource: Resource) -> float:
    """What a table took: what was promised for it, or more if it was found to be more."""
    planned = sum(taken(step, resource) for step in visit.plan.steps) if visit.plan else 0.0
    return max(planned, _measured(visit.outcome, resource)) + _measured(visit.resumed, resource)


def _measured(outcome: Outcome | None, resource: Resource) -> float:
    if outcome is None:
        return 0.0
    spent = spent_by(outcome.to_dict())
    match resource:
        case Resource.FILES:
            return sum(group.input_files for group in outcome.groups if group.committed or group.seconds)
        case Resource.BYTES:
            return spent.bytes
        case Resource.SECONDS:
            return sum(group.seconds for group in outcome.groups)
        case Resource.MONEY:
            return spent.money
        case _:
            assert_never(resource)
