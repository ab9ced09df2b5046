"""Figures of the rewrite benchmark, and the file that keeps them between runs."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pydantic import TypeAdapter

RESULTS = Path(__file__).parents[1] / "results.json"


class Side(StrEnum):
    """Who rewrites."""

    SPARK = "spark"
    ICEPACT = "icepact"
    CP = "cp"


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """The live files of a table."""

    files: int
    bytes: int
    smallest: int
    """Bytes."""
    largest: int
    """Bytes."""
    row_groups: int
    delete_files: int
    delete_records: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """Peaks during one run, in MB."""

    jvm: int
    """Resident size of the JVM, driver and executor in one."""
    heap: int
    """Java heap in use, garbage included."""
    driver: int
    """Resident size of the Python process that calls."""
    workers: int
    """Resident sizes of all Python workers together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Effort:
    """What icepact says about its own work; null where it does not say."""

    methods: Mapping[str, int]
    """Groups by method."""
    copied_bytes: int | None = None
    encoded_bytes: int | None = None
    requests: int | Mapping[str, int] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One side, once."""

    seconds: float
    error: str | None = None
    """Why the run does not count."""
    memory: Memory | None = None
    layout: Layout | None = None
    """The table afterwards."""
    scans: tuple[tuple[float, ...], ...] = ()
    """Seconds of each query on the table afterwards, each run several times."""
    effort: Effort | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Environment:
    """Where a figure comes from."""

    date: str
    cores: int
    memory_gb: int
    heap: str
    """Java heap that both sides have."""
    python: str
    java: str
    spark: str
    iceberg: str
    icepact: str
    commit: str = ""
    """What was measured; figures older than this field name the commit that brought them."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """One workload at one scale."""

    workload: str
    scale: float
    repeats: int
    """How many were asked for; fewer runs mean that the benchmark was stopped."""
    environment: Environment
    rows: int
    """Rows that readers see."""
    before: Layout
    scans_before: tuple[tuple[float, ...], ...]
    """Seconds of each query on the messy table."""
    spark_settings: Mapping[str, str]
    """Options and settings that Spark's action ran with."""
    runs: Mapping[Side, tuple[Run, ...]] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, float]:
        """One result is kept for each."""
        return self.workload, self.scale

    @property
    def complete(self) -> bool:
        """Whether every side ran as often as asked."""
        return all(len(self.runs.get(side, ())) >= self.repeats for side in Side)


_STORED = TypeAdapter(list[Measured])


def load(path: Path) -> list[Measured]:
    """What was measured so far."""
    return _STORED.validate_json(path.read_bytes()) if path.is_file() else []


def keep(path: Path, new: Measured) -> None:
    """Put one result into the file. One under way never takes the place of a complete one."""
    known = {m.key: m for m in load(path)}
    old = known.get(new.key)
    if old is not None and old.complete and not new.complete:
        return
    known[new.key] = new
    part = path.with_suffix(".part")
    part.write_bytes(_STORED.dump_json(ordered(known.values()), indent=1) + b"\n")
    os.replace(part, path)


def ordered(results: Iterable[Measured]) -> list[Measured]:
    """By scale, then workload."""
    return sorted(results, key=lambda m: (m.scale, m.workload))
