"""Numbers in sentences: one form for money, one for lengths of time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.model.formatting import format_money, format_seconds


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0, "0.00 USD"),
        (1234.5, "1,234.50 USD"),
        (12.5, "12.50 USD"),
        (0.5, "0.50 USD"),
        (0.01, "0.01 USD"),
        (0.0234, "0.023 USD"),
        (0.00042, "0.00042 USD"),
        (1e-06, "0.000001 USD"),
        (3.3e-05, "0.000033 USD"),
        (4e-07, "below 0.000001 USD"),
    ],
)
def test_money(amount: float, text: str) -> None:
    assert format_money(amount, "USD") == text
    assert format_money(amount) == text.removesuffix(" USD")


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (0, "0 ms"),
        (1e-7, "below 1 ms"),
        (0.04, "40 ms"),
        (0.1, "0.1 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (99, "99 s"),
        (120, "2 min"),
        (1200, "20 min"),
        (9000, "2.5 h"),
        (7 * 86400, "7 days"),
        (270000, "3.1 days"),
        (1e9, "11,574 days"),
    ],
)
def test_lengths_of_time(length: float, text: str) -> None:
    assert format_seconds(length) == text


@given(st.floats(0, 1e15))
def test_nobody_reads_exponents(number: float) -> None:
    assert "e" not in format_money(number).removeprefix("below")
    assert "e" not in format_seconds(number).removeprefix("below")
