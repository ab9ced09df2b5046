"""`Client`: the service over HTTP, with the values and the errors of the library.

What only reads, and what has a name by which the service knows it again, is tried again if there is no answer; every
job that is submitted here has such a name.
"""

import json
import random
import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlsplit

from icepact.client import answers
from icepact.model import errors
from icepact.model.answers import (
    About,
    NewKey,
    PolicyDocument,
    StopAsked,
    StoreStatus,
    TableEntry,
    TableHealth,
    TablePolicies,
    TenantCosts,
)
from icepact.model.costs import Costs
from icepact.model.errors import BadInput, ServiceUnreachable, SetupMissing
from icepact.model.fleet import Fleet
from icepact.model.job import Job, JobStatus, Operation
from icepact.model.limits import Limit
from icepact.model.run import RunRecord
from icepact.model.saved import SavedPlan, parse_saved, saved_text
from icepact.model.schedule import ScheduleView
from icepact.model.tenant import ApiKey, AuditEntry, QuotaUse, Role, Tenant

if TYPE_CHECKING:
    import httpx

Value = TypeVar("Value")
_PREFIX = "/api/v1"
_AGAIN = (429, 502, 503, 504)
"""Answers after which it may go well."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.2, 30.0
_WAIT = 30.0
"""Seconds that one request waits for a job."""
_STREAM_QUIET = 60.0
"""A stream of events in which nothing is heard for so long is broken."""
_ADDRESS = "the address of the service is written http://host:8080, without a user or a key in it"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Client:
    """The service at an address. Errors are those of the library: TableNotFound, Conflict, Unauthorized, ..."""

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 5,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """`timeout` is how long, in seconds, an answer that waits for nothing may take; `retries` how often a request
        is tried again."""
        httpx = _httpx()
        host = _host(url)
        if key and not (key.isascii() and key.isprintable()):
            raise BadInput("the key of the service is none: it has characters that no key has")
        headers = {"User-Agent": "icepact"} | ({"Authorization": f"Bearer {key}"} if key else {})
        try:
            self._http = httpx.Client(
                base_url=url.rstrip("/"),
                headers=headers,
                timeout=timeout,
                trust_env=host not in _LOOPBACK,
                follow_redirects=False,  # a key is sent to nobody else
            )
        except (httpx.InvalidURL, UnicodeError):
            raise BadInput(_ADDRESS) from None
        self._url, self._timeout, self._retries, self._pause = url, timeout, retries, pause

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._url!r})"

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    # -- jobs -------------------------------------------------------------------------------------

    def compact(
        self,
        table: str,
        *,
        strategy: str | None = None,
        options: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        budget: Sequence[Limit] = (),
        **how: Any,
    ) -> Job:
        """Submit a compaction; it keeps to the budget, too, besides to what its policies allow. `how` is what every job
        takes: `priority`, `deadline`, `most_failures`, and `idempotency_key`, which is a new one unless given."""
        body: dict[str, Any] = {
            "table": table,
            "strategy": strategy,
            "options": dict(options or {}),
            "dry_run": dry_run,
        }
        body |= {"budget": [limit.to_dict() for limit in budget]} if budget else {}
        return self._submit("/compact", {name: value for name, value in body.items() if value is not None}, how)

    def submit(
        self, operation: Operation | str, table: str, *, options: Mapping[str, Any] | None = None, **how: Any
    ) -> Job:
        """Submit another operation on a table: `maintain`, `expire`, `health`, `plan` and their like. `how` is what
        every job takes, and what the operation does: `dry_run`, `allow_young`, `exclude`, `columns`, `without`."""
        if Operation(operation) is Operation.COMPACT:
            return self.compact(table, options=options, **how)
        return self._submit(f"{_table(table)}/{operation}", {"options": dict(options or {})}, how)

    def job(self, job_id: str, *, wait: float = 0.0) -> Job:
        """A job, with its result; once it has ended, or after so many seconds."""
        return answers.job(self._get(f"/jobs/{_part(job_id)}", **_wait(wait)))

    def jobs(
        self,
        *,
        table: str | None = None,
        operation: Operation | None = None,
        statuses: Collection[JobStatus] = (),
        run_id: str | None = None,
    ) -> Iterator[Job]:
        """Jobs, newest first, without their results."""
        status = [one.value for one in statuses]
        yield from map(
            answers.job, self._pages("/jobs", table=table, operation=operation, status=status, run_id=run_id)
        )

    def wait(self, job: Job | str, *, timeout: float | None = None) -> Job:
        """A job once it has ended, or as it is after so many seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _WAIT if until is None else max(0.0, min(_WAIT, until - time.monotonic()))
            found = self.job(_id(job), wait=left)
            if found.status.ended or left < _WAIT:
                return found

    def progress(self, job: Job | str) -> Iterator[Job]:
        """A job as it is now, then whenever something about it has changed, until it has ended."""
        while True:
            heard = False
            for found in self._events(_id(job)):
                heard = True
                yield found
                if found.status.ended:
                    return
            if not heard:
                raise answers.not_ours("an empty stream")
            self._pause(_FIRST_PAUSE)  # the process that answered may be about to end

    def cancel(self, job: Job | str) -> Job:
        """Cancel a job that waits, or ask its worker to stop."""
        return answers.job(answers.document(self._send("POST", f"/jobs/{_part(_id(job))}/cancel")))

    def resume(self, job: Job | str) -> Job:
        """Put a job that failed or was cancelled back into the queue."""
        return answers.job(answers.document(self._send("POST", f"/jobs/{_part(_id(job))}/resume")))

    def result(self, job: Job) -> Job:
        """The same job once it has succeeded; raises what it failed with."""
        ended = job if job.status.ended else self.wait(job)
        if ended.status is JobStatus.SUCCEEDED:
            return ended
        if ended.status is JobStatus.CANCELLED:
            raise errors.Cancelled(ended.error or f"job {ended.job_id} was cancelled")
        raise answers.error_class(ended.error_type)(ended.error or f"job {ended.job_id} failed")

    def store_status(self) -> StoreStatus:
        """What the record store of the service holds."""
        return answers.value(StoreStatus, self._get("/store"))

    def about(self) -> About:
        """What the service is, and who asks."""
        return answers.value(About, self._get("/about"))

    # -- tables -----------------------------------------------------------------------------------

    def tables(self, *, fresh: bool = False) -> Iterator[TableEntry]:
        """Tables by name, with what is known of them."""
        yield from (answers.value(TableEntry, each) for each in self._pages("/tables", fresh=fresh))

    def fleet(self) -> Iterator[TableEntry]:
        """What is known of all tables that a worker has looked at, the worst first."""
        yield from (answers.value(TableEntry, each) for each in self._pages("/fleet"))

    def rank(
        self, pattern: str | None = None, *, by: str = "worth", options: Mapping[str, Any] | None = None, **how: Any
    ) -> Job:
        """Have all tables, or those that a pattern means, ranked by what compacting them brings and costs. `options`
        are a budget for all of them: `max_cost`, `max_bytes`, `max_files`."""
        body = {"by": by, "options": dict(options or {}), **({} if pattern is None else {"pattern": pattern})}
        return self._submit("/fleet", body, how)

    def ranking(self, job: Job | str) -> Fleet:
        """The ranking that a job has made."""
        return answers.value(Fleet, self._get(f"/fleet/{_part(_id(job))}"))

    def health(self, table: str, *, fresh: bool = False) -> TableHealth:
        """How a table is doing, as a worker found it last; a worker looks if nobody has yet."""
        found = self._answer(f"{_table(table)}/health", Operation.HEALTH, fresh=fresh)
        return answers.read(answers.health, found)

    def policy(self, table: str) -> TablePolicies:
        """What holds for a table, and where each value came from."""
        return answers.value(TablePolicies, self._answer(f"{_table(table)}/policy", Operation.POLICY))

    def schedule(self, table: str) -> ScheduleView:
        """When a table is next, why, and what is expected of its writers."""
        return answers.value(ScheduleView, self._get(f"{_table(table)}/schedule"))

    def schedules(self) -> Iterator[ScheduleView]:
        """Tables that are looked after by themselves, without forecasts."""
        yield from (answers.value(ScheduleView, found) for found in self._pages("/schedules"))

    def history(self, table: str) -> Iterator[RunRecord]:
        """Runs on a table, newest first."""
        yield from map(answers.run, self._pages(f"{_table(table)}/history"))

    def runs(self, table: str | None = None, *, open_only: bool = False) -> Iterator[tuple[RunRecord, str | None]]:
        """Runs, newest first, each with why nobody works on it any more; `None` if somebody may, or if it has ended."""
        for found in self._pages("/runs", table=table, open_only=open_only):
            run = answers.run(found)
            yield run, found.get("dead")

    def run(self, run_id: str) -> RunRecord:
        """One run."""
        return answers.run(self._get(f"/runs/{_part(run_id)}"))

    def cancel_run(self, run_id: str) -> StopAsked:
        """Ask whoever works on a run to stop; if it is that of a job, the job is cancelled."""
        return answers.value(
            StopAsked, answers.document(self._send("POST", f"/runs/{_part(run_id)}/cancel", again=False))
        )

    def resume_run(self, run_id: str, **how: Any) -> Job:
        """Submit the carrying on with a run whose process died. `how` is `idempotency_key` and `most_failures`."""
        return self._submit_again(f"/runs/{_part(run_id)}/resume", how)

    def costs(self, table: str | None = None, *, limit: int = 100, days: float | None = None) -> Sequence[Costs]:
        """What the newest runs cost, on a table or on all; or those of so many days, on all."""
        path = "/costs" if table is None else f"{_table(table)}/costs"
        found = self._get(path, limit=limit, days=days if table is None else None)
        return [answers.value(Costs, each) for each in answers.read(answers.items, found)]

    def tenant_costs(self, *, days: float = 30.0, table: str | None = None) -> Sequence[TenantCosts]:
        """What the runs of so many days cost, by tenant; on one table, or on all."""
        return [answers.value(TenantCosts, each) for each in self._get("/costs/tenants", days=days, table=table)]

    def committed(self, table: str, snapshot_id: int | None = None) -> None:
        """Tell of a commit, so that what is due after commits is done."""
        body = {"table": table, "snapshot_id": snapshot_id}
        self._send("POST", "/events/commit", body, again=snapshot_id is not None)

    # -- plans ------------------------------------------------------------------------------------

    def plan(self, table: str, *, options: Mapping[str, Any] | None = None) -> SavedPlan:
        """Plan a compaction, and wait for the plan."""
        job = self.result(self.submit(Operation.PLAN, table, options=options))
        return self.plan_of(job)

    def plan_of(self, job: Job | str) -> SavedPlan:
        """The plan that a job has made: one that plans, or a dry run."""
        found = self._send("GET", f"/plans/{_part(_id(job))}")
        return parse_saved(found.text, "the plan")

    def apply(self, plan: Job | str | SavedPlan, **how: Any) -> Job:
        """Submit the carrying out of a plan: that of a job, or one that was saved. `how` is `idempotency_key` and
        `most_failures`."""
        text = saved_text(plan) if isinstance(plan, SavedPlan) else None
        path = "/plans/apply" if isinstance(plan, SavedPlan) else f"/plans/{_part(_id(plan))}/apply"
        return self._submit_again(path, how, text)

    # -- policies, tenants, keys ------------------------------------------------------------------

    def policies(self) -> PolicyDocument:
        """The policies in force."""
        return answers.value(PolicyDocument, self._get("/policies"))

    def put_policies(self, text: str, *, version: int | None = None) -> PolicyDocument:
        """Put the text of a policy file in force; Conflict if others than those of `version` are by now."""
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        return answers.value(
            PolicyDocument, answers.document(self._send("PUT", "/policies", {"text": text}, headers=headers))
        )

    def check_policies(self, text: str) -> PolicyDocument:
        """Whether a text is a policy file, and what it says."""
        return answers.value(
            PolicyDocument, answers.document(self._send("POST", "/policies/check", {"text": text}, again=True))
        )

    def drop_policies(self) -> PolicyDocument:
        """Go back to the policies of the configuration."""
        return answers.value(PolicyDocument, answers.document(self._send("DELETE", "/policies", again=False)))

    def tenants(self) -> Iterator[Tenant]:
        """Tenants, as far as they exist for this key."""
        yield from (answers.value(Tenant, each) for each in self._pages("/tenants"))

    def new_tenant(self, name: str, *, tables: Sequence[str] = (), **more: Any) -> Tenant:
        """Make a tenant; `more` is `catalogs`, `quota` and `description`."""
        return answers.value(
            Tenant, answers.document(self._send("POST", "/tenants", {"name": name, "tables": list(tables), **more}))
        )

    def tenant(self, name: str) -> Tenant:
        """One tenant."""
        return answers.value(Tenant, self._get(f"/tenants/{_part(name)}"))

    def tenant_use(self, name: str) -> QuotaUse:
        """What a tenant has used of its quota."""
        return answers.value(QuotaUse, self._get(f"/tenants/{_part(name)}/use"))

    def change_tenant(self, name: str, **changes: Any) -> Tenant:
        """Change what is given of a tenant: `tables`, `catalogs`, `quota`, `description`. With `version`, Conflict if
        it is of another one by now."""
        return answers.value(Tenant, answers.document(self._send("PATCH", f"/tenants/{_part(name)}", changes)))

    def remove_tenant(self, name: str) -> None:
        """Remove a tenant, and revoke its keys."""
        self._send("DELETE", f"/tenants/{_part(name)}", again=False)

    def keys(self, tenant: str | None = None) -> Iterator[ApiKey]:
        """Keys, as far as they exist for this key."""
        yield from (answers.value(ApiKey, each) for each in self._pages("/keys", tenant=tenant))

    def key(self, key_id: str) -> ApiKey:
        """One key."""
        return answers.value(ApiKey, self._get(f"/keys/{_part(key_id)}"))

    def new_key(
        self, role: Role, *, tenant: str | None = None, name: str = "", expires_at: datetime | None = None
    ) -> NewKey:
        """Make a key, of the tenant that asks unless another one is given; its secret is shown once."""
        body: dict[str, Any] = {"role": role.value, "name": name, **({"tenant": tenant} if tenant else {})}
        body |= {"expires_at": expires_at.isoformat()} if expires_at else {}
        return answers.value(NewKey, answers.document(self._send("POST", "/keys", body)))

    def rotate_key(self, key_id: str, *, overlap: timedelta = timedelta()) -> NewKey:
        """Make a key in the place of another one, which is good for the time of the overlap still."""
        body = {"overlap_seconds": overlap.total_seconds()}
        return answers.value(NewKey, answers.document(self._send("POST", f"/keys/{_part(key_id)}/rotate", body)))

    def revoke_key(self, key_id: str) -> ApiKey:
        """End a key now and for ever."""
        return answers.value(ApiKey, answers.document(self._send("DELETE", f"/keys/{_part(key_id)}")))

    def audit(self, tenant: str | None = None, *, after: str = "") -> Iterator[AuditEntry]:
        """Who changed what, newest first; only older entries than the one whose id is `after`."""
        yield from (
            answers.value(AuditEntry, each) for each in self._pages("/audit", tenant=tenant, after=after or None)
        )

    # -- requests ---------------------------------------------------------------------------------

    def _submit(self, path: str, body: Mapping[str, Any], how: Mapping[str, Any]) -> Job:
        more = {name: value for name, value in how.items() if name != "idempotency_key" and value is not None}
        if isinstance(more.get("deadline"), datetime):
            more["deadline"] = more["deadline"].isoformat()
        headers = {"Idempotency-Key": how.get("idempotency_key") or secrets.token_hex(16)}
        return answers.job(answers.document(self._send("POST", path, {**body, **more}, headers=headers, again=True)))

    def _submit_again(self, path: str, how: Mapping[str, Any], text: str | None = None) -> Job:
        """A job that carries on with what there is; how it is treated stands in the address."""
        headers = {"Idempotency-Key": how.get("idempotency_key") or secrets.token_hex(16)}
        query = {name: value for name, value in how.items() if name != "idempotency_key"}
        return answers.job(
            answers.document(self._send("POST", path, text=text, query=query, headers=headers, again=True))
        )

    def _answer(self, path: str, operation: Operation, **query: Any) -> Any:
        """What a worker is asked for: if it takes longer than one request waits, the job is waited for."""
        found = self._get(path, **query)
        while answers.is_job(found):
            self.result(answers.job(found))
            found = self._get(path) if operation is Operation.HEALTH else self._of_result(found["job_id"])
        return found

    def _of_result(self, job_id: str) -> Any:
        job = self.job(job_id)
        return {"table": job.request.table, "values": job.result}

    def _pages(self, path: str, **query: Any) -> Iterator[Any]:
        cursor: str | None = None
        while True:
            found = self._get(path, cursor=cursor, **query)
            while answers.is_job(found):
                self.result(answers.job(found))
                query.pop("fresh", None)
                found = self._get(path, **query)
            items, cursor = answers.read(answers.page, found)
            yield from items
            if cursor is None:
                return

    def _get(self, path: str, **query: Any) -> Any:
        known = {name: value for name, value in query.items() if value not in (None, [], False)}
        return answers.document(self._send("GET", path, query=known))

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        text: str | None = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        again: bool | None = None,
    ) -> "httpx.Response":
        """One request, tried again if that can help and cannot hurt."""
        httpx = _httpx()
        may_repeat = method in ("GET", "PUT", "DELETE") if again is None else again
        content = text if body is None else json.dumps(body)
        sent = {**(headers or {}), **({"Content-Type": "application/json"} if content is not None else {})}
        waits = float(str((query or {}).get("wait", "0s")).removesuffix("s"))
        timeout = self._timeout + max(waits, _WAIT if method == "GET" else 0.0)
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                response = self._http.request(
                    method, _PREFIX + path, params=query, content=content, headers=sent, timeout=timeout
                )
            except httpx.TransportError as error:
                unheard = may_repeat or isinstance(error, httpx.ConnectError)
                if last or not unheard:
                    raise _unreachable(self._url, error) from None
                self._pause(_pause(attempt, None))
                continue
            except (httpx.DecodingError, httpx.InvalidURL, UnicodeError):
                raise answers.not_ours("what cannot be read") from None
            if response.status_code not in _AGAIN or not may_repeat or last:
                return answers.checked(response)
            self._pause(_pause(attempt, response.headers.get("Retry-After")))
        raise AssertionError("the last attempt returns or raises")

    def _events(self, job_id: str) -> Iterator[Job]:
        """One stream of events, as long as it lasts."""
        httpx = _httpx()
        path = f"{_PREFIX}/jobs/{_part(job_id)}/events"
        timeout = httpx.Timeout(self._timeout, read=_STREAM_QUIET)
        for attempt in range(self._retries + 1):
            try:
                with self._http.stream("GET", path, timeout=timeout) as response:
                    if response.is_error:
                        response.read()
                        answers.checked(response)
                    for line in response.iter_lines():
                        if line.startswith("data: "):
                            yield answers.job(answers.read(json.loads, line.removeprefix("data: ")))
                return
            except (httpx.DecodingError, UnicodeError):
                raise answers.not_ours("what cannot be read") from None
            except (httpx.TransportError, errors.TemporaryError) as error:
                if attempt == self._retries:
                    raise _unreachable(self._url, error) from None
                self._pause(_pause(attempt, None))


# -- parts ----------------------------------------------------------------------------------------


def _httpx() -> Any:
    try:
        import httpx
    except ImportError:
        raise SetupMissing("the client needs httpx, which is not here: pip install 'icepact[service]'") from None
    return httpx


def _host(url: str) -> str:
    """The host of an address; BadInput if it is none."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and "@" not in parts.netloc and url.isprintable() and " " not in url
        host = parts.hostname if good and parts.port != 0 else None
    except ValueError:
        host = None
    if not host:
        raise BadInput(_ADDRESS)
    return host


def _id(job: Job | str) -> str:
    return job if isinstance(job, str) else job.job_id


def _part(text: str) -> str:
    return quote(text, safe="")


def _table(name: str) -> str:
    return f"/tables/{_part(name)}"


def _wait(seconds: float) -> dict[str, str]:
    return {"wait": f"{seconds:.3f}s"} if seconds > 0 else {}


def _pause(attempt: int, retry_after: str | None) -> float:
    """Seconds until a request is tried again: as the service says, else longer each time, and by chance."""
    if retry_after is not None and retry_after.isdecimal():
        return min(float(retry_after), _LONGEST_PAUSE) * random.uniform(1.0, 1.25)
    return min(_FIRST_PAUSE * float(2**attempt), _LONGEST_PAUSE) * random.uniform(0.5, 1.0)


def _unreachable(url: str, error: Exception) -> ServiceUnreachable:
    return ServiceUnreachable(f"the service at {url} does not answer: {error or type(error).__name__}")
