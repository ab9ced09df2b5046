"""Maintenance: everything that the policy of a table wants done, one operation after the other, within one budget."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from icepact.housekeeping.statistics import has_statistics
from icepact.iceberg.commit.run_files import may_delete
from icepact.iceberg.java.bridge import describe_error
from icepact.iceberg.table.table import IcebergTable
from icepact.maintain.compaction import Confirm, compact, resume_first
from icepact.maintain.context import Context
from icepact.maintain.housekeeping import (
    PlanChore,
    carry_out,
    deletes_step,
    expire_step,
    manifests_step,
    orphans_step,
    plan_chore,
    planned_outcome,
    statistics_step,
    tags_step,
    ttl_step,
)
from icepact.maintain.inspect import plan, resolve_policy
from icepact.maintain.limits import limits_of_the_hour
from icepact.maintain.steps import last_run_of
from icepact.model.errors import Cancelled, IcepactError, JobLost, QuotaUsed, TableBusy
from icepact.model.formatting import format_money, format_seconds
from icepact.model.limits import Demand, Limit, Resource
from icepact.model.maintenance import MaintenanceOutcome, OperationResult
from icepact.model.outcome import Outcome
from icepact.model.plan import Plan
from icepact.model.policy import OPERATIONS, Policy
from icepact.model.progress import Progress, Silent
from icepact.policy.options import Options

ORPHANS_EVERY = timedelta(days=1)
"""Storage is listed so often: that costs requests for everything that is there."""


def maintain(
    context: Context,
    name: str,
    request: Options,
    *,
    exclude: Sequence[str] = (),
    without: Collection[str] = (),
    dry_run: bool = False,
    progress: Progress | None = None,
    on_operation: Callable[[str], None] | None = None,
    confirm: Confirm = lambda _: True,
) -> MaintenanceOutcome:
    """Do what the policy of a table names as housekeeping, where it is due. An operation that fails does not keep the
    others from being done. `exclude` are folders that the removal of orphans leaves alone, `without` operations that
    are none of this round; `on_operation` is called before each operation, and `confirm` with its plan, right before
    its run. A dry run says what each would do, as if it were alone."""
    started, clock = datetime.now(UTC), time.monotonic()
    heard = progress or Silent()
    resumed = None if dry_run else resume_first(context, name, request, heard)
    table, resolved = resolve_policy(context.spark_catalog, name, request, context.policies)
    policy = resolved.policy
    round_ = _Round(context, table, policy, request, exclude, heard, confirm, dry_run=dry_run)
    round_.pay(resumed)
    done: list[OperationResult] = []
    for operation in (one for one in OPERATIONS if one not in without):
        if on_operation is not None:
            on_operation(operation)
        done.append(round_.result(operation))
    return MaintenanceOutcome(
        table=table.name,
        started_at=started,
        seconds=round(time.monotonic() - clock, 3),
        operations=tuple(done),
        currency=context.prices.currency,
        dry_run=dry_run,
    )


_SHOWN = 5
"""Details of an operation that a dry run shows."""


class _OverBudget(Exception):
    """An operation would take more than is left."""


class _Round:
    """One round of maintenance under way: what is left of its budget, and how each operation is done."""

    def __init__(
        self,
        context: Context,
        table: IcebergTable,
        policy: Policy,
        request: Options,
        exclude: Sequence[str],
        progress: Progress,
        confirm: Confirm,
        *,
        dry_run: bool,
    ) -> None:
        self._context = context
        self._table = table
        self._policy = policy
        self._request = request
        self._progress = progress
        self._confirm = confirm
        self._dry_run = dry_run
        self._began = time.monotonic()
        self._money = 0.0
        """Spent so far."""
        self._promised = 0.0
        """What the operation that is under way is predicted to take."""
        self._steps: Mapping[str, PlanChore] = {
            "tags": tags_step,
            "ttl": ttl_step,
            "deletes": deletes_step,
            "manifests": manifests_step,
            "statistics": statistics_step(None),
            "expire": expire_step,
            "orphans": orphans_step(exclude),
        }

    def result(self, operation: str) -> OperationResult:
        """Do one operation, or say why not."""
        self._promised = 0.0
        why_not = self._why_not(operation)
        if why_not is not None:
            return OperationResult(operation=operation, reason=why_not)
        try:
            if self._dry_run:
                return self._planned(operation)
            outcome = self._compact() if operation == "compact" else self._keep_house(operation)
        except _OverBudget as error:
            return OperationResult(operation=operation, reason=str(error))
        except (Cancelled, JobLost, QuotaUsed):
            raise  # whoever confirms plans wants no more of this round now
        except TableBusy as error:
            return OperationResult(operation=operation, reason=str(error))
        except Exception as error:
            self._money += self._promised  # what it took by then, nobody knows
            reason = str(error) if isinstance(error, IcepactError) else describe_error(error)
            return OperationResult(operation=operation, reason=reason, failed=True)
        self.pay(outcome)
        return OperationResult(operation=operation, outcome=outcome)

    def pay(self, outcome: Outcome | None) -> None:
        """Take what a run has cost off the budget, and what the one cost that was carried on with before it."""
        if outcome is not None:
            self._money += outcome.money
            self.pay(outcome.resumed)

    def _planned(self, operation: str) -> OperationResult:
        """What an operation would do."""
        context, name, request = self._context, self._table.name, self._request
        if operation == "compact":
            made = plan(context, name, request)
        else:
            made = plan_chore(context, name, request, operation, self._steps[operation], allow_young=False)
        explained = made.explain(_SHOWN).splitlines()[1:] if made.steps else ()
        return OperationResult(operation=operation, outcome=planned_outcome(made), explained=tuple(explained))

    def _why_not(self, operation: str) -> str | None:
        """Why an operation is not begun; `None` if it is."""
        policy = self._policy
        if policy.off is not None:
            return policy.off
        if operation not in policy.housekeeping.split(","):
            return f"left out by housekeeping ({policy.sources['housekeeping']})"
        limits = self._limits() if operation == "compact" else self._limits_of_steps()
        spent = [limit.name for limit in limits if limit.amount <= 0]
        if spent:
            return f"over the budget ({', '.join(spent)})"
        if operation == "statistics" and not any(has_statistics(self._table)):
            return "the table has none, and nobody asked for some: `icepact statistics` computes them"
        if operation in ("expire", "orphans") and not may_delete(self._table):
            return "the table has gc.enabled=false: nothing of it is deleted"
        return self._listed_lately() if operation == "orphans" and not self._dry_run else None

    def _listed_lately(self) -> str | None:
        """When storage was last held against the table, if that is not long ago."""
        catalog = self._context.spark_catalog.recorded_as
        ended = last_run_of(self._context.store, self._table, "orphans", catalog=catalog)
        if ended is None or datetime.now(UTC) - ended >= ORPHANS_EVERY:
            return None
        return f"storage was listed on {ended:%Y-%m-%d %H:%M} UTC; that is done once a day"

    def _limits(self) -> list[Limit]:
        """What is left of the budgets of one run, which hold for the whole round."""
        policy, limits = self._policy, list[Limit]()
        if policy.max_cost is not None:
            name = f"max_cost {format_money(policy.max_cost, self._context.prices.currency)}"
            limits.append(Limit(resource=Resource.MONEY, amount=policy.max_cost - self._money, name=name))
        if policy.max_duration is not None:
            left = policy.max_duration - (time.monotonic() - self._began)
            name = f"max_duration {format_seconds(policy.max_duration)}"
            limits.append(Limit(resource=Resource.SECONDS, amount=left, name=name))
        return limits

    def _limits_of_steps(self) -> list[Limit]:
        """The same, with what is left of the money of this hour; plans of compactions know that by themselves."""
        hourly = limits_of_the_hour(self._context, self._table.name, self._policy, datetime.now(UTC))
        return [*self._limits(), *(limit for limit in hourly if limit.resource is Resource.MONEY)]

    def _compact(self) -> Outcome:
        outcome = compact(
            self._context,
            self._table.name,
            self._request,
            resume=False,
            limits=self._limits(),
            progress=self._progress,
            on_resumed=lambda _: True,
            confirm=self._confirmed,
        )
        assert outcome is not None  # nobody says no
        return outcome

    def _keep_house(self, operation: str) -> Outcome:
        return carry_out(
            self._context,
            self._table.name,
            self._request,
            operation,
            self._steps[operation],
            progress=self._progress,
            confirm=self._within_budget,
            keep_empty=operation == "orphans",  # which goes by when that was last done
        )

    def _within_budget(self, made: Plan) -> bool:
        """Yes; raises _OverBudget if the steps are predicted to take more than is left."""
        money = sum(step.cost.money.likely for step in made.chores)
        seconds = sum(step.cost.seconds.likely for step in made.chores)
        predicted = Demand(money=money, seconds=seconds)
        over = [limit.name for limit in self._limits_of_steps() if predicted.of(limit.resource) > limit.amount]
        if over:
            raise _OverBudget(f"over the budget ({', '.join(over)})")
        self._confirmed(made)
        self._promised = money
        return True

    def _confirmed(self, made: Plan) -> bool:
        """Yes; raises Cancelled if somebody says no."""
        if not self._confirm(made):
            raise Cancelled(f"the plan for {made.table} was not confirmed")
        return True
