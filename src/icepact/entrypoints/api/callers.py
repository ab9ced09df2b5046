"""Who asks: the key of a request, what it may do, and how often it may ask."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.exceptions import HTTPException

from icepact.model.errors import IcepactError, JobNotFound, NotAllowed, TooManyRequests, Unauthorized
from icepact.model.job import DEFAULT_TENANT, Job
from icepact.model.tenant import Caller, Role
from icepact.schedule.scopes import shown_job, visible

if TYPE_CHECKING:
    from icepact.entrypoints.api.context import Context

_MOST_BUCKETS = 10_000
_LONGEST_KEY = 200
_STREAM_AGAIN = 15.0
"""Seconds after which whoever has too many streams may ask for another one."""

bearer = HTTPBearer(
    auto_error=False, bearerFormat="API key", description="A key that `icepact keys create` shows once."
)


class Buckets:
    """Token buckets by key: so many requests at once, and so many more in each second."""

    def __init__(self, per_second: float, burst: float, *, timer: Callable[[], float] = monotonic) -> None:
        self._rate, self._burst, self._timer = per_second, burst, timer
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Tokens that were left, and when."""
        self._lock = Lock()

    def take(self, key: str) -> float:
        """Take a token; returns seconds until there is one if there is none, else 0."""
        with self._lock:
            now = self._timer()
            tokens = self._left(key, now)
            missing = max(0.0, 1.0 - tokens)
            self._buckets[key] = (tokens if missing else tokens - 1.0), now
            self._buckets.move_to_end(key)
            while len(self._buckets) > _MOST_BUCKETS:
                self._buckets.popitem(last=False)
            return missing / self._rate

    def is_empty(self, key: str) -> bool:
        """Whether there is no token left."""
        with self._lock:
            return self._left(key, self._timer()) < 1.0

    def _left(self, key: str, now: float) -> float:
        tokens, at = self._buckets.get(key, (float(self._burst), now))
        return min(float(self._burst), tokens + (now - at) * self._rate)


class Streams:
    """Streams that are open: so many at once, and so many of them with one key."""

    def __init__(self, most: int, most_of_key: int) -> None:
        self._most, self._most_of_key = most, most_of_key
        self._open: Counter[str] = Counter()

    @contextmanager
    def one(self, key: str) -> Iterator[None]:
        """One more for as long as it lasts; 503 if there are too many, TooManyRequests if the key has too many."""
        if self._open.total() >= self._most:
            raise HTTPException(503, "too many streams are open: ask for the job now and then")
        if self._open[key] >= self._most_of_key:
            raise too_many(_STREAM_AGAIN, "too many streams are open with this key: ask for the job now and then")
        self._open[key] += 1
        try:
            yield
        finally:
            self._open[key] -= 1
            self._open += Counter()  # keys without streams are forgotten


def too_many(seconds: float, detail: str) -> TooManyRequests:
    """The error that says when to ask again."""
    error = TooManyRequests(detail)
    error.retry_after = max(1, round(seconds + 0.5))  # type: ignore[attr-defined]
    return error


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """One request, and who makes it."""

    context: "Context"
    caller: Caller
    request_id: str

    def table(self, name: str) -> str:
        """The full name of a table that was named; TableNotFound if there is none for whoever asks."""
        service = self.context.service
        return visible(self.caller, name, service.catalog.name, service.namespace)

    def may_see(self, job: Job) -> bool:
        """Whether a job exists for whoever asks."""
        table = job.request.table
        return job.tenant == self.caller.tenant and (table is None or self.caller.sees(table))

    def by_now(self, job: Job) -> Job:
        """A job as whoever asks may see it now, who asked a while ago: Unauthorized if the key has ended meanwhile,
        JobNotFound if the job does not exist for it any more."""
        caller = self.context.tenants.again(self.caller)
        if caller is None:
            raise Unauthorized("this key is good for nothing any more")
        if not replace(self, caller=caller).may_see(job):
            raise JobNotFound(f"there is no job {job.job_id}")
        return shown_job(caller, job)

    def with_reason(self, job: Job) -> Job:
        """A job with why it waits."""
        return replace(job, waits_for=self.context.quotas.why_waiting(job))

    def write_down(self, action: str, job: Job) -> None:
        """Write down that whoever asks had something done by a job."""
        target = job.request.table or job.job_id
        self.context.audit.record(self.caller, action, target, request_id=self.request_id, details={"job": job.job_id})

    @contextmanager
    def audited(self, action: str, target: str, *, tenant: str | None = None, **details: Any) -> Iterator[None]:
        """Write down that whoever asks changes something, and what came of it."""
        write = partial(self.context.audit.record, self.caller, action, target, tenant=tenant)
        try:
            yield
        except IcepactError as error:
            write(result=str(error), request_id=self.request_id, details=details)
            raise
        write(request_id=self.request_id, details=details)

    @property
    def looks_after_all(self) -> bool:
        """Whether whoever asks belongs to those who run the service: what is about all tables is theirs."""
        return self.caller.tenant == DEFAULT_TENANT

    def need_all(self) -> None:
        """NotAllowed for other tenants."""
        if not self.looks_after_all:
            raise NotAllowed("this is about all tables, and takes a key of the tenant default")

    def need(self, role: Role) -> None:
        """NotAllowed unless the role of the key goes so far."""
        if not self.caller.may(role):
            raise NotAllowed(f"this takes the role {role}, and the key has the role {self.caller.role}")


def _asked(role: Role) -> Callable[..., Asked]:
    def ask(
        request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)] = None
    ) -> Asked:
        context: Context = request.app.state.context
        caller = _caller(context, credentials, request)
        request.scope["state"]["caller"] = caller
        asked = Asked(context=context, caller=caller, request_id=request.scope["state"]["request_id"])
        asked.need(role)
        return asked

    return ask


def _caller(context: "Context", credentials: HTTPAuthorizationCredentials | None, request: Request) -> Caller:
    address = request.client.host if request.client else ""
    if credentials is None and "authorization" not in request.headers:
        nobody = context.tenants.anonymous() if context.settings.may_be_open else None
        if nobody is None:
            raise Unauthorized("a key is needed: send it as Authorization: Bearer icp_...")
        return nobody
    if context.failures.is_empty(address):
        raise too_many(60.0, "too many keys that are none: wait a minute")
    secret = credentials.credentials if credentials else ""
    caller = context.tenants.authenticate(secret) if len(secret) <= _LONGEST_KEY else None
    if caller is None:
        context.failures.take(address)
        raise Unauthorized("this key is none, or good for nothing any more")
    seconds = context.buckets.take(caller.key_id or "")
    if seconds:
        raise too_many(seconds, "too many requests with this key")
    return caller


Viewer = Annotated[Asked, Depends(_asked(Role.VIEWER))]
Operator = Annotated[Asked, Depends(_asked(Role.OPERATOR))]
Admin = Annotated[Asked, Depends(_asked(Role.ADMIN))]
