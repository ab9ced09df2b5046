"""Policy files on the command line: checked without Java, refused in one line, shown with their sources."""

from pathlib import Path

import pytest

from tests.acceptance.conftest import Run

GOOD = """\
profile: production
policies:
  streaming: {extends: time-based, target_file_size: 256MB}
rules:
  - match: "db.*"
    policy: streaming
    options: {max_files: 1000}
  - match: "db.events"
    schedule: "0 3 * * *"
  - match: "typo.*"
    suspend: true
"""

BAD = {
    "not YAML": ("rules: [", "lake.yaml:1: this is not YAML: "),
    "unknown key": (
        "rules:\n- match: db.*\n  option: {}\n",
        "lake.yaml:3: rules[0].option: unknown key; did you mean options?",
    ),
    "unknown option": ("rules: [{match: db.*, options: {x: hush}}]", "lake.yaml:1: rules[0].options.x: unknown option"),
    "given twice": ("profile: staging\nprofile: production\n", "lake.yaml:2: profile: given twice, first in line 1"),
    "conflict": (
        "rules:\n- {match: db.*, options: {max_files: 1}}\n- {match: db.*, options: {max_files: 2}}\n",
        "lake.yaml:3: rules[1].options.max_files: another value than in lake.yaml:2",
    ),
    "impossible sizes": (
        "defaults: {min_file_size: 2GB, target_file_size: 1GB}",
        "lake.yaml:1: min_file_size: 2.0 GB is above target_file_size 1.0 GB",
    ),
    "negative budget": ("defaults: {max_files: -1}", "lake.yaml:1: defaults.max_files: it must be a"),
    "never fires": (
        "rules: [{match: db.*, schedule: 0 0 30 2 *}]",
        "lake.yaml:1: rules[0].schedule: '0 0 30 2 *' never",
    ),
    "circle": (
        "policies:\n  a: {extends: b}\n  b: {extends: a}\n",
        "lake.yaml:3: policies.b.extends: this goes in a circle: a -> b -> a",
    ),
    "unknown policy": ("rules: [{match: db.*, policy: x}]", "lake.yaml:1: rules[0].policy: there is no such policy"),
    "another kind": (
        "apiVersion: apps/v1\nkind: Deployment\nspec: {secret: hush}\n",
        "lake.yaml:1: apiVersion: unknown apiVersion; there is: compaction.io/v1",
    ),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.usefixtures("without_spark")
def test_a_wrong_file_is_refused_in_one_line(shell: Run, tmp_path: Path, case: str) -> None:
    text, message = BAD[case]
    (tmp_path / "lake.yaml").write_text(text)
    answer = shell("policy", "check", "lake.yaml")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1, answer.err
    assert answer.err.startswith(f"icepact: {message}")
    assert "hush" not in answer.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["policy", "check"], "no policy file is given: write icepact policy check FILE"),
        (["policy", "check", "absent.yaml"], "policy file absent.yaml cannot be read: No such file or directory"),
        (["policy", "show"], "no table is given: write db.table"),
        (["policy", "show", "db.nope"], "no table db.nope: there is no folder "),
        (["policy", "explain"], "No such command 'explain'"),
        (["plan", "db.nope", "--policy", "absent.yaml"], "policy file absent.yaml cannot be read"),
        (["health", "db.nope", "--policy", "."], "policy file . cannot be read: Is a directory"),
    ],
)
@pytest.mark.usefixtures("without_spark")
def test_bad_input_of_the_commands(shell: Run, tmp_path: Path, words: list[str], message: str) -> None:
    answer = shell(*words)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1, answer.err
    assert answer.err.startswith(f"icepact: {message}")


@pytest.mark.parametrize("by", ["flag", "variable", "configuration"])
@pytest.mark.usefixtures("without_spark")
def test_a_broken_file_is_refused_wherever_it_is_named(shell: Run, tmp_path: Path, by: str) -> None:
    (tmp_path / "lake.yaml").write_text("profile: live\n")
    words = ["compact", "db.events", *(["--policy", "lake.yaml"] if by == "flag" else [])]
    if by == "configuration":
        (tmp_path / "icepact.yaml").write_text("policies: lake.yaml\n")
    env = {"ICEPACT_POLICIES": "lake.yaml"} if by == "variable" else {}
    answer = shell(*words, env=env)
    assert answer.code == 2
    assert answer.err.startswith("icepact: lake.yaml:1: profile: unknown profile; there is: development")


@pytest.mark.usefixtures("without_spark")
def test_a_good_file_is_checked_without_java(shell: Run, tmp_path: Path) -> None:
    (tmp_path / "lake.yaml").write_text(GOOD)
    answer = shell("policy", "check", "lake.yaml")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.splitlines() == [
        "lake.yaml is valid: 3 rules; policies streaming; profile production",
        "  all tables: check_interval 100, by profile production",
        "  all tables: min_input_files 20, by profile production",
        "  db.*: max_files 1000, schedule 1h, strategy time-series, target_file_size 256 MB, by lake.yaml:5",
        "  db.events: schedule 0 3 * * *, by lake.yaml:8",
        "  typo.*: enabled false, by lake.yaml:10",
    ]
    document = shell("policy", "check", "lake.yaml", "--json").json
    assert (document["file"], document["profile"], document["warnings"]) == ("lake.yaml", "production", [])
    assert [rule["match"] for rule in document["rules"]] == ["db.*", "db.events", "typo.*"]
    assert document["rules"][0]["values"]["target_file_size"] == 256 * 1024**2


@pytest.mark.usefixtures("without_spark")
def test_what_a_custom_resource_says_is_told_in_words(shell: Run, tmp_path: Path) -> None:
    (tmp_path / "nightly.yaml").write_text(
        "apiVersion: compaction.io/v1\nkind: CompactionPolicy\nmetadata: {name: nightly}\nspec:\n"
        "  catalog: {type: rest, database: db, uri: 'http://c'}\n  tables: [{name: events, targetFileSize: 1Gi}]\n"
        "  resources: {memory: 4Gi, cpu: 2}\n  costLimit: {hourly: 2.5}\n"
    )
    answer = shell("policy", "check", "nightly.yaml")
    told = "max_cost_per_hour 2.50, resources memory 4Gi, cpu 2, target_file_size 1.0 GB"
    assert answer.out.splitlines()[1] == f"  db.events: {told}, by nightly.yaml:6"


@pytest.mark.usefixtures("without_spark")
def test_what_is_taken_from_the_configuration_of_a_service(shell: Run, tmp_path: Path) -> None:
    text = '{ // all of it\n"kafka": {"topic": "x"},\n"iceberg": {"write": {"target_file_size_mb": 64}}}'
    (tmp_path / "config.json").write_text(text)
    answer = shell("policy", "check", "config.json")
    assert (answer.code, answer.err) == (0, "")
    where = "policy file config.json:3 (iceberg.write.target_file_size_mb)"
    assert f"  all tables: target_file_size 64.0 MB, by {where}" in answer.out.splitlines()
    assert answer.out.splitlines()[-1] == "  not ours, left alone: config.json:2: kafka"
    document = shell("policy", "check", "config.json", "--json").json
    assert document["for_all"]["target_file_size"] == 64 * 1024**2
    assert document["not_ours"] == ["config.json:2: kafka"]


@pytest.mark.usefixtures("without_spark")
def test_rules_that_match_no_table_are_a_warning(shell: Run, tmp_path: Path) -> None:
    """An embedded warehouse that is not there has no tables: that takes no Java to find out."""
    (tmp_path / "lake.yaml").write_text(GOOD)
    answer = shell("policy", "check", "lake.yaml", "--tables")
    assert answer.code == 0
    assert answer.err.splitlines() == [
        "warning: lake.yaml:5: db.* matches no table",
        "warning: lake.yaml:8: db.events matches no table",
        "warning: lake.yaml:10: typo.* matches no table",
    ]


def test_what_holds_for_a_table(shell: Run, warehouse: Path, tmp_path: Path) -> None:
    (tmp_path / "lake.yaml").write_text(GOOD)
    there = ["--warehouse", str(warehouse), "--policy", str(tmp_path / "lake.yaml")]
    values = shell("policy", "show", "db.events", "--json", *there).json["values"]
    assert values["max_files"] == {"value": 1000, "source": f"policy file {tmp_path}/lake.yaml:7 (rule db.*)"}
    assert values["min_input_files"] == {"value": 20, "source": "profile production"}
    assert values["schedule"]["value"] == "0 3 * * *"
    shown = shell("policy", "show", "db.events", *there).out
    assert "target_file_size" in shown
    assert "256 MB" in shown
    warned = shell("policy", "check", str(tmp_path / "lake.yaml"), "--tables", "--json", *there[:2]).json
    assert warned["warnings"] == [f"{tmp_path}/lake.yaml:10: typo.* matches no table"]
    plan = shell("plan", "db.events", "--strategy", "small-files", "--json", *there).json
    assert plan["policy"]["sources"]["target_file_size"].endswith("lake.yaml:3 (policy streaming, rule db.*)")
