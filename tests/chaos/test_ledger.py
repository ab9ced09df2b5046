"""The ledger, and the figures that are made of it."""

from pathlib import Path

import pytest
from bench.code import CHANGED

from tests.chaos import ledger
from tests.chaos.page import BEGIN, END, as_markdown, write_page


def trial(number: int, **told: object) -> dict[str, object]:
    """A run on a faulty store."""
    plain = {"kind": "storage", "seed": 1, "number": number, "status": "committed", "rows": 100, "clean": True}
    return {**plain, "requests": 10, "faults": {"500": 1}, **told}


def test_the_same_seed_goes_on_where_it_stopped(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    assert ledger.next_number("storage", 1, path) == 0
    ledger.add(trial(0), path)
    ledger.add(trial(1), path)
    assert ledger.next_number("storage", 1, path) == 2
    assert ledger.next_number("storage", 2, path) == 0
    assert ledger.next_number("kill", 1, path) == 0


def test_what_is_unclean_is_counted() -> None:
    [summary] = ledger.summarise([trial(0), trial(1, status="failed"), trial(2, lost=3, clean=False)])
    assert (summary.trials, summary.committed, summary.unclean) == (3, 2, 1)
    assert (summary.counts["rows"], summary.counts["lost"]) == (300, 3)


def test_the_interval() -> None:
    """As in the textbook: none of ten is anything up to 28%."""
    assert ledger.wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    low, high = ledger.wilson(299, 300)
    assert 0.98 < low < 299 / 300 < high < 1


def test_trials_are_told_with_their_commit_and_apart_from_those_without(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    ledger.add(trial(0), path)
    [named] = ledger.entries(path)
    assert named["commit"].rstrip(CHANGED)
    text = as_markdown([trial(0), trial(1), {**named, "commit": "0123abc"}])
    first, _, second = text.partition("### Earlier trials")
    assert "| store that fails | 1 | 1 | 100 |" in first
    assert "| `0123abc` |" in first
    assert "| store that fails | 2 | 2 | 200 |" in second
    assert "`0123abc`" not in second


def test_the_page_keeps_what_is_around_the_figures(tmp_path: Path) -> None:
    path, page = tmp_path / "ledger.jsonl", tmp_path / "page.md"
    page.write_text(f"before\n\n{BEGIN}\nold\n{END}\n\nafter\n")
    ledger.add(trial(0), path)
    write_page(path, page)
    text = page.read_text()
    assert text.startswith(f"before\n\n{BEGIN}\n\n| tried |")
    assert text.endswith(f"{END}\n\nafter\n")
    assert "old" not in text
    assert "1 of 1 runs were committed without help: 100.0%" in text


def test_pieces_of_the_search_are_added_up(tmp_path: Path) -> None:
    path, page = tmp_path / "ledger.jsonl", tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    seen = {"examples": 500, "checks": 1000, "landed strictly": 7, "landed late": 2, "commit: answered": 4}
    piece = {"kind": "search", "seed": 1, "seen": seen, "seconds": 1800, "clean": True}
    for number in range(2):
        ledger.add({**piece, "number": number}, path)
    write_page(path, page)
    text = page.read_text()
    assert "| length | 1.0 hours, 1,000 examples, 2,000 times all was compared |" in text
    assert "| examples that did harm | 0 |" in text
    assert "| commits that landed | 14 strictly, 4 late |" in text
    assert "| commits | answered: 8 |" in text
