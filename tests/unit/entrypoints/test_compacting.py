"""What somebody at the terminal sees of a compaction."""

from dataclasses import replace

import pytest
import typer

from icepact.entrypoints.cli.compacting import Compacting
from icepact.entrypoints.cli.render import Renderer
from icepact.model.progress import UnitDone
from tests.support.planning import make_plan
from tests.support.records import run_outcome
from tests.support.states import MB, data_file, make_policy, make_state

PLAN = make_plan(make_state([data_file(f"f{n}", MB) for n in range(9)]), make_policy())


def test_a_run_that_was_carried_on_with_is_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    with Compacting(Renderer(as_json=False), "db.events", yes=True) as shown:
        shown.step("held")  # of the run that is carried on with: it has no bar
        shown.on_resumed(replace(run_outcome("r1"), kept_options={"max_files": 3, "max_file_size": 77 * MB}))
        assert shown.confirm(PLAN)
        shown.step("staged")
        shown.advance(UnitDone(partition="day=d1", files=9, bytes=MB))
    said = capsys.readouterr()
    assert said.out == ""
    kept = "max-files 3, max-file-size 77.0 MB"
    assert said.err == f"resumed run r1: committed; with options that it began with, not those of now: {kept}\n"


@pytest.mark.parametrize("yes", [True, False])
def test_a_plan_is_shown_and_asked_for_unless_that_was_said(
    yes: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Renderer, "interactive", True)
    asked: list[str] = []
    monkeypatch.setattr(typer, "confirm", lambda question, **given: asked.append(question))
    with Compacting(Renderer(as_json=False), "db.events", yes=yes) as shown:
        shown.on_resumed(None)
        if yes:
            assert shown.confirm(PLAN)
        else:
            with pytest.raises(typer.Exit):
                shown.confirm(PLAN)
    assert asked == ([] if yes else ["Go ahead?"])
    assert ("9 files" in capsys.readouterr().out) is not yes


def test_a_table_that_is_off_is_told_of_and_not_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    policy = make_policy(enabled=False)
    with Compacting(Renderer(as_json=False), "db.events", yes=False) as shown:
        shown.on_resumed(None)
        assert shown.confirm(make_plan(make_state([data_file("f", MB)]), policy))
    assert capsys.readouterr().err == f"{policy.off}\n"
