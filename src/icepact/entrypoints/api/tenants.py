"""Tenants and their keys, and who changed what."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Response

from icepact.entrypoints.api.answering import json_answer
from icepact.entrypoints.api.bodies import KeyBody, RotateBody, TenantBody, TenantChange
from icepact.entrypoints.api.callers import Admin, Asked
from icepact.entrypoints.api.paging import MOST, After, Limit, Page, key_of, page
from icepact.entrypoints.api.routes import WholeText
from icepact.model.answers import NewKey
from icepact.model.documents import document_of
from icepact.model.errors import KeyNotFound, NotAllowed, TenantNotFound
from icepact.model.tenant import ApiKey, AuditEntry, QuotaUse, Tenant

router = APIRouter(route_class=WholeText)
TenantQuery = Annotated[str | None, Query(max_length=100, description="Only of this tenant.")]


# -- tenants --------------------------------------------------------------------------------------


@router.get("/tenants", summary="List tenants.", response_model=Page[Tenant], tags=["tenants"])
def list_tenants(asked: Admin, limit: Limit = MOST, cursor: After = None) -> Response:
    """All tenants for admins of the tenant `default`; for others, their own."""
    known = asked.context.tenants
    after = key_of(cursor, "tenants") or ""
    found = known.tenants() if asked.caller.looks_after_tenants else [known.tenant(asked.caller.tenant)]
    rest = sorted((one for one in found if one.name > after), key=lambda one: one.name)
    shown = page(rest, limit, "tenants", lambda one: one.name)
    return json_answer({"items": [document_of(one) for one in shown.items], "next": shown.next})


@router.post("/tenants", summary="Make a tenant.", response_model=Tenant, status_code=201, tags=["tenants"])
def create_tenant(asked: Admin, body: TenantBody) -> Response:
    """Make a tenant. From the first one on, every request needs a key."""
    _look_after(asked)
    with asked.audited("tenants.create", body.name):
        made = asked.context.tenants.create(
            body.name,
            tables=body.tables,
            catalogs=body.catalogs,
            quota=body.quota.value,
            description=body.description,
        )
    return json_answer(document_of(made), status=201, headers={"Location": f"/api/v1/tenants/{made.name}"})


@router.get("/tenants/{name}", summary="Get a tenant.", response_model=Tenant, tags=["tenants"])
def get_tenant(asked: Admin, name: str) -> Response:
    """A tenant: its tables and quota."""
    _manage(asked, name)
    return json_answer(document_of(asked.context.tenants.tenant(name)))


@router.get("/tenants/{name}/use", summary="What a tenant has used.", response_model=QuotaUse, tags=["tenants"])
def tenant_use(asked: Admin, name: str) -> Response:
    """What a tenant has used of its quota: jobs that run, and what was spent in the last hour."""
    _manage(asked, name)
    asked.context.tenants.tenant(name)
    return json_answer(document_of(asked.context.quotas.use(name)))


@router.patch("/tenants/{name}", summary="Change a tenant.", response_model=Tenant, tags=["tenants"])
def change_tenant(asked: Admin, name: str, body: TenantChange) -> Response:
    """Change what is given of a tenant."""
    _manage(asked, name)
    _look_after(asked)
    with asked.audited("tenants.change", name):
        changed = asked.context.tenants.change(
            name,
            tables=body.tables,
            catalogs=body.catalogs,
            quota=body.quota.value if body.quota else None,
            description=body.description,
            version=body.version,
        )
    return json_answer(document_of(changed))


@router.delete("/tenants/{name}", summary="Remove a tenant.", status_code=204, tags=["tenants"])
def remove_tenant(asked: Admin, name: str) -> Response:
    """Remove a tenant, and revoke its keys."""
    _manage(asked, name)
    _look_after(asked)
    with asked.audited("tenants.remove", name):
        asked.context.tenants.remove(name)
    return Response(status_code=204)


# -- keys -----------------------------------------------------------------------------------------


@router.get("/keys", summary="List keys.", response_model=Page[ApiKey], tags=["keys"])
def list_keys(asked: Admin, tenant: TenantQuery = None, limit: Limit = MOST, cursor: After = None) -> Response:
    """Keys of your tenant; for admins of the tenant `default`, of all. Secrets are known to nobody."""
    whose = tenant if asked.caller.looks_after_tenants else asked.caller.tenant
    after = key_of(cursor, "keys") or ""
    found = asked.context.tenants.keys(whose) if tenant in (None, whose) else []
    rest = [one for one in found if _position(one) > after]
    shown = page(rest, limit, "keys", _position)
    return json_answer({"items": [document_of(one) for one in shown.items], "next": shown.next})


def _position(key: ApiKey) -> str:
    return f"{key.created_at.isoformat()} {key.key_id}"


@router.post("/keys", summary="Make a key.", response_model=NewKey, status_code=201, tags=["keys"])
def create_key(asked: Admin, body: KeyBody) -> Response:
    """Make a key. Its secret is in this answer and nowhere else. From the first key on, every request needs one."""
    tenant = body.tenant or asked.caller.tenant
    _manage(asked, tenant)
    with asked.audited("keys.create", tenant, role=body.role.value):
        key, secret = asked.context.tenants.new_key(tenant, body.role, body.name, body.expires_at)
    return _secret_answer(key, secret)


@router.get("/keys/{key_id}", summary="Get a key.", response_model=ApiKey, tags=["keys"])
def get_key(asked: Admin, key_id: str) -> Response:
    """What is known of a key."""
    return json_answer(document_of(_key(asked, key_id)))


@router.post("/keys/{key_id}/rotate", summary="Rotate a key.", response_model=NewKey, status_code=201, tags=["keys"])
def rotate_key(asked: Admin, key_id: str, body: RotateBody | None = None) -> Response:
    """Make a key in the place of another one, which is good for the time of the overlap still."""
    _key(asked, key_id)
    overlap = timedelta(seconds=body.overlap_seconds if body else 0.0)
    with asked.audited("keys.rotate", key_id):
        key, secret = asked.context.tenants.rotate(key_id, overlap)
    return _secret_answer(key, secret)


@router.delete("/keys/{key_id}", summary="Revoke a key.", response_model=ApiKey, tags=["keys"])
def revoke_key(asked: Admin, key_id: str) -> Response:
    """End a key now and for ever."""
    _key(asked, key_id)
    with asked.audited("keys.revoke", key_id):
        ended = asked.context.tenants.revoke(key_id)
    return json_answer(document_of(ended))


@router.get("/audit", summary="Who changed what.", response_model=Page[AuditEntry], tags=["tenants"])
def audit(
    asked: Admin,
    tenant: TenantQuery = None,
    after: Annotated[str, Query(max_length=100, description="Only older ones than the entry of this id.")] = "",
    limit: Limit = 100,
    cursor: After = None,
) -> Response:
    """What was changed, and by whom, newest first; of all tenants for admins of the tenant `default`."""
    whose = tenant if asked.caller.looks_after_tenants else asked.caller.tenant
    after = key_of(cursor, "audit") or after
    found = asked.context.audit.entries(whose, after=after, limit=limit + 1) if tenant in (None, whose) else []
    shown = page(found, limit, "audit", lambda entry: entry.entry_id)
    return json_answer({"items": [document_of(one) for one in shown.items], "next": shown.next})


# -- who may --------------------------------------------------------------------------------------


def _secret_answer(key: ApiKey, secret: str) -> Response:
    document = document_of(NewKey(key=key, secret=secret))
    return json_answer(document, status=201, headers={"Location": f"/api/v1/keys/{key.key_id}"})


def _look_after(asked: Asked) -> None:
    if not asked.caller.looks_after_tenants:
        raise NotAllowed("this takes an admin of the tenant default")


def _manage(asked: Asked, tenant: str) -> None:
    if not asked.caller.manages(tenant):
        raise TenantNotFound(f"there is no tenant {tenant}")


def _key(asked: Asked, key_id: str) -> ApiKey:
    missing = KeyNotFound(f"there is no key {key_id[:40]}")
    try:
        key = asked.context.tenants.key(key_id)
    except KeyNotFound:
        raise missing from None
    if not asked.caller.manages(key.tenant):
        raise missing
    return key
