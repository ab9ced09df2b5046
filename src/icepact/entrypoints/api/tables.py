"""Tables: what is known of them, what is asked of workers about them, and what is to be done with them."""

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Body, Path, Query, Response

from icepact.economics.report import costs_of
from icepact.entrypoints.api.answering import (
    ACCEPTED,
    USUAL_WAIT,
    IdempotencyKey,
    Wait,
    failure_of,
    job_answer,
    json_answer,
    submit,
    waited,
)
from icepact.entrypoints.api.bodies import How, OperationBody, body_of
from icepact.entrypoints.api.callers import Asked, Operator, Viewer
from icepact.entrypoints.api.costs import CSV, Format, Runs, costs_answer
from icepact.entrypoints.api.paging import MOST, After, Limit, Page, cursor_of, key_of
from icepact.entrypoints.api.routes import WholeText
from icepact.model.answers import TableEntry, TableHealth, TablePolicies
from icepact.model.costs import Costs
from icepact.model.documents import document_of
from icepact.model.job import Job, JobRequest, Operation
from icepact.schedule.answers import KnownHealth, known_health, known_healths, known_tables

router = APIRouter(route_class=WholeText, tags=["tables"])
Table = Annotated[str, Path(min_length=1, max_length=1000, description="As in Spark SQL: `db.table`.")]
Fresh = Annotated[bool, Query(description="Have a worker look now, whatever is known.")]
CHANGING = (
    *(Operation.MAINTAIN, Operation.EXPIRE, Operation.ORPHANS, Operation.MANIFESTS, Operation.TTL, Operation.TAGS),
    *(Operation.STATISTICS, Operation.DELETES),
)
"""Operations on a table that are asked for by their names, beside compaction."""


# -- what is known --------------------------------------------------------------------------------


@router.get("/tables", summary="List tables.", response_model=Page[TableEntry], responses={**ACCEPTED})
async def list_tables(
    asked: Viewer, limit: Limit = MOST, cursor: After = None, fresh: Fresh = False, wait: Wait = USUAL_WAIT
) -> Response:
    """Tables of the catalog by name, each with what is known of its health. A worker lists them if nobody has yet, or
    if asked for a fresh list."""
    after = key_of(cursor, "tables")
    service = asked.context.service
    catalog = service.catalog.recorded_as
    known = None if fresh else await anyio.to_thread.run_sync(known_tables, service.store, catalog)
    if known is None:
        asked_for = JobRequest(operation=Operation.TABLES)
        job = await waited(asked, await submit(asked, asked_for), wait)
        if (failed := failure_of(asked, job)) is not None:
            return failed
        known = (_names(job), service.clock())
    return await anyio.to_thread.run_sync(_page_of_tables, asked, known[0], after, limit)


def _names(job: Job) -> list[str]:
    return [str(name) for name in (job.result or {}).get("tables", ())]


def _page_of_tables(asked: Asked, names: Sequence[str], after: str | None, limit: int) -> Response:
    service = asked.context.service
    later = sorted(name for name in names if after is None or name > after)
    rest = list(islice(filter(asked.caller.sees, later), limit + 1))
    shown = rest[:limit]
    known: dict[str, KnownHealth] = {}
    at, last = after or "", shown[-1] if shown else ""
    while at < last and (batch := known_healths(service.store, service.catalog.recorded_as, after=at, limit=MOST)):
        known |= batch
        at = max(batch)
    entries = [entry_of(name, known.get(name)) for name in shown]
    more = cursor_of("tables", shown[-1]) if len(rest) > limit else None
    return json_answer({"items": [document_of(entry) for entry in entries], "next": more})


def entry_of(table: str, known: KnownHealth | None) -> TableEntry:
    """A table in a few numbers."""
    if known is None:
        return TableEntry(table=table)
    said = {name: known.health.get(name) for name in ("score", "data_files", "small_files", "delete_files", "bytes")}
    return TableEntry(table=table, checked_at=known.taken_at, **said)


@router.get(
    "/tables/{table}/costs", summary="What a table costs.", response_model=list[Costs], responses=CSV, tags=["costs"]
)
def table_costs(asked: Viewer, table: Table, format: Format = "json", limit: Runs = 100) -> Response:
    """What the newest runs on a table cost, next to what was predicted, by method."""
    name = asked.table(table)
    service = asked.context.service
    runs = service.store.runs(catalog=service.catalog.recorded_as, table=name, limit=limit, worked_only=True)
    return costs_answer(costs_of(run.outcome for run in runs if run.outcome), format)


# -- what workers are asked -----------------------------------------------------------------------


@router.get(
    "/tables/{table}/health", summary="How a table is doing.", response_model=TableHealth, responses={**ACCEPTED}
)
async def health(asked: Viewer, table: Table, fresh: Fresh = False, wait: Wait = USUAL_WAIT) -> Response:
    """The health of a table as a worker found it last, and how long ago that was. A worker looks if nobody has yet, or
    if asked for a fresh answer."""
    name = asked.table(table)
    service = asked.context.service
    if not fresh:
        known = await anyio.to_thread.run_sync(known_health, service.store, service.catalog.recorded_as, name)
        if known is not None:
            return _health_answer(asked, name, known.health, known.taken_at)
    job = await waited(asked, await submit(asked, JobRequest(operation=Operation.HEALTH, table=name)), wait)
    if (failed := failure_of(asked, job)) is not None:
        return failed
    return _health_answer(asked, name, job.result or {}, job.finished_at or service.clock())


def _health_answer(asked: Asked, table: str, found: Any, taken_at: datetime) -> Response:
    age = max(0.0, (asked.context.service.clock() - taken_at).total_seconds())
    document = {"table": table, "checked_at": taken_at.isoformat(), "age_seconds": round(age, 3), "health": found}
    return json_answer(document, headers={"Age": str(int(age))})


@router.get(
    "/tables/{table}/policy", summary="What holds for a table.", response_model=TablePolicies, responses={**ACCEPTED}
)
async def policy(asked: Viewer, table: Table, wait: Wait = USUAL_WAIT) -> Response:
    """Every option of a table, with its value and where that came from."""
    name = asked.table(table)
    job = await waited(asked, await submit(asked, JobRequest(operation=Operation.POLICY, table=name)), wait)
    if (failed := failure_of(asked, job)) is not None:
        return failed
    result = job.result or {}
    return json_answer({"table": name, "values": result.get("values", result)})


@router.get("/tables/{table}/plan", summary="What a compaction would do.", response_model=Job, responses={**ACCEPTED})
async def plan(asked: Viewer, table: Table, wait: Wait = USUAL_WAIT, key: IdempotencyKey = None) -> Response:
    """Plan a compaction by the policy of the table. The id of the job is that of the plan."""
    name = asked.table(table)
    job = await submit(asked, JobRequest(operation=Operation.PLAN, table=name), key=key)
    job = await waited(asked, job, wait)
    return failure_of(asked, job) or json_answer(document_of(job))


# -- what is to be done ---------------------------------------------------------------------------


def _add(operation: Operation, summary: str, kind: Any) -> None:
    body_type: Any = Annotated[body_of(operation) | None, Body()]

    async def ask_for(
        asked: Asked, table: str, body: OperationBody | None, wait: str | None = None, key: str | None = None
    ) -> Response:
        request = (body or body_of(operation)()).request(operation, asked.table(table))
        how = body.how if body else How()
        return job_answer(await waited(asked, await submit(asked, request, key=key, **how), wait))

    ask_for.__name__ = f"{operation.value}_table"
    ask_for.__annotations__ = {
        **{"asked": kind, "table": Table, "body": body_type, "wait": Wait, "key": IdempotencyKey, "return": Response}
    }
    ask_for.__doc__ = f"Put a job into the queue. Its result is what `icepact {operation} --json` prints."
    ask_for.__defaults__ = (None, None, None)
    router.post(f"/tables/{{table}}/{operation}", summary=summary, response_model=Job, responses={**ACCEPTED})(ask_for)


for _operation, _summary in (
    (Operation.MAINTAIN, "Do all that the policy of a table names, where it is due."),
    (Operation.EXPIRE, "Expire old snapshots."),
    (Operation.ORPHANS, "Delete files that nothing refers to."),
    (Operation.MANIFESTS, "Rewrite manifests where it pays."),
    (Operation.TTL, "Take data out that is older than it may become."),
    (Operation.TAGS, "Make the tag that is due."),
    (Operation.STATISTICS, "Bring statistics up to date."),
    (Operation.DELETES, "Convert and merge deletes."),
):
    _add(_operation, _summary, Operator)
_add(Operation.UNBLOCK, "Forget what failed on a table.", Operator)
_add(Operation.HEALTH, "Look at a table, with options.", Viewer)
_add(Operation.PLAN, "Plan a compaction, with options.", Viewer)
_add(Operation.POLICY, "Say what would hold for a table, with options.", Viewer)
