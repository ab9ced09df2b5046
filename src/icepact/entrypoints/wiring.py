"""The composition root: configuration from its sources, the catalog, the record store."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from icepact.iceberg.catalogs import choose_catalog, told_properties
from icepact.model.config import Catalog, Config
from icepact.model.errors import BadInput
from icepact.model.marked import Document, read_documents
from icepact.model.policies import CatalogWish, Policies
from icepact.model.policy_file import parse_policies
from icepact.model.validation import complaint, place_of, show_path
from icepact.record.store import RecordStore

CONFIG_FILE = "icepact.yaml"
HISTORY_FILE = "icepact.db"
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_FROM_ENVIRONMENT = (
    *("catalog", "catalog_uri", "catalog_type", "catalog_timeout", "warehouse", "namespace"),
    *("state", "store", "policies", "prices"),
)


def load_config(path: str | None, flags: Mapping[str, Any]) -> Config:
    """Flags over `ICEPACT_*` over the file."""
    file = path or os.environ.get("ICEPACT_CONFIG") or (CONFIG_FILE if Path(CONFIG_FILE).is_file() else None)
    document = None if file is None else _read(Path(file))
    settings = {} if document is None else _expanded(document.value, document, ())
    above = {name: flags.get(name) or os.environ.get(f"ICEPACT_{name.upper()}") for name in _FROM_ENVIRONMENT}
    above = {name: value for name, value in above.items() if value}
    if flags.get("catalog_properties"):
        above["catalog_properties"] = {**settings.get("catalog_properties", {}), **flags["catalog_properties"]}
    try:
        return Config.model_validate({**settings, **above})
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = place_of(first)
        if document is None or place[0] in above:
            raise BadInput(f"{show_path(place)}: {complaint(first)}") from None
        raise document.refusal(place, complaint(first)) from None


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


def _read(path: Path) -> Document | None:
    """The configuration file; null if there is nothing in it."""
    documents = [found for found in read_documents(read_text(path, "configuration"), str(path)) if found.value]
    if len(documents) > 1:
        raise documents[1].refusal((), "a configuration is one document: leave out what is from --- on")
    if documents and not isinstance(documents[0].value, dict):
        raise documents[0].refusal((), "this must be a mapping with keys such as catalogs, spark, policy")
    return documents[0] if documents else None


def _expanded(value: Any, document: Document, place: tuple[str | int, ...]) -> Any:
    """`${NAME}` in any text is the environment variable of that name, so that secrets need not be in the file."""
    if isinstance(value, dict):
        return {key: _expanded(inner, document, (*place, key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [_expanded(inner, document, (*place, at)) for at, inner in enumerate(value)]
    if not isinstance(value, str):
        return value

    def of_environment(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise document.refusal(place, f"the environment variable {match[1]} is not set")
        return os.environ[match[1]]

    return _VARIABLE.sub(of_environment, value)


def catalog_of(config: Config, policies: Policies) -> Catalog:
    """The catalog that the configuration means, or else the one that the policy file's resources are about."""
    settled = _with_wishes(config, policies.catalogs)
    try:
        catalog = choose_catalog(settled)
    except BadInput as error:
        raise (error if settled is config else BadInput(f"{policies.catalogs[0].place}: {error}")) from None
    refuse_other_catalogs(catalog, policies)
    return catalog


def _with_wishes(config: Config, wishes: Sequence[CatalogWish]) -> Config:
    """The configuration, completed by what custom resources say about their catalog."""
    said = config.catalog or config.catalog_uri or config.catalog_type or config.warehouse
    if not wishes or said or (config.catalogs and wishes[0].name is None):
        return config
    first = wishes[0]
    for other in wishes[1:]:
        if replace(other, place=first.place) != first:
            raise BadInput(f"{other.place}: another catalog than in {first.place}: name one with --catalog")
    if first.name in config.catalogs:
        return config.model_copy(update={"catalog": first.name})
    wish = {"catalog": first.name, "catalog_uri": first.uri, "catalog_type": first.type, "warehouse": first.warehouse}
    return config.model_copy(update=wish)


def refuse_other_catalogs(catalog: Catalog, policies: Policies) -> None:
    """Refuse custom resources that are about a catalog elsewhere; one with another name is no business of this run."""
    for wish in policies.catalogs:
        if wish.name is not None and wish.name != catalog.name:
            continue
        for key, wanted in told_properties(wish.type, wish.uri, wish.warehouse).items():
            folder = str(Path(wanted).expanduser().resolve()) if catalog.embedded is not None else wanted
            if catalog.properties.get(key) not in (wanted, folder):
                raise BadInput(
                    f"{wish.place}: {key}: this resource is about another catalog than {catalog.name}, the one in use:"
                    f" name its own with --catalog or --catalog-uri, or mend the resource"
                )


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
    """What the configuration says about Spark, as Spark's own keys; and how workers of this machine are started."""
    settings = {"spark.master": config.spark.master, **config.spark.conf}
    if settings["spark.master"].startswith("local") and not _other_python(settings):
        settings.setdefault("spark.python.daemon.module", "icepact.execute.rewriters.daemon")
    return settings


def _other_python(settings: Mapping[str, str]) -> bool:
    """Whether workers may run a Python that does not have this package."""
    return "PYSPARK_PYTHON" in os.environ or "spark.pyspark.python" in settings
