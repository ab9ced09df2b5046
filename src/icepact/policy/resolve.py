"""The policy of one table: each option from the first layer that has it, and where that is.

Precedence: request or flag, then table property `icepact.*`, then Amoro's table properties, then the most
specific policy of the policy file, then its profile, then `policy:` in the configuration, then the built-in default.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from icepact.model.errors import BadInput
from icepact.model.formatting import format_size
from icepact.model.policy import OPTIONS, JobOrder, Policy, Strategy
from icepact.policy.amoro import AMORO_PREFIX, SHARE, translate
from icepact.policy.options import BUILT_IN_STRATEGIES, Options, from_properties, options

DEFAULT_TARGET = 512 * 1024**2
SMALL_OF_TARGET = 0.75
LARGE_OF_TARGET = 1.8


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyLayer:
    """One layer of options, and where they were found. What is not among its values is left to the layers below."""

    source: str
    values: Mapping[str, Any]
    """By option; none of them is `None`."""
    exact: Mapping[str, str] = field(default_factory=dict)
    """By option: where it was found, if more is known about it than about the layer."""

    @staticmethod
    def of(source: str, options: Options) -> "PolicyLayer":
        """The options that are given."""
        return PolicyLayer(source=source, values=_given(options))


def merge_layers(names: Sequence[str], layers: Sequence[PolicyLayer]) -> tuple[dict[str, Any], dict[str, str]]:
    """The value of each name, by the first layer that has one, and where it was found."""
    values: dict[str, Any] = dict.fromkeys(names)
    sources = dict.fromkeys(names, "default")
    for layer in reversed(layers):
        for name, value in layer.values.items():
            if name in values:
                values[name], sources[name] = value, layer.exact.get(name, layer.source)
    return values, sources


def resolve(
    request: Options,
    properties: Mapping[str, str],
    configuration: Options,
    policies: Sequence[PolicyLayer] = (),
    *,
    strategies: Sequence[str] = BUILT_IN_STRATEGIES,
) -> Policy:
    """Resolve every value for one table by precedence; `policies` are what a policy file says, most specific first."""
    carried = from_properties(properties, strategies=strategies)
    above = [PolicyLayer.of("request", request), PolicyLayer.of("table property", carried)]
    below = [*policies, PolicyLayer.of("configuration", configuration), _DEFAULTS]
    names = tuple(OPTIONS)
    values, sources = merge_layers(names, [*above, _from_amoro(properties), *below])
    if AMORO_PREFIX + SHARE in properties:
        target, _ = _target(values, sources, properties)
        values, sources = merge_layers(names, [*above, _from_amoro(properties, target), *below])
    values["target_file_size"], sources["target_file_size"] = _target(values, sources, properties)
    _derive_sizes(values, sources)
    if values["strategy"] == Strategy.TIME_SERIES and sources["job_order"] == "default":
        values["job_order"] = JobOrder.OLDEST
    return Policy(**values, sources=sources)


def _from_amoro(properties: Mapping[str, str], target: int | None = None) -> PolicyLayer:
    """The layer of options that a table carries for Amoro."""
    values: dict[str, Any] = {}
    exact = {}
    for name, (key, value) in translate(properties, target).items():
        values |= _given(options({name: value}, f"table property {key}"))
        exact[name] = f"table property {key}"
    return PolicyLayer(source="table property", values=values, exact=exact)


def _given(layer: Options) -> dict[str, Any]:
    return {name: value for name in layer.model_fields_set if (value := getattr(layer, name)) is not None}


def _target(values: Mapping[str, Any], sources: Mapping[str, str], properties: Mapping[str, str]) -> tuple[int, str]:
    """The target size and where it came from: if no layer names one, it is the table's own, or the default."""
    if values["target_file_size"] is not None:
        return values["target_file_size"], sources["target_file_size"]
    own = properties.get("write.target-file-size-bytes", "")
    return (int(own), "table default") if own.isdigit() else (DEFAULT_TARGET, "default")


def _derive_sizes(values: dict[str, Any], sources: Mapping[str, str]) -> None:
    target = values["target_file_size"]
    if values["min_file_size"] is None:
        values["min_file_size"] = max(1, int(target * SMALL_OF_TARGET))
    if values["max_file_size"] is None:
        values["max_file_size"] = int(target * LARGE_OF_TARGET)
    small, large = values["min_file_size"], values["max_file_size"]
    if small > target:
        clash, name = f"min_file_size {format_size(small)} is above the target {format_size(target)}", "min_file_size"
    elif large < target:
        clash, name = f"max_file_size {format_size(large)} is below the target {format_size(target)}", "max_file_size"
    else:
        return
    said_by = {n: sources[n] for n in (name, "target_file_size") if sources[n] not in _NAMELESS}
    where = ", ".join(f"{n} by {source}" for n, source in said_by.items())
    raise BadInput(f"{clash} ({where})" if where else clash)


_NAMELESS = frozenset({"request", "default", "table default"})
"""Sources that need no mention in a message: who asks knows them."""


_DEFAULTS = PolicyLayer(
    source="default", values={name: known.default for name, known in OPTIONS.items() if known.default is not None}
)
