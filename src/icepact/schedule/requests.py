"""What each operation may be asked for; a request that is wrong is refused before it is queued."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from icepact.iceberg.names import show_name, table_parts
from icepact.model.errors import BadInput
from icepact.model.fleet import rank_by
from icepact.model.job import JobRequest, Operation
from icepact.model.policy import OPERATIONS, OPTIONS
from icepact.model.saved import SavedPlan, parse_saved
from icepact.policy.options import BUILT_IN_STRATEGIES, Options, options
from icepact.policy.patterns import parse_pattern

_HOUSEKEEPING = ("expire_", "orphans_", "statistics_", "ttl_", "tag_", "housekeeping", "priority_weights")
_PLANNING = frozenset(name for name in OPTIONS if not name.startswith(_HOUSEKEEPING))
_ALL = frozenset(OPTIONS)


def _beginning(*words: str) -> frozenset[str]:
    return frozenset(name for name in OPTIONS if name.startswith(words))


@dataclass(frozen=True, kw_only=True, slots=True)
class Allowed:
    """What a request for one operation may say."""

    options: frozenset[str] = frozenset()
    fields: frozenset[str] = frozenset()
    """Of the request, besides operation, table and options."""


_CHANGE = frozenset({"dry_run"})
_TAKE_AWAY = frozenset({"dry_run", "allow_young"})

ALLOWED: Mapping[Operation, Allowed] = {
    Operation.COMPACT: Allowed(options=_PLANNING, fields=_CHANGE | {"budget"}),
    Operation.MAINTAIN: Allowed(options=_ALL, fields=_CHANGE | {"exclude", "without"}),
    Operation.APPLY: Allowed(),
    Operation.EXPIRE: Allowed(options=_beginning("expire_"), fields=_TAKE_AWAY),
    Operation.ORPHANS: Allowed(options=_beginning("orphans_"), fields=_TAKE_AWAY | {"exclude"}),
    Operation.MANIFESTS: Allowed(fields=_CHANGE),
    Operation.DELETES: Allowed(options=frozenset({"branch"}), fields=_CHANGE),
    Operation.TTL: Allowed(options=_beginning("ttl_", "branch"), fields=_TAKE_AWAY),
    Operation.TAGS: Allowed(options=_beginning("tag_"), fields=_CHANGE),
    Operation.STATISTICS: Allowed(options=_beginning("statistics_"), fields=_CHANGE | {"columns"}),
    Operation.HEALTH: Allowed(
        options=frozenset({"target_file_size", "min_file_size", "branch", "snapshot_id", "priority_weights"})
    ),
    Operation.PLAN: Allowed(options=_PLANNING),
    Operation.POLICY: Allowed(options=_ALL),
    Operation.TABLES: Allowed(),
    Operation.FLEET: Allowed(
        options=frozenset({"max_cost", "max_bytes", "max_files"}), fields=frozenset({"pattern", "by"})
    ),
    Operation.RESUME: Allowed(fields=frozenset({"run_id"})),
    Operation.UNBLOCK: Allowed(),
}
_FIELDS = ("exclude", "columns", "allow_young", "dry_run", "budget", "without", "run_id", "pattern", "by")


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """How tables are named where a request comes from."""

    catalog: str
    """Its name in Spark."""
    namespace: tuple[str, ...] = ("default",)
    """Of tables that are named without one."""
    strategies: Sequence[str] = BUILT_IN_STRATEGIES

    def full(self, table: str) -> str:
        """The one name of a table, however it was written."""
        return show_name(table_parts(table, self.catalog, self.namespace))


def checked(request: JobRequest, plan: bytes, names: Names) -> JobRequest:
    """The request with the full name of its table; BadInput names the field that is wrong."""
    operation, allowed = request.operation, ALLOWED[request.operation]
    for name in _FIELDS:
        if getattr(request, name) and name not in allowed.fields:
            raise BadInput(f"{name}: {operation} does not take it")
    options_of(request, names.strategies)
    if operation is Operation.APPLY:
        return _of_plan(request, plan, names)
    if plan:
        raise BadInput(f"plan: {operation} takes none; only apply does")
    _check_fields(request)
    if operation.of_all:
        if request.table is not None:
            raise BadInput(f"table: {operation} is on all of them, and takes none")
        return request
    if not request.table:
        raise BadInput(f"table: none is given, and {operation} needs one: write db.table")
    return replace(request, table=_full(request.table, names))


def _check_fields(request: JobRequest) -> None:
    """Raise BadInput if one of the fields that some operation takes says what it cannot."""
    unknown = [name for name in request.without if name not in OPERATIONS]
    if unknown:
        raise BadInput(f"without: {unknown[0]!r} is no operation; there is: {', '.join(OPERATIONS)}")
    if request.pattern is not None:
        try:
            parse_pattern(request.pattern)
        except BadInput as error:
            raise BadInput(f"pattern: {error}") from None
    if request.by is not None:
        rank_by(request.by)
    if request.operation is Operation.RESUME and not request.run_id:
        raise BadInput("run_id: none is given, and resume carries on with one")


def options_of(request: JobRequest, strategies: Sequence[str] = BUILT_IN_STRATEGIES) -> Options:
    """The options of a request; BadInput names the one that is wrong."""
    allowed = ALLOWED[request.operation].options
    for name in request.options:
        if name in OPTIONS and name not in allowed:
            taken = f"it takes {', '.join(sorted(allowed))}" if allowed else "it takes none"
            raise BadInput(f"{name}: {request.operation} does not take this option; {taken}")
    return options(request.options, strategies=strategies)


def saved_plan(plan: bytes) -> SavedPlan:
    """The plan that a job is to apply."""
    try:
        text = plan.decode()
    except UnicodeDecodeError:
        raise BadInput("plan: it is no text, and so no saved plan") from None
    return parse_saved(text, "the plan")


def _of_plan(request: JobRequest, plan: bytes, names: Names) -> JobRequest:
    if not plan:
        raise BadInput("plan: none is given, and apply carries one out")
    table = saved_plan(plan).plan.table
    if request.table is not None and _full(request.table, names) != table:
        raise BadInput(f"table: the plan is of {table}, not of {request.table}")
    return replace(request, table=table)


def _full(table: str, names: Names) -> str:
    try:
        return names.full(table)
    except BadInput as error:
        raise BadInput(f"table: {error}") from None
