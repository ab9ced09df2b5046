"""Charts of the report as inline SVG: how sizes are spread, how snapshots went, how good a score is."""

import math
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby

from icepact.entrypoints.cli.markup import Markup, joined, tag
from icepact.model.formatting import format_size, plural
from icepact.model.histogram import Histogram
from icepact.model.snapshot import SnapshotInfo

_WIDTH = 760.0
_LEFT, _RIGHT = 90.0, 14.0
_MOST_LABELS = 12
"""Along an axis; more would run into each other."""
_GRADES = (50, 65, 80, 95)
"""Scores from which on a partition is a grade better."""


def grade(score: float) -> int:
    """0 (bad) to 4 (good): what scores are coloured by."""
    return sum(score >= limit for limit in _GRADES)


def grade_names() -> list[str]:
    """What each grade means, from 0 on."""
    limits = (0, *_GRADES, 100)
    return [f"{limits[n]} to {limits[n + 1]}" for n in range(len(_GRADES) + 1)]


def short_size(size: float) -> str:
    """A size without digits that say nothing: `16 MB`."""
    return format_size(size).replace(".0 ", " ")


# -- the score ------------------------------------------------------------------------------------


def gauge(score: float) -> Markup:
    """A ring that is as full as the score is good."""
    around = 2 * math.pi * 50
    ring = {"cx": 60, "cy": 60, "r": 50, "fill": "none", "stroke_width": 11}
    return tag(
        "svg",
        tag("circle", class_="track", **ring),
        tag(
            "circle",
            class_=f"r{grade(score)}",
            stroke_dasharray=f"{around * score / 100:.2f} {around:.2f}",
            transform="rotate(-90 60 60)",
            **ring,
        ),
        tag("text", f"{score:.3g}", x=60, y=67, class_="number"),
        tag("text", "of 100", x=60, y=84, class_="of"),
        viewBox="0 0 120 120",
        class_="gauge",
        role="img",
        aria_label=f"Health score {score:g} of 100",
    )


# -- sizes ----------------------------------------------------------------------------------------

_TOP, _HEIGHT, _FOOT = 50.0, 190.0, 50.0


def size_chart(before: Histogram, after: Histogram | None, threshold: int, target: int) -> Markup:
    """Files by size, now and as predicted, with the small-file threshold and the target size marked."""
    exponents = [int(math.log2(c.at_least)) for h in (before, after) if h for c in h.classes]
    exponents += [int(math.log2(threshold)), int(math.log2(target))]
    first, count = min(exponents), max(exponents) - min(exponents) + 1
    width = (_WIDTH - _LEFT - _RIGHT) / count
    most = max((c.files for h in (before, after) if h for c in h.classes), default=0)

    def x_of(size: float) -> float:
        return _LEFT + (math.log2(size) - first) * width

    parts = [*_grid(most, _TOP, _HEIGHT)]
    series = [(before, "before", "now"), *([(after, "after", "after the plan")] if after else [])]
    for number, (histogram, css, when) in enumerate(series):
        for c in histogram.classes:
            if c.files:
                size = f"{short_size(c.at_least)} to {short_size(c.below)}"
                title = f"{plural(c.files, 'file')} of {size} {when}, {short_size(c.bytes)} together"
                height = max(1.5, _HEIGHT * c.files / most)
                bar = (width - min(8.0, width / 4)) / len(series)
                x = x_of(c.at_least) + min(4.0, width / 8) + number * bar
                y = _TOP + _HEIGHT - height
                box = {"x": x, "y": y, "width": max(1.0, bar - 1), "height": height}
                bad = " small" if css == "before" and c.below <= threshold else ""
                parts.append(tag("rect", tag("title", title), class_=css + bad, **box))
    every = math.ceil((count + 1) / _MOST_LABELS)
    for number in range(0, count + 1, every):
        css = ("end" if number == count else "middle") + (" sparse" if number // every % 2 else "")
        label = short_size(2.0 ** (first + number))
        parts.append(tag("text", label, x=_LEFT + number * width, y=_TOP + _HEIGHT + 20, class_=css))
    # the threshold is the lower one, in both senses: neither line goes through the other's words
    parts.append(_mark(x_of(threshold), 36, f"small below {short_size(threshold)}", before=x_of(threshold) > 260))
    parts.append(_mark(x_of(target), 16, f"target {short_size(target)}", before=x_of(target) > _WIDTH / 2))
    middle = _LEFT + (_WIDTH - _LEFT - _RIGHT) / 2
    parts.append(tag("text", "size of a data file", x=middle, y=_TOP + _HEIGHT + 42, class_="middle"))
    small = sum(c.files for c in before.classes if c.below <= threshold)
    label = f"{plural(before.files, 'data file')} by size, {small:,} of them well below {short_size(threshold)}"
    return _chart(joined(*parts), _TOP + _HEIGHT + _FOOT, label)


def _mark(x: float, y: float, label: str, *, before: bool) -> Markup:
    return joined(
        tag("line", x1=x, x2=x, y1=y - 11, y2=_TOP + _HEIGHT, class_="mark"),
        tag("text", label, x=x - 6 if before else x + 6, y=y, class_="marked end" if before else "marked"),
    )


def _grid(most: int, top: float, height: float, show: str = "") -> Iterator[Markup]:
    """The floor, the ceiling, and what they stand for."""
    for share in (0, 1):
        y = top + height * (1 - share)
        number = most * share
        label = short_size(number) if show == "bytes" else f"{number:,}"
        yield tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="axis")
        if share == 0 or most:
            yield tag("text", label, x=_LEFT - 8, y=y + 4, class_="end")


def _chart(inside: Markup, height: float, label: str) -> Markup:
    box = f"0 0 {_WIDTH:g} {height:g}"
    chart = tag("svg", inside, viewBox=box, class_="chart", role="img", aria_label=label)
    return tag("div", chart, class_="wide", tabindex=0)


# -- snapshots ------------------------------------------------------------------------------------

_ROW, _ROW_HEIGHT = 112.0, 66.0
_ROWS = (("data_files", "data files"), ("delete_files", "delete files"), ("bytes", "bytes"))


def timeline_chart(timeline: Sequence[SnapshotInfo]) -> Markup:
    """Data files, delete files and bytes after each snapshot, each with a scale of its own."""
    begin, end = min(moment.at for moment in timeline), max(moment.at for moment in timeline)
    span = (end - begin) / timedelta(seconds=1)
    inner = _WIDTH - _LEFT - _RIGHT

    def x_of(at: datetime) -> float:
        return _LEFT + inner * ((at - begin) / timedelta(seconds=1) / span if span > 0 else 0.5)

    parts: list[Markup] = []
    for number, (name, title) in enumerate(_ROWS):
        values = [(x_of(m.at), getattr(m, name), m) for m in timeline]
        parts.append(_steps(values, title, 26 + number * _ROW, in_bytes=name == "bytes"))
    bottom = len(_ROWS) * _ROW + 10
    shape = "%Y-%m-%d" if span > 3 * 86400 else "%Y-%m-%d %H:%M" if span > 3600 else "%Y-%m-%d %H:%M:%S"
    for at, css in ((begin, ""), (end, "end")) if span > 0 else ((begin, "middle"),):
        parts.append(tag("text", f"{at:{shape}}", x=x_of(at), y=bottom, class_=css))
    label = f"{plural(len(timeline), 'snapshot')} from {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M} UTC"
    return _chart(joined(*parts), bottom + 12, label)


def _steps(
    values: Sequence[tuple[float, int | None, SnapshotInfo]], title: str, top: float, *, in_bytes: bool
) -> Markup:
    """One line of steps; it is broken where a snapshot does not tell."""
    most = max((value for _, value, _ in values if value is not None), default=0)
    floor = top + _ROW_HEIGHT

    def height(value: int) -> float:
        return floor - _ROW_HEIGHT * value / most if most else floor

    parts = [*_grid(most, top, _ROW_HEIGHT, "bytes" if in_bytes else "")]
    parts.append(tag("text", title, x=_LEFT, y=top - 9, class_="name"))
    for known, run in groupby(values, key=lambda entry: entry[1] is not None):
        points = [(x, height(value)) for x, value, _ in run if value is not None]
        if known:
            line = f"M{points[0][0]:.1f} {points[0][1]:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in points[1:])
            area = f"{line}V{floor:.1f}H{points[0][0]:.1f}Z"
            parts += [tag("path", d=area, class_="area"), tag("path", d=line, class_="step")]
    dots = [entry for entry in values if entry[1] is not None]
    for x, value, moment in sorted(dots, key=lambda entry: entry[2].operation == "replace"):
        shown = short_size(value or 0) if in_bytes else f"{value:,}"
        what = f"{moment.at:%Y-%m-%d %H:%M:%S} UTC, {moment.operation or 'snapshot'}: {title} {shown}"
        replaced = moment.operation == "replace"
        css, radius = ("replace", 4.5) if replaced else ("dot", 2.2)
        parts.append(tag("circle", tag("title", what), cx=x, cy=height(value or 0), r=radius, class_=css))
    return joined(*parts)
