"""One self-contained page about a table: how it is, how it came to be so, and what would be done about it.

Pure: text from values. No scripts, nothing from the network; every value from a table is escaped.
"""

import math
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from importlib.resources import files

from icepact.assess.signals import Signal, signals_of
from icepact.entrypoints.cli.markup import Markup, joined, tag, text
from icepact.entrypoints.cli.svg import gauge, grade, grade_names, short_size, size_chart, timeline_chart
from icepact.model.formatting import format_money, format_seconds, plural
from icepact.model.health import Health, PartitionHealth
from icepact.model.plan import LeftOut, Plan, Prediction, RewriteFiles

_MOST_CELLS = 2400
"""Of the map; with more partitions, a cell stands for several."""
_CELLS = ((60, 34), (400, 22), (_MOST_CELLS, 13))
"""Pixels of a cell for at most so many cells."""
_MOST_ROWS = 25
"""Of a list; the rest is counted."""
_LONGEST_NAME = 120
_LONGEST_REASON = 400
_ONE_LINE = 44


def page(health: Health, plan: Plan, *, written_at: datetime, where: Sequence[str] = ()) -> str:
    """The whole page. `where` are the flags by which a command finds the table."""
    body = tag(
        "main",
        _top(health, written_at),
        _verdict(health, plan, where),
        _planned(plan),
        _score(health),
        _sizes(health, plan),
        _partitions(health),
        _deletes(health),
        _snapshots(health),
        tag("footer", f"Written by icepact on {written_at:%Y-%m-%d %H:%M} UTC from the table's metadata alone."),
    )
    style = Markup((files(__package__) / "report.css").read_text(encoding="utf-8"))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content="default-src 'none'; style-src 'unsafe-inline'"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{health.table}: health {health.score.value:g} of 100"),
        tag("style", style),
    )
    return "<!DOCTYPE html>\n" + tag("html", head, tag("body", body), lang="en") + "\n"


def _top(health: Health, written_at: datetime) -> Markup:
    snapshot = "no snapshot yet" if health.snapshot_id is None else f"snapshot {health.snapshot_id}"
    facts = (f"branch {health.branch}", snapshot, f"format version {health.format_version}")
    line = " · ".join((*facts, f"{written_at:%Y-%m-%d %H:%M} UTC"))
    return tag("header", tag("p", "Health of the table"), tag("h1", _short(health.table)), tag("p", line))


def _section(title: str, *inside: object) -> Markup:
    return tag("section", tag("h2", title), *inside, aria_label=title)


# -- what comes of it -----------------------------------------------------------------------------


def _verdict(health: Health, plan: Plan, where: Sequence[str]) -> Markup:
    """How the table is in one line, what would be done about it, and the command that does it."""
    words = (
        tag("p", _state_in_words(health, plan), class_="verdict"),
        *(tag("p", line) for line in _summary(health, plan)),
        tag("p", "To do it:", class_="soft") if plan.steps else None,
        tag("pre", tag("code", _command(plan, where)), tabindex=0) if plan.steps else None,
    )
    return _section("Verdict", tag("div", gauge(health.score.value), tag("div", *words), class_="head"))


def _state_in_words(health: Health, plan: Plan) -> str:
    score = health.score.value
    how = ("is in a bad state", "needs attention", "is not at its best", "is well", "is well")[grade(score)]
    done = "Compacting helps." if plan.steps else "There is nothing to do."
    return f"This table {how}: {score:g} of 100. {done}"


def _command(plan: Plan, where: Sequence[str]) -> str:
    """The command that carries the plan out: what was asked for, and where the table is."""
    asked = {name: getattr(plan.policy, name) for name, source in plan.policy.sources.items() if source == "request"}
    flags = (word for name, value in asked.items() for word in (f"--{name.replace('_', '-')}", str(value)))
    return shlex.join(["icepact", "compact", plan.table, *flags, *where])


# -- how it is ------------------------------------------------------------------------------------


def _score(health: Health) -> Markup:
    signals = signals_of(health.facts)
    most = {signal.name: signal.points for signal in signals}
    parts = [
        tag(
            "div",
            tag("span", name.replace("_", " ")),
            _bar(1 - lost / most[name], grade(100 * (1 - lost / most[name]))),
            tag("span", f"-{lost:g} of {most[name]:g}" if lost else f"0 of {most[name]:g}"),
            class_="part",
        )
        for name, lost in health.score.parts.items()
    ]
    f = health.facts
    facts = (
        ("data files", f"{f.data_files:,}", f"{f.small_files:,} below {short_size(health.threshold)}"),
        ("size", short_size(f.bytes), f"{short_size(f.average_size)} a file"),
        ("rows", f"{f.rows:,}", f"{f.row_groups_per_file:.1f} row groups a file"),
        ("delete files", f"{f.all_delete_files:,}", plural(f.all_delete_records, "record")),
        ("partitions", f"{len(health.partitions):,}", f"{_bad(health):,} score below 50"),
        *(() if f.overlap is None else (("overlap", f"{f.overlap.average:.1f}", f"{f.overlap.maximum:,} at most"),)),
        ("snapshots", f"{health.snapshots:,}", plural(health.manifests, "manifest")),
    )
    tiles = (tag("div", tag("dt", name), tag("dd", value, tag("small", more))) for name, value, more in facts)
    return _section(
        "Score",
        tag("p", "What each part leaves of its points: a full green bar has lost none.", class_="soft"),
        tag("div", *parts, class_="parts"),
        tag("dl", *tiles, class_="facts"),
        tag(
            "details",
            tag("summary", "How the score is made"),
            tag("p", "It starts at 100, and each part takes points away. More of what a part counts never raises it."),
            tag("ul", *(tag("li", _signal_line(signal)) for signal in signals)),
        ),
    )


def _signal_line(signal: Signal) -> str:
    return f"{signal.name.replace('_', ' ')}, up to {signal.points:g} points: {signal.share.__doc__ or ''}"


def _bad(health: Health) -> int:
    return sum(p.score.value < 50 for p in health.partitions)


def _bar(share: float, good: int) -> Markup:
    """So full, and in the colour of a grade from 0 (bad) to 4 (good)."""
    return tag("span", tag("i", class_=f"s{good}", style=f"width:{100 * min(1.0, share):.1f}%"), class_="bar")


def _legend(*entries: tuple[str, str]) -> Markup:
    return tag("p", *(tag("span", tag("i", class_=css), name) for css, name in entries), class_="legend")


def _sizes(health: Health, plan: Plan) -> Markup:
    if not health.histogram.classes:
        return _section("File sizes", tag("p", "There are no data files."))
    after = plan.sizes_after if plan.rewrites and not plan.policy.where else None
    p = plan.predicted
    doubled = f"Sizes double from class to class. The plan turns {p.files_before:,} files into {p.files_after:,}."
    return _section(
        "File sizes",
        tag("p", doubled if after else "Sizes double from class to class.", class_="soft"),
        size_chart(health.histogram, after, health.threshold, health.target),
        _legend(("s1", "now, small"), ("s4", "now, large enough"), *([("b", "after the plan")] if after else [])),
    )


def _partitions(health: Health) -> Markup:
    if not health.partitions:
        return _section("Partitions", tag("p", "There are none."))
    each = math.ceil(len(health.partitions) / _MOST_CELLS)
    cell = "A cell is a partition" if each == 1 else f"A cell is {each} partitions, and shows the worst of them"
    runs = [health.partitions[at : at + each] for at in range(0, len(health.partitions), each)]
    pixels = next(pixels for most, pixels in _CELLS if len(runs) <= most)
    cells = tag(
        "div",
        *(_cell(run) for run in runs),
        class_="map",
        style=f"--cell:{pixels}px",
        role="img",
        aria_label=f"{plural(len(health.partitions), 'partition')}, {_bad(health):,} of them with a score below 50",
    )
    worst = [p for p in health.worst_first if p.score.value < 100]
    shades = [(f"s{n}", f"score {name}") for n, name in enumerate(grade_names())]
    return _section(
        "Partitions",
        tag("p", f"{cell}, in the order of the table.", class_="soft"),
        cells,
        _legend(*shades),
        _worst(worst) if worst else tag("p", "No partition has anything to gain."),
    )


def _cell(run: Sequence[PartitionHealth]) -> Markup:
    worst = min(run, key=lambda p: p.score.value)
    f = worst.facts
    title = f"{_short(worst.name, 60)}: score {worst.score.value:g}, {plural(f.data_files, 'file')}"
    if f.small_files:
        title += f", {f.small_files:,} small"
    if f.all_delete_records:
        title += f", {plural(f.all_delete_records, 'delete record')}"
    if len(run) > 1:
        title = f"{_short(run[0].name, 30)} to {_short(run[-1].name, 30)}, worst {title}"
    return tag("i", class_=f"s{grade(worst.score.value)}", title=title)


def _worst(worst: Sequence[PartitionHealth]) -> Markup:
    rows = (
        (
            _name(p.name, before=tag("span", class_=f"chip s{grade(p.score.value)}")),
            *_numbers(f"{p.score.value:g}", f"{p.priority.value:.2f}", p.facts.data_files, p.facts.small_files),
            *_numbers(short_size(p.facts.average_size), p.facts.all_delete_records),
        )
        for p in worst[:_MOST_ROWS]
    )
    columns = ("partition", "score", "priority", "files", "small", "average", "delete records")
    more = len(worst) - _MOST_ROWS
    return joined(
        _table("Worst first", columns, rows),
        tag("p", f"And {plural(more, 'partition')} more with less than 100 points.", class_="soft")
        if more > 0
        else None,
    )


def _deletes(health: Health) -> Markup:
    f = health.facts
    if not f.all_delete_files:
        return _section("Delete debt", tag("p", "There are no deletes that readers have to apply."))
    names = {"position": "position deletes", "dv": "deletion vectors", "equality": "equality deletes"}
    most = max(1, *f.delete_records.values())
    rows = (
        (
            _name(names.get(kind, kind)),
            *_numbers(count, f.delete_records[kind]),
            tag("td", _bar(f.delete_records[kind] / most, 1)),
        )
        for kind, count in f.delete_files.items()
    )
    debts = [
        f"{plural(f.all_delete_records, 'delete record')} on {plural(f.rows, 'row')} ({f.delete_ratio:.1%})",
        f"{f.fragment_ratio:.2f} delete files for each data file",
    ]
    if health.dangling_delete_files:
        debts.append(f"{health.dangling_delete_files:,} of the delete files apply to nothing any more")
    return _section(
        "Delete debt",
        tag("p", "What readers apply with every scan: " + "; ".join(debts) + ".", class_="soft"),
        _table(None, ("kind", "files", "records", ""), rows),
    )


def _snapshots(health: Health) -> Markup:
    if not health.timeline:
        return _section("Snapshots over time", tag("p", "There are no snapshots."))
    operations = Counter(moment.operation or "unknown" for moment in health.timeline)
    counts = ", ".join(f"{count:,} {name}" for name, count in operations.most_common())
    return _section(
        "Snapshots over time",
        tag("p", f"The newest {plural(len(health.timeline), 'snapshot')} of the branch: {counts}.", class_="soft"),
        timeline_chart(health.timeline),
        _legend(("a", "replace: files were rewritten, rows stayed the same")) if operations["replace"] else None,
    )


# -- what would be done ---------------------------------------------------------------------------


def _planned(plan: Plan) -> Markup:
    if not plan.steps and not plan.left_out:
        return _section("What would be done, and why", tag("p", "There is nothing to decide about."))
    return _section(
        "What would be done, and why",
        _groups(plan.rewrites, plan.prices.currency) if plan.rewrites else None,
        *(tag("p", "; ".join(line.strip() for line in step.explain(0))) for step in plan.chores),
        _left_out(plan.left_out) if plan.left_out else None,
    )


def _what_becomes_of_deletes(p: Prediction) -> str:
    """What would become of deletes."""
    applied, carried = p.delete_records - p.deletes_carried, p.deletes_carried
    some = [f"{plural(applied, 'delete record')} would be applied"] if applied else []
    return " and ".join([*some, *([f"{plural(carried, 'delete record')} carried"] if carried else [])])


def _summary(health: Health, plan: Plan) -> Iterator[str]:
    p = plan.predicted
    if not plan.steps:
        yield f"Nothing would be done, with strategy {plan.policy.strategy}: {plan.why_nothing}."
    if plan.rewrites:
        gain = sum(step.gain.scan_seconds for step in plan.rewrites)
        price = sum(step.cost.money.likely for step in plan.rewrites)
        work = sum(step.cost.seconds.likely for step in plan.rewrites)
        yield (
            f"With strategy {plan.policy.strategy}, {plural(p.input_files, 'file')} ({short_size(p.input_bytes)}) "
            f"would become {p.output_files:,} in {plural(len(plan.rewrites), 'group')}: {p.files_before:,} data files "
            f"become {p.files_after:,}" + (f", and {_what_becomes_of_deletes(p)}." if p.delete_records else ".")
        )
        yield (
            f"It would take about {format_seconds(work)} of work on one core"
            + (f" and cost about {format_money(price, plan.prices.currency)}" if price else "")
            + f", and save every full scan about {format_seconds(gain)}."
        )
    if plan.policy.where:
        yield f"Only files that may hold rows with {plan.policy.where} are looked at."
    if plan.snapshot_id != health.snapshot_id:
        yield f"The plan was made on snapshot {plan.snapshot_id}, which was committed meanwhile."
    if not plan.complete:
        yield "Something is held back for now; it is in the list of what is left out."


def _groups(steps: Sequence[RewriteFiles], currency: str) -> Markup:
    priced = any(step.cost.money.likely for step in steps)
    columns = ("partition", "files", "becomes", "size", "saves a scan", "work", *(["price"] if priced else []))
    rows = (
        (
            _name(step.partition, more=f"{step.reason}; {step.tier}, by {step.method}: {step.method_reason}"),
            *_numbers(len(step.files), step.predicted_files, short_size(step.bytes)),
            *_numbers(format_seconds(step.gain.scan_seconds), format_seconds(step.cost.seconds.likely)),
            *(_numbers(format_money(step.cost.money.likely, currency)) if priced else ()),
        )
        for step in steps[:_MOST_ROWS]
    )
    rest = steps[_MOST_ROWS:]
    read = plural(sum(len(step.files) for step in rest), "file")
    more = f"And {plural(len(rest), 'group')} more: {read} ({short_size(sum(step.bytes for step in rest))})."
    return joined(_table("Groups", columns, rows), tag("p", more, class_="soft") if rest else None)


def _left_out(entries: Sequence[LeftOut]) -> Markup:
    """By reason: thousands of partitions may have the same."""
    by_reason: dict[str, list[LeftOut]] = {}
    for entry in entries:
        by_reason.setdefault(entry.reason, []).append(entry)
    found = sorted(by_reason.items(), key=lambda item: (-len(item[1]), item[0]))
    rows = (
        (
            tag("td", _short(reason, _LONGEST_REASON), class_="why"),
            *_numbers(sum(e.files for e in some), short_size(sum(e.bytes for e in some))),
            _name(_named(some)),
        )
        for reason, some in found[:_MOST_ROWS]
    )
    more = len(found) - _MOST_ROWS
    return joined(
        _table("Left out", ("why", "files", "size", "partitions"), rows),
        tag("p", f"And {plural(more, 'reason')} more.", class_="soft") if more > 0 else None,
    )


def _named(entries: Sequence[LeftOut]) -> str:
    names = list(dict.fromkeys(entry.partition for entry in entries))
    if len(names) == 1:
        return names[0]
    return f"{len(names):,}: {_short(names[0], 40)} to {_short(names[-1], 40)}"


# -- pieces ---------------------------------------------------------------------------------------


def _table(caption: str | None, columns: Sequence[str], rows: Iterator[tuple[Markup, ...]]) -> Markup:
    numbers = {"score", "priority", "files", "small", "average", "delete records", "becomes", "size", "records"}
    numbers |= {"saves a scan", "work", "price"}
    head = (tag("th", name, scope="col", class_="n" if name in numbers else None) for name in columns)
    table = tag(
        "table",
        tag("caption", caption) if caption else None,
        tag("thead", tag("tr", *head)),
        tag("tbody", *(tag("tr", *map(_labelled, columns, cells)) for cells in rows)),
    )
    return tag("div", table, class_="wide", tabindex=0)


def _labelled(column: str, cell: Markup) -> Markup:
    """A cell that knows its column: where there is no room for a head, it stands before the value."""
    return Markup(cell.replace("<td", f'<td data-label="{text(column)}"', 1))


def _numbers(*values: int | str) -> tuple[Markup, ...]:
    shown = (f"{value:,}" if isinstance(value, int) else value for value in values)
    return tuple(tag("td", value, class_="n") for value in shown)


def _name(name: str, *, before: Markup | None = None, more: str | None = None) -> Markup:
    """A cell with a name, on one line unless it is too long for that, and more about it below."""
    below = None if more is None else tag("small", _short(more, _LONGEST_REASON))
    return tag("td", before, _short(name), below, class_="name" if len(name) <= _ONE_LINE else "name long")


def _short(name: str, most: int = _LONGEST_NAME) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
