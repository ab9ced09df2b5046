"""Metrics as Prometheus has them. Loaded only by processes that are asked for theirs."""

import logging
import os
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from icepact.model.errors import BadInput, SetupMissing
from icepact.model.job import DEFAULT_TENANT
from icepact.model.outcome import GroupOutcome, Outcome
from icepact.model.status import NOT_WELL
from icepact.telemetry.metrics import COUNTERS, GAUGES, HISTOGRAMS, REQUEST_SECONDS, STORE_UP, Metric, ReadGauges

try:
    from prometheus_client import (
        CollectorRegistry,
        Counter,
        Histogram,
        ProcessCollector,
        disable_created_metrics,
        generate_latest,
        start_http_server,
        write_to_textfile,
    )
    from prometheus_client import Metric as Family
    from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
    from prometheus_client.metrics_core import GaugeMetricFamily
    from prometheus_client.parser import text_string_to_metric_families
    from prometheus_client.registry import Collector
except ImportError as error:
    raise SetupMissing(
        f"metrics need prometheus-client, and {error.name} is not here: pip install 'icepact[service]'"
    ) from None

_COMPACT = "compact"
_SUFFIX = ".prom"
_log = logging.getLogger("icepact")


class RunMetrics:
    """Counters and histograms of the runs of one process, kept in a file for `Workers`: it stays when this process is
    gone, and what it did counts on."""

    def __init__(self, folder: Path) -> None:
        _say_nothing_of_when()
        self._registry = CollectorRegistry()
        self._all: dict[str, Any] = {each.name: _counter(each, self._registry) for each in COUNTERS}
        self._all |= {each.name: _histogram(each, self._registry) for each in HISTOGRAMS}
        self._file = folder / f"{os.getpid()}-{secrets.token_hex(4)}{_SUFFIX}"
        self._writes = True
        self._write()

    def run_ended(
        self, outcome: Outcome, *, catalog: str, tenant: str | None, strategy: str, file_sizes: Sequence[int]
    ) -> None:
        """Count a run."""
        run = {"catalog": catalog, "tenant": tenant or DEFAULT_TENANT, "strategy": strategy}
        work = {**run, "operation": outcome.operation}
        effort = outcome.effort
        self._add("api_calls_total", effort.read_requests, **work, kind="read")
        self._add("api_calls_total", effort.write_requests, **work, kind="write")
        self._add("compute_seconds_total", effort.seconds, **work)
        self._add("estimated_cost_total", outcome.money, **work, currency=outcome.currency)
        if outcome.operation == _COMPACT:
            self._compaction(outcome, run, file_sizes)
        self._write()

    def _compaction(self, outcome: Outcome, run: Mapping[str, str], file_sizes: Sequence[int]) -> None:
        written = [group for group in outcome.groups if _was_written(group)]
        done = [group for group in outcome.groups if group.committed]
        self._add("files_compacted_total", sum(group.input_files for group in done), **run)
        self._add("bytes_read_total", sum(group.bytes_in for group in written), **run)
        self._add("bytes_written_total", sum(group.bytes_out for group in written), **run)
        for status in NOT_WELL:  # from zero on: an alert would not see the first one otherwise
            self._all["compactions_failed_total"].labels(**run, status=status.value)
        well = "failed" if outcome.status in NOT_WELL else "succeeded"
        self._add(f"compactions_{well}_total", 1, **run, status=outcome.status.value)
        self._observe("compaction_duration_seconds", outcome.seconds, **run, status=outcome.status.value)
        for size in file_sizes:
            self._observe("file_size_bytes", size, **run)
        bytes_out = sum(group.bytes_out for group in done)
        if bytes_out:
            self._observe("compression_ratio", sum(group.bytes_in for group in done) / bytes_out, **run)

    def _add(self, name: str, amount: float, **labels: str) -> None:
        self._all[name].labels(**labels).inc(max(amount, 0.0))

    def _observe(self, name: str, amount: float, **labels: str) -> None:
        self._all[name].labels(**labels).observe(amount)

    def _write(self) -> None:
        try:
            write_to_textfile(str(self._file), self._registry)
            self._writes = True
        except OSError as error:  # no reason to fail a run
            if self._writes:
                _log.warning("metrics cannot be written to %s: %s", self._file.parent, error.strerror)
            self._writes = False


def _say_nothing_of_when() -> None:
    """Of each series Prometheus's library tells when it began, as a series of its own; nobody asks for these."""
    disable_created_metrics()  # type: ignore[no-untyped-call]


def _counter(metric: Metric, registry: CollectorRegistry) -> Counter:
    return Counter(metric.full_name, metric.help, metric.labels, registry=registry)


def _histogram(metric: Metric, registry: CollectorRegistry) -> Histogram:
    return Histogram(metric.full_name, metric.help, metric.labels, registry=registry, buckets=metric.buckets)


def _was_written(group: GroupOutcome) -> bool:
    return group.committed or group.output_files > 0


class Workers(Collector):
    """The counters of processes that write them into a folder, added up; those that have ended are among them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, tuple[int, list[Family]]] = {}
        """By file, with the time of its last change: what has ended is read once."""

    def collect(self) -> Iterable[Family]:
        """The sums."""
        sums: dict[str, tuple[Family, dict[tuple[str, tuple[tuple[str, str], ...]], float]]] = {}
        for family in self._families():
            _, values = sums.setdefault(family.name, (Family(family.name, family.documentation, family.type), {}))
            for sample in family.samples:
                key = (sample.name, tuple(sorted(sample.labels.items())))
                values[key] = values.get(key, 0.0) + sample.value
        for family, values in sums.values():
            for (name, labels), value in values.items():
                family.add_sample(name, dict(labels), value)
            yield family

    def _families(self) -> Iterator[Family]:
        for file in sorted(self._folder.glob(f"*{_SUFFIX}")):
            with suppress(OSError, ValueError):
                changed = file.stat().st_mtime_ns
                if file not in self._read or self._read[file][0] != changed:
                    self._read[file] = (changed, list(text_string_to_metric_families(file.read_text())))
            if file in self._read:
                yield from self._read[file][1]


class WorkerMetrics:
    """What `icepact worker` says at a port of its own: what its workers have counted."""

    def __init__(self, workers: Path, *, host: str, port: int) -> None:
        """Any free port if it is 0."""
        registry = CollectorRegistry()
        registry.register(Workers(workers))
        ProcessCollector(registry=registry)
        try:
            self._server, self._thread = start_http_server(port, host, registry)
        except OSError as error:
            raise BadInput(f"metrics cannot be served at {host}, port {port}: {error.strerror or error}") from None
        self.port = int(self._server.server_port)

    def close(self) -> None:
        """Do not answer any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class ServiceMetrics:
    """What an API process says at `/metrics`: its own requests, what the record store knows, and what the workers that
    it started have counted."""

    def __init__(self, read_gauges: ReadGauges, *, workers: Path | None = None, seconds: float = 5.0) -> None:
        """The store is asked no more often than every so many seconds."""
        _say_nothing_of_when()
        registry = self._registry = CollectorRegistry()
        self._requests = _histogram(REQUEST_SECONDS, registry)
        registry.register(_Store(read_gauges, seconds))
        if workers is not None:
            registry.register(Workers(workers))
        ProcessCollector(registry=registry)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request; `route` is the pattern of its path, never the path itself."""
        self._requests.labels(method, route, str(status)).observe(seconds)

    content_type = CONTENT_TYPE_PLAIN_0_0_4

    def text(self) -> bytes:
        """The answer, of that type. The store may be asked: not to be called where nothing may wait."""
        return generate_latest(self._registry)


class _Store(Collector):
    """Gauges of the record store. If it does not answer they are missing, and all else is there."""

    def __init__(self, read: ReadGauges, seconds: float) -> None:
        self._read = read
        self._seconds = seconds
        self._lock = threading.Lock()
        self._known: list[Family] = []
        self._asked_at: float | None = None

    def describe(self) -> Iterable[Family]:
        """Nothing: the store is not asked before somebody looks."""
        return []

    def collect(self) -> Iterable[Family]:
        """What was read last, or is read now."""
        with self._lock:
            now = time.monotonic()
            if self._asked_at is None or now - self._asked_at >= self._seconds:
                self._known = self._ask()
                self._asked_at = now
            return self._known

    def _ask(self) -> list[Family]:
        families = {each.name: GaugeMetricFamily(each.full_name, each.help, labels=each.labels) for each in GAUGES}
        up = 1.0
        try:
            for reading in self._read():
                family = families[reading.name]
                family.add_metric([reading.labels[label] for label in family._labelnames], reading.value)
        except Exception as error:
            _log.warning("the record store cannot be asked for metrics: %s", error)
            up, families = 0.0, {}
        return [*families.values(), GaugeMetricFamily(STORE_UP.full_name, STORE_UP.help, value=up)]
