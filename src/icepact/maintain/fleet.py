"""Many tables: inspect and rank them; then one round, in which each is compacted within what is left of a budget."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from icepact.economics.rounds import applied_visit, in_turn, less, maintained_visit, over_budget, planned_visit
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
from icepact.model.limits import Limit
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
    for ranked in in_turn(fleet):
        on_table(ranked.summary.table)
        visit = Visit(table=ranked.summary.table, ended=VisitStatus.SKIPPED, reason=ranked.summary.off or "")
        if ranked.summary.off is None:
            visit = _visit(context, ranked, left, dry_run=dry_run)
            if housekeeping and visit.ended is not VisitStatus.FAILED:
                visit = _maintained(context, visit, dry_run=dry_run)
        left = less(left, visit)
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
    return visiting.visit if outcome is None else applied_visit(visiting.visit, replace(outcome, resumed=None))


def _maintained(context: Context, visit: Visit, *, dry_run: bool) -> Visit:
    """A visit with the housekeeping that the table's policy names."""
    try:
        done = maintain(context, visit.table, Options(), without=("compact",), dry_run=dry_run)
    except Exception as error:
        return replace(visit, ended=VisitStatus.FAILED, reason=describe_error(error))
    return maintained_visit(visit, done, dry_run=dry_run)


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
        reason = over_budget(self._left)
        if reason is not None:
            self.visit = replace(self.visit, ended=VisitStatus.SKIPPED, reason=reason)
        return reason is None

    def confirm(self, made: Plan) -> bool:
        """A plan without steps leaves no run on record here, and a dry run none at all."""
        self.visit = planned_visit(self.visit, made)
        return self.visit.ended is VisitStatus.PLANNED and not self._dry_run
