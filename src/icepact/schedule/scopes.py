"""Scopes: the tables of a catalog that exist for a tenant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from icepact.iceberg.names import parse_levels, show_name, table_parts
from icepact.model.errors import BadInput, TableNotFound
from icepact.model.job import DEFAULT_TENANT, Job, Operation
from icepact.model.orphans import OTHER_TABLES
from icepact.model.tenant import Caller, Tenant
from icepact.policy.patterns import Pattern, parse_pattern

_LONGEST_NAME = 4096
"""Characters of a table's full name; there are no longer ones."""
_RANKED = ("tables", "failed")
_MOST_STARS = 8
"""In one pattern: each more makes a name that does not match take longer to be refused."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scope:
    """Tables whose namespace and name match one of some patterns. Letters of another case make another name, as in
    Iceberg, and so does everything that only looks the same."""

    patterns: tuple[Pattern, ...]

    def holds(self, table: str) -> bool:
        """Whether a table, by its full name without the catalog, is in it."""
        parts = _parts(table)
        return parts is not None and any(pattern.means(parts) for pattern in self.patterns)

    def specificity(self, table: str) -> tuple[int, int] | None:
        """How closely the scope means a table: of two that hold it, the greater one does so more; `None` if not at
        all."""
        parts = _parts(table)
        meant = [pattern.specificity(parts) for pattern in self.patterns if parts and pattern.means(parts)]
        return max(meant, default=None)


@dataclass(frozen=True, slots=True)
class Everything:
    """The scope that holds every table."""

    def holds(self, table: str) -> bool:
        """Always."""
        del table
        return True


def scope_of(tenant: Tenant, catalog: str) -> Scope:
    """What a tenant has of a catalog."""
    there = not tenant.catalogs or catalog in tenant.catalogs
    return Scope(patterns=tuple(map(parse_pattern, tenant.tables)) if there else ())


def check_patterns(patterns: Sequence[str]) -> tuple[str, ...]:
    """The same patterns; BadInput if one of them cannot be one of a tenant."""
    for text in patterns:
        parse_pattern(text)
        if text.count("*") > _MOST_STARS or len(text) > _LONGEST_NAME:
            raise BadInput(f"{text[:80]!r} is too long a pattern: at most {_MOST_STARS} stars")
    return tuple(dict.fromkeys(patterns))


def visible(caller: Caller, table: str, catalog: str, namespace: tuple[str, ...] = ()) -> str:
    """The full name of a table that somebody asks for in their own words; TableNotFound if there is none for them.

    Only the name and their scope are looked at, so that a table of others and one that is nowhere get the same answer
    in the same time.
    """
    if len(table) > _LONGEST_NAME:
        raise BadInput("that is too long for the name of a table")
    name = show_name(table_parts(table, catalog, namespace))
    if not caller.sees(name):
        raise TableNotFound(f"there is no table {name}")
    return name


def shown_job(caller: Caller, job: Job) -> Job:
    """A job as somebody may see it: a list of tables has theirs, and does not say how many there are; messages name no
    others."""
    result = job.result
    if job.request.operation is Operation.TABLES and result:
        names = [name for name in result.get("tables", ()) if isinstance(name, str) and caller.sees(name)]
        result = {"tables": names}
    if job.request.operation is Operation.FLEET and result:
        result = shown_ranking(caller, result)
    return replace(job, result=shown(caller, result), error=shown(caller, job.error))


def shown_ranking(caller: Caller, ranking: Mapping[str, Any]) -> dict[str, Any]:
    """A ranking as somebody may see it: of their tables only, without what rules for others' say."""
    lists = {name: [entry for entry in ranking.get(name, ()) if caller.sees(entry["table"])] for name in _RANKED}
    document = {**ranking, **lists}
    if any(len(lists[name]) < len(ranking.get(name, ())) for name in _RANKED):
        document = {name: value for name, value in document.items() if name not in ("total", "cut")}
    if caller.tenant != DEFAULT_TENANT:
        document["warnings"] = []
    whole: dict[str, Any] = shown(caller, document)
    return whole


def shown(caller: Caller, document: Any) -> Any:
    """What is said of a table of somebody, as JSON has it, without what it says of others: only whoever runs the
    service reads that."""
    if caller.tenant == DEFAULT_TENANT:
        return document
    if isinstance(document, str):
        before, others, _ = document.partition(OTHER_TABLES)
        return f"{before}{others}whoever runs the service knows which" if others else document
    if isinstance(document, Mapping):
        return {key: shown(caller, value) for key, value in document.items()}
    return [shown(caller, value) for value in document] if isinstance(document, list | tuple) else document


def _parts(table: str) -> tuple[str, ...] | None:
    """Of a full name; `None` if it is none."""
    if len(table) > _LONGEST_NAME:
        return None
    try:
        parts = parse_levels(table)
    except BadInput:
        return None
    return parts if len(parts) > 1 else None
