"""The documentation is true: options, commands, flags, links, examples and samples are checked against the code."""

import ast
import configparser
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from icepact import Compactor
from icepact.entrypoints.cli import main as cli
from icepact.iceberg.catalogs import choose_catalog
from icepact.iceberg.spark.jars import JARS
from icepact.model.policy import Policy
from icepact.policy.amoro import AMORO_PREFIX, SHARE, TRANSLATED
from icepact.policy.config import Config
from icepact.policy.file.documents import Profile, ScheduleOptions
from icepact.policy.file.parse import parse_policies
from icepact.policy.layers import BUILT_IN, CARRIED, PROFILES
from icepact.policy.options import Options
from icepact.policy.resolve import LARGE_OF_TARGET, SMALL_OF_TARGET, resolve
from icepact.policy.units import parse_size
from tests.acceptance.pages import DOCS, PAGES, ROOT, Block, Played, blocks, play
from tests.acceptance.samples import samples

pytestmark = pytest.mark.timeout(1800)  # all examples are run before the first of these tests that looks at them
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_FILE = re.compile(
    r"`((?:src|tests|docs|bench|scripts|\.ci)/[\w./-]+|[\w.-]+\.(?:md|toml|txt)|\.importlinter)(?:::(\w+))?`"
)


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
    full = next(b for b in blocks("checks") if b.page == "docs/configuration.md")
    of_one_table = {"where", "partition", "snapshot_id"}
    assert {*yaml.safe_load(full.text)["policy"]} == set(Options.model_fields) - of_one_table


@pytest.mark.parametrize("block", blocks("checks"), ids=lambda b: b.text.split(":")[0])
def test_a_yaml_example_is_a_valid_configuration(block: Block) -> None:
    config = Config.model_validate(yaml.safe_load(block.text))
    if config.catalogs:
        assert choose_catalog(config).name == "prod"


@pytest.mark.parametrize("block", blocks("policies"), ids=lambda b: b.text.split()[0])
def test_an_example_of_policies_is_a_valid_file(block: Block) -> None:
    assert parse_policies(block.text, block.page).layers("prod", ("db", "events"))


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
    assert set(told) == {*ScheduleOptions.model_fields, "suspend"}
    assert {key: name for name, key in told.items() if key != "none"} == CARRIED


def test_the_unit_waits_until_the_service_has_ended() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.read_string((DOCS / "deployment.md").read_text().split("<!-- unit -->\n```ini\n")[1].split("```")[0])
    said = unit["Service"]
    assert Path(said["ExecStart"]).name in {f"icepact {name}" for name in _commands()}
    assert said["KillMode"] == "mixed"
    assert float(said["TimeoutStopSec"]) >= Config().service.grace + 10


def test_the_exceptions_of_the_fingerprint_are_documented() -> None:
    [told] = re.findall(
        r"The fingerprint covers all options except (.*?)\.\n", (DOCS / "concepts.md").read_text(), re.DOTALL
    )
    before = resolve(Options(), {}, Options())
    assert set(re.findall(r"`(\w+)`", told)) == {name for name in Options.model_fields if not _shapes(name, before)}


def _shapes(name: str, policy: Policy) -> bool:
    """Whether another value of this option is another layout."""
    changed: dict[str, Any] = {name: "another"}
    return replace(policy, **changed).fingerprint != policy.fingerprint


def test_the_members_of_a_compactor_are_documented() -> None:
    table = (DOCS / "library.md").read_text().split("A compactor has these members:")[1].split("\n\n")[1]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    told = [word for cell in cells for word in re.findall(r"`(\w+)", cell)]
    assert sorted(told) == sorted(
        name for name in (*vars(Compactor), *Compactor.__annotations__) if not name.startswith("_")
    )


def test_every_room_of_maintain_is_in_the_architecture() -> None:
    text = (DOCS / "architecture.md").read_text()
    modules = [path for path in (ROOT / "src/icepact/maintain").glob("*.py") if path.stem != "__init__"]
    assert [path.stem for path in modules if f"`src/icepact/maintain/{path.name}` |" not in text] == []


def test_every_reason_for_spark_is_documented() -> None:
    """Whatever the kernel says when it leaves a unit to Spark."""
    section = (DOCS / "rewriting.md").read_text().split("## What falls back to `spark`")[1].split("\n## ")[0]
    said = [
        part.value.strip()
        for path in (ROOT / "src/icepact/execute").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)
        if isinstance(node.exc.func, ast.Name) and node.exc.func.id == "NotAssembled"
        for part in ast.walk(node.exc.args[0])
        if isinstance(part, ast.Constant) and isinstance(part.value, str) and len(part.value) > len(": named")
    ]
    assert len(said) > 10
    assert [words for words in said if words not in section] == []


# -- commands -----------------------------------------------------------------------------------------


def _commands() -> dict[str, Any]:
    app: Any = typer.main.get_command(cli.app)
    found: dict[str, Any] = {}
    for name, command in app.commands.items():
        inner = {f"{name} {word}": below for word, below in getattr(command, "commands", {}).items()}
        found |= {word: below for word, below in (inner or {name: command}).items() if not below.hidden}
    return found


def _flags(command: Any) -> set[str]:
    params = command.get_params(typer.Context(command))  # some are made when they are asked for
    return {word for p in params for word in (*p.opts, *p.secondary_opts) if word.startswith("-")}


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
    mappings = {"catalogs", "catalog_properties", "spark", "policy", "budgets", "telemetry", "service"}
    fields = {name for name in Config.model_fields if name not in mappings}
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


@pytest.mark.parametrize(
    ("page", "text", "status"),
    [
        pytest.param("index.md", "# Home", 0, id="well"),
        pytest.param("forgotten.md", "# Not in the navigation", 1, id="forgotten"),
        pytest.param("index.md", "![from elsewhere](https://pictures.example/one.png)", 1, id="elsewhere"),
    ],
)
def test_a_warning_about_the_pages_fails_the_check(tmp_path: Path, page: str, text: str, status: int) -> None:
    """By what `make check` runs, on pages of our own."""
    listed = subprocess.run(["make", "-n", "check"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    command = next(shlex.split(line) for line in listed.splitlines() if "mkdocs build" in line)
    ours = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    few = {
        "docs_dir": str(tmp_path / "docs"),
        "nav": ["index.md"],
        "theme": {"name": "mkdocs", "highlightjs": False},
        "hooks": [str(ROOT / hook) for hook in ours["hooks"]],
    }
    (tmp_path / "docs").mkdir()
    for name, words in {"index.md": "# Home", page: text}.items():
        (tmp_path / "docs" / name).write_text(words)
    (tmp_path / "mkdocs.yml").write_text(json.dumps({**ours, **few}))
    there = [*command[:-1], str(tmp_path / "site"), "--config-file", str(tmp_path / "mkdocs.yml")]
    built = subprocess.run(there, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == status, built.stdout + built.stderr


# -- examples -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """All examples, run in one process of their own."""
    return play(tmp_path_factory.mktemp("examples"))


def test_every_example_runs(played: Played) -> None:
    assert [(each.page, each.language) for each in played.ran] == [(b.page, b.language) for b in blocks("runs")]


def test_the_examples_compact_what_they_say(played: Played) -> None:
    said = {page: "".join(each.out for each in played.ran if each.page == page) for page, *_ in played.ran}
    assert "committed 12 -> 2" in said["README.md"]
    assert "nothing was written since the run that made snapshot" in said["docs/quickstart.md"]
    assert "day=2026-03-01 committed" in said["docs/library.md"]
    assert "no table shop.returns" in said["docs/library.md"]


def test_the_first_steps_can_be_taken_in_any_order_and_again(played: Played) -> None:
    """The README's Python was run before the quickstart, in the same folder, and once more after it."""
    assert "committed 12 -> 2" in played.again


def test_samples_are_what_is_printed(played: Played) -> None:
    found = list(samples(played.ran))
    assert {sample.page for sample in found} >= {"README.md", "docs/quickstart.md", "docs/rewriting.md"}
    untrue = [f"{sample.page}:{sample.line} should show\n{sample.printed}" for sample in found if not sample.true]
    assert not untrue, "run `make samples`:\n" + "\n".join(untrue)


def test_the_demo(played: Played) -> None:
    """It compacts one table, and leaves another to be compacted by the README's commands."""
    parts = {
        line.split("  #")[0].strip(): out for each in played.ran if each.page == "README.md" for line, out in each.parts
    }
    for part in ("160 -> 10 data files", "committed", "file size", "one query:", "every row is the same"):
        assert part in parts["make demo"]
    assert "36 -> 3 data files" in parts["icepact plan demo.clicks"]
    assert "committed" in parts["icepact compact demo.clicks --yes"]


def test_the_first_page_names_the_versions() -> None:
    text = (ROOT / "README.md").read_text()
    [spark] = re.findall(r'"pyspark==([\d.]+)\.\*"', (ROOT / "pyproject.toml").read_text())
    assert f"Spark {spark}" in text
    assert f"Iceberg {JARS[0].coordinates.rpartition(':')[2]}" in text


@pytest.mark.parametrize("document", ["health", "plan", "compact", "runs", "costs", "cleanup", "fleet"])
def test_every_json_field_is_documented(played: Played, document: str) -> None:
    text = (DOCS / "cli.md").read_text().split(f"\n### {document}\n")[1].split("\n### ")[0]
    missing = [name for name in played.fields[document] if f"`{name}`" not in text]
    assert missing == []
