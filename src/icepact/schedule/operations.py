"""What a job may be: for each operation, the use case of the application that carries it out, and what it answers."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Protocol

from icepact.model.job import JobRequest, Operation
from icepact.model.progress import Progress
from icepact.model.saved import SavedPlan, saved_text
from icepact.model.status import Status
from icepact.policy.options import Options
from icepact.schedule.requests import saved_plan

if TYPE_CHECKING:
    from icepact.app import Application
    from icepact.model.outcome import Outcome
    from icepact.model.plan import Plan

MOST_BYTES = 256 * 1024
"""Of a result as JSON; long lists are cut until it is no larger."""
_CUTS = (1000, 200, 50, 10, 1, 0)


class Listener(Progress, Protocol):
    """Who hears what an operation comes to, and may break it off by raising Cancelled, but not from `advance` and
    `step`."""

    def on_resumed(self, outcome: "Outcome | None") -> None:
        """Called before the table is planned, with the outcome of a run that was carried on with."""

    def on_operation(self, operation: str) -> None:
        """Called before each operation of maintenance."""

    def on_table(self, table: str, total: int) -> None:
        """Called before each of so many tables is looked at."""

    def confirm(self, plan: "Plan") -> bool:
        """Called with the plan; says whether it is carried out."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Task:
    """What an operation is to do."""

    request: JobRequest
    options: Options
    listener: Listener
    plan: bytes = b""
    """The saved plan that is to be applied."""
    sees: Callable[[str], bool] = lambda _: True
    """Whether a table, by its full name, exists for whoever asks."""

    @property
    def table(self) -> str:
        """Its full name; requests for operations on tables have one."""
        assert self.request.table is not None
        return self.request.table


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What an operation came to."""

    result: Mapping[str, Any]
    """As the command of the same name prints it with `--json`; see `cut`."""
    status: Status | None = None
    """How its run ended; `None` if it has none."""
    error: str | None = None
    plan: bytes = b""
    """The plan that was made, if it can be carried out later."""
    health: Mapping[str, Any] | None = None
    """Of the table, if that was asked."""
    tables: tuple[str, ...] | None = None
    """All of the catalog, if that was asked."""
    ranking: bytes = b""
    """Of tables, if that was asked: the whole of it, as JSON."""


def carry_out(application: "Application", task: Task) -> Answer:
    """Carry out what is asked."""
    return _OPERATIONS[task.request.operation](application, task)


def answer_of(outcome: "Outcome") -> Answer:
    """What a run came to."""
    return Answer(result=cut(outcome.to_dict()), status=outcome.status, error=outcome.error)


def cut(document: Mapping[str, Any], *, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """A document with its longest lists cut until it is no larger; `cut` then says how long they were, by where they
    are."""
    whole = dict(document)
    if len(json.dumps(whole)) <= most_bytes:
        return whole
    for most in _CUTS:
        lengths: dict[str, int] = {}
        shorter = {**_cut(whole, most, "", lengths), "cut": lengths}
        if len(json.dumps(shorter)) <= most_bytes:
            break
    return shorter


def _cut(value: Any, most: int, where: str, lengths: dict[str, int]) -> Any:
    if isinstance(value, Mapping):
        if len(value) > max(most, _CUTS[1]):
            lengths[where] = len(value)
            value = dict(list(value.items())[:most])
        return {name: _cut(inner, most, f"{where}.{name}" if where else name, lengths) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        if len(value) > most:
            lengths[where] = max(len(value), lengths.get(where, 0))
        return [_cut(inner, most, where, lengths) for inner in value[:most]]
    return value


def _saved(plan: "Plan | None") -> bytes:
    """A plan as it is kept; empty if none was made."""
    if plan is None:
        return b""
    return saved_text(SavedPlan(plan=plan, made_at=datetime.now(UTC), icepact=version("icepact"))).encode()


# -- operations -----------------------------------------------------------------------------------


def _compact(application: "Application", task: Task) -> Answer:
    if task.request.dry_run:
        return _plan(application, task)
    heard = task.listener
    return answer_of(
        application.compact(
            task.table,
            task.options,
            limits=task.request.budget,
            progress=heard,
            on_resumed=heard.on_resumed,
            confirm=heard.confirm,
        )
    )


def _plan(application: "Application", task: Task) -> Answer:
    plan = application.plan(task.table, task.options, limits=task.request.budget)
    return Answer(result=cut(plan.to_dict()), plan=_saved(plan))


def _apply(application: "Application", task: Task) -> Answer:
    saved = saved_plan(task.plan)
    task.listener.confirm(saved.plan)
    return answer_of(application.apply(saved, progress=task.listener))


def _maintain(application: "Application", task: Task) -> Answer:
    done = application.maintain(
        task.table,
        task.options,
        exclude=task.request.exclude,
        without=task.request.without,
        dry_run=task.request.dry_run,
        progress=task.listener,
        on_operation=task.listener.on_operation,
        confirm=task.listener.confirm,
    )
    if done.well:
        return Answer(result=cut(done.to_dict()))
    failed = [one for one in done.operations if not one.well]
    why = "; ".join(line for one in failed for line in one.lines(done.currency)[:1])
    unknown = any(one.outcome is not None and one.outcome.status is Status.UNKNOWN for one in failed)
    return Answer(result=cut(done.to_dict()), status=Status.UNKNOWN if unknown else Status.FAILED, error=why)


_UseCase = Callable[["Application", JobRequest], Callable[..., "Outcome"]]


def _step(use_case: _UseCase, application: "Application", task: Task) -> Answer:
    """One step of housekeeping."""
    made: list[Plan] = []

    def confirm(plan: "Plan") -> bool:
        made.append(plan)
        return task.listener.confirm(plan)

    request, heard = task.request, task.listener
    outcome = use_case(application, request)(
        task.table,
        task.options,
        allow_young=request.allow_young,
        dry_run=request.dry_run,
        progress=heard,
        on_resumed=heard.on_resumed,
        confirm=confirm,
    )
    plan = _saved(made[-1]) if request.dry_run and made else b""
    return Answer(result=cut(outcome.to_dict()), status=outcome.status, error=outcome.error, plan=plan)


def _health(application: "Application", task: Task) -> Answer:
    found = cut(application.health(task.table, task.options).to_dict())
    usual = not task.options.model_fields_set
    return Answer(result=found, health=found if usual else None)


def _policy(application: "Application", task: Task) -> Answer:
    return Answer(result=cut(application.policy(task.table, task.options).to_dict()))


def _tables(application: "Application", task: Task) -> Answer:
    del task  # there is nothing to be asked for
    tables = tuple(application.tables())
    return Answer(result=cut({"tables": tables}), tables=tables)


def _fleet(application: "Application", task: Task) -> Answer:
    request = task.request
    by = {} if request.by is None else {"by": request.by}
    found = application.fleet(
        request.pattern, task.options, only=task.sees, on_table=task.listener.on_table, **by
    ).to_dict()
    return Answer(result=cut(found), ranking=json.dumps(found).encode())


def _resume(application: "Application", task: Task) -> Answer:
    assert task.request.run_id is not None  # requests without are refused
    return answer_of(application.resume(task.request.run_id, progress=task.listener))


def _unblock(application: "Application", task: Task) -> Answer:
    return Answer(result={"forgotten": application.unblock(task.table)})


_OPERATIONS: Mapping[Operation, Callable[["Application", Task], Answer]] = {
    Operation.COMPACT: _compact,
    Operation.MAINTAIN: _maintain,
    Operation.APPLY: _apply,
    Operation.EXPIRE: partial(_step, lambda application, _: application.expire),
    Operation.ORPHANS: partial(
        _step, lambda application, request: partial(application.orphans, exclude=request.exclude)
    ),
    Operation.MANIFESTS: partial(_step, lambda application, _: application.manifests),
    Operation.DELETES: partial(_step, lambda application, _: application.deletes),
    Operation.TTL: partial(_step, lambda application, _: application.ttl),
    Operation.TAGS: partial(_step, lambda application, _: application.tags),
    Operation.STATISTICS: partial(
        _step, lambda application, request: partial(application.statistics, columns=request.columns)
    ),
    Operation.HEALTH: _health,
    Operation.PLAN: _plan,
    Operation.POLICY: _policy,
    Operation.TABLES: _tables,
    Operation.FLEET: _fleet,
    Operation.RESUME: _resume,
    Operation.UNBLOCK: _unblock,
}
