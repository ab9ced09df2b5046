"""Rules and layers of policies: for each table, which rules speak of it, and what they resolve to."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from icepact.model.errors import BadInput
from icepact.model.policy import Policy, Strategy
from icepact.policy.file.documents import Profile, ScheduledOperation, ScheduleOptions
from icepact.policy.options import BUILT_IN_STRATEGIES, PROPERTY_PREFIX, Options, plain
from icepact.policy.patterns import Pattern
from icepact.policy.resolve import PolicyLayer, merge_layers, resolve
from icepact.policy.schedules import Schedule
from icepact.policy.validation import complaint
from icepact.policy.windows import Windows

PROFILES: Mapping[Profile, Mapping[str, int]] = {
    Profile.DEVELOPMENT: {"check_interval": 5, "min_input_files": 3},
    Profile.STAGING: {"check_interval": 75, "min_input_files": 15},
    Profile.PRODUCTION: {"check_interval": 100, "min_input_files": 20},
}


BUILT_IN: Mapping[str, Mapping[str, Any]] = {
    "size-based": {"strategy": Strategy.SMALL_FILES},
    "time-based": {"strategy": Strategy.TIME_SERIES, "schedule": "1h"},
    "cost-optimized": {"strategy": Strategy.COST_OPTIMIZED},
}
"""Policies that have a name without being written down."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """Options for the tables that a pattern matches."""

    pattern: Pattern
    source: str
    """Where it is written, as `lake.yaml:12`."""
    layers: tuple[PolicyLayer, ...]
    """Its own options, then those of the policy that it names, then what that one extends."""

    def to_dict(self) -> dict[str, Any]:
        """The rule as it is printed with `--json`."""
        values, _ = merge_layers(sorted({name for layer in self.layers for name in layer.values}), self.layers)
        return {"match": self.pattern.text, "place": self.source, "values": {k: plain(v) for k, v in values.items()}}


@dataclass(frozen=True, kw_only=True, slots=True)
class ResourceCatalog:
    """The catalog that a custom resource is about, as far as it says."""

    source: str
    """Where it is written, as `lake.yaml:12`."""
    type: str
    name: str | None = None
    uri: str | None = field(default=None, repr=False)
    warehouse: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Policies:
    """All policies in force, apart from what a request or a table says."""

    file: str | None = None
    """The policy file, if there is one."""
    rules: tuple[Rule, ...] = ()
    """In the order of the file."""
    named: tuple[str, ...] = ()
    """Names of the file's own policies."""
    profile: Profile | None = None
    below: tuple[PolicyLayer, ...] = ()
    """What holds for all tables: the file's defaults, then the profile."""
    configuration: Options = field(default_factory=Options)
    """`policy:` in the configuration."""
    catalogs: tuple[ResourceCatalog, ...] = ()
    """Of its custom resources."""
    not_ours: tuple[str, ...] = ()
    """Keys of a file that others use, too, which mean nothing here: each with its line."""
    strategies: tuple[str, ...] = BUILT_IN_STRATEGIES
    """Names that a table may choose from."""

    def for_all(self) -> tuple[dict[str, Any], dict[str, str]]:
        """What the file says about every table, and where."""
        return merge_layers(sorted({name for layer in self.below for name in layer.values}), self.below)

    def rules_for(self, catalog: str, table: tuple[str, ...]) -> list[Rule]:
        """Rules that speak of a table, the most specific first; of two equal ones the later."""
        matching = [(at, rule) for at, rule in enumerate(self.rules) if rule.pattern.matches(catalog, table)]
        matching.sort(key=lambda entry: (entry[1].pattern.specificity(table), entry[0]), reverse=True)
        return [rule for _, rule in matching]

    def layers(self, catalog: str, table: tuple[str, ...]) -> list[PolicyLayer]:
        """What the file says about a table, most specific first."""
        return [*(layer for rule in self.rules_for(catalog, table) for layer in rule.layers), *self.below]

    def resolve(
        self, request: Options, properties: Mapping[str, str], catalog: str, table: tuple[str, ...]
    ) -> "TablePolicy":
        """Resolve every value for one table by precedence."""
        layers = self.layers(catalog, table)
        of_runs = {key: value for key, value in properties.items() if key not in CARRIED}
        policy = resolve(request, of_runs, self.configuration, layers, strategies=self.strategies)
        values, sources = merge_layers(tuple(ScheduleOptions.model_fields), [_carried(properties), *layers])
        return TablePolicy(policy=policy, **values, sources={**policy.sources, **sources})


@dataclass(frozen=True, kw_only=True, slots=True)
class TablePolicy:
    """What holds for one table: for a run, and beyond it."""

    policy: Policy
    schedule: Schedule | None
    check_interval: int | None
    """Commits of writers."""
    commit_delay: float | None
    """Seconds."""
    operation: ScheduledOperation | None
    timezone: str | None
    windows: Windows | None
    blackouts: Windows | None
    jitter: float | None
    """Seconds."""
    slack: float | None
    """Seconds."""
    priority: int | None
    resources: Mapping[str, Any] | None
    sources: Mapping[str, str]
    """Where each value came from."""

    def to_dict(self) -> dict[str, Any]:
        """The document that `icepact policy show --json` prints: each value, and where it came from."""
        values = {name: getattr(self.policy, name) for name in Options.model_fields}
        values |= {name: getattr(self, name) for name in ScheduleOptions.model_fields}
        return {name: {"value": plain(value), "source": self.sources[name]} for name, value in values.items()}


CARRIED: Mapping[str, str] = {
    PROPERTY_PREFIX + name.replace("_", "-"): name
    for name in ScheduleOptions.model_fields
    if name != "resources" and name not in Options.model_fields
}
"""By table property: what a table may say itself about more than one run."""


def _carried(properties: Mapping[str, str]) -> PolicyLayer:
    given = {name: properties[key] for key, name in CARRIED.items() if key in properties}
    try:
        options = ScheduleOptions.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise BadInput(f"{first['loc'][0]}: {complaint(first)} (table property)") from None
    return PolicyLayer(source="table property", values={name: getattr(options, name) for name in given})


def unmatched(policies: Policies, catalog: str, tables: Iterable[tuple[str, ...]]) -> list[Rule]:
    """Rules that speak of none of these tables: perhaps misspelt."""
    known: Sequence[tuple[str, ...]] = list(tables)
    return [rule for rule in policies.rules if not any(rule.pattern.matches(catalog, table) for table in known)]
