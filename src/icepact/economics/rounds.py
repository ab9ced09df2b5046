"""One round over the fleet, table by table: what becomes of a visit, and what it takes off the budget of the round."""

from collections.abc import Sequence
from dataclasses import replace

from icepact.economics.spending import spent_by
from icepact.model.fleet import Fleet, RankedTable, Visit, VisitStatus
from icepact.model.limits import NO_DEMAND, Demand, Limit, Resource
from icepact.model.maintenance import MaintenanceOutcome
from icepact.model.outcome import Outcome
from icepact.model.plan import Plan
from icepact.model.status import NOT_WELL


def in_turn(fleet: Fleet) -> Sequence[RankedTable]:
    """The order of a round: what the budget allows whole comes first; what is left of it goes to the others."""
    return sorted(fleet.tables, key=lambda ranked: not ranked.chosen)


def over_budget(left: Sequence[Limit]) -> str | None:
    """Why nothing more is begun; `None` if something is left of every limit."""
    spent = [limit.name for limit in left if limit.amount <= 0]
    return f"over the budget ({', '.join(spent)})" if spent else None


def less(left: Sequence[Limit], visit: Visit) -> list[Limit]:
    """What a visit leaves of the limits of its round."""
    return [replace(limit, amount=max(0.0, limit.amount - spent_in(visit, limit.resource))) for limit in left]


def planned_visit(visit: Visit, made: Plan) -> Visit:
    """A visit with its plan; if the plan has no steps, why: something is held back, or there is nothing to do."""
    if made.steps:
        return replace(visit, ended=VisitStatus.PLANNED, plan=made)
    # what is held back stands at the end of what is left out
    return visit if made.complete else replace(visit, ended=VisitStatus.SKIPPED, reason=made.left_out[-1].reason)


def applied_visit(visit: Visit, outcome: Outcome) -> Visit:
    """A visit with the outcome of its run."""
    ended = VisitStatus.FAILED if outcome.status in NOT_WELL else VisitStatus.DONE
    reason = outcome.error or next((group.reason for group in outcome.groups if not group.committed), "")
    return replace(visit, ended=ended, reason=reason, outcome=outcome)


def maintained_visit(visit: Visit, done: MaintenanceOutcome, *, dry_run: bool) -> Visit:
    """A visit with what housekeeping did besides."""
    if not done.well:
        wrong = next(one for one in done.operations if not one.well)
        why = wrong.reason or (wrong.outcome and wrong.outcome.error) or "see its outcome"
        return replace(visit, ended=VisitStatus.FAILED, reason=f"{wrong.operation}: {why}", maintenance=done)
    idle = visit.ended is VisitStatus.NOTHING and done.did_something
    ended = (VisitStatus.PLANNED if dry_run else VisitStatus.DONE) if idle else visit.ended
    return replace(visit, ended=ended, maintenance=done)


def spent_in(visit: Visit, resource: Resource) -> float:
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
