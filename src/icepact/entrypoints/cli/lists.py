"""Tables of a fleet, runs and what they cost as columns; and lines about a fleet and a round."""

from collections.abc import Mapping, Sequence

from rich.markup import escape

from icepact.entrypoints.cli.columns import Column
from icepact.model.costs import Costs
from icepact.model.fleet import Fleet, RankedTable, Visit, VisitStatus
from icepact.model.formatting import format_money, format_seconds, format_size, plural
from icepact.model.job import Job, JobProgress, JobStatus
from icepact.model.outcome import Outcome
from icepact.model.run import Recovered, RunRecord

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


def visit_lines(visit: Visit) -> list[str]:
    """What became of one table in a round, and of its housekeeping."""
    done = visit.maintenance
    operations = [one for one in done.operations if one.outcome is not None and one.outcome.steps] if done else []
    return [
        _visit_line(visit),
        *(f"  {line}" for one in operations for line in one.lines(done.currency if done else "")),
    ]


def _visit_line(visit: Visit) -> str:
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


def run_columns(runs: Sequence[RunRecord], dead: Mapping[str, str]) -> list[Column]:
    """Runs, under way and past; `dead` are those that nobody works on any more."""
    outcomes = [run.outcome for run in runs]
    said = [run.outcome or run.recovered for run in runs]
    return [
        Column("run", [run.run_id for run in runs], left=True),
        Column("table", [escape(run.table) for run in runs], left=True),
        Column("what", [one.operation if one else "" for one in said], rank=4, left=True),
        Column("status", ["dead" if run.run_id in dead else run.status.value for run in runs], left=True),
        Column("started", [f"{run.started_at:%Y-%m-%d %H:%M:%S}" for run in runs], rank=3, left=True),
        Column("took", [format_seconds(o.seconds) if o else "" for o in outcomes], rank=2),
        Column("files", [_files(one) for one in said], rank=1),
    ]


def _files(said: Outcome | Recovered | None) -> str:
    if said is None or said.files_before is None or said.files_after is None:
        return ""
    return f"{said.files_before:,} -> {said.files_after:,}"


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


def job_columns(jobs: Sequence[Job]) -> list[Column]:
    """Jobs; what matters least has the highest rank."""
    return [
        Column("job", [job.job_id for job in jobs], left=True, whole=True),
        Column("operation", [str(job.request.operation) for job in jobs], left=True),
        Column("table", [escape(job.request.table or "") for job in jobs], left=True, rank=1),
        Column("status", [_job_status(job) for job in jobs], left=True),
        Column("progress", [_units(job.progress) for job in jobs], rank=3),
        Column("tenant", [escape(job.tenant) for job in jobs], rank=4, left=True),
        Column("submitted", [f"{job.submitted_at:%Y-%m-%d %H:%M:%S}" for job in jobs], rank=3),
        Column("error", [escape(job.error or "") for job in jobs], rank=5, left=True),
    ]


def job_lines(job: Job) -> list[str]:
    """A job in words."""
    table = f" of {job.request.table}" if job.request.table else ""
    lines = [f"job {job.job_id}: {job.request.operation}{table}: {_job_status(job)}"]
    lines.append(f"  submitted {job.submitted_at:%Y-%m-%d %H:%M:%S} UTC for {job.tenant}, priority {job.priority}")
    if job.started_at is not None:
        ended = f", ended {job.finished_at:%H:%M:%S}" if job.finished_at else ""
        lines.append(f"  begun {job.started_at:%Y-%m-%d %H:%M:%S} UTC by {job.worker}{ended}")
    if job.attempts > 1 or job.failures:
        lines.append(f"  {plural(job.attempts, 'attempt')}, {plural(job.failures, 'failure')} of {job.most_failures}")
    if job.progress.planned_units:
        size = f"{format_size(job.progress.bytes)} of {format_size(job.progress.planned_bytes)}"
        lines.append(f"  {_units(job.progress)} units, {size}; {job.progress.step}".removesuffix("; "))
    if job.run_id is not None:
        lines.append(f"  run {job.run_id}")
    return [*lines, *([f"  {job.error}"] if job.error else [])]


def _job_status(job: Job) -> str:
    asked = job.cancel_asked and job.status is JobStatus.RUNNING
    return f"{job.status}, to be cancelled" if asked else str(job.status)


def _units(progress: JobProgress) -> str:
    return f"{progress.units:,}/{progress.planned_units:,}" if progress.planned_units else ""
