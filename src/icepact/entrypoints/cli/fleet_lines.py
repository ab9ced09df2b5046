"""A fleet in words: a table of its tables, and lines about a round."""

from collections.abc import Sequence

from rich.markup import escape

from icepact.entrypoints.cli.columns import Column
from icepact.model.fleet import Fleet, RankedTable, Visit, VisitStatus
from icepact.model.formatting import format_money, format_seconds, format_size, plural

REASON = "why not"


def fleet_columns(shown: Sequence[RankedTable], currency: str) -> list[Column]:
    """Tables of a ranking; what matters least has the highest rank."""
    all_of_them = [entry.summary for entry in shown]

    def work(cells: Sequence[str]) -> list[str]:
        return [cell if s.input_files else "" for cell, s in zip(cells, all_of_them, strict=True)]

    return [
        Column("", [str(entry.rank) for entry in shown], rank=8),
        Column("table", [escape(s.table) for s in all_of_them], left=True),
        Column("score", [f"{s.score:g}" for s in all_of_them], rank=1),
        Column("small files", [f"{s.small_files:,}" for s in all_of_them], rank=7),
        Column("delete records", [f"{s.delete_records:,}" for s in all_of_them], rank=9),
        Column("to rewrite", work([f"{s.input_files:,}" for s in all_of_them]), rank=3),
        Column("size", work([format_size(s.input_bytes) for s in all_of_them]), rank=5),
        Column("saves a scan", work([format_seconds(s.gain_seconds) for s in all_of_them]), rank=6),
        Column("work", work([format_seconds(s.seconds) for s in all_of_them]), rank=4),
        Column("price", work([format_money(s.money, currency) for s in all_of_them]), rank=2),
        Column(REASON, [escape(shown_reason(entry)) for entry in shown], rank=10, left=True),
    ]


def reasons(shown: Sequence[RankedTable]) -> list[str]:
    """Why tables are not chosen, and what else is to be known: a line for each reason."""
    tables: dict[str, list[str]] = {}
    for entry in shown:
        if reason := shown_reason(entry):
            tables.setdefault(reason, []).append(entry.summary.table)
    return [f"{', '.join(names)}: {reason}" for reason, names in tables.items()]


def shown_reason(entry: RankedTable) -> str:
    """Why a table is not chosen, or what is to be known about it; empty if there is nothing to tell."""
    return "" if entry.chosen and not entry.summary.doubt else entry.reason


def fleet_line(fleet: Fleet) -> str:
    """What is chosen, together."""
    chosen = fleet.chosen
    failed = f", {len(fleet.failed):,} failed" if fleet.failed else ""
    tables = f"{plural(len(fleet.tables) + len(fleet.failed), 'table')}{failed}"
    if not chosen:
        return f"{tables}; nothing to do"
    size = format_size(sum(s.input_bytes for s in chosen))
    price = sum(s.money for s in chosen)
    return (
        f"{tables}; worth doing: {len(chosen):,} with {plural(sum(s.input_files for s in chosen), 'file')} ({size}), "
        f"about {format_seconds(sum(s.seconds for s in chosen))} of work on one core"
        + (f" and {format_money(price, fleet.currency)}" if price else "")
    )


def visit_line(visit: Visit) -> str:
    """What became of one table in a round."""
    resumed = f"; resumed run {visit.resumed.run_id}: {visit.resumed.status}" if visit.resumed else ""
    reason = f": {visit.reason}" if visit.reason else ""
    if visit.outcome is not None:
        o = visit.outcome
        files = f"{o.files_before:,} -> {o.files_after:,} data files in {format_seconds(o.seconds)}"
        return f"{visit.table}: {o.status}, {files}{reason}{resumed}"
    if visit.ended is VisitStatus.PLANNED and visit.plan is not None:
        p = visit.plan.predicted
        size = format_size(p.input_bytes)
        return f"{visit.table}: would rewrite {plural(p.input_files, 'file')} ({size}) into {p.output_files:,}"
    return f"{visit.table}: {visit.ended}{reason}{resumed}"
