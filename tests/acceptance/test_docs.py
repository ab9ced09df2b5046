"""The documentation is true: options, commands, flags, links and examples are checked against the code.

A block runs if the comment `<!-- runs -->` stands before it: Python as it is, shell line by line through the
entry points, all in one process with one Spark. Each page has a folder and variables of its own. YAML behind
`<!-- checks -->` must be a valid configuration, YAML and JSON behind `<!-- policies -->` a valid policy file.
"""

import contextlib
import io
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer
import yaml

from icepact.entrypoints.cli import main as cli
from icepact.iceberg.catalogs import choose_catalog
from icepact.model.amoro import AMORO_PREFIX, SHARE, TRANSLATED
from icepact.model.config import Config
from icepact.model.policies import BUILT_IN, CARRIED, PROFILES
from icepact.model.policy import LARGE_OF_TARGET, SMALL_OF_TARGET, Options, resolve
from icepact.model.policy_documents import Profile, Standing
from icepact.model.policy_file import parse_policies
from icepact.model.sizes import parse_size

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
TOP = [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")]
PAGES = [*TOP, *sorted(DOCS.rglob("*.md"))]

_BLOCK = re.compile(r"^<!-- (runs|checks|policies)(?:: \w+)? -->\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_FILE = re.compile(
    r"`((?:src|tests|docs|bench|scripts|\.ci)/[\w./-]+|[\w.-]+\.(?:md|toml|txt)|\.importlinter)(?:::(\w+))?`"
)


class Block(NamedTuple):
    """One example."""

    page: str
    mark: str
    language: str
    text: str


def _blocks() -> list[Block]:
    return [
        Block(str(page.relative_to(ROOT)), match[1], match[2], match[3])
        for page in PAGES
        for match in _BLOCK.finditer(page.read_text())
    ]


def _ids(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


# -- options ------------------------------------------------------------------------------------------


def _option_rows() -> dict[str, list[str]]:
    text = (DOCS / "policies.md").read_text().split("<!-- options -->")[1].split("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.strip().splitlines()[2:]]
    return {row[0].strip("`"): row[1:] for row in rows}


def test_the_options_table_has_exactly_the_options() -> None:
    assert list(_option_rows()) == list(Options.model_fields)


@pytest.mark.parametrize("name", list(Options.model_fields))
def test_an_option_is_documented_as_it_is(name: str) -> None:
    default, flag, table_property, key, meaning = _option_rows()[name]
    dashed = name.replace("_", "-")
    assert table_property == f"`icepact.{dashed}`"
    assert key == f"`policy.{name}`"
    assert flag == (f"`--{dashed}`" if f"--{dashed}" in _flags_of("compact") else "none")
    assert meaning
    assert _documented(default, name) == _real_default(name)


def _real_default(name: str) -> Any:
    shares = {"min_file_size": SMALL_OF_TARGET, "max_file_size": LARGE_OF_TARGET}
    return shares.get(name, getattr(resolve(Options(), {}, Options()), name))


def _documented(default: str, name: str) -> Any:
    """What a cell of the table says: the last word in backquotes, typed as the option is."""
    if default == "none":
        return None
    word = re.findall(r"`([^`]+)`", default)[-1]
    if default.endswith("x target"):
        return float(word)
    if name in {"target_file_size", "max_group_size"}:
        return parse_size(word)
    return getattr(Options.model_validate({name: word}), name)


def test_every_option_is_in_the_full_example_except_those_of_one_table() -> None:
    full = next(b for b in _blocks() if b.page == "docs/configuration.md" and b.mark == "checks")
    of_one_table = {"where", "partition", "snapshot_id"}
    assert {*yaml.safe_load(full.text)["policy"]} == set(Options.model_fields) - of_one_table


@pytest.mark.parametrize("block", [b for b in _blocks() if b.mark == "checks"], ids=lambda b: b.text.split(":")[0])
def test_a_yaml_example_is_a_valid_configuration(block: Block) -> None:
    config = Config.model_validate(yaml.safe_load(block.text))
    if config.catalogs:
        assert choose_catalog(config).name == "prod"


@pytest.mark.parametrize("block", [b for b in _blocks() if b.mark == "policies"], ids=lambda b: b.text.split()[0])
def test_an_example_of_policies_is_a_valid_file(block: Block) -> None:
    assert parse_policies(block.text, block.page).levels("prod", ("db", "events"))


def _table_of(page: str, heading: str) -> list[list[str]]:
    section = (DOCS / page).read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("| `")]
    return [[cell.strip().strip("`") for cell in row] for row in rows]


def test_profiles_and_built_in_policies_are_documented_as_they_are() -> None:
    profiles = {
        Profile(name): {"check_interval": int(n), "min_input_files": int(m)}
        for name, n, m in _table_of("policies.md", "Profiles")
    }
    assert profiles == PROFILES
    assert [name for name, _ in _table_of("policies.md", "Named policies")] == list(BUILT_IN)


def test_amoros_properties_are_documented_as_they_are_translated() -> None:
    told = {
        key.removeprefix(AMORO_PREFIX): option.split("`")[0]
        for key, option in _table_of("policies.md", "Amoro's properties")
    }
    assert told == {**TRANSLATED, SHARE: "min_file_size"}


def test_every_key_beyond_one_run_is_documented() -> None:
    told = {row[0]: row[1] for row in _table_of("policies.md", "Options") if len(row) == 3}
    assert set(told) == {*Standing.model_fields, "suspend"}
    assert {key: name for name, key in told.items() if key != "none"} == CARRIED


# -- commands -----------------------------------------------------------------------------------------


def _commands() -> dict[str, Any]:
    app: Any = typer.main.get_command(cli.app)
    found = {}
    for name, command in app.commands.items():
        inner = {f"{name} {word}": below for word, below in getattr(command, "commands", {}).items()}
        found |= {word: below for word, below in (inner or {name: command}).items() if not below.hidden}
    return found


def _flags(command: Any) -> set[str]:
    return {word for p in command.params for word in (*p.opts, *p.secondary_opts) if word.startswith("-")}


def _flags_of(command: str) -> set[str]:
    return _flags(_commands()[command])


def _section(title: str) -> str:
    text = (DOCS / "cli.md").read_text()
    return text.split(f"\n## {title}\n")[1].split("\n## ")[0]


def _flags_in(section: str) -> set[str]:
    """Flags in the first column of the section's tables."""
    first = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")]
    return {flag for cell in first for flag in re.findall(r"`(--?[a-z][a-z-]*)`", cell)}


def test_every_command_has_a_section_and_every_section_a_command() -> None:
    titles = re.findall(r"^## `icepact ([\w ]+)`$", (DOCS / "cli.md").read_text(), re.MULTILINE)
    assert titles == list(_commands())


@pytest.mark.parametrize("name", list(_commands()))
def test_a_section_lists_exactly_the_flags_of_its_command(name: str) -> None:
    assert _flags_in(_section(f"`icepact {name}`")) == _flags_of(name) | {"--help"}


def test_the_global_flags_are_listed() -> None:
    assert _flags_in(_section("Global options")) == _flags(typer.main.get_command(cli.app)) | {"--help"}


def test_every_variable_is_listed_and_every_listed_one_is_read() -> None:
    listed = set(re.findall(r"`(ICEPACT_[A-Z_]+)`", (DOCS / "configuration.md").read_text()))
    fields = {name for name in Config.model_fields if name not in {"catalogs", "spark", "policy", "budgets"}}
    assert listed == {f"ICEPACT_{name.upper()}" for name in (*fields, "config")}


# -- links --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=_ids(PAGES))
def test_links_and_named_files_exist(page: Path) -> None:
    text = _FENCE.sub("", page.read_text())
    for link in _LINK.findall(text):
        assert "://" not in link, f"{link} leads out of the repository"
        target, _, anchor = link.partition("#")
        file = (page.parent / target).resolve() if target else page
        assert file.is_file(), link
        assert not anchor or anchor in set(_anchors(file)), link
    for name, test in _FILE.findall(text):
        assert (ROOT / name).exists() or (page.parent / name).exists(), name
        assert not test or f"def {test}(" in (ROOT / name).read_text(), f"{name}::{test}"


def _anchors(page: Path) -> Iterator[str]:
    for heading in re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text()), re.MULTILINE):
        yield re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    assert (tmp_path / "site" / "pictures" / "architecture.svg").is_file()
    home = (tmp_path / "site" / "index.html").read_text()
    assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?:', home), "the pages must work offline"


# -- examples -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """All examples, run in one process of their own."""
    folder = tmp_path_factory.mktemp("examples")
    script = folder / "blocks.json"
    script.write_text(json.dumps([block for block in _blocks() if block.mark == "runs"]))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ICEPACT_")}
    done = subprocess.run(
        [sys.executable, __file__, str(script)],
        cwd=folder,
        env={**environment, "XDG_STATE_HOME": str(folder / "state")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    answer: dict[str, Any] = json.loads((folder / "answer.json").read_text())
    return answer


def test_every_example_runs(played: dict[str, Any]) -> None:
    expected = [[b.page, b.language] for b in _blocks() if b.mark == "runs"]
    assert [[page, language] for page, language, _ in played["ran"]] == expected


def test_the_examples_compact_what_they_say(played: dict[str, Any]) -> None:
    said = {page: "".join(out for where, _, out in played["ran"] if where == page) for page, _, _ in played["ran"]}
    assert "committed 12 -> 2" in said["README.md"]
    assert "12 -> 2 data files: 12 files" in said["docs/quickstart.md"]
    assert "nothing was written since the run that made snapshot" in said["docs/quickstart.md"]
    assert "day=2026-03-01 committed" in said["docs/library.md"]
    assert "no table shop.returns" in said["docs/library.md"]


@pytest.mark.parametrize("document", ["health", "plan", "compact", "runs", "costs", "cleanup", "fleet"])
def test_every_json_field_is_documented(played: dict[str, Any], document: str) -> None:
    text = (DOCS / "cli.md").read_text().split(f"\n### {document}\n")[1].split("\n### ")[0]
    missing = [name for name in played["fields"][document] if f"`{name}`" not in text]
    assert missing == []


_ABOUT_ORDERS = frozenset(
    f"docs/{page}.md" for page in ("budgets", "cli", "configuration", "fleet", "plans", "policies")
)


def _play(script: Path) -> None:
    """In the subprocess: run the blocks, note what they print, and the fields of every JSON document."""
    ran: list[tuple[str, str, str]] = []
    fields: dict[str, list[str]] = {}
    variables: dict[str, dict[str, Any]] = {}
    home = Path.cwd()
    for page, _, language, text in json.loads(script.read_text()):
        folder = home / Path(page).stem
        folder.mkdir(exist_ok=True)
        os.chdir(folder)
        if page not in variables:
            variables[page] = {}
            if page in _ABOUT_ORDERS:
                _make_orders()
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            if language == "python":
                exec(compile(text, f"{page} (example)", "exec"), variables[page])
            elif language == "sql":
                _compactor().spark.sql(text)
            else:
                for line in text.strip().splitlines():
                    _shell(line, fields)
        ran.append((page, language, out.getvalue()))
    fields["compact"] = sorted(_names(_compactor().compact("shop.orders", rewrite_all=True).to_dict(), {"methods"}))
    (home / "answer.json").write_text(json.dumps({"ran": ran, "fields": fields}))


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


def _shell(line: str, fields: dict[str, list[str]]) -> None:
    """One command line, through the entry point it names; every example must end well."""
    sys.argv = shlex.split(line, comments=True)
    run = {"icepact": cli.run, "iceberg-compact": cli.run_alias}[sys.argv[0]]
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as end:
        run()
    assert end.value.code == 0, f"{line}: {end.value.code} {out.getvalue()}"
    print(out.getvalue())
    if "--json" in sys.argv:
        fields[sys.argv[1]] = sorted(_names(json.loads(out.getvalue()), {"outcome", "methods", "policy"}))


def _names(document: Any, opaque: set[str]) -> set[str]:
    """All field names in a document; what is below an opaque one is told elsewhere."""
    if isinstance(document, list):
        return set().union(*(_names(item, opaque) for item in document)) if document else set()
    if not isinstance(document, dict):
        return set()
    inner = [_names(value, opaque) for key, value in document.items() if key not in opaque]
    return set(document).union(*inner)


if __name__ == "__main__":
    _play(Path(sys.argv[1]))
