"""What a benchmark answers, and the figures that are kept for the page."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

KEPT = Path(__file__).parent / "figures.json"


class Result(NamedTuple):
    """One figure and the bar it should stay under, if it has one."""

    what: str
    value: float
    unit: str
    bar: float | None
    detail: str

    @property
    def verdict(self) -> str:
        """Whether the bar is met."""
        return "" if self.bar is None else "met" if self.value <= self.bar else "MISSED"


def keep(results: Sequence[Result], path: Path = KEPT) -> None:
    """Put figures in the place of older ones of the same name."""
    kept = {result.what: result for result in [*kept_results(path), *results]}
    path.write_text(json.dumps([result._asdict() for result in kept.values()], indent=1) + "\n")


def kept_results(path: Path = KEPT) -> list[Result]:
    """What is kept."""
    return [Result(**told) for told in json.loads(path.read_text())] if path.is_file() else []


def as_markdown(path: Path = KEPT) -> str:
    """What is kept, as a table."""
    lines = [
        f"| {r.what} | {r.value:,.2f} {r.unit} | {'' if r.bar is None else f'{r.bar:g}'} | {r.verdict} | {r.detail} |"
        for r in kept_results(path)
    ]
    return "\n".join(["| | | at most | | how |", "|---|---|---|---|---|", *lines])
