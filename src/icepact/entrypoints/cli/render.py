"""One renderer: the same data for people (rich) and for machines (`--json`). Progress and errors go to stderr."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from time import monotonic
from typing import Any, Concatenate, ParamSpec

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from icepact.economics.lessons import Lessons
from icepact.entrypoints.cli.bars import BLOCKS, LETTERS, partition_bars, size_bars
from icepact.entrypoints.cli.columns import Column, fitted, plain_table
from icepact.entrypoints.cli.lists import (
    REASON,
    cost_columns,
    fleet_columns,
    fleet_line,
    job_columns,
    job_lines,
    reasons,
    run_columns,
    visit_lines,
)
from icepact.entrypoints.cli.schedules import schedule_columns, schedule_lines
from icepact.model.costs import Costs
from icepact.model.fleet import Fleet, Round, Visit, VisitStatus
from icepact.model.formatting import format_duration, format_money, format_seconds, format_size, plural
from icepact.model.health import Health
from icepact.model.job import Job, JobProgress
from icepact.model.maintenance import MaintenanceOutcome
from icepact.model.outcome import Outcome
from icepact.model.plan import Plan
from icepact.model.policy import OPTIONS, OptionUnit
from icepact.model.progress import UnitDone
from icepact.model.recovery import CleanupResult, VerifyResult
from icepact.model.run import RunRecord
from icepact.model.schedule import ScheduleView
from icepact.model.status import Status
from icepact.policy.layers import Policies, Rule
from icepact.policy.options import plain

SHOWN_PARTITIONS = 12
SHOWN_GROUPS = 10
_SECONDS_UNSEEN = 2.0
_WIDE = 200
"""Columns where there is no terminal."""


P = ParamSpec("P")


def _or_document(
    document: Callable[..., Any],
) -> Callable[[Callable[Concatenate["Renderer", P], None]], Callable[Concatenate["Renderer", P], None]]:
    """Decorator for what shows an answer to people: machines get the document that is made of the same arguments."""

    def decorate(show: Callable[Concatenate["Renderer", P], None]) -> Callable[Concatenate["Renderer", P], None]:
        @wraps(show)
        def answer(self: "Renderer", /, *args: P.args, **kwargs: P.kwargs) -> None:
            if self.as_json:
                self.document(document(*args, **kwargs))
            else:
                show(self, *args, **kwargs)

        return answer

    return decorate


class Renderer:
    """Shows the answers of commands, their progress and their errors."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        known = sys.stdout.isatty() or "COLUMNS" in os.environ
        self.out = Console(highlight=False, soft_wrap=True, width=None if known else _WIDE)
        self.err = Console(stderr=True, highlight=False)

    @property
    def interactive(self) -> bool:
        """True if a person is at the terminal and can be asked."""
        return not self.as_json and sys.stdin.isatty() and sys.stdout.isatty()

    # -- while it works ---------------------------------------------------------------------------

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """A spinner for work whose length is not known."""
        if self.err.is_terminal:
            with self.err.status(f"{what} ..."):
                yield
        else:
            yield

    @contextmanager
    def progress(self, plan: Plan) -> Iterator["BarProgress"]:
        """A bar over the units of a plan."""
        with Progress(
            *_bar(TextColumn("files  {task.fields[size]}")),
            console=self.err,
            disable=not (self.err.is_terminal and plan.steps),
        ) as bar:
            yield BarProgress(bar, plan.files_at_work)

    @contextmanager
    def following(self, units: int) -> Iterator["BarProgress"]:
        """A bar over the units of a plan that was made elsewhere."""
        columns = _bar(TextColumn("units  {task.fields[size]}"))
        with Progress(*columns, console=self.err, disable=not self.err.is_terminal) as bar:
            yield BarProgress(bar, units, of_units=True)

    @contextmanager
    def counting(self, what: str) -> Iterator["Counting"]:
        """A bar over tables; it is seen once the work takes longer than that is worth."""
        bar = Progress(
            *_bar(TextColumn("{task.fields[table]}", markup=False)),
            console=self.err,
            disable=not self.err.is_terminal,
            transient=True,
            redirect_stdout=False,  # answers stay on stdout
        )
        counting = Counting(bar, what)
        try:
            yield counting
        finally:
            bar.stop()

    # -- answers ----------------------------------------------------------------------------------

    def document(self, document: Any) -> None:
        """Exactly one JSON document on stdout."""
        sys.stdout.write(json.dumps(document, indent=2, default=str) + "\n")
        sys.stdout.flush()

    def error(self, message: str, code: int) -> int:
        """One line on stderr; with `--json` also a document."""
        line = "".join(one if one.isprintable() else "?" for one in " ".join(message.split()))  # services say this, too
        if self.as_json:
            self.document({"error": line})
        print(f"icepact: {line}", file=sys.stderr)
        return code

    @_or_document(Health.to_dict)
    def health(self, health: Health) -> None:
        """How a table is doing."""
        f = health.facts
        lost = ", ".join(f"{name} -{points:g}" for name, points in health.score.parts.items() if points)
        self.out.print(
            f"[bold]{escape(health.table)}[/bold]  score {_colored(health.score.value)}"
            + (f"  ({lost})" if lost else "")
        )
        facts = _grid()
        facts.add_row("data files", f"{f.data_files:,}", f"{f.small_files:,} below {format_size(health.threshold)}")
        facts.add_row(
            "size", format_size(f.bytes), f"{format_size(f.average_size)} a file, target {format_size(health.target)}"
        )
        facts.add_row("rows", f"{f.rows:,}", f"{f.row_groups_per_file:.1f} row groups a file")
        kinds = ", ".join(f"{n} {kind}" for kind, n in f.delete_files.items() if n) or "none"
        facts.add_row("delete files", f"{f.all_delete_files:,}", f"{kinds}; {f.all_delete_records:,} records")
        if health.dangling_delete_files:
            facts.add_row("", "", f"{health.dangling_delete_files} of them apply to nothing any more")
        if f.overlap is not None:
            facts.add_row(
                "overlap", f"{f.overlap.average:.1f}", f"files lie over each other, {f.overlap.maximum:,} at most"
            )
        facts.add_row("metadata", f"{health.manifests:,}", f"manifests, {health.snapshots:,} snapshots")
        self.out.print(facts)
        for note in (*health.waiting.lines(), *health.notes):
            self.out.print(note, markup=False)
        self._partitions(health)

    def _partitions(self, health: Health) -> None:
        worst = health.worst_first
        shown = worst[:SHOWN_PARTITIONS]
        facts = [p.facts for p in shown]
        columns = [
            Column("partition", [escape(p.name) for p in shown], left=True),
            Column("score", [_colored(p.score.value) for p in shown]),
            Column("files", [f"{f.data_files:,}" for f in facts], rank=1),
            Column("small", [f"{f.small_files:,}" for f in facts], rank=2),
            Column("average", [format_size(f.average_size) for f in facts], rank=4),
            Column("deletes", [f"{f.all_delete_records:,}" for f in facts], rank=3),
        ]
        if health.facts.overlap is not None:
            columns.append(Column("overlap", [f"{f.overlap.average:.1f}" if f.overlap else "" for f in facts], rank=5))
        if worst:
            self._columns(columns)
        if len(worst) > SHOWN_PARTITIONS:
            self.out.print(f"... and {len(worst) - SHOWN_PARTITIONS} more partitions; --json lists all")

    def _columns(self, columns: Sequence[Column]) -> None:
        """A table as wide as the terminal; what does not fit is named."""
        table, dropped = fitted(columns, self.out)
        self._table(table)
        left = [title for title in dropped if title not in ("", REASON)]
        if left:
            self.out.print(f"without {', '.join(left)}: they need a wider terminal, or --json", style="dim")

    def _table(self, table: Table) -> None:
        self.out.print(table, soft_wrap=False)  # what is too long is wrapped, not cut off

    @_or_document(lambda plan, **_: plan.to_dict())
    def plan(self, plan: Plan, *, whole: bool = False) -> None:
        """What would be done, and what not: what matters most of it, or all."""
        self.out.print(plan.explain(None if whole else SHOWN_GROUPS), markup=False)
        if plan.rewrites:
            ink = BLOCKS if self.out.encoding.lower().startswith("utf") else LETTERS
            self.out.print()
            self._table(size_bars(plan, ink, self.out.width))
            self.out.print()
            self._table(partition_bars(plan, ink, self.out.width))

    @_or_document(Outcome.to_dict)
    def outcome(self, outcome: Outcome) -> None:
        """What was done."""
        if outcome.resumed is not None:
            self.outcome(outcome.resumed)
        o = outcome
        color = {Status.COMMITTED: "green", Status.FAILED: "red"}.get(o.status, "yellow")
        self.out.print(
            f"[{color}]{o.status}[/{color}]  run {o.run_id}  {format_seconds(o.seconds)}"
            + (f"  {escape(o.error)}" if o.error else "")
        )
        if o.reason:
            self.out.print(f"nothing to do: {o.reason}", markup=False)
        if o.methods:
            facts = _grid()
            facts.add_row("data files", f"{o.files_before:,} -> {o.files_after:,}", "")
            facts.add_row("size", f"{format_size(o.bytes_before)} -> {format_size(o.bytes_after)}", "")
            gone = f"{plural(o.rows_deleted, 'deleted row')} now really gone" if o.rows_deleted else ""
            facts.add_row("rows", f"{o.rows_before:,} -> {o.rows_after:,}", gone)
            carried = f"{plural(o.deletes_carried, 'deleted row')} carried" if o.deletes_carried else ""
            carried += f", {o.late_deletes:,} of them deleted meanwhile" if o.late_deletes else ""
            facts.add_row("delete files", f"{o.delete_files_removed:,} removed", carried)
            took, duration = o.effort, o.predicted_duration.likely
            work = f"{format_size(took.encoded_bytes)} encoded anew"
            work += f", {took.requests:,} requests to the store" if took.requests else ""
            facts.add_row("row groups", f"{format_size(took.copied_bytes)} copied", work)
            if duration:
                facts.add_row("time", format_seconds(o.seconds), f"{format_seconds(duration)} predicted")
            if o.wait_reason:
                facts.add_row("waited", format_seconds(o.waited_seconds), escape(o.wait_reason))
            foreseen = f"{format_seconds(o.predicted_seconds.likely)}, {format_money(o.predicted_money, o.currency)}"
            spent = f"{format_seconds(took.seconds)}, {format_money(o.money, o.currency)}"
            facts.add_row("work", spent, f"{foreseen} predicted")
            self.out.print(facts)
        for step in o.steps:
            for line in step.lines():
                self.out.print(line, markup=False)
        if o.step_costs and not o.methods:
            foreseen = format_money(o.predicted_money, o.currency)
            self.out.print(f"cost {format_money(o.money, o.currency)}, {foreseen} predicted", markup=False)
        for group in o.groups:
            if not group.committed:
                self.out.print(f"not done: {group.partition}: {group.reason}", markup=False)

    @_or_document(MaintenanceOutcome.to_dict)
    def maintenance(self, outcome: MaintenanceOutcome) -> None:
        """What a round of maintenance did, or would do."""
        for line in outcome.lines():
            self.out.print(line, markup=False)

    def lessons(self, table: str, lessons: Lessons) -> None:
        """What earlier runs taught about a table."""
        if self.as_json:
            self.document({"table": table, **lessons.to_dict()})
        else:
            self.out.print(lessons.explain(), markup=False)

    @_or_document(lambda text: {"message": text})
    def message(self, text: str) -> None:
        """One line that is the answer."""
        self.out.print(text, markup=False)

    def listing(self, document: Any, columns: Sequence[Column], *, empty: str) -> None:
        """Rows for people, or what is said if there are none; the document for machines."""
        if self.as_json:
            self.document(document if isinstance(document, Mapping) else document.to_dict())
        elif columns[0].cells:
            self._columns(columns)
        else:
            self.out.print(empty, markup=False)

    def note(self, text: str) -> None:
        """One line that is not the answer."""
        self.err.print(text, markup=False, soft_wrap=True)

    @_or_document(lambda found, **_: {"runs": [entry.to_dict() for entry in found]})
    def cleanup(self, found: Sequence[CleanupResult], *, deleted: bool) -> None:
        """What dead runs left behind."""
        for entry in found:
            what = f"run {entry.run_id} on {entry.table}: {entry.reason}"
            uploads = f" and {plural(entry.uploads, 'unfinished upload')}" if entry.uploads else ""
            files = f"{plural(len(entry.files), 'file')} ({format_size(entry.bytes)}){uploads}"
            if entry.in_vain:
                what += f"; it {'is ended, and ' if deleted else ''}left nothing"
            elif not entry.left_alone:
                what += f"; {'deleted' if deleted else 'would delete'} {files}"
            self.out.print(what, markup=False)
        if not found:
            self.out.print("nothing was left behind")
        elif not deleted and not self.interactive:
            self.out.print("nothing was changed: say --yes")

    @_or_document(lambda found: {"commits": [entry.to_dict() for entry in found]})
    def verify(self, found: Sequence[VerifyResult]) -> None:
        """Commits that were compared once more, and whether their rows are the same."""
        for entry in found:
            word = {True: "same", False: "different", None: "cannot be said"}[entry.same]
            self.out.print(f"snapshot {entry.snapshot_id}: {word}: {entry.reason}", markup=False)
        if not found:
            self.out.print("the run committed nothing")

    @_or_document(lambda runs, dead, **_: {"runs": [{**run.to_dict(), "dead": dead.get(run.run_id)} for run in runs]})
    def runs(self, runs: Sequence[RunRecord], dead: Mapping[str, str], *, open_only: bool) -> None:
        """Runs, under way and past; `dead` says of some why nobody works on them any more."""
        if not runs:
            self.out.print("no run is open" if open_only else "no runs yet")
            return
        self._columns(run_columns(runs, dead))
        for run_id, why in dead.items():
            self.out.print(f"{run_id} is dead: {why}; carry on: icepact resume {run_id}", markup=False)
        if dead:
            self.out.print("icepact cleanup ends dead runs and deletes what they left")
        for table in dict.fromkeys(run.table for run in runs if run.recovered):
            self.out.print(f"the record store knows no run on {table}: its snapshots tell of these", markup=False)

    @_or_document(lambda found: {"jobs": [job.to_dict() for job in found]})
    def jobs(self, found: Sequence[Job]) -> None:
        """Jobs, newest first."""
        if found:
            self._columns(job_columns(found))
        else:
            self.out.print("no jobs")

    @_or_document(Job.to_dict)
    def job(self, job: Job) -> None:
        """One job, how far it is, and what came of it."""
        for line in job_lines(job):
            self.out.print(line, markup=False)

    @_or_document(ScheduleView.to_dict)
    def schedule(self, view: ScheduleView) -> None:
        """One schedule, and what is expected of the table's writers."""
        for line in schedule_lines(view):
            self.out.print(line, markup=False)

    @_or_document(lambda found: {"schedules": [view.to_dict() for view in found]})
    def schedules(self, found: Sequence[ScheduleView]) -> None:
        """Tables that are looked after by themselves."""
        if found:
            self._columns(schedule_columns(found))
        else:
            self.out.print("no schedules: icepact serve looks after tables whose policies have one")

    @_or_document(lambda found: {"costs": [entry.to_dict() for entry in found]})
    def costs(self, found: Sequence[Costs]) -> None:
        """What runs cost, next to what was predicted."""
        if not found:
            self.out.print("no runs yet")
            return
        self._columns(cost_columns(found))
        self.out.print("predicted : actual; errors are medians over runs, of files, bytes and seconds", style="dim")

    @_or_document(lambda names, *_: {"tables": list(names)})
    def tables(self, names: Sequence[str], absent: str | None = None) -> None:
        """Names of tables, or why there cannot be any."""
        for name in names:
            self.out.print(name, markup=False)
        if not names:
            self.out.print(f"no tables: {absent}" if absent else "no tables yet", markup=False)

    @_or_document(
        lambda fleet, limit: {**fleet.to_dict(), "tables": [entry.to_dict() for entry in fleet.tables[:limit]]}
    )
    def fleet(self, fleet: Fleet, limit: int) -> None:
        """Tables by rank, those that could not be looked at, and what is chosen together."""
        for warning in fleet.warnings:
            self.note(f"warning: {warning}")
        shown = fleet.tables[:limit]
        if shown:
            columns = fleet_columns(shown, fleet.currency)
            self._columns(columns)
            if REASON in fitted(columns, self.out).dropped:
                for line in reasons(shown):
                    self.out.print(line, markup=False)
        else:
            self.out.print("no tables")
        if len(fleet.tables) > limit:
            self.out.print(f"... and {plural(len(fleet.tables) - limit, 'table')} more; --limit shows them")
        for entry in fleet.failed:
            self.out.print(f"failed: {entry.table}: {entry.reason}", markup=False)
        self.out.print(fleet_line(fleet), markup=False)

    def visit(self, visit: Visit) -> None:
        """One table of a round, as soon as it is done."""
        if not self.as_json:
            for line in visit_lines(visit):
                self.out.print(line, markup=False)

    @_or_document(Round.to_dict)
    def round(self, done: Round) -> None:
        """How many tables of a round ended how."""
        counts = ", ".join(f"{done.count(ended):,} {ended}" for ended in VisitStatus if done.count(ended))
        self.out.print(f"{plural(len(done.visits), 'table')}" + (f": {counts}" if counts else ""), markup=False)

    def policies(self, policies: Policies, idle: Sequence[Rule]) -> None:
        """What a policy file says; `idle` are rules that match no table."""
        warnings = [f"{rule.source}: {rule.pattern.text} matches no table" for rule in idle]
        for_all, sources = policies.for_all()
        if self.as_json:
            self.document(
                {
                    "file": policies.file,
                    "profile": policies.profile,
                    "policies": list(policies.named),
                    "rules": [rule.to_dict() for rule in policies.rules],
                    "for_all": {name: plain(value) for name, value in for_all.items()},
                    "not_ours": list(policies.not_ours),
                    "warnings": warnings,
                }
            )
            return
        for warning in warnings:
            self.note(f"warning: {warning}")
        parts = [plural(len(policies.rules), "rule")]
        parts += [f"policies {', '.join(policies.named)}"] if policies.named else []
        parts += [f"profile {policies.profile}"] if policies.profile else []
        self.out.print(f"{policies.file} is valid: {'; '.join(parts)}", markup=False)
        for name, value in for_all.items():
            self.out.print(f"  all tables: {name} {shown_option(name, plain(value))}, by {sources[name]}", markup=False)
        for rule in policies.rules:
            values = ", ".join(
                f"{name} {shown_option(name, value)}" for name, value in rule.to_dict()["values"].items()
            )
            self.out.print(f"  {rule.pattern.text}: {values or 'nothing of its own'}, by {rule.source}", markup=False)
        for entry in policies.not_ours:
            self.out.print(f"  not ours, left alone: {entry}", markup=False)

    def table_policy(self, name: str, values: Mapping[str, Any], currency: str) -> None:
        """What holds for a table, and where it came from; money is in the currency of the prices."""
        if self.as_json:
            self.document({"table": name, "values": values})
            return
        columns = [
            Column("option", list(values), left=True),
            Column(
                "value", [escape(shown_option(key, one["value"], currency)) for key, one in values.items()], left=True
            ),
            Column("from", [escape(entry["source"]) for entry in values.values()], left=True),
        ]
        self._table(plain_table(columns))

    @_or_document(dict)
    def setup(self, answer: Mapping[str, Any]) -> None:
        """What was prepared."""
        self.out.print(f"ready: {answer['jars']} libraries, fast starts {'on' if answer['archive'] else 'off'}")


class Counting:
    """Moves the bar by tables."""

    def __init__(self, bar: Progress, what: str) -> None:
        self._bar = bar
        self._task = bar.add_task(what, total=None, table="")
        self._begun = monotonic()
        self._tables = 0

    def begin(self, table: str, total: int) -> None:
        """Show that one more table is begun."""
        self._bar.update(self._task, completed=self._tables, total=total, table=table)
        self._tables += 1
        if monotonic() - self._begun > _SECONDS_UNSEEN:
            self._bar.start()

    def hide(self) -> None:
        """Hide the bar until the next table is begun: something else is to be printed."""
        self._bar.stop()


class BarProgress:
    """Moves the bar by input files, or by units if it is of these."""

    def __init__(self, bar: Progress, total: int, *, of_units: bool = False) -> None:
        self._bar = bar
        self._bytes = 0
        self._of_units = of_units
        self._task = bar.add_task("compacting", total=total, size="")

    def advance(self, done: UnitDone) -> None:
        """One unit is finished."""
        self._bytes += done.bytes
        self._bar.update(self._task, advance=done.files, size=format_size(self._bytes))

    def follow(self, progress: JobProgress) -> None:
        """Show how far a job elsewhere is."""
        done = progress.units if self._of_units else progress.files
        self._bar.update(self._task, completed=done, size=format_size(progress.bytes))
        self.step(progress.step)

    def step(self, name: str) -> None:
        """Say what is going on after the last unit."""
        if name in _SAID:
            self._bar.update(self._task, description=_SAID[name])


_SAID = {
    "listed": "deleting",
    "staged": "compacting",
    "executed": "proving",
    "waiting": "waiting for a quiet moment",
    "attempting": "committing",
    "landed": "checking",
}


def _bar(more: TextColumn) -> tuple[ProgressColumn, ...]:
    """What is done, a bar, how much of it, and more about that; and since when."""
    return TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), more, TimeElapsedColumn()


def _colored(score: float) -> str:
    color = "green" if score >= 80 else "yellow" if score >= 50 else "red"
    return f"[{color}]{score:g}[/{color}]"


def shown_option(name: str, value: Any, currency: str = "") -> str:
    """An option's value for people."""
    unit = OPTIONS[name].unit if name in OPTIONS else None
    if value is not None and unit is not None:
        by_unit = {OptionUnit.BYTES: format_size, OptionUnit.SECONDS: format_duration}
        return by_unit[unit](value) if unit in by_unit else format_money(value, currency)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {amount}" for key, amount in value.items())
    if isinstance(value, tuple):
        return ",".join(f"{weight:g}" for weight in value)
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _grid() -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(justify="right")
    grid.add_column(style="dim")
    return grid
