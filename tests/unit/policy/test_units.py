"""Sizes as people write them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.model.formatting import format_size
from icepact.policy.units import parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1048576", 1024**2),
        (1048576, 1024**2),
        ("512MB", 512 * 1024**2),
        ("512 mb", 512 * 1024**2),
        ("512M", 512 * 1024**2),
        ("512MiB", 512 * 1024**2),
        ("512Mi", 512 * 1024**2),
        ("4Gi", 4 * 1024**3),
        (" 1.5 GB ", 3 * 1024**3 // 2),
        ("2t", 2 * 1024**4),
        ("1PB", 1024**5),
        ("7b", 7),
        ("0.5KB", 512),
        ("1" + "0" * 400, 10**400),
    ],
)
def test_what_is_understood(text: Any, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "wrong", ["", "MB", "12parsecs", "1,5GB", "-5MB", "5 MB 3", "5i", "5Mo", "nan", True, None, "1.MB"]
)
def test_what_is_not_says_how_to_write_it(wrong: Any) -> None:
    with pytest.raises(ValueError, match="is not a size: write it like 512MB") as refused:
        parse_size(wrong)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("zero", [0, "0", "0MB", -1, "0.0001KB"])
def test_a_size_is_above_zero(zero: Any) -> None:
    with pytest.raises(ValueError, match="is not a size: it must be above zero"):
        parse_size(zero)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KB"),
        (1536, "1.5 KB"),
        (100 * 1024, "100 KB"),
        (512 * 1024**2, "512 MB"),
        (50 * 1024**3, "50.0 GB"),
        (3 * 1024**4, "3.0 TB"),
        (2 * 1024**5, "2.0 PB"),
        (5000 * 1024**5, "5000.0 PB"),
    ],
)
def test_how_sizes_are_shown(size: float, text: str) -> None:
    assert format_size(size) == text


@given(st.integers(1, 2**60))
def test_what_is_shown_is_understood_again(size: int) -> None:
    assert parse_size(format_size(size)) == pytest.approx(size, rel=0.05)


@given(st.integers(1, 2**80))
def test_bytes_are_exact_however_many(size: int) -> None:
    assert parse_size(str(size)) == parse_size(size) == size
