"""What the service answers besides values of the application: problems, pages, tables as they were seen last."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from icepact.model.costs import Costs
from icepact.model.documents import Document, Moment
from icepact.model.errors import IcepactError
from icepact.model.health import Health
from icepact.model.tenant import ApiKey, Role

PROBLEM_TYPE = "urn:icepact:problem:"


@dataclass(frozen=True, kw_only=True, slots=True)
class Wrong(Document):
    """One thing that is wrong with a request."""

    at: str
    """The part of the request and the keys that lead to it, as `body.options.max_files`."""
    detail: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem(Document):
    """Why a request was not carried out, as RFC 9457 has it."""

    type: str
    """`urn:icepact:problem:` and the name of the error."""
    title: str
    """The same for all problems of a type."""
    status: int
    detail: str
    request_id: str | None = None
    """Under which the logs of the service have it."""
    errors: tuple[Wrong, ...] = ()
    """All that is wrong with the request, if it is that."""


def problem_name(kind: type[IcepactError]) -> str:
    """What an error is called in problems: `table-not-found`."""
    return "".join(f"-{c.lower()}" if c.isupper() else c for c in kind.__name__).removeprefix("-")


@dataclass(frozen=True, kw_only=True, slots=True)
class TableHealth(Document):
    """The health of a table as a worker saw it last."""

    table: str
    checked_at: Moment
    age_seconds: float
    """Since it was looked at."""
    health: Health
    """Long lists of it may be cut."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TableEntry(Document):
    """A table, and what is known of it without looking again."""

    table: str
    score: float | None = None
    """0 to 100; `None` if no worker has looked at it yet."""
    data_files: int | None = None
    small_files: int | None = None
    delete_files: int | None = None
    bytes: int | None = None
    checked_at: Moment | None = None
    """When a worker looked at it last."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TablePolicies(Document):
    """What holds for a table: each option with its value and where that came from."""

    table: str
    values: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyDocument(Document):
    """The policies in force, and what they were read from."""

    source: str
    """`configuration`, or `api` if they were put."""
    version: int
    """Of what was put; 0 if nothing was."""
    changed_at: Moment | None
    text: str | None
    """As it was put; `None` if the configuration names a file."""
    file: str | None
    profile: str | None
    policies: Sequence[str]
    """Names of its own policies."""
    rules: Sequence[Mapping[str, Any]]
    for_all: Mapping[str, Any]
    not_ours: Sequence[str]
    """Keys that mean nothing here."""
    warnings: Sequence[str] = ()


Cursor = Annotated[str | None, Field(description="Give it as `cursor` to go on; null if there is no more.")]


@dataclass(frozen=True, kw_only=True, slots=True)
class StopAsked(Document):
    """A run that is to stop."""

    run_id: str
    job_id: str | None
    """The job that is cancelled with it; `None` if it was not begun by one, or not by one of yours."""
    message: str
    """What will happen."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreStatus(Document):
    """What the record store of a service holds."""

    store: str
    """`configured`: where it is, the configuration says, and no answer."""
    rows: Mapping[str, int]
    """By what they are."""
    concerns: Sequence[str]
    """Settings of it that endanger what it holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entrance(Document):
    """Where there is what."""

    api: str
    openapi: str
    """The description of the API."""
    alive: str
    ready: str
    metrics: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NewKey(Document):
    """A key that was just made."""

    key: ApiKey
    secret: str
    """Shown once, kept by nobody."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Alive(Document):
    """A process that answers."""

    status: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TenantCosts(Document):
    """What runs for a tenant cost."""

    tenant: str
    costs: Sequence[Costs]


@dataclass(frozen=True, kw_only=True, slots=True)
class About(Document):
    """A service, and whose tables it looks after."""

    version: str
    """Of icepact."""
    catalog: str
    namespace: str
    """Of tables that are named without one."""
    currency: str
    """Of its prices."""
    tenant: str
    """Whose key it was that asked."""
    role: Role
