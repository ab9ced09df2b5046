"""Bars at the terminal, and files that are refused before the work begins."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from icepact.entrypoints.cli.bars import BLOCKS, LETTERS, SHOWN_PARTITIONS, Ink, partition_bars, size_bars
from icepact.entrypoints.cli.main import _guarded
from icepact.entrypoints.cli.render import Renderer
from icepact.entrypoints.outputs import file_to_write, write_file
from icepact.model.errors import BadInput
from icepact.model.plan import Plan
from tests.support.reports import messy, reported
from tests.support.states import MB, data_file


def shrunk_towards(plan: Plan, ink: Ink = LETTERS) -> list[str]:
    console = Console(file=io.StringIO(), width=120)
    console.print(size_bars(plan, ink, 120))
    console.print(partition_bars(plan, ink, 120))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_sizes_before_and_after_and_what_becomes_of_partitions() -> None:
    _, plan = messy()
    lines = shrunk_towards(plan)
    assert lines[0].split() == ["file", "size", "now", "after"]
    by_size = {" ".join(line.split()[:5]): line.split()[5:] for line in lines[1:11]}
    assert by_size["1 MB to 2 MB"] == ["8", "#" * 28, "0", "small"]
    assert by_size["8 MB to 16 MB"] == ["0", "1", "####", "small"]
    assert by_size["512 MB to 1 GB"] == ["1", "####", "1", "####", "target"]
    assert lines[11].split() == ["partition", "files", "saves", "a", "scan"]
    assert lines[12].split()[:5] == ["day=2026-01-01", "8", "->", "1", "####" + "-" * 24]
    assert lines[13].split()[:5] == ["day=2026-01-02", "1", "->", "1", "####"]
    assert "█" in "".join(shrunk_towards(plan, BLOCKS))


def test_only_the_partitions_that_gain_most_are_drawn() -> None:
    files = [data_file(f"{d}-{n}", MB, partition=(f"d{d:02d}",)) for d in range(30) for n in range(d + 5)]
    lines = shrunk_towards(reported(files)[1])
    named = [line.split()[0] for line in lines if line.startswith("day=")]
    assert named == [f"day=d{d:02d}" for d in range(29, 29 - SHOWN_PARTITIONS, -1)]
    assert any(line.startswith("... and 18 more") for line in lines)


def test_markup_in_a_name_is_only_text() -> None:
    assert any("[red]x" in line for line in shrunk_towards(messy("[red]x")[1]))


def test_a_plan_is_drawn_for_people_and_never_in_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    _, plan = messy()
    Renderer(as_json=False).plan(plan)
    shown = capsys.readouterr().out
    assert shown.startswith(plan.explain().splitlines()[0])
    assert "file size" in shown
    Renderer(as_json=True).plan(plan)
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(plan.to_dict(), default=str))


def test_nothing_is_drawn_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    _, plan = reported([data_file("a", 512 * MB)])
    Renderer(as_json=False).plan(plan)
    assert capsys.readouterr().out.strip() == plan.explain()


# -- where a report goes --------------------------------------------------------------------------


def test_a_file_is_written_and_overwritten(tmp_path: Path) -> None:
    for content in ("one", "a ü"):
        write_file(file_to_write(str(tmp_path / "report.html")), content)
        assert (tmp_path / "report.html").read_text(encoding="utf-8") == content


@pytest.mark.parametrize(
    ("path", "message"),
    [(".", "is a folder"), ("", "is a folder"), ("absent/report.html", "there is no folder 'absent' to write")],
)
def test_a_place_that_cannot_be_written_is_refused_before_spark_starts(
    path: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _guarded(["health", "db.events", "--html", path]) == 2
    assert message in (err := capsys.readouterr().err)
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_written_whole_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text("before")
    (tmp_path / "link.html").symlink_to(file)
    with pytest.raises(UnicodeEncodeError):
        write_file(tmp_path / "link.html", "half of it \ud800")
    assert file.read_text() == "before"
    write_file(tmp_path / "link.html", "after")
    assert file.read_text() == "after"
    assert {path.name: path.is_symlink() for path in tmp_path.iterdir()} == {"report.html": False, "link.html": True}


def test_a_file_that_vanished_from_under_us_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"cannot be written: No such file or directory$"):
        write_file(tmp_path / "gone" / "report.html", "")
