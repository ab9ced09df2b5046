"""Tenants: for whom the service works, with which keys, on which tables, and how much of it.

A tenant's name stands in jobs and in the audit log. The tenant `default` is whoever runs the service: it is there
without being made, and its admins look after the others.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from icepact.model.documents import Document, Moment
from icepact.model.errors import BadInput
from icepact.model.job import DEFAULT_TENANT

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?")


class Role(StrEnum):
    """What a key may do; each role may do what those before it may."""

    VIEWER = "viewer"
    """Looks."""
    OPERATOR = "operator"
    """Has work done on tables, and stops it."""
    ADMIN = "admin"
    """Changes policies, schedules and keys."""

    def includes(self, other: "Role") -> bool:
        """Whether it may do all that the other may."""
        order = tuple(Role)
        return order.index(self) >= order.index(other)


@dataclass(frozen=True, kw_only=True, slots=True)
class Quota(Document):
    """What a tenant may have at most; `None` is as much as it likes."""

    jobs_at_once: int | None = None
    """With workers."""
    bytes_per_hour: int | None = None
    """Of inputs of rewrites. Once they are used, no job that changes a table is begun for the tenant."""
    money_per_hour: float | None = None
    """In the currency of the prices; as above."""

    def __post_init__(self) -> None:
        for name in ("jobs_at_once", "bytes_per_hour", "money_per_hour"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise BadInput(f"{name} must be above zero, not {value:g}")

    @property
    def is_hourly(self) -> bool:
        """Whether it depends on what was spent."""
        return self.bytes_per_hour is not None or self.money_per_hour is not None

    def is_used_up(self, size: int, money: float) -> bool:
        """Whether nothing that spends may be begun if so much was spent in an hour."""
        return (self.bytes_per_hour is not None and size >= self.bytes_per_hour) or (
            self.money_per_hour is not None and money >= self.money_per_hour
        )


NO_QUOTA = Quota()


@dataclass(frozen=True, kw_only=True, slots=True)
class QuotaUse(Document):
    """What a tenant has used of its quota."""

    tenant: str
    quota: Quota
    running: int
    """Jobs with workers."""
    bytes_in_hour: int
    """By runs that ended in the last hour, and promised by those that go on."""
    money_in_hour: float
    free_at: Moment | None = None
    """When less than the quota of an hour is used, if nothing more is begun; `None` if that is so now."""

    @property
    def used_up(self) -> bool:
        """Whether nothing that spends may be begun."""
        return self.quota.is_used_up(self.bytes_in_hour, self.money_in_hour)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tenant(Document):
    """A team, and the tables that exist for it."""

    name: str
    """Small letters, digits, `-` and `_`."""
    tables: tuple[str, ...] = ()
    """Patterns over namespace and name, without the catalog, as `sales.*`; none means no table."""
    catalogs: tuple[str, ...] = ()
    """Names of the catalogs that these are in; none means any."""
    quota: Quota = NO_QUOTA
    description: str = ""
    created_at: Moment | None = None
    """`None` for a tenant that nobody has made."""
    version: int = 0
    """Grows with every change; 0 as long as it is not on record."""

    def __post_init__(self) -> None:
        check_tenant_name(self.name)


def check_tenant_name(name: str) -> str:
    """The same name; BadInput if a tenant cannot be called so."""
    if not _NAME.fullmatch(name):
        raise BadInput(f"{name!r} is no name of a tenant: up to 63 small letters, digits, - and _, like data-platform")
    return name


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiKey(Document):
    """What is known of a key; not its secret, which only its owner has."""

    key_id: str
    """Stands in the secret, too: `icp_<key_id>_...`."""
    tenant: str
    role: Role
    name: str
    """For people: what it is used for."""
    created_at: Moment
    expires_at: Moment | None = None
    """It is good for nothing from then on; `None` for never."""
    revoked_at: Moment | None = None
    """When somebody ended it; `None` if nobody has."""
    replaced_by: str | None = None
    """The key that it was rotated to."""
    last_used_at: Moment | None = None
    """To the minute; `None` if never."""


class TableScope(Protocol):
    """Which tables of a catalog there are for somebody."""

    def holds(self, table: str) -> bool:
        """Whether a table, by its full name, is among them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """Who asks, and what there is for them."""

    tenant: str
    role: Role
    key_id: str | None
    """`None` for whoever needs no key, on this machine."""
    name: str
    """Of the key."""
    scope: TableScope = field(repr=False)

    def may(self, role: Role) -> bool:
        """Whether what takes this role may be done."""
        return self.role.includes(role)

    def sees(self, table: str) -> bool:
        """Whether a table exists for them, by its full name as icepact shows it: quoted where it must be, without the
        catalog."""
        return self.scope.holds(table)

    @property
    def looks_after_tenants(self) -> bool:
        """Whether all tenants may be changed, their scopes and quotas included."""
        return self.may(Role.ADMIN) and self.tenant == DEFAULT_TENANT

    def manages(self, tenant: str) -> bool:
        """Whether the keys of a tenant may be changed, and its audit log read."""
        return self.may(Role.ADMIN) and self.tenant in (tenant, DEFAULT_TENANT)


@dataclass(frozen=True, kw_only=True, slots=True)
class AuditEntry(Document):
    """Something that somebody changed, or tried to."""

    entry_id: str
    """Newer entries have smaller ids."""
    at: Moment
    tenant: str
    """Whose things it was about."""
    by: str
    """The key, as `key 3f2a (deploy) of red`, or who sat at the machine."""
    action: str
    """Such as `keys.create`."""
    target: str
    """What was changed."""
    result: str
    """`done`, or why not."""
    request_id: str | None = None
    """Of the request over HTTP; `None` if it was none."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """More about it; never a secret."""
