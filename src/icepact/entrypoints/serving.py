"""What the processes of the service work with, from arguments, variables and files; without Spark and without Java."""

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from icepact.entrypoints.wiring import (
    CONFIG_FILE,
    catalog_of,
    load_config,
    policies_of,
    store_of,
)
from icepact.iceberg.names import parse_levels
from icepact.iceberg.polling import watcher_of
from icepact.model.errors import BadInput
from icepact.model.prices import Prices
from icepact.policy.config import Budgets, Catalog, Config
from icepact.policy.layers import Policies
from icepact.record.store import RecordStore
from icepact.schedule.bell import Bell
from icepact.schedule.fleet import CatalogFleet
from icepact.schedule.jobs import Jobs
from icepact.schedule.put_policies import CurrentPolicies
from icepact.schedule.requests import Names
from icepact.schedule.tenants import Tenants

CONFIG_FILES = (CONFIG_FILE, "config.json")
"""Looked for in this order, if none is named."""
_VARIABLES = {"catalog_type": "CATALOG_TYPE", "catalog_uri": "CATALOG_URI", "warehouse": "CATALOG_WAREHOUSE"}
_STORES = ("DATABASE_URL", "REDIS_URL", "ETCD_ENDPOINTS")


@dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """What API, scheduler and workers of one catalog share."""

    config: Config
    catalog: Catalog
    namespace: tuple[str, ...]
    """Of tables that are named without one."""
    policies: Policies
    prices: Prices
    budgets: Budgets
    store: RecordStore
    jobs: Jobs
    clock: Callable[[], datetime]
    """The time, by a clock that is the same for all who share the store."""
    draining: threading.Event = field(default_factory=threading.Event)
    """Set once this process is to end: it is not ready any more, and takes no new jobs."""
    ending: threading.Event = field(default_factory=threading.Event)
    """Set once its workers have ended, and it is about to: whoever waits for a job is answered now."""
    submitted: Bell = field(default_factory=Bell)
    """Rings when there may be a job for a worker: one was put into the queue here, or the store says that something
    about one has changed."""
    ended: Bell = field(default_factory=Bell)
    """Rings about a job when a worker of this process has ended it, or the store says that it has changed."""

    def heard(self, job_id: str) -> None:
        """The store says that something about a job has changed; nothing is all of them."""
        self.submitted.ring()
        self.ended.ring(job_id)


def build_service(given: Mapping[str, Any] | None = None, environ: Mapping[str, str] | None = None) -> Service:
    """The service as it is asked for: flags over `ICEPACT_*` variables over `CATALOG_*`, `DATABASE_URL`, `REDIS_URL`
    and `ETCD_ENDPOINTS` over the configuration file. `given` are flags as `build_application` takes them."""
    flags = flags_of(given or {}, os.environ if environ is None else environ)
    config = load_config(flags["config"], flags)
    policies = policies_of(config)
    catalog = catalog_of(config, policies)
    store = store_of(config, catalog)
    namespace = parse_levels(config.namespace)
    submitted, ended = Bell(), Bell()
    names = Names(catalog=catalog.name, namespace=namespace, strategies=policies.strategies)
    return Service(
        config=config,
        catalog=catalog,
        namespace=namespace,
        policies=policies,
        prices=config.prices,
        budgets=config.budgets,
        store=store,
        jobs=Jobs(store, catalog.recorded_as, names=names, submitted=submitted.ring, ended=ended),
        clock=store.now,
        submitted=submitted,
        ended=ended,
    )


def fleet_of(service: Service) -> CatalogFleet:
    """The tables of a service's catalog, as schedules see them."""
    name = service.catalog.recorded_as
    tenants = Tenants(service.store, catalog=service.catalog.name, clock=service.clock)
    return CatalogFleet(
        service.store,
        service.jobs,
        service.catalog,
        CurrentPolicies(service.store, name, service.policies),
        watcher=watcher_of(service.catalog),
        budgets=service.budgets,
        currency=service.prices.currency,
        tenant_of=tenants.tenant_of,
    )


def flags_of(given: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Flags with what the environment of the service says where they say nothing, for `load_config`."""
    flags = {"config": None, "store": None, **given}
    for name, variable in _VARIABLES.items():
        flags[name] = flags.get(name) or environ.get(f"ICEPACT_{name.upper()}") or environ.get(variable)
    flags["store"] = flags["store"] or environ.get("ICEPACT_STORE") or _store_of(environ)
    if flags["config"] is None and not environ.get("ICEPACT_CONFIG"):
        flags["config"] = next((name for name in CONFIG_FILES if Path(name).is_file()), None)
    return flags


def _store_of(environ: Mapping[str, str]) -> str | None:
    """The record store that the environment names, if it names one."""
    named = [name for name in _STORES if environ.get(name)]
    if len(named) > 1:
        raise BadInput(f"{' and '.join(named)} name a record store each: say which one with ICEPACT_STORE")
    if not named:
        return None
    address = environ[named[0]]
    if named[0] != "ETCD_ENDPOINTS" or address.startswith("etcd"):
        return address
    return "etcd://" + ",".join(one.strip().removeprefix("http://").rstrip("/") for one in address.split(","))
