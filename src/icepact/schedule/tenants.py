"""Tenants and their keys, in the record store: who somebody is that comes with a secret, and what there is for them."""

import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any, TypeVar

from icepact.model.document import StoredDocument
from icepact.model.documents import document_of, from_json
from icepact.model.errors import BadInput, Conflict, KeyNotFound, StoreUnusable, TenantNotFound
from icepact.model.job import DEFAULT_TENANT
from icepact.model.tenant import NO_QUOTA, ApiKey, Caller, Quota, Role, TableScope, Tenant, check_tenant_name
from icepact.record.store import DocumentStore
from icepact.schedule.scopes import Everything, Scope, check_patterns, scope_of

Answer = TypeVar("Answer")
TENANTS, KEYS, USES = "tenant", "key", "key-use"
"""Kinds of documents."""
_SECRET = re.compile(r"icp_([0-9a-f]{12})_([0-9a-f]{64})")
_SECONDS_KEPT = 1.0
"""For so long a process takes what it knows of a key for true: a key that another process revokes is dead after it."""
_MOST_KEPT = 10_000
"""Keys and tenants that one process remembers."""
_BETWEEN_USES = timedelta(minutes=1)
"""How often the last use of a key is written, at most."""
_LONGEST_OVERLAP = timedelta(days=365)
_LONGEST_LIFE = timedelta(days=36525)
_TRIES = 20
"""A document that others change all the time is given up after so many."""
_QUOTAS = "quotas"
_NOBODY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Key:
    """A key with what its secret is held against."""

    key: ApiKey
    hash: str
    tenant_id: str
    """Of the tenant that it was made for: another one of the same name is another."""
    version: int

    def body(self) -> dict[str, Any]:
        return {**document_of(self.key), "hash": self.hash, "tenant_id": self.tenant_id}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Made:
    """A tenant, and what tells it from an earlier one of the same name."""

    tenant: Tenant
    tenant_id: str

    def body(self) -> dict[str, Any]:
        document = document_of(self.tenant)
        del document["version"]
        return {**document, "tenant_id": self.tenant_id}


class Tenants:
    """Tenants and keys of a service on one catalog. Several processes may use one store: what one of them changes holds
    in the others after a second at most."""

    def __init__(
        self,
        store: DocumentStore,
        *,
        catalog: str = "",
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._clock = clock
        self._timer = timer
        self._kept: dict[tuple[str, str], tuple[float, Any]] = {}
        """What was read, and when."""
        self._uses: dict[str, float] = {}
        """When the last use of a key was written or found, by the timer."""
        self._lock = Lock()

    # -- tenants ----------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        *,
        tables: Sequence[str] = (),
        catalogs: Sequence[str] = (),
        quota: Quota = NO_QUOTA,
        description: str = "",
    ) -> Tenant:
        """Make a tenant; Conflict if there is one of that name."""
        tenant = Tenant(
            name=name,
            tables=check_patterns(tables),
            catalogs=tuple(dict.fromkeys(catalogs)),
            quota=quota,
            description=description,
            created_at=self._clock(),
        )
        # keys of `default` may be older than its document
        made = _Made(tenant=tenant, tenant_id="" if name == DEFAULT_TENANT else secrets.token_hex(8))
        try:
            stored = self._store.put_document(TENANTS, name, made.body(), version=0)
        except Conflict:
            raise Conflict(f"there is a tenant {name} already: change it, or remove it first") from None
        self._forget()
        return replace(tenant, version=stored.version)

    def tenants(self) -> Sequence[Tenant]:
        """All tenants, by name; `default` is among them if somebody has made it."""
        return [_tenant_of(stored).tenant for stored in every_document(self._store, TENANTS)]

    def tenant(self, name: str) -> Tenant:
        """One tenant; TenantNotFound if there is none of that name."""
        return self._tenant(name).tenant

    def change(
        self,
        name: str,
        *,
        tables: Sequence[str] | None = None,
        catalogs: Sequence[str] | None = None,
        quota: Quota | None = None,
        description: str | None = None,
        version: int | None = None,
    ) -> Tenant:
        """Change what is given of a tenant; Conflict if `version` is given and it is of another one by now. `default`
        is made if it is not on record."""
        given: dict[str, Any] = {
            "tables": None if tables is None else check_patterns(tables),
            "catalogs": None if catalogs is None else tuple(dict.fromkeys(catalogs)),
            "quota": quota,
            "description": description,
        }
        given = {key: value for key, value in given.items() if value is not None}

        def put() -> Tenant:
            found = self._tenant(name)
            if version not in (None, found.tenant.version):
                raise _Stale(f"tenant {name} was changed by somebody else meanwhile: look at it again")
            changed = replace(found.tenant, **given, created_at=found.tenant.created_at or self._clock())
            body = replace(found, tenant=changed).body()
            stored = self._store.put_document(TENANTS, name, body, version=found.tenant.version)
            return replace(changed, version=stored.version)

        return self._until_nobody_is_faster(put)

    def remove(self, name: str) -> None:
        """Remove a tenant, and revoke its keys. `default` is there without being made: of it, only what was said goes
        away."""
        self._tenant(name, on_record=True)
        if name != DEFAULT_TENANT:
            for key in self.keys(name):
                if key.revoked_at is None:
                    self.revoke(key.key_id)
        # a key that is made just now is none of a tenant that is made later
        self._store.remove_document(TENANTS, name)
        self._forget()

    # -- keys -------------------------------------------------------------------------------------

    def new_key(
        self, tenant: str, role: Role, name: str = "", expires: datetime | timedelta | None = None
    ) -> tuple[ApiKey, str]:
        """A new key, and its secret, which nobody can find out later. It expires at a moment or after a time."""
        now = self._clock()
        moment = now + expires if isinstance(expires, timedelta) else expires
        if moment is not None and moment.tzinfo is None:
            raise BadInput("when a key expires needs a time zone, as in 2030-01-31T00:00:00Z")
        if moment is not None and moment <= now:
            raise BadInput("a key that has expired already is good for nothing")
        if len(name) > 200 or not name.isprintable():
            raise BadInput("the name of a key has up to 200 characters, all of which can be printed")
        owner = self._tenant(tenant)
        key = ApiKey(
            key_id=secrets.token_hex(6), tenant=tenant, role=role, name=name, created_at=now, expires_at=moment
        )
        return self._put_new(key, owner.tenant_id)

    def keys(self, tenant: str | None = None) -> Sequence[ApiKey]:
        """All keys of a tenant, or of all, those included that are good for nothing any more; the oldest first."""
        used = {stored.key: _moment(stored.body.get("at")) for stored in every_document(self._store, USES)}
        found = [_key_of(stored).key for stored in every_document(self._store, KEYS)]
        mine = [replace(key, last_used_at=used.get(key.key_id)) for key in found if tenant in (None, key.tenant)]
        return sorted(mine, key=lambda key: (key.created_at, key.key_id))

    def key(self, key_id: str) -> ApiKey:
        """One key; KeyNotFound if there is none of that id."""
        found = self._key(key_id)
        use = self._store.document(USES, key_id)
        return replace(found.key, last_used_at=_moment(use.body.get("at")) if use else None)

    def revoke(self, key_id: str) -> ApiKey:
        """End a key now and for ever; nothing happens to one that is revoked already."""

        def put() -> ApiKey:
            found = self._key(key_id)
            if found.key.revoked_at is not None:
                return found.key
            return self._put_key(found, replace(found.key, revoked_at=self._clock()))

        return self._until_nobody_is_faster(put)

    def rotate(self, key_id: str, overlap: timedelta = timedelta()) -> tuple[ApiKey, str]:
        """A key that takes the place of another one, with the same role, and as long a life; the old one is good for
        the time of the overlap still. Conflict if it is good for nothing any more, or was rotated before."""
        if not timedelta() <= overlap <= _LONGEST_OVERLAP:
            raise BadInput(f"keys can overlap for {_LONGEST_OVERLAP.days} days at most")
        found, now = self._key(key_id), self._clock()
        old = found.key
        if old.revoked_at is not None or (old.expires_at is not None and old.expires_at <= now):
            raise Conflict(f"key {key_id} is good for nothing any more: make a new one")
        if old.replaced_by is not None:
            raise Conflict(f"key {key_id} was rotated to {old.replaced_by} before: rotate that")
        life = min(old.expires_at - old.created_at, _LONGEST_LIFE) if old.expires_at else None
        new = replace(old, key_id=secrets.token_hex(6), created_at=now, expires_at=now + life if life else None)
        made, secret = self._put_new(replace(new, last_used_at=None), found.tenant_id)
        until = now + overlap
        until = until if old.expires_at is None else min(until, old.expires_at)
        try:
            self._put_key(found, replace(old, expires_at=until, replaced_by=made.key_id))
        except Conflict:
            self._store.remove_document(KEYS, made.key_id)  # its secret was given to nobody
            raise Conflict(f"key {key_id} was changed by somebody else meanwhile: look at it again") from None
        return made, secret

    # -- who somebody is --------------------------------------------------------------------------

    def authenticate(self, secret: str, now: datetime | None = None) -> Caller | None:
        """Who comes with a secret; `None` if it is good for nothing, whatever the reason."""
        match = _SECRET.fullmatch(secret)
        if match is None:
            return None
        found = self._known(KEYS, match[1], _key_of)
        same = hmac.compare_digest(_hash(secret), found.hash if found else _NOBODY)
        if found is None or not same:
            return None
        moment = now or self._clock()
        caller = self._caller(found, moment)
        if caller is not None:
            self._note_use(match[1], moment)
        return caller

    def again(self, caller: Caller) -> Caller | None:
        """Who somebody is by now that was known a while ago; `None` if their key is good for nothing any more. Whoever
        answers for long asks that in between."""
        if caller.key_id is None:
            return self.anonymous()
        found = self._known(KEYS, caller.key_id, _key_of)
        return None if found is None else self._caller(found, self._clock())

    def _caller(self, found: _Key, now: datetime) -> Caller | None:
        key = found.key
        if key.revoked_at is not None or (key.expires_at is not None and key.expires_at <= now):
            return None
        made = self._known(TENANTS, key.tenant, _tenant_of)
        if key.tenant != DEFAULT_TENANT and (made is None or made.tenant_id != found.tenant_id):
            return None
        scope = self._scope(None if made is None else made.tenant)
        return Caller(tenant=key.tenant, role=key.role, key_id=key.key_id, name=key.name, scope=scope)

    def anonymous(self) -> Caller | None:
        """Who needs no key: whoever is at this machine, as an admin of tenant `default`. `None` as soon as there has
        been a key, or there is a tenant: then everybody needs one."""
        if not self.is_open():
            return None
        return Caller(tenant=DEFAULT_TENANT, role=Role.ADMIN, key_id=None, name="", scope=Everything())

    def is_open(self) -> bool:
        """Whether nobody has ever made a key, and there is no tenant. Keys that were revoked count."""
        return not self._any(KEYS) and not self._any(TENANTS)

    # -- what a tenant has ------------------------------------------------------------------------

    def quotas(self) -> Mapping[str, Quota]:
        """The quotas of all tenants that are on record, by name."""

        def look() -> tuple[Mapping[str, Quota]]:
            return ({tenant.name: tenant.quota for tenant in self.tenants()},)

        found: tuple[Mapping[str, Quota]] = self._remembered((_QUOTAS, ""), look)
        return found[0]

    def quota(self, tenant: str) -> Quota:
        """What a tenant may have at most; no limit for one that is not on record."""
        made: _Made | None = self._known(TENANTS, tenant, _tenant_of)
        return NO_QUOTA if made is None else made.tenant.quota

    def exists(self, tenant: str) -> bool:
        """Whether there is a tenant of that name."""
        return tenant == DEFAULT_TENANT or self._known(TENANTS, tenant, _tenant_of) is not None

    # -- whose a table is -------------------------------------------------------------------------

    def sees(self, tenant: str, table: str) -> bool:
        """Whether a table exists for a tenant; false for a tenant that does not."""
        made = self._known(TENANTS, tenant, _tenant_of)
        if made is None and tenant != DEFAULT_TENANT:
            return False
        return self._scope(made.tenant if made else None).holds(table)

    def tenant_of(self, table: str) -> str:
        """For whom work on a table is done that nobody has asked for: the tenant whose scope means it most closely, and
        of several the first by name; `default` if no scope holds it."""
        found = [
            (closeness, tenant.name)
            for tenant in self.tenants()
            if (closeness := scope_of(tenant, self._catalog).specificity(table)) is not None
        ]
        return min(found, key=lambda one: (tuple(-n for n in one[0]), one[1]))[1] if found else DEFAULT_TENANT

    def _scope(self, tenant: Tenant | None) -> TableScope:
        """`None` is `default` of which nothing was said: it has all tables as long as there are no other tenants."""
        if tenant is not None:
            return scope_of(tenant, self._catalog)
        return Scope(patterns=()) if self._any(TENANTS) else Everything()

    # -- the store --------------------------------------------------------------------------------

    def _tenant(self, name: str, *, on_record: bool = False) -> _Made:
        check_tenant_name(name)
        stored = self._store.document(TENANTS, name)
        if stored is not None:
            return _tenant_of(stored)
        if name == DEFAULT_TENANT and not on_record:
            tables = () if self._any(TENANTS) else ("*",)
            return _Made(tenant=Tenant(name=name, tables=tables), tenant_id="")
        raise TenantNotFound(f"there is no tenant {name}")

    def _key(self, key_id: str) -> _Key:
        stored = self._store.document(KEYS, key_id) if re.fullmatch("[0-9a-f]{12}", key_id) else None
        if stored is None:
            raise KeyNotFound(f"there is no key {key_id[:40]}")
        return _key_of(stored)

    def _put_new(self, key: ApiKey, tenant_id: str) -> tuple[ApiKey, str]:
        secret = f"icp_{key.key_id}_{secrets.token_hex(32)}"
        made = _Key(key=key, hash=_hash(secret), tenant_id=tenant_id, version=0)
        self._store.put_document(KEYS, key.key_id, made.body(), version=0)
        self._forget()
        return key, secret

    def _put_key(self, found: _Key, changed: ApiKey) -> ApiKey:
        self._store.put_document(KEYS, changed.key_id, replace(found, key=changed).body(), version=found.version)
        self._forget()
        return changed

    def _until_nobody_is_faster(self, put: Callable[[], Answer]) -> Answer:
        for _ in range(_TRIES):
            try:
                answer = put()
            except _Stale as error:
                raise Conflict(str(error)) from None
            except Conflict:
                continue
            self._forget()
            return answer
        raise Conflict("others change the same all the time: try again later")

    def _note_use(self, key_id: str, now: datetime) -> None:
        """Write down when a key was used, at most once a minute over all processes that are in time."""
        ticks = self._timer()
        with self._lock:
            if ticks - self._uses.get(key_id, float("-inf")) < _BETWEEN_USES.total_seconds():
                return
            if len(self._uses) >= _MOST_KEPT:
                self._uses.clear()
            self._uses[key_id] = ticks
        with suppress(StoreUnusable, Conflict):  # nobody is turned away for that
            stored = self._store.document(USES, key_id)
            last = _moment(stored.body.get("at")) if stored else None
            if last is None or now - last >= _BETWEEN_USES:
                self._store.put_document(USES, key_id, {"at": now.isoformat()})

    def _any(self, kind: str) -> bool:
        """Whether there is a document of a kind."""
        found: tuple[bool] = self._remembered((kind, ""), lambda: (bool(self._store.documents(kind, limit=1)),))
        return found[0]

    def _known(self, kind: str, key: str, read: Callable[[StoredDocument], Any]) -> Any:
        def look() -> Any:
            stored = self._store.document(kind, key)
            return None if stored is None else read(stored)

        return self._remembered((kind, key), look)

    def _remembered(self, name: tuple[str, str], look: Callable[[], Any]) -> Any:
        """What a look says, or said a moment ago; a key or a tenant that is not there is looked for each time."""
        ticks = self._timer()
        with self._lock:
            since, value = self._kept.get(name, (float("-inf"), None))
            if 0 <= ticks - since < _SECONDS_KEPT:
                return value
        value = look()
        with self._lock:
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            if value:
                self._kept[name] = ticks, value
        return value

    def _forget(self) -> None:
        """Read everything anew: something was changed by this process."""
        with self._lock:
            self._kept.clear()


class _Stale(Exception):
    """It is not of the version any more that was seen."""


def every_document(store: DocumentStore, kind: str, prefix: str = "") -> Iterator[StoredDocument]:
    """All documents of a kind, however many there are."""
    after, most = "", 1000
    while True:
        page = store.documents(kind, prefix=prefix, after=after, limit=most)
        yield from page
        if len(page) < most:
            return
        after = page[-1].key


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _moment(text: Any) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _key_of(stored: StoredDocument) -> _Key:
    body = stored.body
    key = from_json(ApiKey, json.dumps(body))
    return _Key(key=key, hash=body["hash"], tenant_id=body["tenant_id"], version=stored.version)


def _tenant_of(stored: StoredDocument) -> _Made:
    tenant = from_json(Tenant, json.dumps({**stored.body, "version": stored.version}))
    return _Made(tenant=tenant, tenant_id=stored.body["tenant_id"])
