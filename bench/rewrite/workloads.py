"""The workloads: which mess, how much of it, and how much faster than Spark's action icepact should be."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any

from bench.rewrite.rows import FIRST_DAY, LINES_PER_ORDER, Kind
from bench.rewrite.sides import Tuning, concurrency
from bench.rewrite.tables import Pile, Workshop

TARGET = 512 * 1024**2
GB, MB, KB = 10**9, 10**6, 10**3
FEWEST = 5
"""Files at the smallest scales, where they get smaller instead: enough to be worth rewriting to both sides."""
PARTITION_FILES = 5
SCANS_BAR = 1.10
"""The usual `Workload.scans_bar`."""
CARRIED_SCANS_BAR = 1.15
"""The same where deleted rows stay."""
CP_BAR = 2.0
CP_SCALE = 4.0
"""From this scale on, workload a takes at most `CP_BAR` times what `cp` takes: below, fixed costs weigh too much."""

Mess = Callable[[Workshop, str, Pile, float], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """One kind of messy table."""

    name: str
    title: str
    bar: float
    """Speed-up over Spark's action that icepact should reach."""
    file_size: int
    """Bytes of an input file, about."""
    kind: Kind = Kind.LINEITEM
    total: int = GB
    """Bytes at scale 1."""
    version: int = 2
    mess: Mess | None = None
    """What is done to the table once its files are there."""
    partitioned: bool = False
    trials: tuple[Tuning, ...] = field(default_factory=lambda: (Tuning(),))
    """Ways to run Spark's action, of which the fastest is used."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What icepact is asked for."""
    scans_bar: float = SCANS_BAR
    """Scans after icepact take at most so many times what they take after Spark's action."""

    def pile(self, workshop: Workshop, scale: float) -> Pile:
        """Its files at a scale."""
        files = round(self.total * scale / self.file_size)
        size = self.file_size if files >= FEWEST else round(self.total * scale / FEWEST)
        rows = workshop.rows_for(self.kind, size, one_day=self.partitioned)
        return self._pile(max(FEWEST, files), rows)

    def tiny(self) -> Pile:
        """Next to nothing, to warm up on."""
        return self._pile(FEWEST, 20_000 if self.kind is Kind.LINEITEM else 2_000)

    def _pile(self, files: int, rows: int) -> Pile:
        partitions = max(2, round(files / PARTITION_FILES)) if self.partitioned else 0
        return Pile(kind=self.kind, files=partitions * PARTITION_FILES or files, rows=rows, partitions=partitions)

    def make(self, workshop: Workshop, pile: Pile, scale: float) -> str:
        """The messy table."""
        table = workshop.table(pile, version=self.version)
        if self.mess is not None:
            self.mess(workshop, table, pile, scale)
        # One more commit, as a stream makes them. With it deletes are older than the last commit in every repeat,
        # not in all but the first, and Iceberg drops such deletes with the data files they were for.
        workshop.java(table).table.newFastAppend().commit()
        return table

    def quarter(self, pile: Pile) -> str:
        """A filter that selects about a quarter of the files, at least those that make a group worth rewriting."""
        if self.partitioned:
            last = date(1970, 1, 1) + timedelta(days=FIRST_DAY + max(1, pile.partitions // 4))
            return f"l_shipdate < date '{last}'"
        key, rows = ("l_orderkey", pile.rows // LINES_PER_ORDER) if self.kind is Kind.LINEITEM else ("id", pile.rows)
        return f"{key} < {max(FEWEST, pile.files // 4) * rows}"


def _some_positions(workshop: Workshop, table: str, pile: Pile, _: float) -> None:
    workshop.delete_positions(table, pile, every=10)


def _all_positions(workshop: Workshop, table: str, pile: Pile, _: float) -> None:
    workshop.delete_positions(table, pile, every=1)


def _keys(number: int) -> Mess:
    """So many keys at scale 1 and above; below, the same share of the rows."""

    def delete(workshop: Workshop, table: str, pile: Pile, scale: float) -> None:
        workshop.delete_keys(table, pile, keys=round(number * min(1.0, scale)))

    return delete


_CORES = os.cpu_count() or 1
_CONCURRENT = tuple(Tuning(options=concurrency(n)) for n in sorted({5, _CORES, 2 * _CORES, 4 * _CORES}))
_WIDE = (Tuning(), Tuning(conf={"spark.sql.codegen.maxFields": "1000"}))
_FLINK = 11 * MB

WORKLOADS = (
    Workload(name="a", title="11 MB files", bar=20, file_size=_FLINK),
    Workload(name="b", title="300 kB files", bar=3.5, file_size=300 * KB),
    Workload(
        name="c1", title="position deletes on a tenth of the files", bar=10, file_size=_FLINK, mess=_some_positions
    ),
    Workload(name="c2", title="position deletes on every file", bar=4, file_size=_FLINK, mess=_all_positions),
    Workload(name="d1", title="10,000 equality-delete keys", bar=5, file_size=_FLINK, mess=_keys(10_000)),
    Workload(name="d2", title="1,000,000 equality-delete keys", bar=3, file_size=_FLINK, mess=_keys(1_000_000)),
    Workload(
        name="e",
        title="v3, deletion vectors on a tenth of the files",
        bar=10,
        file_size=_FLINK,
        version=3,
        mess=_some_positions,
    ),
    Workload(name="f", title="300 columns", bar=5, file_size=40 * MB, kind=Kind.WIDE, total=24 * 40 * MB, trials=_WIDE),
    Workload(
        name="g",
        title="200 partitions of five 1 MB files",
        bar=5,
        file_size=MB,
        partitioned=True,
        trials=_CONCURRENT,
    ),
    Workload(
        name="h",
        title="position deletes on every file, carried",
        bar=15,
        file_size=_FLINK,
        mess=_all_positions,
        options={"deletes": "carry"},
        scans_bar=CARRIED_SCANS_BAR,
    ),
)


def chosen(names: str | None) -> list[Workload]:
    """Workloads by name, separated by commas; all if none is given."""
    known = {workload.name: workload for workload in WORKLOADS}
    if not names:
        return list(WORKLOADS)
    unknown = [name for name in names.split(",") if name not in known]
    if unknown:
        raise SystemExit(f"no workload {unknown[0]!r}: there is {', '.join(known)}")
    return [known[name] for name in names.split(",")]
