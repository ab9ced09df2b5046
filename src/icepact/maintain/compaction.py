"""One table is compacted: carry on with what died, plan, have the plan confirmed, carry it out."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from icepact.maintain.aftercare import resume_dead
from icepact.maintain.context import Context
from icepact.maintain.inspect import plan, resolve_policy
from icepact.maintain.runs import apply
from icepact.maintain.tracing import table_span
from icepact.model.limits import Limit
from icepact.model.outcome import Outcome
from icepact.model.plan import Plan
from icepact.model.progress import Progress, Silent
from icepact.policy.options import Options

OnResumed = Callable[[Outcome | None], bool]
"""Called with the outcome of the run that was carried on with, `None` if there was none; says whether to go on."""
Confirm = Callable[[Plan], bool]
"""Called with every plan, also with one that has nothing to do; says whether to carry it out."""


def compact(
    context: Context,
    table: str,
    request: Options,
    *,
    resume: bool = True,
    limits: Sequence[Limit] = (),
    progress: Progress | None = None,
    on_resumed: OnResumed,
    confirm: Confirm,
) -> Outcome | None:
    """Compact a table, within further limits if there are any; `None` if `on_resumed` or `confirm` said no. If a run
    was carried on with and nothing is left to do, the answer is its outcome."""
    heard = progress or Silent()
    with table_span(table) as span:
        resumed = resume_first(context, table, request, heard) if resume else None
        if not on_resumed(resumed):
            return None
        made = plan(context, table, request, limits=limits)
        span.planned(made)
        if not confirm(made):
            return None
        if resumed is not None and not made.steps:
            return resumed
        outcome = replace(apply(context.spark_catalog, made, context.store, heard), resumed=resumed)
        span.ended(outcome)
        return outcome


def resume_first(context: Context, table: str, request: Options, progress: Progress) -> Outcome | None:
    """Carry on with the newest run on a table that died, if there is one, and the table is not left alone."""
    spark_catalog, store = context.spark_catalog, context.store
    if not store.runs(catalog=spark_catalog.recorded_as, table=table, limit=1, open_only=True):
        return None
    policy = resolve_policy(spark_catalog, table, request, context.policies)[1].policy
    return None if policy.off is not None else resume_dead(spark_catalog, table, store, progress, policy)
