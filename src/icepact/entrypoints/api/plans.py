"""Plans: those that jobs have made, and those that come in a request, to be carried out."""

import anyio.to_thread
from fastapi import APIRouter, Request, Response
from starlette.exceptions import HTTPException

from icepact.entrypoints.api.answering import ACCEPTED, IdempotencyKey, Most, Wait, job_answer, submit, waited
from icepact.entrypoints.api.callers import Asked, Operator, Viewer
from icepact.entrypoints.api.jobs import found_job
from icepact.entrypoints.api.routes import WholeText
from icepact.model.errors import BadInput, NotFound
from icepact.model.job import MOST_FAILURES, Job, JobRequest, Operation
from icepact.schedule.answers import kept_plan
from icepact.schedule.requests import saved_plan

router = APIRouter(route_class=WholeText, prefix="/plans", tags=["plans"])
_SAVED = {
    "requestBody": {
        "required": True,
        "description": "A plan as `icepact plan --out` writes it.",
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["kind", "format", "icepact", "table", "uuid", "made_at", "plan"],
                    "properties": {
                        "kind": {"const": "icepact-plan"},
                        "format": {"type": "integer", "minimum": 1},
                        **{name: {"type": "string"} for name in ("icepact", "table", "uuid", "made_at")},
                        "plan": {"type": "object"},
                    },
                }
            }
        },
    }
}


def _kept(asked: Asked, plan_id: str) -> bytes:
    """The document of a plan of whoever asks."""
    missing = NotFound(f"there is no plan {plan_id}, or it is not kept any more: plan again")
    try:
        job = found_job(asked, plan_id)
        return kept_plan(asked.context.service.store, job.job_id)
    except BadInput:
        raise missing from None


@router.get(
    "/{plan_id}",
    summary="Get a plan.",
    responses={200: {"description": "As `icepact plan --out` writes it.", "content": {"application/json": {}}}},
    response_class=Response,
)
def get_plan(asked: Viewer, plan_id: str) -> Response:
    """A plan by the id of the job that made it, as `icepact plan --out` writes it."""
    return Response(_kept(asked, plan_id), media_type="application/json")


@router.post("/{plan_id}/apply", summary="Carry a plan out.", response_model=Job, responses={**ACCEPTED})
async def apply_plan(
    asked: Operator, plan_id: str, wait: Wait = None, key: IdempotencyKey = None, most_failures: Most = MOST_FAILURES
) -> Response:
    """Carry out the plan of a job. What has changed since is not done."""
    plan = await anyio.to_thread.run_sync(_kept, asked, plan_id)
    return job_answer(await _apply(asked, plan, wait, key, most_failures))


@router.post(
    "/apply", summary="Carry out a plan that is sent.", response_model=Job, responses={**ACCEPTED}, openapi_extra=_SAVED
)
async def apply_sent(
    asked: Operator,
    request: Request,
    wait: Wait = None,
    key: IdempotencyKey = None,
    most_failures: Most = MOST_FAILURES,
) -> Response:
    """Carry out a saved plan. What has changed since is not done."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "a saved plan is application/json")
    return job_answer(await _apply(asked, await request.body(), wait, key, most_failures))


async def _apply(asked: Asked, plan: bytes, wait: str | None, key: str | None, most_failures: int) -> Job:
    saved = await anyio.to_thread.run_sync(saved_plan, plan)
    asked.table(saved.plan.table)
    request = JobRequest(operation=Operation.APPLY)
    return await waited(asked, await submit(asked, request, key=key, plan=plan, most_failures=most_failures), wait)
