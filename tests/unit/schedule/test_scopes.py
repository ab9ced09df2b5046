"""Scopes: nobody sees what theirs does not hold, however it is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.iceberg.names import parse_levels, quote, show_name
from icepact.model.errors import BadInput, TableNotFound
from icepact.model.tenant import Caller, Role, Tenant
from icepact.schedule.scopes import Scope, check_patterns, scope_of, visible

PARTS = st.text(
    alphabet=st.sampled_from(
        "ab._*?[]!`'\" %/\\\n\x1f\x00ßéE\u0301\N{LATIN SMALL LETTER E WITH ACUTE}Aıi\N{KELVIN SIGN}k"
    ),
    min_size=1,
    max_size=6,
)
NAMES = st.lists(PARTS.filter(lambda part: "\0" not in part), min_size=2, max_size=4).map(tuple)


def scope(*patterns: str, catalogs: tuple[str, ...] = (), catalog: str = "prod") -> Scope:
    """Of a tenant that has these."""
    return scope_of(Tenant(name="red", tables=check_patterns(patterns), catalogs=catalogs), catalog)


def caller(*patterns: str) -> Caller:
    """Somebody who has these."""
    return Caller(tenant="red", role=Role.ADMIN, key_id="a", name="", scope=scope(*patterns))


@given(mine=NAMES, theirs=NAMES)
def test_who_has_one_table_sees_that_and_no_other(mine: tuple[str, ...], theirs: tuple[str, ...]) -> None:
    held = scope(quote(mine))
    assert held.holds(quote(theirs)) == (theirs == mine and not any("\x1f" in part for part in mine))
    assert held.holds(show_name(theirs)) == held.holds(quote(theirs))


@given(namespace=PARTS, theirs=NAMES)
def test_who_has_a_namespace_sees_what_is_in_it_and_in_those_inside(namespace: str, theirs: tuple[str, ...]) -> None:
    held = scope(f"{quote((namespace,))}.*")
    assert held.holds(quote(theirs)) == (theirs[0] == namespace and not any("\x1f" in part for part in theirs))


@given(table=NAMES)
def test_who_has_nothing_sees_nothing_and_who_has_all_sees_all(table: tuple[str, ...]) -> None:
    assert not scope().holds(quote(table))
    assert scope("*").holds(quote(table)) == (not any("\x1f" in part for part in table))


@given(text=st.text(max_size=60))
def test_what_is_no_name_of_a_table_is_in_no_scope(text: str) -> None:
    try:
        parts = parse_levels(text)
    except BadInput:
        parts = ()
    if len(parts) < 2:
        assert not scope("*").holds(text)


@pytest.mark.parametrize(
    ("pattern", "table", "holds"),
    [
        ("sales.*", "sales.orders", True),
        ("sales.*", "sales.eu.orders", True),
        ("sales.*", "Sales.orders", False),
        ("sales.*", "`sales`.`orders`", True),
        ("sales.*", "`sales.eu`.orders", False),
        ("sales.*", "`sales\x1feu`.orders", False),
        ("sales.*", "salesx.orders", False),
        ("sales.*", "prod.sales.orders", False),
        ("prod.*", "sales.orders", False),
        ("sales.orders", "sales.orders ", False),
        ("sales.caf\u00e9", "sales.`cafe\u0301`", False),
        ("sales.*", "", False),
        ("sales.*", "sales.", False),
        ("sales.*", "sales.`x", False),
        ("*", "a." + "b" * 5000, False),
    ],
)
def test_names_are_taken_as_they_are(pattern: str, table: str, holds: bool) -> None:
    """The last three of a catalog's own name: a scope is of namespaces, so that a catalog that is called like one opens
    nothing."""
    assert scope(pattern).holds(table) == holds


def test_a_scope_is_of_catalogs_too() -> None:
    assert scope("*", catalogs=("prod",)).holds("a.b")
    assert not scope("*", catalogs=("test", "PROD")).holds("a.b")


@given(table=NAMES, asked=st.sampled_from(["plain", "quoted", "with catalog"]))
def test_a_table_of_others_and_one_that_is_nowhere_get_the_same_answer(table: tuple[str, ...], asked: str) -> None:
    if table[0] in ("mine", "prod"):
        return
    written = {"plain": show_name(table), "quoted": quote(table), "with catalog": quote(("prod", *table))}[asked]
    with pytest.raises(TableNotFound) as refused:
        visible(caller("mine.*"), written, "prod")
    assert str(refused.value) == f"there is no table {show_name(table)}"
    assert visible(caller(f"{quote((table[0],))}.*"), written, "prod") if "\x1f" not in "".join(table) else True


def test_a_name_is_completed_before_it_is_looked_for() -> None:
    sees = caller("home.*")
    assert visible(sees, "events", "prod", ("home",)) == "home.events"
    assert visible(sees, "prod.home.`events`", "prod") == "home.events"
    with pytest.raises(TableNotFound):
        visible(sees, "events", "prod", ("other",))
    for text in ("", "a b", "events", "x." * 5000 + "y", "`a"):
        with pytest.raises(BadInput):
            visible(sees, text, "prod")


def test_a_closer_scope_counts_more() -> None:
    order = [scope(*p).specificity("a.b") for p in (("c.*",), ("*",), ("*.b",), ("a.*", "*"), ("a.b", "*"))]
    known = [one for one in order if one is not None]
    assert order[0] is None
    assert known == sorted(known)
    assert len(known) == 4
