"""Spans around the work on one table: what was planned, and how it ended."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from icepact.model.outcome import Outcome
from icepact.model.plan import Plan
from icepact.model.status import NOT_WELL
from icepact.telemetry import trace


@dataclass(frozen=True, slots=True)
class TableSpan:
    """A span around all that is done to a table."""

    span: trace.Span

    def planned(self, plan: Plan) -> None:
        """Say what is to be done."""
        self.span.set(
            strategy=plan.policy.strategy,
            partitions=len({step.partition for step in plan.rewrites}),
            files=sum(step.input_files for step in plan.rewrites),
            bytes=sum(step.bytes for step in plan.rewrites),
            groups=len(plan.rewrites),
        )

    def ended(self, outcome: Outcome) -> None:
        """Say how it ended."""
        self.span.set(run=outcome.run_id or None, status=outcome.status.value)
        if outcome.status in NOT_WELL:
            self.span.fail(outcome.error or f"its run is {outcome.status}")


@contextmanager
def table_span(table: str, operation: str = "compact") -> Iterator[TableSpan]:
    """A span around an operation on a table, such as `compact_table`."""
    with trace.span(f"{operation}_table", table=table) as span:
        yield TableSpan(span)
