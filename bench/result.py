"""What a benchmark answers, and the figures that are kept for the pages."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench import code

KEPT = Path(__file__).parent / "figures.json"


class Result(NamedTuple):
    """One figure and the bar it should stay under, if it has one."""

    what: str
    value: float
    unit: str
    bar: float | None
    detail: str
    headline: bool = False
    """Whether it is told in the README."""
    commit: str = ""
    """What it was measured on, once it is kept; figures older than this field name the commit that brought them."""

    @property
    def verdict(self) -> str:
        """Whether the bar is met."""
        return "" if self.bar is None else "met" if self.value <= self.bar else "MISSED"


def keep(results: Sequence[Result], path: Path = KEPT) -> None:
    """Put figures in the place of older ones of the same name."""
    measured = [result._replace(commit=code.code()) for result in results]
    kept = {result.what: result for result in [*kept_results(path), *measured]}
    path.write_text(json.dumps([result._asdict() for result in kept.values()], indent=1) + "\n")


def kept_results(path: Path = KEPT) -> list[Result]:
    """What is kept."""
    return [Result(**told) for told in json.loads(path.read_text())] if path.is_file() else []


def as_markdown(results: Sequence[Result]) -> str:
    """Figures as a table."""
    if not results:
        return "Nothing has been measured yet."
    lines = [
        f"| {r.what} | {f'{r.value:,.2f} {r.unit}'.strip()} | {'' if r.bar is None else f'{r.bar:g}'} | {r.verdict} "
        f"| {r.detail} | {code.as_markdown(r.commit)} |"
        for r in results
    ]
    return "\n".join(["| | | at most | | how | commit |", "|---|---|---|---|---|---|", *lines])
