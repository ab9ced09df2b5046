"""Prices as they are configured: a preset's name, or a mapping that overrides one."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any

from pydantic import BeforeValidator

from icepact.model.prices import DEFAULT_PRESET, PRESETS, Prices
from icepact.policy.validation import refuse_unknown


def _over_a_preset(data: Any) -> Any:
    if isinstance(data, Prices):
        return data
    given = {"preset": data} if isinstance(data, str) else {} if data is None else data
    if not isinstance(given, Mapping):
        raise ValueError(f"a preset's name is wanted, or a mapping; presets are {', '.join(PRESETS)}")
    refuse_unknown(given, [one.name for one in fields(Prices)])
    name = given.get("preset", DEFAULT_PRESET)
    if name not in PRESETS:
        raise ValueError(f"unknown preset {name!r}; there is: {', '.join(PRESETS)}")
    return {"preset": name, **PRESETS[name], **given}


ConfiguredPrices = Annotated[Prices, BeforeValidator(_over_a_preset)]
"""A pydantic field that accepts a preset's name, or a mapping that overrides one."""
