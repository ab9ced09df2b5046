"""Figures as people read them: ratios with their spread against their bars, on the terminal and in the docs."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from bench.code import as_markdown as as_code
from bench.rewrite.results import Layout, Measured, Run, Side, ordered
from bench.rewrite.workloads import CP_BAR, CP_SCALE, WORKLOADS, Workload

_BY_NAME = {workload.name: workload for workload in WORKLOADS}
_MB = 1e6


@dataclass(frozen=True, kw_only=True, slots=True)
class Spread:
    """Several measurements of one thing."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.low:.2f}-{self.high:.2f})"


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """One ratio and its bar."""

    workload: str
    scale: float
    what: str
    ratio: Spread
    bar: float | None
    """Null: not judged at this scale."""
    at_least: bool
    """Whether the ratio should be above its bar, not below."""

    @property
    def verdict(self) -> str:
        """Met, MISSED, or nothing."""
        if self.bar is None:
            return ""
        met = self.ratio.median >= self.bar if self.at_least else self.ratio.median <= self.bar
        return "met" if met else "MISSED"

    def to_dict(self) -> dict[str, object]:
        """The figure as it is printed with `--json`."""
        return {**asdict(self), "verdict": self.verdict}


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows of cells below a heading."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def as_markdown(self) -> str:
        """For the docs."""
        lines = [self.head, tuple("---" for _ in self.head), *self.rows]
        return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)

    def as_text(self) -> str:
        """For the terminal."""
        widths = [max(len(row[i]) for row in (self.head, *self.rows)) for i in range(len(self.head))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in (self.head, *self.rows)
        ]
        return "\n".join([self.title, *lines])


# -- figures ------------------------------------------------------------------------------------------


def figures(measured: Measured) -> list[Figure]:
    """The ratios of one workload; none of a side that never ran well."""
    workload = _BY_NAME[measured.workload]
    judged_by_cp = measured.workload == "a" and measured.scale >= CP_SCALE
    wanted = (
        ("speed-up over Spark's action", Side.SPARK, Side.ICEPACT, _seconds, workload.bar, True),
        (
            "scans after icepact / after Spark's action",
            Side.ICEPACT,
            Side.SPARK,
            _scan_seconds,
            workload.scans_bar,
            False,
        ),
        ("icepact / cp", Side.ICEPACT, Side.CP, _seconds, CP_BAR if judged_by_cp else None, False),
    )
    found = []
    for what, above, below, value, bar, at_least in wanted:
        pairs = [
            (top, bottom)
            for top, bottom in zip(measured.runs.get(above, ()), measured.runs.get(below, ()), strict=False)
            if top.error is None and bottom.error is None
        ]
        if pairs:
            each = [value([top]) / value([bottom]) for top, bottom in pairs]
            whole = value([top for top, _ in pairs]) / value([bottom for _, bottom in pairs])
            ratio = Spread(median=whole, low=min(each), high=max(each))
            found.append(
                Figure(
                    workload=measured.workload,
                    scale=measured.scale,
                    what=what,
                    ratio=ratio,
                    bar=bar,
                    at_least=at_least,
                )
            )
    return found


def _good(measured: Measured, side: Side) -> list[Run]:
    return [run for run in measured.runs.get(side, ()) if run.error is None]


def _seconds(runs: Sequence[Run]) -> float:
    return statistics.median(run.seconds for run in runs)


def _scan_seconds(runs: Sequence[Run]) -> float:
    """The sum of the medians of the five queries."""
    return scan_total([tuple(t for run in runs for t in run.scans[n]) for n in range(len(runs[0].scans))])


def scan_total(scans: Sequence[Sequence[float]]) -> float:
    """The sum of the medians of some queries, each run several times."""
    return sum(statistics.median(times) for times in scans)


# -- tables -------------------------------------------------------------------------------------------


def tables(results: Sequence[Measured]) -> list[Table]:
    """Everything that was measured at one scale."""
    return [_speed(results), _scans(results), _outputs(results), _memory(results), _efforts(results)]


def _speed(results: Sequence[Measured]) -> Table:
    head = ("workload", "Spark's action, s", "icepact, s", "speed-up", "bar", "", "cp, s", "icepact / cp")
    rows = []
    for m in results:
        found = {figure.what: figure for figure in figures(m)}
        speed, copy = found.get("speed-up over Spark's action"), found.get("icepact / cp")
        cells = [_named(m), *(_spread([run.seconds for run in _good(m, side)]) for side in (Side.SPARK, Side.ICEPACT))]
        cells += [str(speed.ratio) if speed else "-", f"{_BY_NAME[m.workload].bar:g}"]
        cells += [speed.verdict if speed else "MISSED", _spread([run.seconds for run in _good(m, Side.CP)])]
        cells.append(f"{copy.ratio} {copy.verdict}".strip() if copy else "-")
        rows.append(tuple(cells))
    return Table(title="Rewriting: median (lowest-highest)", head=head, rows=tuple(rows))


def _scans(results: Sequence[Measured]) -> Table:
    head = ("workload", "before, s", "after Spark's action, s", "after icepact, s", "icepact / Spark's", "bar", "")
    rows = []
    for m in results:
        figure = next((f for f in figures(m) if f.what.startswith("scans")), None)
        sums = [_good(m, Side.SPARK), _good(m, Side.ICEPACT)]
        cells = [
            _named(m),
            f"{scan_total(m.scans_before):.2f}",
            *(f"{_scan_seconds(s):.2f}" if s else "-" for s in sums),
        ]
        bar = f"{_BY_NAME[m.workload].scans_bar:g}"
        cells += [str(figure.ratio), bar, figure.verdict] if figure else ["-", bar, "MISSED"]
        rows.append(tuple(cells))
    return Table(title="Scans: sum of five queries", head=head, rows=tuple(rows))


def _outputs(results: Sequence[Measured]) -> Table:
    head = ("workload", "before", "after Spark's action", "after icepact")
    rows = [
        (_named(m), _layout(m.before), *(_layout(_last_layout(m, side)) for side in (Side.SPARK, Side.ICEPACT)))
        for m in results
    ]
    return Table(title="Files: number, smallest-largest, row groups, delete files", head=head, rows=tuple(rows))


def _last_layout(measured: Measured, side: Side) -> Layout | None:
    return next((run.layout for run in reversed(_good(measured, side))), None)


def _layout(found: Layout | None) -> str:
    if found is None:
        return "-"
    sizes = f"{found.smallest / _MB:.1f}-{found.largest / _MB:.1f} MB"
    deletes = f", {found.delete_files:,} delete files" if found.delete_files else ""
    return f"{found.files:,} x {sizes}, {found.row_groups:,} row groups{deletes}"


def _memory(results: Sequence[Measured]) -> Table:
    parts = ("jvm", "heap", "driver", "workers")
    head = ("workload", *(f"{side}: {part}" for side in ("Spark", "icepact") for part in parts))
    rows = []
    for m in results:
        cells = [_named(m)]
        for side in (Side.SPARK, Side.ICEPACT):
            peaks = [run.memory for run in _good(m, side) if run.memory]
            cells += [f"{max(getattr(peak, part) for peak in peaks):,}" if peaks else "-" for part in parts]
        rows.append(tuple(cells))
    return Table(title="Peak memory, MB", head=head, rows=tuple(rows))


def _efforts(results: Sequence[Measured]) -> Table:
    head = ("workload", "methods", "copied, MB", "encoded, MB", "requests", "Spark's action ran with", "trouble")
    rows = []
    for m in results:
        effort = next((run.effort for run in reversed(_good(m, Side.ICEPACT)) if run.effort), None)
        told = [_megabytes(effort.copied_bytes), _megabytes(effort.encoded_bytes)] if effort else ["-", "-"]
        methods = ", ".join(f"{k} x {n}" for k, n in effort.methods.items()) if effort else "-"
        requests = "-" if effort is None or effort.requests is None else str(effort.requests)
        settings = ", ".join(f"{k}={v}" for k, v in m.spark_settings.items() if not k.startswith("target"))
        errors = sorted({f"{side}: {run.error}" for side in Side for run in m.runs.get(side, ()) if run.error})
        if not m.complete:
            errors.insert(0, f"stopped after {len(m.runs.get(Side.ICEPACT, ()))} of {m.repeats} repeats")
        rows.append((_named(m), methods, *told, requests, settings, "; ".join(errors).replace("|", "/") or "none"))
    return Table(title="How", head=head, rows=tuple(rows))


def _named(measured: Measured) -> str:
    workload: Workload = _BY_NAME[measured.workload]
    return f"({workload.name}) {workload.title}"


def _megabytes(size: int | None) -> str:
    return "-" if size is None else f"{size / _MB:,.0f}"


def _spread(values: Sequence[float]) -> str:
    return str(Spread(median=statistics.median(values), low=min(values), high=max(values))) if values else "-"


# -- pages --------------------------------------------------------------------------------------------


def as_text(results: Sequence[Measured]) -> str:
    """All tables for the terminal, by scale."""
    parts = []
    for scale in sorted({m.scale for m in results}):
        here = ordered(m for m in results if m.scale == scale)
        parts += [f"scale {scale:g}, {here[0].repeats} repeats", *(table.as_text() for table in tables(here))]
    return "\n\n".join(parts)


def summary(results: Sequence[Measured], scale: float = 1.0) -> str:
    """The speed-ups alone, at one scale, for the README."""
    rows = []
    for measured in results:
        speed = next((f for f in figures(measured) if f.at_least), None)
        if measured.scale == scale and speed is not None:
            seconds = [f"{_seconds(_good(measured, side)):.1f} s" for side in (Side.SPARK, Side.ICEPACT)]
            commit = as_code(measured.environment.commit)
            rows.append((_BY_NAME[measured.workload].title, *seconds, f"{speed.ratio.median:.1f} times", commit))
    if not rows:
        return "Nothing has been measured yet."
    head = ("a table of 1 GB", "Spark's `rewrite_data_files`", "icepact", "faster", "commit")
    return Table(title="", head=head, rows=tuple(rows)).as_markdown()


def machines(results: Sequence[Measured], scale: float = 1.0) -> str:
    """Where the figures of one scale come from, in lines for the README."""
    found = [m.environment for m in results if m.scale == scale]
    return "\n".join(
        dict.fromkeys(
            f"{e.cores} cores, {e.memory_gb} GB of memory, Java heap {e.heap}; Spark {e.spark}, Iceberg {e.iceberg},"
            f" Java {e.java}."
            for e in found
        )
    )


def as_markdown(results: Sequence[Measured]) -> str:
    """All tables for the docs, by scale."""
    parts = []
    for scale in sorted({m.scale for m in results}):
        here = ordered(m for m in results if m.scale == scale)
        parts.append(f"## Results at scale {scale:g}\n\n{_where(here)}")
        parts += [f"**{table.title}**\n\n{table.as_markdown()}" for table in tables(here)]
    return "\n\n".join(parts) or "## Results\n\nNothing has been measured yet."


def _where(results: Sequence[Measured]) -> str:
    """The machines and versions behind some figures."""
    lines = []
    for environment in dict.fromkeys(m.environment for m in results):
        names = ", ".join(m.workload for m in results if m.environment == environment)
        lines.append(
            f"{names}: {environment.cores} cores, {environment.memory_gb} GB of memory, Java heap {environment.heap};"
            f" Python {environment.python}, Java {environment.java}, Spark {environment.spark},"
            f" Iceberg {environment.iceberg}, icepact {environment.icepact} at commit {as_code(environment.commit)};"
            f" {environment.date}."
        )
    return "\n".join(f"- {line}" for line in lines)
