"""Where `icepact tenants`, `keys` and `audit` look things up and change them: in the record store, with or without a
service that runs, or through a service."""

import getpass
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, Protocol

from icepact.client import Client
from icepact.entrypoints.cli.session import Session
from icepact.entrypoints.serving import Service, build_service
from icepact.model.errors import IcepactError
from icepact.model.job import DEFAULT_TENANT
from icepact.model.tenant import ApiKey, AuditEntry, Quota, QuotaUse, Role, Tenant
from icepact.schedule.audit import DONE, Audit
from icepact.schedule.quotas import Quotas
from icepact.schedule.tenants import Tenants


class Office(Protocol):
    """Tenants, keys and who changed them, wherever they are."""

    def tenants(self) -> Sequence[Tenant]:
        """All of them."""

    def tenant(self, name: str) -> Tenant:
        """One; TenantNotFound if there is none of that name."""

    def use(self, name: str) -> QuotaUse:
        """What a tenant has used of its quota."""

    def create(
        self, name: str, *, tables: Sequence[str], catalogs: Sequence[str], quota: Quota, description: str
    ) -> Tenant:
        """Make a tenant."""

    def change(
        self,
        name: str,
        *,
        tables: Sequence[str] | None,
        catalogs: Sequence[str] | None,
        quota: Quota,
        description: str | None,
    ) -> Tenant:
        """Change what is given of a tenant."""

    def remove(self, name: str) -> None:
        """Remove a tenant, and revoke its keys."""

    def keys(self, tenant: str | None) -> Sequence[ApiKey]:
        """Keys of a tenant, or of all."""

    def new_key(self, tenant: str | None, role: Role, name: str, life: timedelta | None) -> tuple[ApiKey, str]:
        """A new key, and its secret; of `default`, or of whoever asks a service, unless a tenant is given."""

    def rotate(self, key_id: str, overlap: timedelta) -> tuple[ApiKey, str]:
        """A key in the place of another one."""

    def revoke(self, key_id: str) -> ApiKey:
        """End a key."""

    def audit(self, tenant: str | None, *, after: str, limit: int) -> Sequence[AuditEntry]:
        """Who changed what, newest first."""


class _Here:
    """In the record store. Changes are written down as those of whoever sits at the machine."""

    def __init__(self, service: Service) -> None:
        catalog, currency = service.catalog, service.prices.currency
        self._tenants = Tenants(service.store, catalog=catalog.name, clock=service.clock)
        self._audit = Audit(service.store, clock=service.clock)
        self._quotas = Quotas(service.store, self._tenants, catalog.recorded_as, currency=currency, clock=service.clock)
        self.tenants, self.tenant, self.keys = self._tenants.tenants, self._tenants.tenant, self._tenants.keys
        self.use = self._quotas.use

    def create(self, name: str, **given: Any) -> Tenant:
        """Make a tenant."""
        with self._audited("tenants.create", name, name):
            return self._tenants.create(name, **given)

    def change(self, name: str, **given: Any) -> Tenant:
        """Change what is given of a tenant."""
        with self._audited("tenants.change", name, name):
            return self._tenants.change(name, **given)

    def remove(self, name: str) -> None:
        """Remove a tenant, and revoke its keys."""
        with self._audited("tenants.remove", name, name):
            self._tenants.remove(name)

    def new_key(self, tenant: str | None, role: Role, name: str, life: timedelta | None) -> tuple[ApiKey, str]:
        """A new key, and its secret."""
        owner = tenant or DEFAULT_TENANT
        with self._audited("keys.create", owner, owner, role=role.value, name=name):
            return self._tenants.new_key(owner, role, name, life)

    def rotate(self, key_id: str, overlap: timedelta) -> tuple[ApiKey, str]:
        """A key in the place of another one."""
        tenant = self._tenants.key(key_id).tenant
        with self._audited("keys.rotate", key_id, tenant, overlap=f"{overlap.total_seconds():g}s"):
            return self._tenants.rotate(key_id, overlap)

    def revoke(self, key_id: str) -> ApiKey:
        """End a key."""
        tenant = self._tenants.key(key_id).tenant
        with self._audited("keys.revoke", key_id, tenant):
            return self._tenants.revoke(key_id)

    def audit(self, tenant: str | None, *, after: str, limit: int) -> Sequence[AuditEntry]:
        """Who changed what, newest first."""
        return self._audit.entries(tenant, after=after, limit=limit)

    @contextmanager
    def _audited(self, action: str, target: str, tenant: str, **details: Any) -> Iterator[None]:
        """Write down that something is changed, and what came of it."""
        result = DONE
        try:
            yield
        except IcepactError as error:
            result = str(error)
            raise
        finally:
            # what there is no name for is about nobody
            known = tenant if self._tenants.exists(tenant) or result == DONE else DEFAULT_TENANT
            by = f"{_user()} on {socket.gethostname()}"
            self._audit.record(by, action, target, tenant=known, result=result, details=details)


class _There:
    """Through a service, which writes down whose key it was."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.tenant, self.use, self.remove = client.tenant, client.tenant_use, client.remove_tenant
        self.revoke = client.revoke_key

    def tenants(self) -> Sequence[Tenant]:
        """Those that exist for the key."""
        return list(self._client.tenants())

    def create(
        self, name: str, *, tables: Sequence[str], catalogs: Sequence[str], quota: Quota, description: str
    ) -> Tenant:
        """Make a tenant."""
        more = {"catalogs": list(catalogs), "quota": asdict(quota), "description": description}
        return self._client.new_tenant(name, tables=tables, **more)

    def change(
        self,
        name: str,
        *,
        tables: Sequence[str] | None,
        catalogs: Sequence[str] | None,
        quota: Quota,
        description: str | None,
    ) -> Tenant:
        """Change what is given of a tenant."""
        changes = {"tables": tables, "catalogs": catalogs, "quota": asdict(quota), "description": description}
        given = {key: list(value) if isinstance(value, tuple) else value for key, value in changes.items()}
        return self._client.change_tenant(name, **{key: value for key, value in given.items() if value is not None})

    def keys(self, tenant: str | None) -> Sequence[ApiKey]:
        """Those that exist for the key."""
        return list(self._client.keys(tenant))

    def new_key(self, tenant: str | None, role: Role, name: str, life: timedelta | None) -> tuple[ApiKey, str]:
        """A new key, and its secret."""
        until = None if life is None else datetime.now(UTC) + life
        made = self._client.new_key(role, tenant=tenant, name=name, expires_at=until)
        return made.key, made.secret

    def rotate(self, key_id: str, overlap: timedelta) -> tuple[ApiKey, str]:
        """A key in the place of another one."""
        made = self._client.rotate_key(key_id, overlap=overlap)
        return made.key, made.secret

    def audit(self, tenant: str | None, *, after: str, limit: int) -> Sequence[AuditEntry]:
        """Who changed what, newest first."""
        return list(islice(self._client.audit(tenant, after=after), limit))


def office_of(session: Session) -> Office:
    """The office that the global options mean."""
    if session.server is not None:
        return _There(session.client())
    return _Here(build_service(session.service_settings))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # there are containers without names of users
        return f"user {os.getuid()}"
