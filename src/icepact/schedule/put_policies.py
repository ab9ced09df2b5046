"""Policies that were put into the record store: while there are some, they stand where the policy file stood."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from icepact.model.document import StoredDocument
from icepact.model.errors import BadInput
from icepact.policy.file.parse import parse_policies
from icepact.policy.layers import Policies
from icepact.policy.options import plain
from icepact.record.store import DocumentStore
from icepact.schedule.scopes import check_patterns

POLICIES = "policies"
"""Documents `{"text": ..., "by": ...}`, by the catalog's name in the record store."""
_SOURCE = "policies"
"""What lines of them are named by."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InForce:
    """The policies that hold now, and since when if they were put."""

    policies: Policies
    text: str | None = None
    version: int = 0
    changed_at: datetime | None = None


def check_policies(text: str, configured: Policies) -> Policies:
    """Policies from their text, with the rest as the configuration has it; BadInput with the line that is wrong."""
    found = parse_policies(text, _SOURCE, configured.strategies)
    check_patterns([rule.pattern.text for rule in found.rules])
    if found.catalogs:
        raise BadInput(f"{found.catalogs[0].source}: catalogs are named by the configuration only, not by a request")
    return replace(found, configuration=configured.configuration, strategies=configured.strategies)


def in_force(store: DocumentStore, catalog: str, configured: Policies) -> InForce:
    """What holds now: what was put, or else what the configuration says. `catalog` is its name in the record store."""
    stored = store.document(POLICIES, catalog)
    if stored is None:
        return InForce(policies=configured)
    text = str(stored.body["text"])
    policies = check_policies(text, configured)
    return InForce(policies=policies, text=text, version=stored.version, changed_at=stored.changed_at)


def put_policies(
    store: DocumentStore, catalog: str, configured: Policies, text: str, *, by: str, version: int | None = None
) -> InForce:
    """Put policies in force; Conflict if others than those of `version` are by now."""
    policies = check_policies(text, configured)
    stored = store.put_document(POLICIES, catalog, {"text": text, "by": by}, version=version)
    return InForce(policies=policies, text=text, version=stored.version, changed_at=stored.changed_at)


def drop_policies(store: DocumentStore, catalog: str, *, version: int | None = None) -> bool:
    """Go back to what the configuration says; false if nothing was put."""
    return store.remove_document(POLICIES, catalog, version=version)


def policies_document(policies: Policies) -> dict[str, Any]:
    """What `icepact policy check --json` prints of policies."""
    for_all, _ = policies.for_all()
    values: Mapping[str, Any] = {name: plain(value) for name, value in for_all.items()}
    return {
        "file": policies.file,
        "profile": policies.profile,
        "policies": list(policies.named),
        "rules": [rule.to_dict() for rule in policies.rules],
        "for_all": values,
        "not_ours": list(policies.not_ours),
    }


class CurrentPolicies:
    """What holds whenever it is asked; what was put is read again once it has changed."""

    def __init__(self, store: DocumentStore, catalog: str, configured: Policies) -> None:
        """`catalog` is its name in the record store."""
        self._store, self._catalog, self._configured = store, catalog, configured
        self._known: tuple[StoredDocument, Policies] | None = None

    def __call__(self) -> Policies:
        """Those in force now."""
        stored = self._store.document(POLICIES, self._catalog)
        if stored is None:
            return self._configured
        if self._known is None or self._known[0] != stored:
            self._known = stored, check_policies(str(stored.body["text"]), self._configured)
        return self._known[1]
