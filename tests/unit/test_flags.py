"""Flags are made from the options model, and global ones may stand anywhere."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from icepact.entrypoints.cli.flags import PLANNING, hoist
from icepact.model.policy import Options


@pytest.mark.parametrize(
    ("words", "hoisted"),
    [
        ("health db.t", "health db.t"),
        ("health db.t --json", "--json health db.t"),
        ("health db.t --html --json --json", "--json health db.t --html --json"),
        ("health db.t -v --catalog prod --json", "-v --catalog prod --json health db.t"),
        ("plan --warehouse /wh db.t --max-files 5", "--warehouse /wh plan db.t --max-files 5"),
        ("plan db.t --catalog-uri=https://x", "--catalog-uri=https://x plan db.t"),
        ("--config a.yaml plan db.t --catalog-type rest", "--config a.yaml --catalog-type rest plan db.t"),
        ("policy show db.t --policy a.yaml", "--policy a.yaml policy show db.t"),
        ("plan db.t --branch --json", "plan db.t --branch --json"),
        ("plan --table --json", "plan --table --json"),
        ("history --limit 5 --json", "--json history --limit 5"),
        ("plan --where=--json --rewrite-all --json", "--json plan --where=--json --rewrite-all"),
        ("plan db.t -- --json --catalog x", "plan db.t -- --json --catalog x"),
        ("plan db.t --catalog", "--catalog plan db.t"),
        ("", ""),
    ],
)
def test_global_options_go_to_the_front(words: str, hoisted: str) -> None:
    assert hoist(words.split()) == hoisted.split()


@given(st.lists(st.sampled_from(["plan", "db.t", "--json", "--catalog", "x", "--where", "--max-files", "--", "-v"])))
def test_nothing_is_lost_and_doing_it_twice_changes_nothing(words: list[str]) -> None:
    assume(words[-1:] != ["--catalog"])  # its value is missing: the parser's to refuse
    once = hoist(words)
    assert sorted(once) == sorted(words)
    assert hoist(once) == once


def test_every_option_that_shapes_a_plan_has_a_flag() -> None:
    assert set(PLANNING) == set(Options.model_fields) - {"priority_weights"}  # which shapes no plan
    assert len(set(PLANNING)) == len(PLANNING)
