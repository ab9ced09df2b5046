"""Published figures: written from what is kept, each with the commit that it was measured at."""

import json
import subprocess
from pathlib import Path

from bench.__main__ import LISTED
from bench.code import CHANGED, code
from bench.encoding import RESULTS as PROFILE
from bench.result import KEPT, Result, keep, kept_results
from bench.rewrite.page import PAGE, README, write_pages
from bench.rewrite.results import RESULTS, load

ROOT = Path(__file__).parents[2]


def test_the_pages_are_what_the_benchmark_writes(tmp_path: Path) -> None:
    """Nobody typed a figure, and none is left from before."""
    page, readme = tmp_path / PAGE.name, tmp_path / README.name
    readme.write_text(README.read_text())
    write_pages(RESULTS, LISTED, page, readme)
    assert readme.read_text() == README.read_text(), "run `python -m bench docs`"
    assert page.read_text() == PAGE.read_text(), "run `python -m bench docs`"


def _commits() -> dict[str, str]:
    rewrites = {f"{m.workload} at scale {m.scale:g}": m.environment.commit for m in load(RESULTS)}
    return {
        **rewrites,
        **{result.what: result.commit for result in kept_results(KEPT)},
        "encoding": json.loads(PROFILE.read_text())["commit"],
    }


def test_every_figure_names_a_commit_of_this_history() -> None:
    commits = _commits()
    assert all(commits.values()), commits
    if (ROOT / ".git").exists() and _git("rev-parse", "--is-shallow-repository") == "false":
        known = {commit[:7] for commit in _git("rev-list", "HEAD").split()}
        assert {commit.removesuffix(CHANGED) for commit in commits.values()} <= known


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def test_a_figure_that_is_kept_gets_its_commit_and_replaces_the_older_one(tmp_path: Path) -> None:
    kept = tmp_path / "figures.json"
    old = Result("a", 3.0, "s", 2.0, "one round", commit="0123456")
    kept.write_text(json.dumps([old._asdict(), old._replace(what="b")._asdict()]))
    keep([Result("a", 1.0, "s", None, "two rounds", headline=True)], kept)
    new = Result("a", 1.0, "s", None, "two rounds", headline=True, commit=code())
    assert kept_results(kept) == [new, old._replace(what="b")]
    assert code().removesuffix(CHANGED)
