"""What a visit takes off the budget of its round."""

from dataclasses import replace

from icepact.economics.rounds import spent_in
from icepact.model.effort import Effort
from icepact.model.fleet import Visit, VisitStatus
from icepact.model.limits import Resource
from icepact.model.maintenance import MaintenanceOutcome, OperationResult
from icepact.model.outcome import StepCost
from tests.support.records import NOON, run_outcome


def test_housekeeping_is_taken_off_the_budget() -> None:
    step = StepCost(kind="expire-snapshots", finished=True, effort=Effort(seconds=2.0), money=0.25)
    expired = run_outcome("e", groups=(), step_costs=(step,))
    planned = replace(expired, dry_run=True)
    [group] = run_outcome("any").groups
    visit = Visit(
        table="db.events",
        ended=VisitStatus.DONE,
        outcome=run_outcome("c", groups=(replace(group, money=0.5),)),
        maintenance=MaintenanceOutcome(
            table="db.events",
            started_at=NOON,
            seconds=3.0,
            operations=[
                OperationResult(operation="expire", outcome=expired),
                OperationResult(operation="orphans", outcome=planned),
                OperationResult(operation="tags", reason="not asked for"),
            ],
        ),
    )
    assert spent_in(visit, Resource.MONEY) == 0.75
    assert spent_in(visit, Resource.SECONDS) == 1.5 + 2.0
    assert spent_in(visit, Resource.FILES) == group.input_files
