"""Bad input is refused at the door: one line, exit code 2, nothing started."""

import subprocess
from pathlib import Path

import pytest

from icepact.iceberg.spark.jars import cache_dir
from tests.acceptance.conftest import BIN, Run

NO_JAVA = {"JAVA_HOME": "/nowhere"}
"""Whoever tries to start Spark in this environment is found out: the message would be about Java."""

CASES = {
    "unknown command": (["frobnicate"], "No such command 'frobnicate'"),
    "unknown option": (["plan", "db.t", "--colour", "red"], "No such option: --colour"),
    "no table": (["health"], "no table is given"),
    "two tables": (["compact", "db.a", "--table", "db.b"], "two tables are given"),
    "not a table name": (["health", "db..t"], "is not a table name"),
    "no namespace": (
        ["health", "t"],
        "; names without a namespace are taken to be there, --namespace names another: `icepact tables` lists",
    ),
    "another namespace": (["health", "t", "--namespace", "raw"], "no table raw.t in the warehouse"),
    "unknown table": (["health", "db.nope"], "no table db.nope in the warehouse"),
    "unknown strategy": (["plan", "db.events", "--strategy", "magic"], "unknown strategy; there is: small-files"),
    "later strategy": (["plan", "db.events", "--strategy", "zorder"], "unknown strategy; there is: small-files"),
    "bad size": (
        ["plan", "db.events", "--target-file-size", "12parsecs"],
        "target_file_size: '12parsecs' is not a size",
    ),
    "zero size": (["plan", "db.events", "--max-bytes", "0"], "max_bytes: '0' is not a size: it must be above zero"),
    "negative budget": (
        ["plan", "db.events", "--max-files", "-3"],
        "max_files: it must be at least 1",
    ),
    "negative money": (["plan", "db.events", "--max-cost", "-1"], "max_cost: it must be above 0"),
    "no time": (["plan", "db.events", "--max-duration", "0s"], "max_duration: '0s' is not a length of time"),
    "not a number": (["plan", "db.events", "--max-files", "many"], "max_files: a whole number is wanted"),
    "unknown proof": (["compact", "db.events", "--verify", "maybe"], "unknown verify; there is: footers, full, off"),
    "too many commits": (["plan", "db.events", "--max-commits", "1000"], "max_commits: it must be at most"),
    "report into a folder": (["health", "db.events", "--html", "."], "'.' is a folder: name a file"),
    "report into no folder": (["health", "db.events", "--html", "absent/x.html"], "there is no folder 'absent'"),
    "plan into a folder": (["plan", "db.events", "--out", "."], "'.' is a folder: name a file"),
    "no plan to apply": (["apply"], "no plan is given: write icepact apply FILE"),
    "plan that is not there": (["apply", "absent.json"], "plan absent.json cannot be read: No such file"),
    "unknown ranking": (["fleet", "--by", "beauty"], "unknown ranking 'beauty'; there is: worth, health"),
    "not a pattern": (["fleet", "db..events"], "'db..events' is not a pattern"),
    "negative budget of a fleet": (["fleet", "--max-cost", "-1"], "max_cost: it must be above 0"),
    "no tables wanted": (["fleet", "--limit", "0"], "--limit must be at least 1"),
    "bad budget of a round": (["fleet", "run", "--max-bytes", "much"], "max_bytes: 'much' is not a size"),
    "round without policies": (
        ["fleet", "run", "db.*"],
        "no policy file is given: write icepact fleet run --policy FILE",
    ),
    "unknown run to resume": (["resume", "r-0"], "there is no run r-0 on catalog local: `icepact runs` lists them"),
    "unknown run to cancel": (["cancel", "r-0"], "there is no run r-0 on catalog local"),
    "no run to verify": (["verify", "db.events"], "no run is given: write --run"),
    "taking back unasked": (
        ["rollback", "db.events", "--run", "r-0"],
        "rollback takes back what a run committed: say --yes",
    ),
    "bad length of time": (["cleanup", "--task-timeout", "soon"], "'soon' is not a length of time"),
    "no configuration": (["tables", "--config", "absent.yaml"], "configuration absent.yaml cannot be read"),
    "unknown catalog": (["tables", "--catalog", "prod"], "no catalog 'prod' is configured"),
    "unknown catalog type": (
        ["tables", "--catalog-uri", "http://127.0.0.1:1", "--catalog-type", "magic"],
        "unknown type 'magic'",
    ),
    "type not told": (["tables", "--catalog-uri", "ftp://127.0.0.1/x"], "cannot tell its type"),
    "warehouse without catalog": (["tables", "--warehouse", "s3://lake/wh"], "needs a catalog"),
}


@pytest.mark.usefixtures("without_spark")
@pytest.mark.parametrize("case", CASES)
def test_one_line_and_nothing_started(shell: Run, warehouse: Path, case: str) -> None:
    words, message = CASES[case]
    there = [] if {"--catalog", "--catalog-uri", "--warehouse"} & set(words) else ["--warehouse", str(warehouse)]
    answer = shell(*words, *there)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.count("\n") == 1, answer.err
    assert answer.err.startswith("icepact: ")
    assert message in answer.err


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("what?", "plan.json is not a saved plan: `icepact plan TABLE --out FILE` writes one"),
        ('{"table": "db.events"}', "plan.json is not a saved plan"),
        (
            '{"kind": "icepact-plan", "format": 99, "icepact": "7.0.0"}',
            "plan.json was saved by icepact 7.0.0 in format 99, and this one knows up to 1: plan again",
        ),
        (
            '{"kind": "icepact-plan", "format": 1, "icepact": "0.0.1", "plan": {}}',
            "is damaged, or was saved by another",
        ),
    ],
)
@pytest.mark.usefixtures("without_spark")
def test_a_file_that_is_no_plan_of_ours(shell: Run, tmp_path: Path, document: str, message: str) -> None:
    (tmp_path / "plan.json").write_text(document)
    answer = shell("apply", "plan.json", "--yes")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.count("\n") == 1
    assert message in answer.err


@pytest.mark.usefixtures("without_spark")
def test_a_pattern_that_matches_nothing_is_a_warning(shell: Run, tmp_path: Path) -> None:
    answer = shell("fleet", "nope.*")
    absent = f"there is no folder {tmp_path}/icepact-warehouse: --warehouse names another warehouse"
    assert answer.code == 0
    assert answer.err.splitlines()[0].startswith(f"warning: {absent}, ")
    assert answer.err.splitlines()[1:] == ["warning: nope.* matches no table"]
    assert shell("tables").out.startswith(f"no tables: {absent}, ")
    (tmp_path / "icepact-warehouse").mkdir()
    assert "icepact-warehouse has no catalog in it: " in shell("health", "db.t").err
    (tmp_path / "lake.yaml").write_text("rules: [{match: typo.*, suspend: true}]")
    answer = shell("fleet", "run", "nope.*", "--policy", "lake.yaml", "--json")
    assert answer.code == 0
    assert answer.json["warnings"][1:] == ["lake.yaml:1: typo.* matches no table", "nope.* matches no table"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("catalogs: [", "icepact.yaml:1: this is not YAML"),
        ("- a\n- b\n", "must be a mapping"),
        ("catalog: prod\ncatalogs:\n  prod: {uri: 'https://x', token: hush}\npolcy: {}\n", "polcy"),
        ("policy: {target_file_size: huge}\n", "policy.target_file_size: 'huge' is not a size"),
        ("policy: {min_input_files: 0}\n", "policy.min_input_files"),
        ("catalogs: {prod: 5}\n", "catalogs.prod"),
    ],
)
@pytest.mark.usefixtures("without_spark")
def test_broken_configuration(shell: Run, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "icepact.yaml").write_text(text)
    answer = shell("tables")
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert message in answer.err
    assert "hush" not in answer.err


@pytest.mark.usefixtures("without_spark")
def test_a_person_is_asked_before_a_run_is_taken_back(shell: Run, warehouse: Path) -> None:
    words = ("rollback", "db.events", "--run", "r-0", "--warehouse", str(warehouse))
    no = shell(*words, typed="n\n")
    assert (no.code, "Take run r-0 on db.events back? [y/N]" in no.out + no.err) == (1, True)
    yes = shell(*words, typed="y\n")
    assert (yes.code, "there is no run r-0 on catalog local" in yes.err) == (2, True)
    assert "there is no run r-0" in shell(*words, "--yes").err


def test_nobody_has_to_read_stdout_to_its_end(tmp_path: Path) -> None:
    """As behind `head`: what is left is not printed, and that is no error."""
    (tmp_path / "lake.yaml").write_text("rules: [{match: db.*, suspend: true}]")
    command = [str(BIN / "icepact"), "policy", "check", str(tmp_path / "lake.yaml")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert (process.stderr.read(), process.wait()) == (b"", 0)


def test_with_json_the_error_is_a_document_too(shell: Run, warehouse: Path) -> None:
    answer = shell("health", "db.nope", "--json", "--warehouse", str(warehouse))
    assert answer.code == 2
    assert answer.json["error"].startswith("no table db.nope")


def test_without_java_one_line_says_how_to_get_it(icepact: Run, warehouse: Path) -> None:
    answer = icepact("health", "db.events", "--warehouse", str(warehouse), env=NO_JAVA)
    assert answer.code == 2
    assert answer.err == (
        "icepact: Java is missing (JAVA_HOME=/nowhere has no bin/java): install a JDK 17 or 21"
        " (Debian: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17)\n"
    )


def test_a_wrong_java_is_named(icepact: Run, warehouse: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch(mode=0o755)
    (tmp_path / "release").write_text('JAVA_VERSION="11.0.2"\n')
    answer = icepact("health", "db.events", "--warehouse", str(warehouse), env={"JAVA_HOME": str(tmp_path)})
    assert answer.code == 2
    assert answer.err.startswith("icepact: Java 11.0.2 does not fit: install a JDK 17 or 21")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["plan", "db.events", "--where", "nope = 1"], "where 'nope = 1': A column, variable, or function parameter"),
        (["plan", "db.events", "--branch", "nope"], "db.events has no branch 'nope'; there is: main"),
    ],
)
def test_what_only_the_table_can_tell(shell: Run, warehouse: Path, words: list[str], message: str) -> None:
    answer = shell(*words, "--warehouse", str(warehouse))
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert message in answer.err


def test_a_secret_in_a_jdbc_url_is_not_repeated(shell: Run, tmp_path: Path) -> None:
    """Only the SQLite driver is on board: the message says how to add another, and not the password."""
    answer = shell(
        *(
            "tables",
            "--warehouse",
            str(tmp_path),
            "--catalog-uri",
            "jdbc:postgresql://127.0.0.1/db?user=u&password=hush",
        )
    )
    assert answer.code == 2
    assert answer.err.count("\n") == 1
    assert "needs a JDBC driver that Spark does not have" in answer.err
    assert "hush" not in answer.err


def test_secrets_of_spark_reach_no_command_line(icepact: Run, warehouse: Path, tmp_path: Path) -> None:
    """What starts Java is kept in a file, and seen by everybody in the list of processes."""
    config = tmp_path / "icepact.yaml"
    config.write_text("spark: {conf: {spark.hadoop.fs.s3a.secret.key: hush-hush-hush}}\n")
    answer = icepact("health", "db.calm", "--json", "--config", str(config), "--warehouse", str(warehouse))
    assert (answer.code, answer.err, answer.json["table"]) == (0, "", "db.calm")
    kept = list((cache_dir() / "launch").glob("*.json"))
    assert kept
    assert not [file for file in kept if "hush-hush-hush" in file.read_text()]
