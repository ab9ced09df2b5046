"""Answers of the service, read as values; what is none of its answers is an error in one line."""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from icepact.model import errors
from icepact.model.answers import PROBLEM_TYPE, TableHealth
from icepact.model.documents import from_json
from icepact.model.errors import BadInput, IcepactError
from icepact.model.job import Job
from icepact.model.reading import health_of, job_of, run_of
from icepact.model.run import RunRecord

if TYPE_CHECKING:
    import httpx

Value = TypeVar("Value")
_ODD = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What reading an answer raises that is not what was asked for."""


def not_ours(what: str) -> IcepactError:
    """The error of an answer that icepact does not give."""
    return IcepactError(f"the service answered {what}, and not in its own words: is it icepact?")


def read(make: Callable[[Any], Value], answer: Any) -> Value:
    """What is made of an answer, unless it is not what was asked for."""
    try:
        return make(answer)
    except _ODD:
        raise not_ours("something else") from None


def document(response: "httpx.Response") -> Any:
    """The document that an answer is."""
    return read(json.loads, response.content)


def value(kind: type[Value], document: Any) -> Value:
    """A value from its document."""
    return read(lambda found: from_json(kind, json.dumps(found)), document)


def job(document: Any) -> Job:
    """A job from its document."""
    return read(job_of, document)


def run(document: Any) -> RunRecord:
    """A run from its document."""
    return read(run_of, document)


def is_job(document: Any) -> bool:
    """Whether a document is that of a job."""
    return isinstance(document, dict) and "job_id" in document


def items(document: Any) -> list[dict[str, Any]]:
    """The documents of a list."""
    if not (isinstance(document, list) and all(isinstance(each, dict) for each in document)):
        raise TypeError("this is no list of documents")
    return document


def page(document: Any) -> tuple[list[dict[str, Any]], str | None]:
    """The documents of a page, and the cursor of the next one; `None` if it is the last."""
    cursor = document["next"]
    return items(document["items"]), None if cursor is None else str(cursor)


def health(found: Any) -> TableHealth:
    """The health of a table from its document."""
    return TableHealth(
        table=found["table"],
        checked_at=datetime.fromisoformat(found["checked_at"]),
        age_seconds=found["age_seconds"],
        health=health_of(found.get("health", found)),
    )


def checked(response: "httpx.Response") -> "httpx.Response":
    """The same response; the error that its problem tells of if it is none that was hoped for."""
    if response.is_success:
        return response
    try:
        problem = response.json()
        kind, detail = str(problem["type"]), str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        kind, detail = "", f"the service answered {response.status_code}, and not in its own words: is it icepact?"
    if kind.startswith(PROBLEM_TYPE):
        named = "".join(word.capitalize() for word in kind.removeprefix(PROBLEM_TYPE).split("-"))
        if error_class(named) is not IcepactError:
            raise error_class(named)(detail)
    raise _BY_STATUS.get(response.status_code, BadInput if response.is_client_error else IcepactError)(detail)


_BY_STATUS: Mapping[int, type[IcepactError]] = {
    401: errors.Unauthorized,
    403: errors.NotAllowed,
    404: errors.NotFound,
    409: errors.Conflict,
    429: errors.TooManyRequests,
    502: errors.TemporaryError,
    503: errors.TemporaryError,
    504: errors.TemporaryError,
}


def error_class(name: str | None) -> type[IcepactError]:
    """A class of errors by its name; that of all errors if there is none of that name."""
    found = getattr(errors, name or "", None)
    return found if isinstance(found, type) and issubclass(found, IcepactError) else IcepactError
