"""Metrics: what is counted in this process, and what there is to be counted at all.

Counters are where work is done: in workers. They write them into a folder of the process that started them, which adds
them up for whoever asks it. What the record store knows is the same for everybody who asks: these are gauges, read when
somebody looks. Nothing is counted twice, and nothing is counted at all without a setup.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from icepact.telemetry.ids import ids

if TYPE_CHECKING:
    from icepact.model.outcome import Outcome
    from icepact.telemetry.prometheus import RunMetrics

OTHER = "other"
"""Stands for all tables beyond the bound."""
_metrics: "RunMetrics | None" = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """One metric: `icepact_` and its name, with the unit in it."""

    name: str
    help: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()
    """Of a histogram."""

    @property
    def full_name(self) -> str:
        """As it is asked for."""
        return f"icepact_{self.name}"


_MIB = 2**20
_RUN = ("catalog", "tenant", "strategy")
_WORK = ("catalog", "tenant", "operation", "strategy")
_TABLE = ("catalog", "table")

COUNTERS = (
    Metric(name="files_compacted_total", help="Data files that were replaced by compactions.", labels=_RUN),
    Metric(name="bytes_read_total", help="Bytes of data files that compactions read.", labels=_RUN),
    Metric(name="bytes_written_total", help="Bytes of data files that compactions wrote.", labels=_RUN),
    Metric(
        name="compactions_succeeded_total", help="Compactions that ended well, by status.", labels=(*_RUN, "status")
    ),
    Metric(name="compactions_failed_total", help="Compactions that did not, by status.", labels=(*_RUN, "status")),
    Metric(name="api_calls_total", help="Requests to object stores, by kind: read or write.", labels=(*_WORK, "kind")),
    Metric(name="compute_seconds_total", help="Seconds of work on one core.", labels=_WORK),
    Metric(name="estimated_cost_total", help="Money, at the configured prices.", labels=(*_WORK, "currency")),
)
"""Of runs that ended. Those with an operation are of housekeeping, too."""
HISTOGRAMS = (
    Metric(
        name="compaction_duration_seconds",
        help="Seconds on the clock that compactions took, by status.",
        labels=(*_RUN, "status"),
        buckets=(1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14400),
    ),
    Metric(
        name="file_size_bytes",
        help="Sizes of data files that compactions made.",
        labels=_RUN,
        buckets=tuple(_MIB * size for size in (1, 4, 16, 32, 64, 128, 256, 384, 512, 768, 1024, 2048)),
    ),
    Metric(
        name="compression_ratio",
        help="Bytes that a compaction read over those that it wrote.",
        labels=_RUN,
        buckets=(0.5, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5, 10),
    ),
)
REQUEST_SECONDS = Metric(
    name="http_request_duration_seconds",
    help="Seconds that requests to the API took, by route.",
    labels=("method", "route", "status"),
    buckets=(0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60),
)
STORE_UP = Metric(name="record_store_up", help="1 if the record store answered, 0 if gauges are missing.", labels=())
GAUGES = (
    Metric(name="pending_compactions", help="Jobs that wait and may compact.", labels=("catalog", "tenant")),
    Metric(name="active_compactions", help="Jobs that run and may compact.", labels=("catalog", "tenant")),
    Metric(name="queue_depth", help="Jobs that wait, of all kinds.", labels=("catalog", "tenant")),
    Metric(
        name="queue_oldest_seconds",
        help="For how long the job that has waited longest could have been taken.",
        labels=("catalog", "tenant"),
    ),
    Metric(
        name="last_compaction_timestamp_seconds",
        help="When a compaction last committed something; the newest of tables that are put together.",
        labels=_TABLE,
    ),
    Metric(name="small_files", help="Data files below the threshold, when health was last looked at.", labels=_TABLE),
    Metric(
        name="health_score",
        help="0 to 100, when health was last looked at; the lowest of tables that are put together.",
        labels=_TABLE,
    ),
    Metric(
        name="estimate_error_ratio",
        help="How far predicted seconds of work were off, over the last runs: 0.2 is a fifth of what it took; the "
        "greatest of tables that are put together.",
        labels=_TABLE,
    ),
    Metric(
        name="compaction_recommended",
        help="1 if health says that there is something to compact; how many of tables that are put together.",
        labels=_TABLE,
    ),
)
"""Of the record store: the same from every API process, so take the greatest, not the sum."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """One value of a gauge."""

    name: str
    """Of its metric."""
    labels: Mapping[str, str] = field(default_factory=dict)
    value: float


ReadGauges = Callable[[], Sequence[Reading]]


def run_ended(outcome: "Outcome", *, catalog: str, strategy: str, file_sizes: Sequence[int] = ()) -> None:
    """Count a run that ended in this process; `file_sizes` are those of data files that it made."""
    if _metrics is not None:
        _metrics.run_ended(
            outcome, catalog=catalog, tenant=ids().get("tenant"), strategy=strategy, file_sizes=file_sizes
        )


def setup(folder: Path) -> None:
    """From now on runs of this process are counted, in a file in this folder."""
    global _metrics
    from icepact.telemetry.prometheus import RunMetrics  # loaded only by those who need it

    _metrics = RunMetrics(folder)


def shutdown() -> None:
    """Nothing is counted any more."""
    global _metrics
    _metrics = None
