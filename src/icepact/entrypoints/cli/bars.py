"""A plan drawn at the terminal: sizes of files before and after, and what becomes of each partition."""

from dataclasses import dataclass
from typing import NamedTuple, assert_never

from rich.markup import escape
from rich.table import Table

from icepact.entrypoints.cli.svg import short_size
from icepact.model.formatting import format_seconds
from icepact.model.plan import Plan, RewriteFiles

SHOWN_PARTITIONS = 12
_LONGEST = 28
"""Characters of the longest bar, where there is room for it."""
_SHORTEST = 6
_BESIDE_SIZES = 52
_BESIDE_PARTITIONS = 34
"""Characters of the other columns."""


class Ink(NamedTuple):
    """What bars are drawn with."""

    full: str
    gone: str
    rest: str


BLOCKS = Ink("█", "░", "▒")
LETTERS = Ink("#", "-", "=")
"""For terminals that know no other."""


def size_bars(plan: Plan, ink: Ink, width: int) -> Table:
    """How many files there are of each size, now and after the plan."""
    before = {c.at_least: c.files for c in plan.sizes_before.classes}
    after = {c.at_least: c.files for c in plan.sizes_after.classes}
    most = max([1, *before.values(), *after.values()])
    longest = max(_SHORTEST, min(_LONGEST, (width - _BESIDE_SIZES) // 2))
    table = _table("file size", "now", "", "after", "", "")
    policy = plan.policy
    for at_least in _doubling(min({*before, *after}, default=1), max({*before, *after}, default=0)):
        said = [
            *(["small"] if 2 * at_least <= policy.min_file_size else []),
            *(["target"] if at_least <= policy.target_file_size < 2 * at_least else []),
        ]
        now, then = before.get(at_least, 0), after.get(at_least, 0)
        table.add_row(
            f"{short_size(at_least)} to {short_size(2 * at_least)}",
            *(
                f"{now:,}",
                _bar(now, most, longest, ink.full, "cyan"),
                f"{then:,}",
                _bar(then, most, longest, ink.full, "green"),
            ),
            f"[dim]{', '.join(said)}[/dim]",
        )
    return table


@dataclass(slots=True)
class _Becomes:
    """What becomes of the files of one partition."""

    inputs: int = 0
    outputs: int = 0
    stay: int = 0
    seconds: float = 0.0
    """That every scan of it saves."""


def partition_bars(plan: Plan, ink: Ink, width: int) -> Table:
    """Partitions in which something is done, most files saved first."""
    found: dict[str, _Becomes] = {}
    for step in plan.rewrites:
        match step:
            case RewriteFiles():
                one = found.setdefault(step.partition, _Becomes())
                one.inputs += len(step.files)
                one.outputs += step.predicted_files
                one.seconds += step.gain.scan_seconds
            case _:
                assert_never(step)
    for entry in plan.left_out:
        if entry.partition in found:
            found[entry.partition].stay += entry.files
    order = sorted(found.items(), key=lambda item: (item[1].outputs - item[1].inputs, item[0]))
    most = max([1, *(one.inputs + one.stay for one in found.values())])
    new, gone, rest = (ink.full, "green"), (ink.gone, "red"), (ink.rest, "dim")
    widest = max((len(name) for name, _ in order[:SHOWN_PARTITIONS]), default=0)
    longest = max(_SHORTEST, min(_LONGEST, width - widest - _BESIDE_PARTITIONS))
    table = _table("partition", "files", "", "saves a scan")
    for name, one in order[:SHOWN_PARTITIONS]:
        bar = "".join(
            _bar(count, most, longest, *how)
            for count, how in ((one.outputs, new), (one.inputs - one.outputs, gone), (one.stay, rest))
        )
        count = f"{one.inputs + one.stay:,} -> {one.outputs + one.stay:,}"
        table.add_row(escape(name), count, bar, format_seconds(one.seconds))
    if len(order) > SHOWN_PARTITIONS:
        table.add_row(f"[dim]... and {len(order) - SHOWN_PARTITIONS} more[/dim]", "", "", "")
    table.caption = f"{ink.full} new files   {ink.gone} files fewer   {ink.rest} left alone"
    table.caption_justify = "left"
    return table


def _doubling(first: int, last: int) -> list[int]:
    found = []
    while first <= last:
        found.append(first)
        first *= 2
    return found


def _bar(count: int, most: int, longest: int, ink: str, color: str) -> str:
    """As long as its share; anything at all is seen."""
    length = max(1, round(longest * count / most)) if count > 0 else 0
    return f"[{color}]{ink * length}[/{color}]" if length else ""


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(
            column, justify="left" if number == 0 or not column else "right", no_wrap=number != 0, overflow="fold"
        )
    return table
