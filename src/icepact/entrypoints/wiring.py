"""The composition root: an application from arguments, variables and files, with its catalog and its record store."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from icepact.app import Application, in_own_words
from icepact.iceberg.catalogs import choose_catalog, embedded_is_small, shown_properties
from icepact.iceberg.names import parse_levels
from icepact.model.errors import BadInput
from icepact.policy.config import Catalog, Config
from icepact.policy.file.parse import parse_policies
from icepact.policy.file.yaml import Document, read_documents
from icepact.policy.layers import Policies, ResourceCatalog
from icepact.policy.options import BUILT_IN_STRATEGIES, strategy_names, with_strategies
from icepact.policy.validation import complaint, path_of_error, show_path
from icepact.record.open import open_store
from icepact.record.store import RecordStore
from icepact.telemetry import logs, trace

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from icepact.iceberg.spark.catalog import SparkCatalog
    from icepact.plan.strategies.table import SelectFiles

CONFIG_FILE = "icepact.yaml"
HISTORY_FILE = "icepact.db"
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_FROM_ENVIRONMENT = (
    *("catalog", "catalog_uri", "catalog_type", "catalog_timeout", "warehouse", "namespace"),
    *("state", "store", "policies", "prices"),
)
_GENERIC = {"CATALOG_TYPE": "catalog_type", "CATALOG_URI": "catalog_uri", "CATALOG_WAREHOUSE": "warehouse"}
"""Variables without our name, which count only if nothing else says which catalog is meant."""
_SAYING_CATALOG = (*_GENERIC.values(), "catalog", "catalogs")
_STORES = ("REDIS_URL", "DATABASE_URL", "ETCD_ENDPOINTS")
"""Variables without our name, which count only if nothing else says which record store is meant."""
_LOOKING = ("icepact.record.sql", "icepact.maintain.inspect", "numpy.ma")
_APPLYING = ("icepact.maintain.compaction",)
"""What is needed next, and loaded while Java starts."""


@in_own_words
def build_application(
    *,
    spark: "SparkSession | None" = None,
    catalog: str | None = None,
    catalog_uri: str | None = None,
    catalog_type: str | None = None,
    catalog_properties: Mapping[str, str] | None = None,
    warehouse: str | os.PathLike[str] | None = None,
    namespace: str | None = None,
    config: str | os.PathLike[str] | None = None,
    policies: str | os.PathLike[str] | None = None,
    verbose: bool = False,
    short: bool = False,
    one_table: bool = False,
    strategies: "Mapping[str, SelectFiles] | None" = None,
) -> Application:
    """An application as it is asked for, with `ICEPACT_*` variables and the configuration file below that. Nothing is
    opened yet; `short` says that Java is started for a program that ends before its compiler pays off, and `one_table`
    that it does so if the first table that is worked on is small."""
    flags = {
        "catalog": catalog,
        "catalog_uri": catalog_uri,
        "catalog_type": catalog_type,
        "catalog_properties": catalog_properties,
        "warehouse": None if warehouse is None else str(warehouse),
        "namespace": namespace,
        "policies": None if policies is None else str(policies),
    }
    names = strategy_names(strategies or ())
    settings = load_config(None if config is None else str(config), flags, names)
    set_up_telemetry(settings)
    rules = policies_of(settings, names)
    if spark is None:
        chosen = catalog_of(settings, rules)
        open_catalog = partial(_open_catalog, settings, chosen, verbose=verbose, short=short, one_table=one_table)
    else:
        chosen = _adopted_catalog(spark, catalog)
        refuse_other_catalogs(chosen, rules)
        open_catalog = partial(_adopt_catalog, spark, chosen.name)
    open_store = partial(store_of, settings, chosen)
    return _application(settings, chosen, rules, open_catalog, open_store, strategies)


def application_of(config: Config, catalog: Catalog, policies: Policies, store: RecordStore) -> Application:
    """An application of a process that lives long and has read its configuration, and opened its store, before."""
    open_catalog = partial(_open_catalog, config, catalog, verbose=False, short=False, one_table=False)
    return _application(config, catalog, policies, open_catalog, lambda: store, None)


def _application(
    config: Config,
    catalog: Catalog,
    policies: Policies,
    open_catalog: "Callable[[tuple[str, ...] | None], SparkCatalog]",
    open_store: Callable[[], RecordStore],
    strategies: "Mapping[str, SelectFiles] | None",
) -> Application:
    return Application(
        catalog=catalog,
        namespace=parse_levels(config.namespace),
        policies=policies,
        prices=config.prices,
        budgets=config.budgets,
        open_catalog=open_catalog,
        open_store=open_store,
        strategies=strategies,
    )


# -- configuration and policies -------------------------------------------------------------------


def load_config(path: str | None, flags: Mapping[str, Any], strategies: Sequence[str] = BUILT_IN_STRATEGIES) -> Config:
    """The configuration: flags over `ICEPACT_*` variables over the file; its policy may choose from these
    strategies."""
    file = path or os.environ.get("ICEPACT_CONFIG") or (CONFIG_FILE if Path(CONFIG_FILE).is_file() else None)
    document = None if file is None else _read(Path(file))
    settings = {} if document is None else _expanded(document.value, document, ())
    above = {name: flags.get(name) or os.environ.get(f"ICEPACT_{name.upper()}") for name in _FROM_ENVIRONMENT}
    above = {name: value for name, value in above.items() if value}
    if not any((settings | above).get(name) for name in _SAYING_CATALOG):
        above |= {key: value for name, key in _GENERIC.items() if (value := os.environ.get(name))}
    if flags.get("catalog_properties"):
        above["catalog_properties"] = {**settings.get("catalog_properties", {}), **flags["catalog_properties"]}
    try:
        return Config.model_validate({**settings, **above}, context=with_strategies(strategies))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        keys = path_of_error(first)
        if document is None or keys[0] in above:
            raise BadInput(f"{show_path(keys)}: {complaint(first)}") from None
        raise document.refusal(keys, complaint(first)) from None


def read_policies(path: str | Path, strategies: tuple[str, ...] = BUILT_IN_STRATEGIES) -> Policies:
    """Read and check a policy file."""
    return parse_policies(read_text(Path(path), "policy file"), str(path), strategies)


def policies_of(config: Config, strategies: tuple[str, ...] = BUILT_IN_STRATEGIES) -> Policies:
    """The policies of the configuration: its own options, and the rules of its policy file if it names one."""
    policies = Policies() if config.policies is None else read_policies(config.policies, strategies)
    return replace(policies, configuration=config.policy, strategies=strategies)


def read_text(path: Path, what: str) -> str:
    """What a file says, or one line that says why it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadInput(f"{what} {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{what} {path} cannot be read: it is not UTF-8 text") from None


def _read(path: Path) -> Document | None:
    """The configuration file; `None` if there is nothing in it."""
    documents = [found for found in read_documents(read_text(path, "configuration"), str(path)) if found.value]
    if len(documents) > 1:
        raise documents[1].refusal((), "a configuration is one document: leave out what is from --- on")
    if documents and not isinstance(documents[0].value, dict):
        raise documents[0].refusal((), "this must be a mapping with keys such as catalogs, spark, policy")
    return documents[0] if documents else None


def _expanded(value: Any, document: Document, keys: tuple[str | int, ...]) -> Any:
    """`${NAME}` in any text is the environment variable of that name, so that secrets need not be in the file."""
    if isinstance(value, dict):
        return {key: _expanded(inner, document, (*keys, key)) for key, inner in value.items()}
    if isinstance(value, list):
        return [_expanded(inner, document, (*keys, at)) for at, inner in enumerate(value)]
    if not isinstance(value, str):
        return value

    def of_environment(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise document.refusal(keys, f"the environment variable {match[1]} is not set")
        return os.environ[match[1]]

    return _VARIABLE.sub(of_environment, value)


def set_up_telemetry(config: Config, *, log_level: int | None = None) -> None:
    """Traces and logs of this process, as the configuration and OpenTelemetry's variables say; without a word of
    either everything stays silent, except for the logs of a process that is ours alone: it gives their level."""
    wanted = config.telemetry
    if wanted.traces is not None and urlsplit(wanted.traces).scheme not in ("http", "https"):
        raise BadInput("telemetry.traces: write the address of a collector, such as http://localhost:4318")
    trace.setup(wanted.traces, headers=wanted.traces_headers, service=wanted.service_name)
    logs.setup(json=wanted.logs == "json", level=log_level)


# -- the catalog ----------------------------------------------------------------------------------


def catalog_of(config: Config, policies: Policies) -> Catalog:
    """The catalog that the configuration means, or else the one that the policy file's resources are about."""
    completed = _with_resource(config, policies.catalogs)
    try:
        catalog = choose_catalog(completed)
    except BadInput as error:
        raise (error if completed is config else BadInput(f"{policies.catalogs[0].source}: {error}")) from None
    refuse_other_catalogs(catalog, policies)
    return catalog


def _with_resource(config: Config, resources: Sequence[ResourceCatalog]) -> Config:
    """The configuration, completed by what custom resources say about their catalog."""
    said = config.catalog or config.catalog_uri or config.catalog_type or config.warehouse
    if not resources or said or (config.catalogs and resources[0].name is None):
        return config
    first = resources[0]
    for other in resources[1:]:
        if replace(other, source=first.source) != first:
            raise BadInput(f"{other.source}: another catalog than in {first.source}: name one with --catalog")
    if first.name in config.catalogs:
        return config.model_copy(update={"catalog": first.name})
    named = {"catalog": first.name, "catalog_uri": first.uri, "catalog_type": first.type, "warehouse": first.warehouse}
    return config.model_copy(update=named)


def refuse_other_catalogs(catalog: Catalog, policies: Policies) -> None:
    """Refuse custom resources that are about a catalog elsewhere; one with another name is no business of this run."""
    for resource in policies.catalogs:
        if resource.name is not None and resource.name != catalog.name:
            continue
        for key, wanted in shown_properties(resource.type, resource.uri, resource.warehouse).items():
            folder = str(Path(wanted).expanduser().resolve()) if catalog.embedded is not None else wanted
            if catalog.properties.get(key) not in (wanted, folder):
                raise BadInput(
                    f"{resource.source}: {key}: this resource is about another catalog than {catalog.name}, the one in "
                    f"use: name its own with --catalog or --catalog-uri, or mend the resource"
                )


def _adopted_catalog(spark: "SparkSession", name: str | None) -> Catalog:
    from icepact.iceberg.spark.catalog import catalog_settings, current_catalog

    name = name or current_catalog(spark)
    return Catalog(name=name, properties=catalog_settings(spark, name))


def _adopt_catalog(spark: "SparkSession", name: str, table: tuple[str, ...] | None) -> "SparkCatalog":
    from icepact.iceberg.spark.catalog import SparkCatalog

    del table  # Spark has started already
    return SparkCatalog.adopt(spark, name)


def _open_catalog(
    config: Config, catalog: Catalog, table: tuple[str, ...] | None, *, verbose: bool, short: bool, one_table: bool
) -> "SparkCatalog":
    """Start Spark and open the catalog in it; what is needed next is loaded meanwhile. `table` is what it is opened
    for, if that is known."""
    from icepact.iceberg.spark.catalog import SparkCatalog

    loading = _load_beside(*_LOOKING) if short else _load_beside(*_LOOKING, *_APPLYING, then=_prepare_documents)

    def start_workers(context: "SparkContext") -> None:
        loading.join()
        from icepact.execute.rewriters import job

        job.start_workers(context)

    return SparkCatalog.open(
        catalog,
        spark_settings(config),
        verbose=verbose,
        short=short or (one_table and table is not None and embedded_is_small(catalog, table)),
        on_context=None if short else start_workers,
    )


def _load_beside(*modules: str, then: Callable[[], None] = lambda: None) -> Thread:
    """Load modules in a thread of their own, and then go on there. What fails is raised by whoever needs it, when it is
    loaded again."""

    def load() -> None:
        with suppress(Exception):
            for name in modules:
                import_module(name)
            then()

    thread = Thread(target=load, name="icepact-loading", daemon=True)
    thread.start()
    return thread


def _prepare_documents() -> None:
    """Have pydantic make what writes and reads the documents that a run needs."""
    from icepact.model.documents import schema_of
    from icepact.model.outcome import Outcome
    from icepact.model.plan import Plan

    for kind in (Outcome, Plan):
        schema_of(kind)


# -- the record store and Spark -------------------------------------------------------------------


def store_of(config: Config, catalog: Catalog) -> RecordStore:
    """The record store: the one that is named; else beside an embedded warehouse, or in the user's state folder."""
    if config.store is not None:
        return open_store(config.store)
    if config.state is not None:
        return open_store(f"sqlite:///{config.state / HISTORY_FILE}")
    usual = _usual_store()
    if usual is not None:
        return open_store(usual)
    if catalog.embedded is not None:
        return open_store(f"sqlite:///{catalog.embedded / HISTORY_FILE}")
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return open_store(f"sqlite:///{Path(base) / 'icepact' / HISTORY_FILE}")


def _usual_store() -> str | None:
    """The store that the variables name by which platforms tell programs of their servers; `None` if there is none."""
    given = {name: value for name in _STORES if (value := os.environ.get(name))}
    if len(given) > 1:
        raise BadInput(f"{' and '.join(given)} are set: say with ICEPACT_STORE which of them is the record store")
    for name, value in given.items():
        if name != "ETCD_ENDPOINTS":
            return value
        members = [member.strip() for member in value.split(",")]
        scheme = "etcds" if any(member.startswith("https://") for member in members) else "etcd"
        return f"{scheme}://{','.join(member.rpartition('://')[2].rstrip('/') for member in members)}"
    return None


def spark_settings(config: Config) -> dict[str, str]:
    """What the configuration says about Spark, as Spark's own keys; and how workers of this machine are started."""
    settings = {"spark.master": config.spark.master, **config.spark.conf}
    # workers may run a Python that does not have this package
    other_python = "PYSPARK_PYTHON" in os.environ or "spark.pyspark.python" in settings
    if settings["spark.master"].startswith("local") and not other_python:
        settings.setdefault("spark.python.daemon.module", "icepact.execute.rewriters.daemon")
    return settings
