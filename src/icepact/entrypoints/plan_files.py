"""Plans in files: written for review, and read back to be carried out."""

from datetime import UTC, datetime
from importlib.metadata import version
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from icepact.entrypoints.outputs import file_to_write, write_file
from icepact.entrypoints.wiring import read_text

if TYPE_CHECKING:
    from icepact.model.plan import Plan
    from icepact.model.saved import SavedPlan


def save_plan(plan: "Plan", path: str | PathLike[str]) -> None:
    """Write a plan into a file, whole or not at all; one that is there already is overwritten."""
    from icepact.model.saved import SavedPlan, saved_text

    saved = SavedPlan(plan=plan, made_at=datetime.now(UTC), icepact=version("icepact"))
    write_file(file_to_write(path), saved_text(saved))


def load_plan(path: str | PathLike[str]) -> "SavedPlan":
    """A plan from a file."""
    from icepact.model.saved import parse_saved

    return parse_saved(read_text(Path(path), "plan"), str(path))
