"""From the text of a policy file to what it means; everything wrong with it is one line with file, line and key."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar, assert_never

from pydantic import BaseModel, ValidationError
from pydantic.alias_generators import to_camel

from icepact.model.errors import BadInput
from icepact.model.formatting import format_size
from icepact.policy.file.documents import (
    CompactionPolicy,
    IcebergCompaction,
    IcebergFile,
    IcebergWrite,
    NamedPolicy,
    PolicyFile,
    PolicyOptions,
    Profile,
    ScheduleOptions,
)
from icepact.policy.file.yaml import Document, read_documents
from icepact.policy.layers import BUILT_IN, PROFILES, Policies, ResourceCatalog, Rule
from icepact.policy.options import BUILT_IN_STRATEGIES, Options, with_strategies
from icepact.policy.patterns import Pattern, parse_pattern
from icepact.policy.resolve import PolicyLayer, merge_layers
from icepact.policy.validation import complaint, path_of_error, show_path

Path = tuple[str | int, ...]
_MB = 1024**2
_Model = TypeVar("_Model", bound=BaseModel)
_NAMES = {*Options.model_fields, *ScheduleOptions.model_fields}


@dataclass(slots=True)
class _Draft:
    """What was read so far; a file may have several documents."""

    rules: list[Rule] = field(default_factory=list)
    named: dict[str, tuple[Document, NamedPolicy]] = field(default_factory=dict)
    profile: Profile | None = None
    defaults: PolicyLayer | None = None
    last: PolicyLayer | None = None
    """Defaults of a form of its own: they give way to the profile."""
    catalogs: list[ResourceCatalog] = field(default_factory=list)
    not_ours: list[str] = field(default_factory=list)
    said: dict[tuple[str, str], tuple[Any, str]] = field(default_factory=dict)
    """By pattern and key: the value, and where it was given."""


def parse_policies(text: str, file: str, strategies: tuple[str, ...] = BUILT_IN_STRATEGIES) -> Policies:
    """All documents of a policy file, as one; its policies may choose from these strategies."""
    draft = _Draft()
    documents = [document for document in read_documents(text, file) if document.value is not None]
    shaped = [(document, _shaped(document, strategies)) for document in documents]
    for document, shape in shaped:
        if isinstance(shape, PolicyFile):
            _take_named(document, shape, draft)
    for document, shape in shaped:
        match shape:
            case PolicyFile():
                _read_own(document, shape, draft)
            case IcebergFile():
                _read_iceberg(document, shape, draft)
            case CompactionPolicy():
                _read_resource(document, shape, draft)
            case _:
                assert_never(shape)
    by_profile = draft.profile and PolicyLayer(source=f"profile {draft.profile}", values=PROFILES[draft.profile])
    below = tuple(layer for layer in (draft.defaults, by_profile, draft.last) if layer)
    for rule in draft.rules:
        _refuse_sizes(rule.source, (*rule.layers, *below))
    for name, (document, _) in draft.named.items():
        _refuse_sizes(document.at(("policies", name)), (*_chain(name, draft), *below))
    _refuse_sizes(f"{file}:1", below)
    return Policies(
        file=file,
        rules=tuple(draft.rules),
        named=tuple(draft.named),
        profile=draft.profile,
        below=below,
        catalogs=tuple(draft.catalogs),
        not_ours=tuple(draft.not_ours),
        strategies=strategies,
    )


def _shaped(document: Document, strategies: Sequence[str]) -> PolicyFile | IcebergFile | CompactionPolicy:
    """A document in the form that it has."""
    if not isinstance(document.value, dict):
        raise document.refusal((), "this must be a mapping with keys such as profile, defaults, policies, rules")
    if {"apiVersion", "kind"} & set(document.value):
        return _checked(CompactionPolicy, document, strategies, to_camel)
    if "iceberg" in document.value:
        return _checked(IcebergFile, document, strategies)
    return _checked(PolicyFile, document, strategies)


def _checked(shape: type[_Model], document: Document, strategies: Sequence[str], spelled: Any = str) -> _Model:
    """The document in its shape; `spelled` says how an option is written in it."""
    try:
        return shape.model_validate(document.value, context=with_strategies(strategies))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        keys = path_of_error(first)
        known = len(first["loc"])  # what is behind it is as the file spells it
        path = (*(spelled(part) if part in Options.model_fields else part for part in keys[:known]), *keys[known:])
        raise document.refusal(path, complaint(first)) from None


# -- our own form ---------------------------------------------------------------------------------


def _take_named(document: Document, file: PolicyFile, draft: _Draft) -> None:
    """Policies by name, of all documents: rules and other policies may refer to them wherever they stand."""
    for name, policy in file.policies.items():
        path = ("policies", name)
        if name in BUILT_IN:
            raise document.refusal(path, "this policy is built in: give yours another name and extend it")
        if name in draft.named:
            raise document.refusal(path, f"given twice, first in {draft.named[name][0].at(path)}")
        draft.named[name] = (document, policy)


def _read_own(document: Document, file: PolicyFile, draft: _Draft) -> None:
    """Defaults and rules."""
    _take_profile(document, file.profile, draft)
    if "defaults" in document.value:
        _take_defaults(document, ("defaults",), _layer(document, ("defaults",), file.defaults, "defaults"), draft)
    for index, rule in enumerate(file.rules):
        path: Path = ("rules", index)
        pattern = _pattern(document, (*path, "match"), rule.match)
        own = _layer(document, path, rule, f"rule {rule.match}", inside="options")
        for name, value in own.values.items():
            _refuse_conflict(document, _path_of(document, path, name, "options"), pattern, name, value, draft)
        layers = [own]
        if rule.policy is not None:
            if rule.policy not in draft.named and rule.policy not in BUILT_IN:
                raise document.refusal((*path, "policy"), _no_policy(draft))
            _refuse_conflict(document, (*path, "policy"), pattern, "policy", rule.policy, draft)
            layers += _chain(rule.policy, draft, f", rule {rule.match}")
        draft.rules.append(Rule(pattern=pattern, source=document.at(path), layers=tuple(layers)))


def _chain(name: str, draft: _Draft, suffix: str = "") -> Iterator[PolicyLayer]:
    """A policy, then what it extends, and so on."""
    seen: list[str] = []
    while name not in BUILT_IN:
        document, policy = draft.named[name]
        seen.append(name)
        yield _layer(document, ("policies", name), policy, f"policy {name}{suffix}")
        if policy.extends is None:
            return
        path = ("policies", name, "extends")
        if policy.extends in seen:
            raise document.refusal(path, f"this goes in a circle: {' -> '.join([*seen, policy.extends])}")
        if policy.extends not in draft.named and policy.extends not in BUILT_IN:
            raise document.refusal(path, _no_policy(draft))
        name = policy.extends
    given = PolicyOptions.model_validate(BUILT_IN[name])
    where = f" ({suffix.removeprefix(', ')})" if suffix else ""
    yield PolicyLayer(source=f"built-in policy {name}{where}", values=_values(given))


def _no_policy(draft: _Draft) -> str:
    return f"there is no such policy; there is: {', '.join([*draft.named, *BUILT_IN])}"


def _layer(document: Document, path: Path, shape: BaseModel, who: str, inside: str | None = None) -> PolicyLayer:
    """What a mapping of the file says, with the line of every key."""
    values = _values(shape)
    if inside is not None:
        values |= _values(getattr(shape, inside))
    exact = {name: f"policy file {document.at(_path_of(document, path, name, inside))} ({who})" for name in values}
    return PolicyLayer(source=f"policy file {document.at(path)} ({who})", values=values, exact=exact)


def _values(shape: BaseModel) -> dict[str, Any]:
    """What is given, suspension in the word of options."""
    values = {name: value for name in type(shape).model_fields if (value := getattr(shape, name)) is not None}
    if "suspend" in values:
        values["enabled"] = not values["suspend"]
    return {name: value for name, value in values.items() if name in _NAMES}


def _path_of(document: Document, path: Path, name: str, inside: str | None) -> Path:
    """Where a value of a layer is written."""
    here = _at(document, path)
    if name == "enabled" and "suspend" in here:
        return (*path, "suspend")
    return (*path, name) if inside is None or name in here else (*path, inside, name)


def _at(document: Document, path: Path) -> Mapping[str, Any]:
    value = document.value
    for part in path:
        value = value[part]
    return value if isinstance(value, dict) else {}


# -- other forms ----------------------------------------------------------------------------------


def _read_iceberg(document: Document, file: IcebergFile, draft: _Draft) -> None:
    """`iceberg.write` and `iceberg.compaction`: what is given, and what these sections have as defaults."""
    _take_profile(document, file.profile, draft)
    draft.not_ours += _not_ours(document, (), file) + _not_ours(document, ("iceberg",), file.iceberg)
    given: dict[str, Any] = {}
    exact: dict[str, str] = {}
    fallback: dict[str, Any] = {}
    for section, shape in (("write", file.iceberg.write), ("compaction", file.iceberg.compaction)):
        if shape is None:
            continue
        for key, (name, value) in _translated(shape).items():
            if key in shape.model_fields_set:
                path = ("iceberg", section, key)
                given[name] = value
                exact[name] = f"policy file {document.at(path)} (iceberg.{section}.{key})"
            else:
                fallback[name] = value
    if "min_file_size" in fallback and "target_file_size" in given:
        fallback["min_file_size"] = min(fallback["min_file_size"], given["target_file_size"])
    where = f"policy file {document.at(('iceberg',))}"
    _take_defaults(document, ("iceberg",), PolicyLayer(source=f"{where} (iceberg)", values=given, exact=exact), draft)
    draft.last = PolicyLayer(source=f"default of iceberg ({where})", values=fallback)


def _not_ours(document: Document, path: Path, shape: BaseModel) -> list[str]:
    """What stands beside our keys."""
    others = [key for key in _at(document, path) if key not in type(shape).model_fields]
    return [f"{document.at((*path, key))}: {show_path((*path, key))}" for key in others]


def _translated(shape: IcebergWrite | IcebergCompaction) -> dict[str, tuple[str, Any]]:
    """By key: our name for it, and our value."""
    if isinstance(shape, IcebergWrite):
        return {
            "target_file_size_mb": ("target_file_size", max(1, int(shape.target_file_size_mb * _MB))),
            "compression_codec": ("codec", shape.compression_codec),
            "parquet_row_group_size": ("row_group_rows", shape.parquet_row_group_size),
        }
    return {
        "enabled": ("enabled", shape.enabled),
        "small_file_threshold_mb": ("min_file_size", max(1, int(shape.small_file_threshold_mb * _MB))),
        "min_files_to_compact": ("min_input_files", shape.min_files_to_compact),
        "opportunistic_check_interval": ("check_interval", shape.opportunistic_check_interval),
        "max_files_per_compaction": ("max_files", shape.max_files_per_compaction),
        "snapshot_retention_hours": ("expire_older_than", shape.snapshot_retention_hours * 3600),
    }


def _read_resource(document: Document, resource: CompactionPolicy, draft: _Draft) -> None:
    """A custom resource: a rule for each of its tables."""
    spec = resource.spec
    who = f"CompactionPolicy {resource.metadata.get('name', '')}".strip()
    said: dict[str, tuple[Any, Path]] = {
        "schedule": (spec.schedule, ("spec", "schedule")),
        "resources": (spec.resources, ("spec", "resources")),
        "max_cost_per_hour": (spec.costLimit and spec.costLimit.hourly, ("spec", "costLimit", "hourly")),
        "enabled": (False if spec.suspend else None, ("spec", "suspend")),
    }
    common = {name: (value, path) for name, (value, path) in said.items() if value is not None}
    catalog = spec.catalog.model_dump(exclude={"database"})
    draft.catalogs.append(ResourceCatalog(source=document.at(("spec", "catalog")), **catalog))
    prefix = ".".join(part for part in (spec.catalog.name, spec.catalog.database) if part)
    if not spec.tables:
        _add_resource_rule(document, ("spec",), f"{prefix}.*", who, common, draft)
    for index, table in enumerate(spec.tables):
        path = ("spec", "tables", index)
        own = {
            name: (value, (*path, to_camel(name)))
            for name, value in _values(table).items()
            if not (name == "enabled" and spec.suspend)
        }
        _add_resource_rule(document, path, f"{prefix}.{table.name}", who, common | own, draft)


def _add_resource_rule(
    document: Document, path: Path, match: str, who: str, said: Mapping[str, tuple[Any, Path]], draft: _Draft
) -> None:
    """A rule with what is said, by option: its value, and where."""
    pattern = _pattern(document, path, match)
    for name, (value, where) in said.items():
        _refuse_conflict(document, where, pattern, name, value, draft)
    values = {name: value for name, (value, _) in said.items()}
    exact = {name: f"policy file {document.at(where)} ({who})" for name, (_, where) in said.items()}
    layer = PolicyLayer(source=f"policy file {document.at(path)} ({who})", values=values, exact=exact)
    draft.rules.append(Rule(pattern=pattern, source=document.at(path), layers=(layer,)))


# -- what is refused ------------------------------------------------------------------------------


def _pattern(document: Document, path: Path, text: str) -> Pattern:
    try:
        return parse_pattern(text)
    except BadInput as error:
        raise document.refusal(path, str(error)) from None


def _take_profile(document: Document, profile: Profile | None, draft: _Draft) -> None:
    if profile is None:
        return
    if draft.profile is not None:
        raise document.refusal(("profile",), "an earlier document of this file has one already")
    draft.profile = profile


def _take_defaults(document: Document, path: Path, layer: PolicyLayer, draft: _Draft) -> None:
    if draft.defaults is not None:
        raise document.refusal(path, f"there are defaults already: {draft.defaults.source}")
    draft.defaults = layer


def _refuse_conflict(document: Document, path: Path, pattern: Pattern, name: str, value: Any, draft: _Draft) -> None:
    """Two rules with the very same pattern may not contradict each other."""
    earlier = draft.said.setdefault((pattern.text, name), (value, document.at(path)))
    if earlier[0] != value:
        message = f"another value than in {earlier[1]}, where a rule has the same pattern {pattern.text}"
        raise document.refusal(path, message)


def _refuse_sizes(source: str, layers: Sequence[PolicyLayer]) -> None:
    """Sizes that can never fit together, whatever a table says."""
    values, sources = merge_layers(("min_file_size", "target_file_size", "max_file_size"), layers)
    given = [(name, value) for name, value in values.items() if value is not None]
    for (name, value), (above, limit) in pairwise(given):
        if value > limit:
            raise BadInput(
                f"{source}: {name}: {format_size(value)} is above {above} {format_size(limit)}"
                f" ({name} by {sources[name]}, {above} by {sources[above]})"
            )
