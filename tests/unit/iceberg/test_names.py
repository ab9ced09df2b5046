"""Table names by Spark's rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.iceberg.names import parse_levels, quote, show_name, table_parts
from icepact.model.errors import BadInput

PARTS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1), min_size=2, max_size=4
).map(tuple)


@given(PARTS)
def test_quoted_names_are_read_back(parts: tuple[str, ...]) -> None:
    assert parse_levels(quote(parts)) == parts


@given(PARTS)
def test_shown_names_are_read_back(parts: tuple[str, ...]) -> None:
    assert parse_levels(show_name(parts)) == parts


@given(st.text())
def test_whatever_is_typed_is_a_name_or_refused(text: str) -> None:
    try:
        parts = parse_levels(text)
    except BadInput:
        return
    assert parse_levels(quote(parts)) == parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("db.events", ("db", "events")),
        ("a.b.c", ("a", "b", "c")),
        ("`db`.events", ("db", "events")),
        ("`my db`.`a.b`", ("my db", "a.b")),
        ("db.`back``quote`", ("db", "back`quote")),
        ("db.````", ("db", "`")),
        ("db.täg-1", ("db", "täg-1")),
    ],
)
def test_what_is_understood(text: str, parts: tuple[str, ...]) -> None:
    assert table_parts(text, "prod") == parts


@pytest.mark.parametrize(
    "text", ["", ".", "db.", ".t", "db..t", "db.`t", "db.t`", "db.``", "my db.t", "`a`b.t", "a.b c"]
)
def test_what_is_not_says_how_to_write_it(text: str) -> None:
    with pytest.raises(BadInput) as refused:
        table_parts(text, "prod")
    assert str(refused.value) == f"{text!r} is not a table name: write db.table, with `backquotes` around odd parts"


def test_a_table_has_a_namespace() -> None:
    with pytest.raises(BadInput, match=r"^'events' names no namespace: write db\.table$"):
        table_parts("events", "prod")
    assert parse_levels("events") == ("events",)
    assert table_parts("events", "prod", ("raw", "eu")) == ("raw", "eu", "events")
    assert table_parts("prod.db.events", "prod", ("raw",)) == ("db", "events")


@pytest.mark.parametrize(
    ("parts", "shown"),
    [
        (("db", "events"), "db.events"),
        (("db", "_x1"), "db._x1"),
        (("my db", "1st"), "`my db`.`1st`"),
        (("db", "a.b`c"), "db.`a.b``c`"),
    ],
)
def test_backquotes_are_shown_only_where_needed(parts: tuple[str, ...], shown: str) -> None:
    assert show_name(parts) == shown
