"""`icepact tenants`, `icepact keys` and `icepact audit`: who may use the service, and who changed what."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from icepact.entrypoints.cli.groups import Commands
from icepact.entrypoints.cli.session import Session
from icepact.model.errors import BadInput
from icepact.model.formatting import format_size

if TYPE_CHECKING:
    from icepact.entrypoints.cli.offices import Office
    from icepact.model.costs import Costs
    from icepact.model.tenant import ApiKey, Quota, Tenant

tenants_app = typer.Typer(cls=Commands, help="Make tenants, and say what there is for them.", rich_markup_mode=None)
keys_app = typer.Typer(cls=Commands, help="Make keys for the service, and end them.", rich_markup_mode=None)
audit_app = typer.Typer(rich_markup_mode=None)

Name = Annotated[str, typer.Argument(help="Name of a tenant.", show_default=False)]
KeyId = Annotated[str, typer.Argument(help="Id of a key, as `icepact keys list` shows it.", show_default=False)]
Tables = Annotated[
    list[str] | None, typer.Option("--tables", help="A pattern of its tables, like 'sales.*'; may be repeated.")
]
Catalogs = Annotated[
    list[str] | None, typer.Option("--in-catalog", help="Only tables of this catalog; may be repeated.")
]
JobsAtOnce = Annotated[str | None, typer.Option("--jobs-at-once", help="At most so many jobs run; none for any.")]
BytesPerHour = Annotated[str | None, typer.Option("--bytes-per-hour", help="At most so much, like 500GB; or none.")]
MoneyPerHour = Annotated[str | None, typer.Option("--money-per-hour", help="At most so much, like 2.50; or none.")]
Description = Annotated[str | None, typer.Option("--description", help="For people.")]
_NONE = "none"
_LONGEST_COSTS = 366
"""Days that a service goes back."""


def _office(session: Session) -> "Office":
    from icepact.entrypoints.cli.offices import office_of

    return office_of(session)


# -- tenants --------------------------------------------------------------------------------------


@tenants_app.command()
def create(
    context: typer.Context,
    name: Name,
    tables: Tables = None,
    catalogs: Catalogs = None,
    jobs_at_once: JobsAtOnce = None,
    bytes_per_hour: BytesPerHour = None,
    money_per_hour: MoneyPerHour = None,
    description: Description = None,
) -> None:
    """Make a tenant."""
    from icepact.model.tenant import NO_QUOTA

    session: Session = context.obj
    quota = _quota(NO_QUOTA, jobs_at_once, bytes_per_hour, money_per_hour)
    made = _office(session).create(
        name, tables=tables or (), catalogs=catalogs or (), quota=quota, description=description or ""
    )
    _show(session, [made], made)


@tenants_app.command("list")
def list_tenants(context: typer.Context) -> None:
    """List tenants."""
    session: Session = context.obj
    found = _office(session).tenants()
    _show(session, found, {"tenants": [tenant.to_dict() for tenant in found]})


@tenants_app.command()
def show(context: typer.Context, name: Name) -> None:
    """Show a tenant, and what it has used of its quota."""
    session: Session = context.obj
    office = _office(session)
    tenant, use = office.tenant(name), office.use(name)
    _show(session, [tenant], {**tenant.to_dict(), "use": use.to_dict()})
    if not session.renderer.as_json:
        said = f"{use.running} jobs run; in the last hour {format_size(use.bytes_in_hour)}, {use.money_in_hour:.6g}"
        session.renderer.message(said)


@tenants_app.command("set")
def change(
    context: typer.Context,
    name: Name,
    tables: Tables = None,
    no_tables: Annotated[bool, typer.Option("--no-tables", help="It has no tables any more.")] = False,
    catalogs: Catalogs = None,
    any_catalog: Annotated[bool, typer.Option("--any-catalog", help="Tables of every catalog.")] = False,
    jobs_at_once: JobsAtOnce = None,
    bytes_per_hour: BytesPerHour = None,
    money_per_hour: MoneyPerHour = None,
    description: Description = None,
) -> None:
    """Change what is given of a tenant; the rest stays."""
    if (tables and no_tables) or (catalogs and any_catalog):
        raise BadInput("patterns and none of them are given: leave one out")
    session: Session = context.obj
    office = _office(session)
    changed = office.change(
        name,
        tables=() if no_tables else tables,
        catalogs=() if any_catalog else catalogs,
        quota=_quota(office.tenant(name).quota, jobs_at_once, bytes_per_hour, money_per_hour),
        description=description,
    )
    _show(session, [changed], changed)


@tenants_app.command()
def remove(context: typer.Context, name: Name) -> None:
    """Remove a tenant, and revoke its keys."""
    session: Session = context.obj
    _office(session).remove(name)
    session.renderer.message(f"tenant {name} is removed, and its keys are good for nothing any more")


def _quota(before: "Quota", jobs: str | None, size: str | None, money: str | None) -> "Quota":
    """A quota with what is given in the place of what it was."""
    from icepact.policy.units import parse_size

    changes: dict[str, Any] = {}
    for name, text, read in (
        ("jobs_at_once", jobs, int),
        ("bytes_per_hour", size, parse_size),
        ("money_per_hour", money, float),
    ):
        if text is not None:
            try:
                changes[name] = None if text == _NONE else read(text)
            except ValueError:
                flag = name.replace("_", "-")
                raise BadInput(f"--{flag} is a number above zero, or {_NONE}: not {text!r}") from None
    return replace(before, **changes)


def _show(session: Session, found: Sequence["Tenant"], document: Any) -> None:
    from icepact.entrypoints.cli.columns import Column

    quotas = [tenant.quota for tenant in found]
    columns = [
        Column("tenant", [tenant.name for tenant in found], left=True),
        Column("tables", [_escaped(", ".join(tenant.tables) or "-") for tenant in found], left=True),
        Column("catalogs", [_escaped(", ".join(tenant.catalogs) or "any") for tenant in found], rank=3, left=True),
        Column("jobs at once", [_or_any(quota.jobs_at_once, "{:,}".format) for quota in quotas], rank=1),
        Column("bytes an hour", [_or_any(quota.bytes_per_hour, format_size) for quota in quotas], rank=2),
        Column("money an hour", [_or_any(quota.money_per_hour, "{:g}".format) for quota in quotas], rank=2),
        Column("description", [_escaped(tenant.description) for tenant in found], rank=4, left=True),
    ]
    session.renderer.listing(document, columns, empty="no tenants; whoever asks sees all tables")


# -- keys -----------------------------------------------------------------------------------------


@keys_app.command("create")
def create_key(
    context: typer.Context,
    tenant: Annotated[
        str | None, typer.Option("--tenant", help="Whose key it is; default: `default`, or with --server yours.")
    ] = None,
    role: Annotated[str, typer.Option("--role", help="viewer, operator or admin.")] = "viewer",
    name: Annotated[str, typer.Option("--name", help="What it is used for.")] = "",
    expires: Annotated[
        str | None, typer.Option("--expires", help="It is good for so long, like 90d; default: until it is revoked.")
    ] = None,
) -> None:
    """Make a key. Its secret is printed now and can never be seen again."""
    from icepact.model.tenant import Role
    from icepact.policy.units import parse_duration

    if role not in list(Role):
        raise BadInput(f"--role is viewer, operator or admin, not {role!r}")
    life = None if expires is None else _within_reason(expires, parse_duration)
    session: Session = context.obj
    key, secret = _office(session).new_key(tenant, Role(role), name, life)
    _show_secret(session, key, secret)


@keys_app.command("list")
def list_keys(
    context: typer.Context,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only keys of this tenant.")] = None,
) -> None:
    """List keys, those that are good for nothing any more included."""
    from icepact.entrypoints.cli.columns import Column

    session: Session = context.obj
    found = _office(session).keys(tenant)
    columns = [
        Column("key", [key.key_id for key in found], left=True),
        Column("tenant", [key.tenant for key in found], left=True),
        Column("role", [key.role.value for key in found], left=True),
        Column("name", [_escaped(key.name) for key in found], rank=3, left=True),
        Column("made", [_moment(key.created_at) for key in found], rank=4, left=True),
        Column("last used", [_moment(key.last_used_at) for key in found], rank=2, left=True),
        Column("good until", [_end(key) for key in found], rank=1, left=True),
    ]
    document = {"keys": [key.to_dict() for key in found]}
    session.renderer.listing(document, columns, empty="no keys yet: icepact keys create makes one")


@keys_app.command()
def revoke(context: typer.Context, key_id: KeyId) -> None:
    """End a key now and for ever."""
    session: Session = context.obj
    ended = _office(session).revoke(key_id)
    session.renderer.message(f"key {key_id} of {ended.tenant} is good for nothing any more")


@keys_app.command()
def rotate(
    context: typer.Context,
    key_id: KeyId,
    overlap: Annotated[str, typer.Option("--overlap", help="The old key is good for so long still.")] = "0s",
) -> None:
    """Make a key in the place of another one. Its secret is printed now and can never be seen again."""
    from icepact.policy.units import parse_duration

    still = _within_reason(overlap, parse_duration)
    session: Session = context.obj
    made, secret = _office(session).rotate(key_id, still)
    _show_secret(session, made, secret)


def _show_secret(session: Session, key: "ApiKey", secret: str) -> None:
    """The secret alone on stdout, so that it can be put where it belongs."""
    renderer = session.renderer
    if renderer.as_json:
        renderer.document({"key": key.to_dict(), "secret": secret})
        return
    renderer.message(secret)
    renderer.note(f"key {key.key_id} of tenant {key.tenant}, role {key.role}: the secret is shown this once")


# -- the audit log --------------------------------------------------------------------------------


@audit_app.command("audit")
def audit(
    context: typer.Context,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only what is about this tenant.")] = None,
    limit: Annotated[int, typer.Option("--limit", help="At most so many entries.")] = 50,
    after: Annotated[str, typer.Option("--after", help="Only older ones than the entry of this id.")] = "",
) -> None:
    """Show who changed what of the service, newest first."""
    from icepact.entrypoints.cli.columns import Column

    if not 1 <= limit <= 10_000:
        raise BadInput("--limit is a number from 1 to 10000")
    session: Session = context.obj
    found = _office(session).audit(tenant, after=after, limit=limit)
    columns = [
        Column("when", [_moment(entry.at) for entry in found], left=True),
        Column("tenant", [entry.tenant for entry in found], left=True),
        Column("who", [_escaped(entry.by) for entry in found], left=True),
        Column("what", [_escaped(entry.action) for entry in found], left=True),
        Column("of", [_escaped(entry.target) for entry in found], left=True),
        Column("result", [_escaped(entry.result) for entry in found], rank=1, left=True),
        Column("request", [_escaped(entry.request_id or "") for entry in found], rank=3, left=True),
    ]
    document = {"entries": [entry.to_dict() for entry in found]}
    session.renderer.listing(document, columns, empty="nothing was changed yet")


# -- costs ----------------------------------------------------------------------------------------


def show_costs(session: Session, table: str | None, *, tenant: str | None, days: float, as_csv: bool) -> None:
    """What was spent for one tenant, or for all."""
    from icepact.economics.costs_csv import tenant_costs_csv
    from icepact.model.tenant import check_tenant_name

    if not 0 < days <= 36_500:
        raise BadInput("--days is a number above zero")
    if tenant is not None:
        check_tenant_name(tenant)
    every = _costs_here(session, table, days) if session.server is None else _costs_there(session, table, days)
    found = [(owner, entry) for owner, costs in every.items() if tenant in (None, owner) for entry in costs]
    if as_csv:
        typer.echo(tenant_costs_csv(found), nl=False)
    else:
        session.renderer.costs([entry for _, entry in found])


def _costs_here(session: Session, table: str | None, days: float) -> Mapping[str, Sequence["Costs"]]:
    from icepact.entrypoints.serving import build_service
    from icepact.schedule.spent import costs_by_tenant

    service = build_service(session.service_settings)
    name = None if table is None else service.jobs.name(table)
    since = service.clock() - timedelta(days=days)
    return costs_by_tenant(service.store, service.catalog.recorded_as, since=since, table=name)


def _costs_there(session: Session, table: str | None, days: float) -> Mapping[str, Sequence["Costs"]]:
    if days > _LONGEST_COSTS:
        raise BadInput(f"--days: a service tells of {_LONGEST_COSTS} days at most")
    client = session.client()
    return {each.tenant: each.costs for each in client.tenant_costs(days=days, table=table)}


# -- words ----------------------------------------------------------------------------------------


def _within_reason(text: str, parse: Any) -> timedelta:
    try:
        length: timedelta = parse(text)
    except OverflowError:
        length = timedelta.max
    if length > timedelta(days=36_500):
        raise BadInput(f"{text!r} is longer than a hundred years")
    return length


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def _or_any(value: Any, show_value: Any) -> str:
    return "any" if value is None else str(show_value(value))


def _moment(moment: datetime | None) -> str:
    return "never" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}"


def _end(key: "ApiKey") -> str:
    if key.revoked_at is not None:
        return f"revoked {_moment(key.revoked_at)}"
    until = "it is revoked" if key.expires_at is None else _moment(key.expires_at)
    return f"{until}, now {key.replaced_by}" if key.replaced_by else until
