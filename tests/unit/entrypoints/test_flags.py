"""Flags are made from the options model, and global ones may stand anywhere."""

from importlib.metadata import version

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from icepact.entrypoints.cli.asking import DELETES, REWRITES
from icepact.entrypoints.cli.flags import GLOBAL_FLAGS, GROUPS, PLANNING, hoist
from icepact.entrypoints.cli.main import _guarded
from icepact.policy.options import Options


@pytest.mark.parametrize(
    ("words", "hoisted"),
    [
        ("health db.t", "health db.t"),
        ("health db.t --json", "--json health db.t"),
        ("health db.t --html --json --json", "--json health db.t --html --json"),
        ("health db.t -v --catalog prod --json", "-v --catalog prod --json health db.t"),
        ("plan --warehouse /wh db.t --max-files 5", "--warehouse /wh plan db.t --max-files 5"),
        ("plan db.t --catalog-uri=https://x", "--catalog-uri=https://x plan db.t"),
        ("plan db.t -c s3.region=x --catalog-property a=b=c", "-c s3.region=x --catalog-property a=b=c plan db.t"),
        ("--config a.yaml plan db.t --catalog-type rest", "--config a.yaml --catalog-type rest plan db.t"),
        ("policy show db.t --policy a.yaml", "--policy a.yaml policy show db.t"),
        ("plan db.t --branch --json", "plan db.t --branch --json"),
        ("plan --table --json", "plan --table --json"),
        ("history --limit 5 --json", "--json history --limit 5"),
        ("plan --where=--json --rewrite-all --json", "--json plan --where=--json --rewrite-all"),
        ("plan db.t -- --json --catalog x", "plan db.t -- --json --catalog x"),
        ("plan db.t --catalog", "--catalog plan db.t"),
        ("fleet --max-cost 5 run --json db.*", "--json fleet run --max-cost 5 db.*"),
        ("fleet --by run run", "fleet run --by run"),
        ("fleet db.* run", "fleet db.* run"),
        ("plan fleet run", "plan fleet run"),
        ("policy check a.yaml --tables --json", "--json policy check a.yaml --tables"),
        ("tenants create a --tables --json --json", "--json tenants create a --tables --json"),
        ("", ""),
    ],
)
def test_global_options_go_to_the_front(words: str, hoisted: str) -> None:
    assert hoist(words.split()) == hoisted.split()


@given(
    st.lists(
        st.sampled_from(["plan", "fleet", "run", "--json", "--catalog", "x", "--where", "--max-files", "--", "-v"])
    )
)
def test_nothing_is_lost_and_doing_it_twice_changes_nothing(words: list[str]) -> None:
    assume(words[-1:] != ["--catalog"])  # its value is missing: the parser's to refuse
    once = hoist(words)
    assert sorted(once) == sorted(words)
    assert hoist(once) == once


def test_help_has_groups_values_and_the_rule_for_asking(capsys: pytest.CaptureFixture[str]) -> None:
    assert _guarded(["compact", "--help"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    order = [told.index(f" {title}: ") for title in ("Arguments", "Options", *GROUPS)]
    assert order == sorted(order)
    assert "Proof before the commit: footers, full (every row), or off. One of footers, full, off." in told
    assert "--max-duration TIME Budget" in told
    assert REWRITES in told
    assert f"Global options, before or after the command: {', '.join(GLOBAL_FLAGS)};" in told
    for command, rule in (("fleet run", REWRITES), ("apply", REWRITES), ("cleanup", DELETES), ("rollback", DELETES)):
        assert _guarded([*command.split(), "--help"]) == 0
        assert rule in " ".join(capsys.readouterr().out.split())
    assert _guarded(["policy", "check", "--help"]) == 0
    assert "Global options" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "guess"),
    [
        (["plan", "db.t", "--max-file", "5"], "No such option: --max-file: did you mean --max-files?"),
        (["plan", "db.t", "--warehose", "x"], "No such option: --warehose: did you mean --warehouse?"),
        (["compakt", "db.t"], "No such command 'compakt'. Did you mean 'compact'?"),
        (["run", "--policy", "lake.yaml"], "No such command 'run': it is icepact fleet run now."),
        (["forgive", "db.t"], "No such command 'forgive': it is icepact unblock now."),
        (["policy", "run"], "No such command 'run'."),
        (["plan", "db.t", "--colour", "red"], "No such option: --colour"),
        (["runs", "--limit", "0"], "--limit must be at least 1"),
        (["serve", "--port", "99999"], "--port: Input should be less than or equal to 65535"),
    ],
)
def test_a_slip_is_told_with_what_was_meant(words: list[str], guess: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _guarded(hoist(words)) == 2
    assert capsys.readouterr().err == f"icepact: {guess}\n"


def test_every_option_that_shapes_a_plan_has_a_flag() -> None:
    housekeeping = ("expire_", "orphans_", "statistics_", "ttl_", "tag_", "housekeeping")  # shape no plan to compact
    others = {"priority_weights", *(name for name in Options.model_fields if name.startswith(housekeeping))}
    assert set(PLANNING) == set(Options.model_fields) - others
    assert len(set(PLANNING)) == len(PLANNING)


@pytest.mark.parametrize("command", ["plan", "compact"])
def test_help_names_every_flag_with_what_the_model_says_of_it(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _guarded([command, "--help"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name in PLANNING:
        assert f"--{name.replace('_', '-')} " in shown
        assert " ".join(str(Options.model_fields[name].description).split()) in shown


def test_the_version_is_told_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert _guarded(["--version"]) == 0
    assert capsys.readouterr().out == f"icepact {version('icepact')}\n"
