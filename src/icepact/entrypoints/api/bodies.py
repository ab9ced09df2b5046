"""Bodies of requests. A key that is none of them is refused."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, TypedDict

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, Strict, StrictBool, WithJsonSchema
from pydantic_core import PydanticKnownError

from icepact.model.fleet import RankBy
from icepact.model.job import HIGHEST_PRIORITY, MOST_FAILURES, JobRequest, Operation
from icepact.model.limits import Limit, Resource
from icepact.model.policy import OPERATIONS, OPTIONS, OptionUnit
from icepact.model.tenant import NO_QUOTA, Quota, Role
from icepact.policy.options import choices
from icepact.policy.validation import StrictModel
from icepact.schedule.requests import ALLOWED

_LONGEST_NAME = 1000
_LONGEST_TEXT = 500_000
_BY_UNIT: Mapping[OptionUnit, Mapping[str, Any]] = {
    OptionUnit.BYTES: {"type": ["integer", "string", "null"], "examples": ["512MB"]},
    OptionUnit.SECONDS: {"type": ["string", "null"], "examples": ["2h"]},
    OptionUnit.MONEY: {"type": ["number", "string", "null"]},
}


def _instant(given: Any) -> Any:
    """Pydantic would take a number for seconds since 1970, also as a text."""
    if not isinstance(given, str | datetime) or str(given).lstrip("+-").replace(".", "").isdecimal():
        raise PydanticKnownError("datetime_type")
    return given


Whole = Annotated[int, Strict()]
"""Pydantic would take texts, and true, for one otherwise."""
Number = Annotated[float, Strict()]
Instant = Annotated[AwareDatetime, BeforeValidator(_instant)]


def options_schema(operation: Operation) -> dict[str, Any]:
    """The schema of the options that an operation takes; null is as if one were not given."""
    fields = {}
    for name in sorted(ALLOWED[operation].options):
        option, known = OPTIONS[name], choices(name)
        shape: Mapping[str, Any] = _BY_UNIT.get(option.unit, {}) if option.unit else {}
        if known:
            shape = {"enum": [*known, None]}
        fields[name] = {"description": option.description, **shape}
    return {"type": "object", "properties": fields, "additionalProperties": False}


def _options(operation: Operation) -> Any:
    return Annotated[
        dict[str, Any],
        WithJsonSchema(options_schema(operation)),
        Field(description="Above those of all policies, as flags of the command line; null is as if not given."),
    ]


class How(TypedDict, total=False):
    """How a job is to be treated."""

    priority: int | None
    deadline: datetime | None
    most_failures: int


class JobBody(StrictModel):
    """What every job can be given."""

    priority: Whole | None = Field(
        default=None, ge=-HIGHEST_PRIORITY, le=HIGHEST_PRIORITY, description="Of your jobs, greater ones come first."
    )
    deadline: Instant | None = Field(
        default=None, description="Nothing is begun after it, and what is under way is stopped."
    )
    most_failures: Whole = Field(default=MOST_FAILURES, ge=1, le=100, description="After so many it has failed.")

    @property
    def how(self) -> "How":
        """What is not part of the request itself."""
        return How(priority=self.priority, deadline=self.deadline, most_failures=self.most_failures)


class LimitBody(StrictModel):
    """How much of one thing a run may use up."""

    resource: Resource
    amount: Number = Field(ge=0, le=1e18, allow_inf_nan=False, description="Seconds are of work on one core.")
    name: str = Field(min_length=1, max_length=500, description="What messages call it.")

    @property
    def value(self) -> Limit:
        """As a job has it."""
        return Limit(resource=self.resource, amount=self.amount, name=self.name)


class CompactBody(JobBody):
    """A compaction that is asked for."""

    table: str = Field(min_length=1, max_length=_LONGEST_NAME, description="As in Spark SQL: `db.table`.")
    strategy: str | None = Field(default=None, description="Which files are candidates; as the policy of the table.")
    options: _options(Operation.COMPACT) = Field(default_factory=dict)  # type: ignore[valid-type]
    dry_run: StrictBool = Field(default=False, description="Say what would be done, and do nothing.")
    budget: list[LimitBody] = Field(
        default_factory=list, max_length=20, description="It keeps to this, too, besides to what its policies allow."
    )

    def request(self) -> JobRequest:
        """As a job has it."""
        strategy = {} if self.strategy is None else {"strategy": self.strategy}
        return JobRequest(
            operation=Operation.COMPACT,
            table=self.table,
            options={**self.options, **strategy},
            dry_run=self.dry_run,
            budget=tuple(limit.value for limit in self.budget),
        )


class RankBody(JobBody):
    """A ranking that is asked for."""

    pattern: str | None = Field(
        default=None, min_length=1, max_length=_LONGEST_NAME, description="Only these tables, like `db.*`."
    )
    by: RankBy = Field(default=RankBy.WORTH, description="What comes first.")
    options: _options(Operation.FLEET) = Field(  # type: ignore[valid-type]
        default_factory=dict, description="A budget for all of them together."
    )

    def request(self) -> JobRequest:
        """As a job has it."""
        return JobRequest(operation=Operation.FLEET, options=self.options, pattern=self.pattern, by=self.by.value)


_FIELDS: Mapping[str, Any] = {
    "dry_run": (StrictBool, Field(default=False, description="Say what would be done, and do nothing.")),
    "allow_young": (StrictBool, Field(default=False, description="Ages below the floor of a day are meant.")),
    "exclude": (
        Annotated[tuple[str, ...], BeforeValidator(lambda given: tuple(given) if isinstance(given, list) else given)],
        Field(default=(), max_length=1000, description="Folders that are left alone."),
    ),
    "without": (
        Annotated[tuple[str, ...], BeforeValidator(lambda given: tuple(given) if isinstance(given, list) else given)],
        Field(default=(), max_length=len(OPERATIONS), description="Operations that are left out."),
    ),
    "columns": (
        tuple[str, ...] | None,
        Field(default=None, max_length=1000, description="Only of these columns; of all that can have some if null."),
    ),
}


class OperationBody(JobBody):
    """An operation on the table that the address names."""

    options: dict[str, Any] = Field(default_factory=dict)

    def request(self, operation: Operation, table: str) -> JobRequest:
        """As a job has it."""
        given = {name: getattr(self, name) for name in _FIELDS if name in type(self).model_fields}
        return JobRequest(operation=operation, table=table, options=self.options, **given)


def body_of(operation: Operation) -> type[OperationBody]:
    """The body of requests for an operation: what it takes."""
    taken = {name: _FIELDS[name] for name in sorted(ALLOWED[operation].fields)}
    fields = {"options": (_options(operation), Field(default_factory=dict)), **taken}
    space = {"__module__": __name__, "__doc__": f"How {operation} is to be done.", "__annotations__": {}}
    for name, (kind, default) in fields.items():
        space["__annotations__"][name] = kind  # type: ignore[index]
        space[name] = default
    return type(f"{operation.capitalize()}Body", (OperationBody,), space)


class PutPoliciesBody(StrictModel):
    """A policy file."""

    text: str = Field(min_length=1, max_length=_LONGEST_TEXT, description="As in a file: YAML, in any of its forms.")


class CommitBody(BaseModel):
    """A commit that somebody tells of. What other systems say besides is not looked at."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    table: str = Field(min_length=1, max_length=_LONGEST_NAME, description="The table that was committed to.")
    snapshot_id: Whole | None = Field(default=None, ge=-(2**63), lt=2**63, description="The snapshot that was made.")


class QuotaBody(StrictModel):
    """What a tenant may have at most; null is as much as it likes."""

    jobs_at_once: Whole | None = Field(default=None, ge=1, le=10_000)
    bytes_per_hour: Whole | None = Field(default=None, ge=1, le=2**62)
    money_per_hour: Number | None = Field(default=None, gt=0, le=1e12, allow_inf_nan=False)

    @property
    def value(self) -> Quota:
        """As a tenant has it."""
        return Quota(**self.model_dump()) if self != QuotaBody() else NO_QUOTA


_Patterns = Annotated[list[str], Field(max_length=1000)]
_TenantName = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$")]


class TenantBody(StrictModel):
    """A new tenant."""

    name: _TenantName
    tables: _Patterns = Field(default_factory=list, description="Patterns over its tables, as `sales.*`.")
    catalogs: _Patterns = Field(default_factory=list, description="Names of the catalogs of these; any if empty.")
    quota: QuotaBody = Field(default_factory=QuotaBody)
    description: str = Field(default="", max_length=2000)


class TenantChange(StrictModel):
    """What is to change of a tenant; the rest stays as it is."""

    tables: _Patterns | None = None
    catalogs: _Patterns | None = None
    quota: QuotaBody | None = None
    description: str | None = Field(default=None, max_length=2000)
    version: Whole | None = Field(default=None, ge=0, description="Of the tenant that was seen: 409 if it is another.")


class KeyBody(StrictModel):
    """A new key."""

    tenant: _TenantName | None = Field(default=None, description="Yours if not given.")
    role: Role
    name: str = Field(default="", max_length=200, description="For people: what it is used for.")
    expires_at: Instant | None = Field(default=None, description="It is good for nothing from then on.")


class RotateBody(StrictModel):
    """How a key is replaced by another one."""

    overlap_seconds: Number = Field(
        default=0.0, ge=0, le=365 * 86400.0, description="For so long the old one is good still."
    )
