"""Patterns over table names, and which of two counts."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.model.errors import BadInput
from icepact.policy.patterns import Reach, parse_pattern


@pytest.mark.parametrize(
    ("pattern", "table", "matches"),
    [
        ("*", ("db", "events"), True),
        ("db.*", ("db", "events"), True),
        ("db.*", ("db", "raw", "events"), True),
        ("db.*", ("dbs", "events"), False),
        ("db.*", ("other", "db", "events"), False),
        ("db.events", ("db", "events"), True),
        ("db.events", ("db", "events_old"), False),
        ("db.events", ("DB", "events"), False),
        ("db.ev*", ("db", "events"), True),
        ("db.event?", ("db", "events"), True),
        ("db?events", ("db", "events"), False),
        ("*.events", ("db", "raw", "events"), True),
        ("*.*.events", ("db", "events"), True),
        ("prod.db.events", ("db", "events"), True),
        ("prod.*", ("db", "events"), True),
        ("test.*", ("db", "events"), False),
        ("db.day_[0-9]", ("db", "day_7"), True),
        ("db.day_[!0-9]", ("db", "day_7"), False),
        ("db[!x]events", ("db", "events"), False),
        ("db.my-table", ("db", "my-table"), True),
        ("db.`my.table`", ("db", "my.table"), True),
        ("db.`my.table`", ("db", "my", "table"), False),
        ("db.my.table", ("db", "my.table"), False),
        ("db.`a*`", ("db", "abc"), False),
        ("db.`a``b`", ("db", "a`b"), True),
    ],
)
def test_what_a_pattern_means_in_catalog_prod(pattern: str, table: tuple[str, ...], matches: bool) -> None:
    assert parse_pattern(pattern).matches("prod", table) is matches


@pytest.mark.parametrize(
    "text", ["", ".", "db.", ".events", "db..events", "db events", "db.`x", "db.[", "db.[]", "db.[z-a]", "db.x`y`z`"]
)
def test_what_is_no_pattern_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is not a pattern: write it like"):
        parse_pattern(text)


def test_a_name_without_a_namespace_would_never_match() -> None:
    with pytest.raises(BadInput, match=r"'events' names no namespace: write db.events, or \*.events"):
        parse_pattern("events")


@pytest.mark.parametrize(
    ("pattern", "reach"),
    [
        ("*", Reach.ALL),
        ("*.*", Reach.ALL),
        ("?*.*", Reach.ALL),
        ("production.*", Reach.CATALOG),
        ("production.*.*", Reach.CATALOG),
        ("prod*", Reach.CATALOG),
        ("db.*", Reach.NAMESPACE),
        ("production.db.*", Reach.NAMESPACE),
        ("*.events", Reach.NAMESPACE),
        ("db.ev*", Reach.NAMESPACE),
        ("db.events", Reach.TABLE),
        ("production.db.events", Reach.TABLE),
    ],
)
def test_how_far_a_pattern_reaches(pattern: str, reach: Reach) -> None:
    found = parse_pattern(pattern)
    assert found.matches("production", ("db", "events"))
    assert found.reach(("db", "events")) is reach


def test_a_short_namespace_is_more_specific_than_a_long_catalog() -> None:
    def weight(text: str) -> tuple[int, int]:
        return parse_pattern(text).specificity(("db", "events"))

    ordered = ["*", "production.*", "db.*", "db.e*", "production.db.*", "db.events"]
    assert sorted(ordered, key=weight) == ordered
    assert len({weight(text) for text in ordered}) == len(ordered)


def found_by_hand(pattern: str, name: str) -> bool:
    """Whether a pattern of letters, dots and `*` fits a name, letter by letter."""
    if not pattern:
        return not name
    if pattern[0] == "*":
        return found_by_hand(pattern[1:], name) or (bool(name) and found_by_hand(pattern, name[1:]))
    return bool(name) and pattern[0] == name[0] and found_by_hand(pattern[1:], name[1:])


@given(
    st.lists(st.text("ab*", min_size=1, max_size=4), min_size=2, max_size=3),
    st.text("ab", min_size=1, max_size=2),
    st.lists(st.text("ab", min_size=1, max_size=3), min_size=2, max_size=3),
)
def test_patterns_match_as_if_done_by_hand(pattern: list[str], catalog: str, table: list[str]) -> None:
    text = ".".join(pattern)
    short, long = ".".join(table), ".".join([catalog, *table])
    expected = found_by_hand(text, short) or found_by_hand(text, long)
    assert parse_pattern(text).matches(catalog, tuple(table)) == expected


@given(st.lists(st.text("ab-é.`*?[] ", min_size=1, max_size=5), min_size=2, max_size=3))
def test_a_quoted_name_means_itself_and_nothing_else(parts: list[str]) -> None:
    pattern = parse_pattern(".".join("`" + part.replace("`", "``") + "`" for part in parts))
    assert pattern.exact
    assert pattern.matches("prod", tuple(parts))
    assert not pattern.matches("prod", (*parts, "x"))
    assert not pattern.matches("prod", (*parts[:-1], parts[-1] + "x"))


@pytest.mark.parametrize("stars", [2, 8, 100])
def test_many_stars_take_no_longer(stars: int) -> None:
    pattern = parse_pattern("db." + "*a" * stars + "*b*")
    began = time.process_time()
    assert not pattern.means(("db", "a" * 1000))
    assert pattern.means(("db", "a" * 1000 + "bc"))
    assert time.process_time() - began < 1
