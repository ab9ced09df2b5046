"""Runs and what they cost, as columns."""

from collections.abc import Mapping, Sequence

from rich.markup import escape

from icepact.economics.report import Costs
from icepact.entrypoints.cli.columns import Column
from icepact.model.formatting import format_money, format_seconds, format_size
from icepact.model.run import RunRecord


def run_columns(runs: Sequence[RunRecord], dead: Mapping[str, str]) -> list[Column]:
    """Runs, under way and past; `dead` are those that nobody works on any more."""
    outcomes = [run.outcome for run in runs]
    files = [f"{o.files_before:,} -> {o.files_after:,}" if o else "" for o in outcomes]
    return [
        Column("run", [run.run_id for run in runs], left=True),
        Column("table", [escape(run.table) for run in runs], left=True),
        Column("status", ["dead" if run.run_id in dead else run.status.value for run in runs], left=True),
        Column("started", [f"{run.started_at:%Y-%m-%d %H:%M:%S}" for run in runs], rank=3, left=True),
        Column("took", [format_seconds(o.seconds) if o else "" for o in outcomes], rank=2),
        Column("files", files, rank=1),
    ]


def cost_columns(found: Sequence[Costs]) -> list[Column]:
    """What runs cost, next to what was predicted."""
    both = [(entry.predicted, entry.actual, entry.currency) for entry in found]
    off = [entry.error for entry in found]
    per_tb = [None if e.money_per_tb is None else format_money(e.money_per_tb, e.currency) for e in found]
    return [
        Column("table", [escape(entry.table) for entry in found], left=True),
        Column("method", [entry.method for entry in found], rank=1, left=True),
        Column("runs", [f"{entry.runs:,}" for entry in found], rank=4),
        Column("files", [f"{was.files:,} : {real.files:,}" for was, real, _ in both], rank=6),
        Column("bytes", [f"{format_size(was.bytes)} : {format_size(real.bytes)}" for was, real, _ in both], rank=7),
        Column(
            "work", [f"{format_seconds(was.seconds)} : {format_seconds(real.seconds)}" for was, real, _ in both], rank=3
        ),
        Column("within", [_percent(entry.coverage) for entry in found], rank=8),
        Column("error", [" ".join(map(_percent, (e.files, e.bytes, e.seconds))) for e in off], rank=9),
        Column(
            "money", [f"{format_money(was.money, c)} : {format_money(real.money, c)}" for was, real, c in both], rank=2
        ),
        Column("per TB", [price or "-" for price in per_tb], rank=5),
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"
