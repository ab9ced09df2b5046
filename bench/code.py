"""Which code a figure was measured on, or a trial was made with."""

import subprocess
from functools import cache
from pathlib import Path

CHANGED = "+"
"""Behind a commit if what was measured is not what was committed."""


@cache
def code() -> str:
    """The commit that this process runs; empty if that is not known."""
    root = Path(__file__).parents[1]
    try:
        head = _git(root, "rev-parse", "--short=7", "HEAD")
        return head + (CHANGED if _git(root, "status", "--porcelain", "--", "src") else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout.strip()


def as_markdown(commit: str) -> str:
    """For a page."""
    return f"`{commit}`" if commit else "not known"
