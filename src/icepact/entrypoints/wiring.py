"""The composition root: configuration from its sources, the catalog, the record store."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from icepact.iceberg.catalogs import choose_catalog
from icepact.model.config import Allowance, Budgets, Catalog, Config, SparkSettings
from icepact.model.errors import BadInput
from icepact.model.policies import Policies
from icepact.model.policy_file import parse_policies
from icepact.model.prices import Prices
from icepact.record.store import RecordStore

CONFIG_FILE = "icepact.yaml"
HISTORY_FILE = "icepact.db"
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_QUOTED = re.compile(r"(['\"]).*?\1")
"""What YAML quotes from the file in its messages: a password that starts with * or ! is taken for a name."""
_FROM_ENVIRONMENT = ("catalog", "catalog_uri", "catalog_type", "warehouse", "state", "store", "policies", "prices")


def load_config(path: str | None, flags: Mapping[str, str | None]) -> Config:
    """Flags over `ICEPACT_*` over the file."""
    file = path or os.environ.get("ICEPACT_CONFIG") or (CONFIG_FILE if Path(CONFIG_FILE).is_file() else None)
    settings = _read(Path(file)) if file else {}
    for name in _FROM_ENVIRONMENT:
        value = flags.get(name) or os.environ.get(f"ICEPACT_{name.upper()}")
        if value:
            settings[name] = value
    try:
        return Config.model_validate(settings)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"{file or 'configuration'}: {where}: {_said(first)}") from None


def _said(error: ErrorDetails) -> str:
    """What is wrong with a value, and what would be right."""
    if error["type"] == "extra_forbidden":
        return f"unknown key; there is: {', '.join(_model_at(error['loc']).model_fields)}"
    return error["msg"].removeprefix("Value error, ")


def _model_at(place: Sequence[int | str]) -> type[BaseModel]:
    """The model that a key of the configuration belongs to."""
    match place:
        case ["spark", _]:
            return SparkSettings
        case ["prices", *_]:
            return Prices
        case ["budgets", _]:
            return Budgets
        case ["budgets", *_]:
            return Allowance
        case _:
            return Config


def read_policies(path: str | Path) -> Policies:
    """What a policy file says."""
    return parse_policies(read_text(Path(path), "policy file"), str(path))


def policies_of(config: Config) -> Policies:
    """All that the configuration wishes for, the policy file included if there is one."""
    policies = Policies() if config.policies is None else read_policies(config.policies)
    return replace(policies, configuration=config.policy)


def read_text(path: Path, what: str) -> str:
    """What a file says, or one line that says why it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{what} {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{what} {path} cannot be read: it is not UTF-8 text") from None


def _read(path: Path) -> dict[str, Any]:
    text = read_text(path, "configuration")
    try:
        settings = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark else ""
        problem = _QUOTED.sub("'...'", getattr(error, "problem", None) or "broken")
        raise BadInput(f"configuration {path} is not YAML{line}: {problem}") from None
    if settings is None:
        return {}
    if not isinstance(settings, dict):
        raise BadInput(f"configuration {path} must be a mapping with keys such as catalogs, spark, policy")
    expanded: dict[str, Any] = _expanded(settings, path)
    return expanded


def _expanded(value: Any, path: Path) -> Any:
    """`${NAME}` in any text is the environment variable of that name, so that secrets need not be in the file."""
    if isinstance(value, dict):
        return {key: _expanded(inner, path) for key, inner in value.items()}
    if isinstance(value, list):
        return [_expanded(inner, path) for inner in value]
    if not isinstance(value, str):
        return value

    def of_environment(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise BadInput(f"configuration {path}: the environment variable {match[1]} is not set")
        return os.environ[match[1]]

    return _VARIABLE.sub(of_environment, value)


def catalog_of(config: Config) -> Catalog:
    """The catalog that the configuration means."""
    return choose_catalog(config)


def store_of(config: Config, catalog: Catalog) -> RecordStore:
    """The record store: the one that is named; else beside an embedded warehouse, or in the user's state folder."""
    from icepact.record.sql import SqlStore  # not every command needs it, and it takes its time

    if config.store is not None:
        return SqlStore.in_memory() if config.store == "memory" else SqlStore(config.store)
    if config.state is not None:
        return SqlStore.in_file(config.state / HISTORY_FILE)
    if catalog.embedded is not None:
        return SqlStore.in_file(catalog.embedded / HISTORY_FILE)
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return SqlStore.in_file(Path(base) / "icepact" / HISTORY_FILE)


def spark_settings(config: Config) -> dict[str, str]:
    """What the configuration says about Spark, as Spark's own keys."""
    return {"spark.master": config.spark.master, **config.spark.conf}
