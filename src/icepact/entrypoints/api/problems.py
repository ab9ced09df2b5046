"""Problems: what a request that was not carried out is answered with, and which error is which status."""

import json
import logging
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from icepact.model import errors
from icepact.model.answers import PROBLEM_TYPE, Problem, Wrong, problem_name
from icepact.model.documents import to_json
from icepact.model.errors import IcepactError
from icepact.policy.validation import complaint, path_of_error, show_path

PROBLEM_JSON = "application/problem+json"
_log = logging.getLogger("icepact.api")

_STATUS: Mapping[type[IcepactError], int] = {
    errors.NotFound: 404,
    errors.TableNotFound: 404,
    errors.JobNotFound: 404,
    errors.TenantNotFound: 404,
    errors.KeyNotFound: 404,
    errors.Unauthorized: 401,
    errors.NotAllowed: 403,
    errors.Conflict: 409,
    errors.TablePaused: 409,
    errors.StoreUnusable: 503,
    errors.SetupMissing: 503,
    errors.CatalogUnusable: 503,
    errors.TooManyRequests: 429,
    errors.TemporaryError: 503,
    errors.BadInput: 422,
    IcepactError: 500,
}
"""The nearest base counts."""
_RETRY_AFTER = 5
"""Seconds, unless the error says otherwise."""
MEANINGS: Mapping[int, str] = {
    400: "The request cannot be read.",
    401: "A key is needed, and none that is good was given.",
    403: "The key is good, and its role does not go so far.",
    404: "There is no such thing, or not for this key.",
    405: "This cannot be done to it.",
    408: "The rest of the request did not come.",
    409: "As things are, this cannot be done.",
    413: "The body is too large.",
    415: "The body is none that is understood here.",
    421: "The request was sent to another host.",
    422: "The request can be read, and something in it is wrong.",
    429: "Too many requests.",
    500: "Something went wrong here.",
    503: "It does not work at the moment.",
}


def status_of(kind: type[BaseException]) -> int:
    """The status of answers to an error."""
    return next((_STATUS[base] for base in kind.__mro__ if base in _STATUS), 500)


def kind_of(name: str | None) -> type[IcepactError]:
    """A class of errors by its name; that of all errors if there is none of that name."""
    found = getattr(errors, name or "", None)
    return found if isinstance(found, type) and issubclass(found, IcepactError) else IcepactError


def problem_of(kind: type[IcepactError], detail: str, request_id: str | None) -> Problem:
    """The problem of an error. What went wrong inside is in the log, not in the answer."""
    status = status_of(kind)
    title = (kind.__doc__ or "").strip().splitlines()[0]
    return Problem(
        type=PROBLEM_TYPE + problem_name(kind),
        title=title,
        status=status,
        detail=title if status >= 500 else " ".join(detail.split()),
        request_id=request_id,
    )


def of_status(status: int, detail: str, request_id: str | None, wrong: Sequence[Wrong] = ()) -> Problem:
    """The problem of a request that did not come as far as an error of icepact."""
    phrase = HTTPStatus(status).phrase
    return Problem(
        type=PROBLEM_TYPE + phrase.lower().replace(" ", "-"),
        title=MEANINGS.get(status, phrase),
        status=status,
        detail=detail,
        request_id=request_id,
        errors=tuple(wrong),
    )


def headers_of(problem: Problem, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Headers of the answer."""
    headers = dict(more or {})
    if problem.status in (429, 503):
        headers.setdefault("Retry-After", str(_RETRY_AFTER))
    if problem.status == 401:
        headers.setdefault("WWW-Authenticate", 'Bearer realm="icepact"')
    return headers


def answer(problem: Problem, headers: Mapping[str, str] | None = None) -> Response:
    """A problem as an answer."""
    return Response(
        to_json(problem), status_code=problem.status, media_type=PROBLEM_JSON, headers=headers_of(problem, headers)
    )


def request_id_of(request: Request) -> str | None:
    """What the request is called in logs."""
    found: str | None = request.scope.get("state", {}).get("request_id")
    return found


def install(app: FastAPI) -> None:
    """Have an application answer every error with a problem."""
    app.add_exception_handler(IcepactError, _of_ours)
    app.add_exception_handler(RequestValidationError, _of_validation)
    app.add_exception_handler(HTTPException, _of_http)


async def _of_ours(request: Request, error: Exception) -> Response:
    assert isinstance(error, IcepactError)
    problem = problem_of(type(error), str(error), request_id_of(request))
    if problem.status >= 500:
        _log.warning("%s: %s: %s", problem.request_id, type(error).__name__, error)
    wait = getattr(error, "retry_after", None)
    return answer(problem, {"Retry-After": str(wait)} if wait else None)


async def _of_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = str(error.detail)
    detail = MEANINGS.get(error.status_code, said) if said == HTTPStatus(error.status_code).phrase else said
    return answer(of_status(error.status_code, detail, request_id_of(request)), error.headers)


async def _of_validation(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    found: list[Any] = list(error.errors())
    request_id = request_id_of(request)
    if any(one["type"] == "json_invalid" for one in found):
        return answer(of_status(400, "the body is not JSON", request_id))
    if any(one["loc"] == ("body",) and one["type"] == "model_attributes_type" for one in found):
        return answer(of_status(422, "the body is to be a JSON object", request_id))
    wrong = [Wrong(at=show_path(path_of_error(one)), detail=complaint(one)) for one in found[:20]]
    detail = "; ".join(f"{one.at}: {one.detail}" for one in wrong[:3])
    return answer(of_status(422, detail, request_id, wrong))


def plain_problem(status: int, detail: str, request_id: str | None) -> bytes:
    """The body of a problem, where there is no application yet that could answer."""
    return json.dumps(json.loads(to_json(of_status(status, detail, request_id)))).encode()


RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {
        "description": meaning,
        "content": {PROBLEM_JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        **(
            {"headers": {"Retry-After": {"description": "Seconds.", "schema": {"type": "string"}}}}
            if status in (429, 503)
            else {}
        ),
    }
    for status, meaning in MEANINGS.items()
}
"""By which the OpenAPI document describes problems; every operation may answer with any of them."""
