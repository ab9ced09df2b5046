"""What the handlers share: the service, who may ask, and those who wait for jobs."""

import time
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from icepact.entrypoints.api.callers import Buckets, Streams
from icepact.entrypoints.api.settings import ApiSettings
from icepact.entrypoints.serving import Service, fleet_of
from icepact.model.job import Job
from icepact.schedule.audit import Audit
from icepact.schedule.fleet import CatalogFleet
from icepact.schedule.gauges import StoreGauges
from icepact.schedule.quotas import Quotas
from icepact.schedule.tenants import Tenants
from icepact.telemetry.prometheus import ServiceMetrics

_FIRST_LOOK = 0.02
"""Seconds; grows from there."""
_LONGEST_LOOK = 0.5
_GROWTH = 1.3
_LOOKS_PER_SECOND = 200.0
"""Of all who wait together."""
_WAKES_PER_SECOND = 1000.0
"""The same, to hear whether the bell has rung."""


class Watch:
    """Waits for jobs without holding a thread: however many wait, the store is asked only so often."""

    def __init__(self, service: Service) -> None:
        self._jobs, self._ended, self._ending = service.jobs, service.ended, service.ending
        self._waiting = 0

    async def ended(self, job: Job, seconds: float) -> Job:
        """A job once it has ended, or as it is after so many seconds, or once this process is about to end."""
        until, look, rung = time.monotonic() + seconds, _FIRST_LOOK, 0
        while not (job.status.ended or self._ending.is_set()) and (left := until - time.monotonic()) > 0:
            look = await self.pause(job, look, left, since=rung)
            rung = self.rung
            job = await anyio.to_thread.run_sync(self._jobs.get, job.job_id)
        return job

    @property
    def rung(self) -> int:
        """How often somebody has said that a job has ended: whoever looks at one asks before."""
        return self._ended.rung

    async def pause(self, job: Job, look: float, most: float, *, since: int) -> float:
        """Wait a while, or until it is said that a job has ended, if that was not `since` then; returns how long to
        wait the next time."""
        self._waiting += 1
        until = time.monotonic() + min(max(look, self._waiting / _LOOKS_PER_SECOND), most)
        try:
            while (left := until - time.monotonic()) > 0 and not self._ended.has_rung(job.job_id, since=since):
                await anyio.sleep(min(left, max(_FIRST_LOOK, self._waiting / _WAKES_PER_SECOND)))
        finally:
            self._waiting -= 1
        return min(look * _GROWTH, _LONGEST_LOOK)


@dataclass(kw_only=True)
class Context:
    """One for each application."""

    service: Service
    settings: ApiSettings
    tenants: Tenants
    quotas: Quotas
    watch: Watch
    buckets: Buckets
    """Requests by key."""
    failures: Buckets
    """Keys that are none, by address."""
    audit: Audit
    metrics: ServiceMetrics
    fleet: CatalogFleet
    """As schedules see it."""
    streams: Streams
    """Of events, that are open."""


def context_of(service: Service, settings: ApiSettings, workers: Path | None = None) -> Context:
    """What the handlers of one application share; `workers` is the folder where workers of this machine write their
    metrics."""
    most = service.config.telemetry.metrics_tables
    tenants = Tenants(service.store, catalog=service.catalog.name, clock=service.clock)
    catalog, currency = service.catalog.recorded_as, service.prices.currency
    return Context(
        service=service,
        settings=settings,
        tenants=tenants,
        quotas=Quotas(service.store, tenants, catalog, currency=currency, clock=service.clock),
        watch=Watch(service),
        fleet=fleet_of(service),
        buckets=Buckets(settings.requests_per_second, settings.burst),
        audit=Audit(service.store, clock=service.clock),
        metrics=ServiceMetrics(StoreGauges(service.store, service.catalog.recorded_as, tables=most), workers=workers),
        streams=Streams(settings.most_streams, settings.most_streams_of_key),
        failures=Buckets(settings.failures_per_minute / 60, settings.failures_per_minute),
    )
