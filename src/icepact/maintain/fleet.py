"""Many tables: inspect and rank them; then one round, in which each is compacted within what is left of a budget."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from icepact.economics.spending import spent_by
from icepact.iceberg.java.bridge import describe_error
from icepact.maintain.compaction import compact
from icepact.maintain.context import Context
from icepact.maintain.inspect import summary
from icepact.maintain.maintenance import maintain
from icepact.model.errors import PermanentError, TableBusy
from icepact.model.fleet import (
    Fleet,
    InspectionError,
    RankBy,
    RankedTable,
    TableSummary,
    Visit,
    VisitStatus,
)
from icepact.model.limits import NO_DEMAND, Demand, Limit, Resource
from icepact.model.outcome import Outcome
from icepact.model.plan import Plan
from icepact.model.status import NOT_WELL
from icepact.plan.fleet import rank
from icepact.policy.options import Options

OnTable = Callable[[str], None]
"""Called with the name of each table before it is inspected or visited."""


def inspect_tables(
    context: Context, names: Sequence[str], *, by: RankBy, limits: Sequence[Limit], on_table: OnTable
) -> Fleet:
    """Inspect each table and rank them; one that cannot be inspected does not stop the others."""
    found: list[TableSummary] = []
    failed: list[InspectionError] = []
    for name in names:
        on_table(name)
        try:
            found.append(summary(context, name))
        except Exception as error:
            failed.append(InspectionError(table=name, reason=describe_error(error)))
    ranked = rank(found, by=by, limits=limits)
    return Fleet(tables=ranked, failed=failed, budget=tuple(limits), currency=context.prices.currency)


def visit_tables(
    context: Context, fleet: Fleet, *, dry_run: bool, on_table: OnTable, housekeeping: bool = False
) -> Iterator[Visit]:
    """Visit every table once. What the budget allows whole comes first; what is left of it goes to the others. With
    `housekeeping`, all else that its policy names is done with each table, too."""
    for entry in fleet.failed:
        yield Visit(table=entry.table, ended=VisitStatus.FAILED, reason=entry.reason)
    left = list(fleet.budget)
    for ranked in sorted(fleet.tables, key=lambda ranked: not ranked.chosen):
        on_table(ranked.summary.table)
        visit = Visit(table=ranked.summary.table, ended=VisitStatus.SKIPPED, reason=ranked.summary.off or "")
        if ranked.summary.off is None:
            visit = _visit(context, ranked, left, dry_run=dry_run)
            if housekeeping and visit.ended is not VisitStatus.FAILED:
                visit = _maintained(context, visit, dry_run=dry_run)
        left = [replace(limit, amount=max(0.0, limit.amount - _spent(visit, limit.resource))) for limit in left]
        yield visit


def _visit(context: Context, ranked: RankedTable, left: Sequence[Limit], *, dry_run: bool) -> Visit:
    """Compact one table; an error becomes the reason of its visit, and does not end the round."""
    visiting = _Visiting(ranked, left, dry_run=dry_run)
    try:
        outcome = compact(
            context,
            visiting.visit.table,
            Options(),
            resume=not dry_run,
            limits=left,
            on_resumed=visiting.on_resumed,
            confirm=visiting.confirm,
        )
    except TableBusy as error:
        return replace(visiting.visit, ended=VisitStatus.SKIPPED, reason=str(error), plan=None)
    except Exception as error:
        return replace(visiting.visit, ended=VisitStatus.FAILED, reason=describe_error(error))
    return visiting.visit if outcome is None else _applied(visiting.visit, replace(outcome, resumed=None))


def _maintained(context: Context, visit: Visit, *, dry_run: bool) -> Visit:
    """A visit with the housekeeping that the table's policy names."""
    try:
        done = maintain(context, visit.table, Options(), without=("compact",), dry_run=dry_run)
    except Exception as error:
        return replace(visit, ended=VisitStatus.FAILED, reason=describe_error(error))
    if not done.well:
        wrong = next(one for one in done.operations if not one.well)
        why = wrong.reason or (wrong.outcome and wrong.outcome.error) or "see its outcome"
        return replace(visit, ended=VisitStatus.FAILED, reason=f"{wrong.operation}: {why}", maintenance=done)
    idle = visit.ended is VisitStatus.NOTHING and done.did_something
    ended = (VisitStatus.PLANNED if dry_run else VisitStatus.DONE) if idle else visit.ended
    return replace(visit, ended=ended, maintenance=done)


class _Visiting:
    """A visit under way: what is known of it so far, and how far it goes."""

    def __init__(self, ranked: RankedTable, left: Sequence[Limit], *, dry_run: bool) -> None:
        self.visit = Visit(table=ranked.summary.table, ended=VisitStatus.NOTHING)
        self._ranked = ranked
        self._left = left
        self._dry_run = dry_run

    def on_resumed(self, resumed: Outcome | None) -> bool:
        """A table with nothing to do is not planned, nor is one for which nothing is left of the budget."""
        self.visit = replace(self.visit, resumed=resumed)
        if resumed is not None and resumed.status in NOT_WELL:
            why = resumed.error or "see its groups"
            raise PermanentError(f"run {resumed.run_id} was resumed and is {resumed.status}: {why}")
        if resumed is None and not self._ranked.summary.input_files:
            return False
        spent = [limit.name for limit in self._left if limit.amount <= 0]
        if spent:
            reason = f"over the budget ({', '.join(spent)})"
            self.visit = replace(self.visit, ended=VisitStatus.SKIPPED, reason=reason)
        return not spent

    def confirm(self, made: Plan) -> bool:
        """A plan without steps leaves no run on record here, and a dry run none at all."""
        self.visit = _planned(self.visit, made)
        return self.visit.ended is VisitStatus.PLANNED and not self._dry_run


def _planned(visit: Visit, made: Plan) -> Visit:
    """A visit with its plan; if the plan has no steps, why: something is held back, or there is nothing to do."""
    if made.steps:
        return replace(visit, ended=VisitStatus.PLANNED, plan=made)
    # what is held back stands at the end of what is left out
    return visit if made.complete else replace(visit, ended=VisitStatus.SKIPPED, reason=made.left_out[-1].reason)


def _applied(visit: Visit, outcome: Outcome) -> Visit:
    ended = VisitStatus.FAILED if outcome.status in NOT_WELL else VisitStatus.DONE
    reason = outcome.error or next((group.reason for group in outcome.groups if not group.committed), "")
    return replace(visit, ended=ended, reason=reason, outcome=outcome)


def _spent(visit: Visit, resource: Resource) -> float:
    """What a table took: what was promised for it, or more if it was found to be more."""
    planned = sum((step.demand for step in visit.plan.rewrites), NO_DEMAND) if visit.plan else NO_DEMAND
    compacted = max(planned.of(resource), _measured(visit.outcome).of(resource))
    kept_house = [one.outcome for one in visit.maintenance.operations] if visit.maintenance else []
    return compacted + sum(_measured(outcome).of(resource) for outcome in (visit.resumed, *kept_house))


def _measured(outcome: Outcome | None) -> Demand:
    if outcome is None or outcome.dry_run:
        return NO_DEMAND
    spent = spent_by(outcome)
    return Demand(
        files=sum(group.input_files for group in outcome.groups if group.committed or group.effort.seconds),
        bytes=spent.bytes,
        seconds=sum(group.effort.seconds for group in outcome.groups)
        + sum(step.effort.seconds for step in outcome.step_costs),
        money=spent.money,
    )
