"""Options as they are given: one layer of a request, a table's properties, a policy file or the configuration."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from enum import StrEnum
from typing import Annotated, Any, get_args, get_type_hints

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, ValidationInfo, create_model

from icepact.model.errors import BadInput
from icepact.model.policy import OPERATIONS, OPTIONS, OptionUnit, Policy, Strategy
from icepact.policy.schedules import Schedule
from icepact.policy.units import Money, OptionalSeconds, OptionalSize, OptionalWeights
from icepact.policy.validation import StrictModel, complaint, path_of_error, show_path
from icepact.policy.windows import Windows

PROPERTY_PREFIX = "icepact."

BUILT_IN_STRATEGIES: tuple[str, ...] = tuple(Strategy)
_STRATEGIES = "strategies"


def strategy_names(own: Iterable[str]) -> tuple[str, ...]:
    """Names of the strategies that there are if these are added; the built-in ones are taken."""
    names = tuple(own)
    for name in names:
        if name in BUILT_IN_STRATEGIES:
            raise BadInput(f"strategy {name} is built in: choose another name")
    return (*BUILT_IN_STRATEGIES, *names)


def with_strategies(names: Sequence[str]) -> dict[str, Any]:
    """The context to validate options in if these strategies are all that there are; without one, the built-in ones."""
    return {_STRATEGIES: names}


def _strategy(name: str | None, info: ValidationInfo) -> str | None:
    if name is None:
        return None
    known = (info.context or {}).get(_STRATEGIES, BUILT_IN_STRATEGIES)
    if name not in known:
        raise ValueError(f"unknown strategy; there is: {', '.join(known)}")
    return Strategy(name) if name in BUILT_IN_STRATEGIES else name


def _operations(given: Any) -> Any:
    """Names of operations as one text, in their order; a list is as good."""
    if not isinstance(given, str | list | tuple):
        return given
    names = [str(name).strip() for name in (given.split(",") if isinstance(given, str) else given)]
    unknown = [name for name in names if name not in OPERATIONS]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is no operation; there is: {', '.join(OPERATIONS)}")
    return ",".join(name for name in OPERATIONS if name in names)


_READ_AS: Mapping[str, Any] = {
    "strategy": Annotated[str | None, AfterValidator(_strategy)],
    "priority_weights": OptionalWeights,
    "housekeeping": Annotated[str | None, BeforeValidator(_operations)],
}
_READ_BY_UNIT: Mapping[OptionUnit, Any] = {
    OptionUnit.BYTES: OptionalSize,
    OptionUnit.SECONDS: OptionalSeconds,
    OptionUnit.MONEY: Money,
}


def _declared() -> dict[str, Any]:
    """Fields of all options that `Policy` declares, none of which must be given."""
    types, fields = get_type_hints(Policy), {}
    for name, known in OPTIONS.items():
        by_unit = _READ_BY_UNIT[known.unit] if known.unit else types[name] | None
        kind = _READ_AS.get(name, by_unit)
        fields[name] = (Annotated[kind, Field(description=known.description, **known.limits)], None)
    return fields


class _OptionModel(StrictModel):
    noun = "option"


class Options(create_model("_Options", __base__=_OptionModel, **_declared())):  # type: ignore[misc]
    """One layer of options; what is not given is `None`. `Policy` declares them."""


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Schedule | Windows):
        return value.text
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


def options(
    given: Mapping[str, Any], source: str = "request", *, strategies: Sequence[str] = BUILT_IN_STRATEGIES
) -> Options:
    """Options from one layer, or one line that says what is wrong with them."""
    known = {name: value for name, value in given.items() if value is not None}
    try:
        layer: Options = Options.model_validate(known, context=with_strategies(strategies))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "" if source == "request" else f" ({source})"
        raise BadInput(f"{show_path(path_of_error(first))}: {complaint(first)}{where}") from None
    return layer


def choices(name: str) -> list[str]:
    """What an option can be, if it is one of a few words."""
    if name == "strategy":
        return list(BUILT_IN_STRATEGIES)
    kinds = get_args(Options.model_fields[name].annotation)
    return [word.value for kind in kinds if isinstance(kind, type) and issubclass(kind, StrEnum) for word in kind]


def from_properties(properties: Mapping[str, str], *, strategies: Sequence[str] = BUILT_IN_STRATEGIES) -> Options:
    """Options that a table carries itself, as `icepact.target-file-size` and the like."""
    given = {
        key.removeprefix(PROPERTY_PREFIX).replace("-", "_"): value
        for key, value in properties.items()
        if key.startswith(PROPERTY_PREFIX)
    }
    return options(given, "table property", strategies=strategies)
