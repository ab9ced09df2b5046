"""The pages, their examples, and what these print when they are run.

A block runs if the comment `<!-- runs -->` stands before it: Python as it is, shell line by line through the entry
points, all in one process with one Spark. Each page has a folder and variables of its own, but for the README and the
quickstart, which share a folder as they do with whoever follows them. Text behind `<!-- prints -->` is what the last
block before it printed; lines that begin with `$` name the command whose output follows. A line `...` stands for any
lines. YAML behind `<!-- checks -->` must be a valid configuration, YAML and JSON behind `<!-- policies -->` a valid
policy file.
"""

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from icepact.entrypoints.cli import main as cli

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TOP = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
PAGES = [*TOP, *sorted(DOCS.rglob("*.md"))]
FIRST_STEPS = ("README.md", "docs/quickstart.md")
COLUMNS = "100"
"""Of the terminal that samples are made for."""
_ABOUT_ORDERS = frozenset(
    f"docs/{page}.md"
    for page in (
        "api",
        "security",
        "budgets",
        "cli",
        "configuration",
        "deletes",
        "fleet",
        "housekeeping",
        "plans",
        "policies",
    )
)
_SERVED = ("docs/api.md", "docs/security.md")
"""Their examples ask a service that is there."""
_BLOCK = re.compile(
    r"^<!-- (runs|checks|policies|prints)(?:: \w+)? -->\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


class Block(NamedTuple):
    """One example."""

    page: str
    mark: str
    language: str
    text: str


class Ran(NamedTuple):
    """One example, and what it printed."""

    page: str
    language: str
    parts: list[list[str]]
    """Pairs of a command and its output; Python is one command without a name."""

    @property
    def out(self) -> str:
        """All of it."""
        return "".join(out for _, out in self.parts)


class Played(NamedTuple):
    """All examples, run in one process of their own."""

    ran: list[Ran]
    """In the order of the pages."""
    again: str
    """What the README's Python printed when it was run once more, after the quickstart."""
    fields: dict[str, list[str]]
    """Names in the JSON documents of commands."""


def blocks(*marks: str) -> list[Block]:
    """Examples with one of these marks."""
    return [
        Block(str(page.relative_to(ROOT)), match[1], match[2], match[3])
        for page in PAGES
        for match in _BLOCK.finditer(page.read_text())
        if match[1] in marks
    ]


def play(folder: Path) -> Played:
    """Run all examples in a process of its own."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ICEPACT_")}
    done = subprocess.run(
        [sys.executable, "-m", __name__],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT), "XDG_STATE_HOME": str(folder / "state"), "COLUMNS": COLUMNS},
        capture_output=True,
        text=True,
        timeout=1500,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    ran, again, fields = json.loads((folder / "answer.json").read_text())
    return Played([Ran(*each) for each in ran], again, fields)


# -- in the process that plays ------------------------------------------------------------------------


class _Stage:
    """Where examples run."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._variables: dict[str, dict[str, Any]] = {}
        self._demo = ""
        self._service = contextlib.ExitStack()
        self._page = ""
        self.fields: dict[str, list[str]] = {}

    def enter(self, page: str) -> None:
        """Go to the page's folder; make what the page takes for granted."""
        folder = self._home / ("first" if page in FIRST_STEPS else Path(page).stem)
        folder.mkdir(exist_ok=True)
        os.chdir(folder)
        if page != self._page:
            self._service.close()
        if page not in self._variables:
            self._variables[page] = {}
            if page in _ABOUT_ORDERS:
                _make_orders()
        if page in _SERVED and page != self._page:
            self._service.enter_context(_served())
        self._page = page

    def run(self, page: str, language: str, text: str) -> list[list[str]]:
        """One example."""
        if language == "sh":
            return [[line, self._shell(line)] for line in text.strip().splitlines() if not line.startswith(". ")]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            if language == "python":
                exec(compile(text, f"{page} (example)", "exec"), self._variables[page])
            else:
                _compactor().spark.sql(text)
        return [["", out.getvalue()]]

    def _shell(self, line: str) -> str:
        """One command line, through the entry point it names; every example must end well."""
        words = shlex.split(line, comments=True)
        if words == ["make", "demo"]:  # after all else that make does, once
            self._demo = self._demo or self._shell("icepact demo")
            return self._demo
        program, *words = words
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = cli.run([*{"icepact": [], "iceberg-compact": ["compact"]}[program], *words])
        assert code == 0, f"{line}: {code} {out.getvalue()}"
        if "--json" in words:
            self.fields[words[0]] = sorted(_names(json.loads(out.getvalue()), {"outcome", "methods", "policy"}))
        return out.getvalue()


def _play(home: Path) -> None:
    stage = _Stage(home)
    ran: list[Ran] = []
    for page, _, language, text in blocks("runs"):
        stage.enter(page)
        ran.append(Ran(page, language, stage.run(page, language, text)))
    stage.enter("README.md")  # which ends what was served last
    example = next(b for b in blocks("runs") if b.page == "README.md" and b.language == "python")
    [[_, again]] = stage.run(example.page, example.language, example.text)
    document = _compactor().compact("shop.orders", rewrite_all=True).to_dict()
    fields = {**stage.fields, "compact": sorted(_names(document, {"methods"}))}
    (home / "answer.json").write_text(json.dumps(Played(ran, again, fields)))


@contextlib.contextmanager
def _served() -> Iterator[None]:
    """A service with a worker, over the warehouse of this folder."""
    from icepact.schedule.worker import Worker
    from tests.support.api import serving

    application = _compactor().application
    worker = Worker(application, application.store)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        with serving(application) as url:
            os.environ["ICEPACT_SERVER"] = url
            yield
    finally:
        os.environ.pop("ICEPACT_SERVER", None)
        worker.stop()
        thread.join()


def _compactor() -> Any:
    from icepact import Compactor

    return Compactor()


def _make_orders() -> None:
    """The table that pages speak of without making it."""
    spark = _compactor().spark
    spark.sql("CREATE NAMESPACE shop")
    spark.sql(
        "CREATE TABLE shop.orders (id bigint, day date) USING iceberg PARTITIONED BY (day)"
        " TBLPROPERTIES ('write.distribution-mode' = 'none')"
    )
    rows = spark.range(0, 60, 1, 6).selectExpr("id", "date_add(date '2026-03-01', cast(id % 2 as int)) AS day")
    rows.writeTo("shop.orders").option("fanout-enabled", "true").append()


def _names(document: Any, opaque: set[str]) -> set[str]:
    """All field names in a document; what is below an opaque one is told elsewhere."""
    if isinstance(document, list):
        return set().union(*(_names(item, opaque) for item in document)) if document else set()
    if not isinstance(document, dict):
        return set()
    inner = [_names(value, opaque) for key, value in document.items() if key not in opaque]
    return set(document).union(*inner)


if __name__ == "__main__":
    _play(Path.cwd())
