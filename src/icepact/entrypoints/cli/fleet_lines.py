"""A fleet in words: a table of its tables, and lines about a round."""

from rich.markup import escape
from rich.table import Table

from icepact.model.fleet import Ended, Fleet, Visit
from icepact.model.sizes import format_size
from icepact.model.words import counted, money


def fleet_table(fleet: Fleet, limit: int) -> Table:
    """The first tables of a ranking."""
    shown = fleet.tables[:limit]
    priced = any(entry.summary.money for entry in shown)
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", justify="right")
    table.add_column("table", no_wrap=True)
    for column in ("score", "small files", "delete records", "to rewrite", "size", "saves a scan", "work"):
        table.add_column(column, justify="right")
    if priced:
        table.add_column("price", justify="right")
    table.add_column("")
    for entry in shown:
        s = entry.summary
        work = (f"{s.input_files:,}", format_size(s.input_bytes), f"{s.gain_seconds:.2g} s", f"{s.seconds:.2g} s")
        price = [money(s.money, fleet.currency) if s.input_files else ""] if priced else []
        table.add_row(
            *(str(entry.rank), escape(s.table), f"{s.score:g}", f"{s.small_files:,}", f"{s.delete_records:,}"),
            *(work if s.input_files else ("", "", "", "")),
            *price,
            escape("" if entry.chosen else entry.reason),
        )
    return table


def fleet_line(fleet: Fleet) -> str:
    """What is chosen, together."""
    chosen = fleet.chosen
    failed = f", {len(fleet.failed):,} failed" if fleet.failed else ""
    tables = f"{counted(len(fleet.tables) + len(fleet.failed), 'table')}{failed}"
    if not chosen:
        return f"{tables}; nothing to do"
    size = format_size(sum(s.input_bytes for s in chosen))
    price = sum(s.money for s in chosen)
    return (
        f"{tables}; worth doing: {len(chosen):,} with {counted(sum(s.input_files for s in chosen), 'file')} ({size}), "
        f"about {sum(s.seconds for s in chosen):,.2g} s of work on one core"
        + (f" and {money(price, fleet.currency)}" if price else "")
    )


def visit_line(visit: Visit) -> str:
    """What became of one table in a round."""
    resumed = f"; resumed run {visit.resumed.run_id}: {visit.resumed.status}" if visit.resumed else ""
    reason = f": {visit.reason}" if visit.reason else ""
    if visit.outcome is not None:
        o = visit.outcome
        files = f"{o.files_before:,} -> {o.files_after:,} data files in {o.seconds:.1f} s"
        return f"{visit.table}: {o.status}, {files}{reason}{resumed}"
    if visit.ended is Ended.PLANNED and visit.plan is not None:
        p = visit.plan.predicted
        size = format_size(p.input_bytes)
        return f"{visit.table}: would rewrite {counted(p.input_files, 'file')} ({size}) into {p.output_files:,}"
    return f"{visit.table}: {visit.ended}{reason}{resumed}"
