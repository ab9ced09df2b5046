"""Prices: presets, overrides, and what is said about bad ones."""

from dataclasses import replace
from pathlib import Path

import pytest

from icepact.entrypoints.wiring import load_config
from icepact.model.errors import BadInput
from icepact.model.prices import GB, PRESETS, Prices


def configured(folder: Path, text: str) -> Prices:
    """What a configuration file says about prices."""
    file = folder / "icepact.yaml"
    file.write_text(text)
    return load_config(str(file), {}).prices


def test_without_a_word_it_is_s3(tmp_path: Path) -> None:
    assert configured(tmp_path, "catalog: prod\n") == Prices.of("s3-ec2")


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_by_its_name(tmp_path: Path, name: str) -> None:
    found = configured(tmp_path, f"prices: {name}\n")
    assert found.preset == name
    assert {k: v for k, v in found.to_dict().items() if k in PRESETS[name]} == PRESETS[name]
    assert (found.kept_days, found.currency) == (5.0, "USD")


def test_a_preset_with_changes(tmp_path: Path) -> None:
    found = configured(
        tmp_path, "prices:\n  preset: on-premise\n  compute_per_core_hour: 0.5\n  kept_days: 2\n  currency: EUR\n"
    )
    assert found == replace(Prices.of("on-premise"), compute_per_core_hour=0.5, kept_days=2.0, currency="EUR")


def test_changes_alone_are_changes_of_the_default(tmp_path: Path) -> None:
    found = configured(tmp_path, "prices: {storage_per_gb_month: 0.1}\n")
    assert found == replace(Prices.of("s3-ec2"), storage_per_gb_month=0.1)


def test_a_variable_names_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEPACT_PRICES", "gcs")
    assert configured(tmp_path, "prices: azure\n") == Prices.of("gcs")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prices: s3", "prices: unknown preset 's3'; there is: s3-ec2, gcs, azure, on-premise"),
        ("prices: {preset: aws}", "prices: unknown preset 'aws'; there is: s3-ec2, gcs, azure, on-premise"),
        ("prices: {compute_per_core_hour: -1}", "prices.compute_per_core_hour: it must be at least"),
        ("prices: {kept_days: -0.1}", "prices.kept_days: it must be at least 0"),
        ("prices: {reads_per_thousand: .nan}", "prices.reads_per_thousand: a finite number is wanted"),
        ("prices: {storage_per_gb_month: much}", "prices.storage_per_gb_month: a number is wanted"),
        ("prices: {per_hour: 1}", "prices.per_hour: unknown key; there is: preset, compute_per_core_hour,"),
        ("prices: [1, 2]", "prices: a preset's name is wanted, or a mapping; presets are s3-ec2,"),
        ("prices: {currency: ''}", "prices.currency: it must not be empty"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_that_names_the_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadInput) as error:
        configured(tmp_path, text + "\n")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_what_things_cost() -> None:
    prices = Prices.of("s3-ec2")
    assert prices.compute(3600) == pytest.approx(0.048)
    assert prices.requests(reads=2000, writes=1000) == pytest.approx(2 * 0.0004 + 0.005)
    assert prices.storage(6 * GB) == pytest.approx(6 * 0.023 * 5 / 30)


@pytest.mark.parametrize(
    ("properties", "days"),
    [
        ({}, 5.0),
        ({"history.expire.max-snapshot-age-ms": str(24 * 3600 * 1000)}, 1.0),
        ({"history.expire.max-snapshot-age-ms": "soon"}, 5.0),
        ({"history.expire.max-snapshot-age-ms": "-1"}, 5.0),
    ],
)
def test_a_table_says_how_long_replaced_files_stay(properties: dict[str, str], days: float) -> None:
    assert Prices.of("gcs").for_table(properties) == replace(Prices.of("gcs"), kept_days=days)
