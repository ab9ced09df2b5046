"""Answers for people: nothing is cut off at 80 columns, plans are folded, and nothing to do has its reason."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from icepact.economics.report import costs_of
from icepact.entrypoints.cli.render import SHOWN_GROUPS, Renderer
from icepact.model.effort import Effort
from icepact.model.fleet import Fleet, RankedTable, TableSummary
from icepact.model.recovery import CleanupResult
from icepact.model.status import Status
from icepact.policy.layers import Policies
from icepact.policy.options import Options
from tests.support.records import run_outcome, run_record
from tests.support.reports import messy, reported
from tests.support.states import MB, data_file

LONG = "a_namespace_with_a_long_name.a_table_with_a_name_that_is_even_longer"
Shown = Callable[[Callable[[Renderer], None]], str]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shown:
    """What a terminal of 80 columns shows."""
    monkeypatch.setenv("COLUMNS", "80")

    def show(what: Callable[[Renderer], None]) -> str:
        what(Renderer(as_json=False))
        return capsys.readouterr().out

    return show


def fits(text: str) -> list[list[str]]:
    """The words of a table's lines, none of which is too long or has an ellipsis."""
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    return [line.split() for line in text.splitlines()]


def ranked(rank: int, table: str, *, chosen: bool = True) -> RankedTable:
    summary = TableSummary(
        table=table,
        score=12.5,
        data_files=100_000,
        bytes=10**12,
        small_files=99_999,
        delete_records=12_345_678,
        input_files=88_888,
        input_bytes=10**12,
        gain_seconds=12_345.0,
        seconds=7_200.0,
        money=0.0000042,
        off=None,
    )
    return RankedTable(rank=rank, summary=summary, chosen=chosen, reason="over the budget of all" if not chosen else "")


def test_a_fleet_keeps_names_and_prices_and_says_what_it_leaves_out(shown: Shown) -> None:
    tables = [ranked(1, "db.events"), ranked(2, "db.clicks", chosen=False), ranked(3, "db.views", chosen=False)]
    text = shown(lambda renderer: renderer.fleet(Fleet(tables=tables, currency="EUR"), 20))
    lines = text.splitlines()
    fits("\n".join(lines[:5]))
    assert lines[0].split() == ["table", "score", "to", "rewrite", "size", "saves", "a", "scan", "work", "price"]
    assert lines[1].split() == ["db.events", "12.5", "88,888", "931", "GB", "3.4", "h", "2", "h", "0.0000042", "EUR"]
    assert lines[4] == "without small files, delete records: they need a wider terminal, or --json"
    assert lines[5] == "db.clicks, db.views: over the budget of all"
    folded = shown(lambda renderer: renderer.fleet(Fleet(tables=[ranked(1, LONG)], currency="EUR"), 20))
    words = fits("\n".join(folded.splitlines()[:3]))
    assert words[1][0] + words[2][0] == LONG
    assert words[1][-1] == "EUR"


def test_runs_keep_their_names_and_statuses_and_the_dead_are_told(shown: Shown) -> None:
    done = run_record("20261115095502-61d347dc", table=f"db.{'x' * 18}", status=Status.PARTLY_COMMITTED)
    told = replace(done, outcome=run_outcome(done.run_id, files_before=12_345, seconds=75.0))
    dead = run_record("20261115095503-61d347dd")
    text = shown(lambda renderer: renderer.runs([told, dead], {dead.run_id: "process 5 is gone"}, open_only=False))
    lines = fits("\n".join(text.splitlines()[:4]))
    assert [line[:3] for line in lines[:2]] == [
        ["run", "table", "status"],
        [told.run_id, told.table, "partly-committed"],
    ]
    assert lines[2] == [dead.run_id, "db.events", "dead"]
    assert lines[3][0] == "without"
    assert f"{dead.run_id} is dead: process 5 is gone; carry on: icepact resume {dead.run_id}" in text
    assert shown(lambda renderer: renderer.runs([], {}, open_only=True)) == "no run is open\n"
    assert shown(lambda renderer: renderer.runs([], {}, open_only=False)) == "no runs yet\n"


def test_costs_keep_their_money(shown: Shown) -> None:
    found = costs_of([run_outcome("r1", table=LONG, currency="USD")])
    text = shown(lambda renderer: renderer.costs(found))
    assert LONG in "".join(line.split()[0] for line in text.splitlines()[1:3])
    fits("\n".join(text.splitlines()[:3]))
    assert "USD : " in text


def test_health_and_policies_are_wrapped_not_cut_off(shown: Shown) -> None:
    name = "eu/" * 40
    health, plan = messy(name)
    text = shown(lambda renderer: renderer.health(health))
    assert f"day={name}" in "".join(line.split("  ")[0].strip() for line in text.splitlines()[8:])
    assert "..." not in text
    fits("\n".join(shown(lambda renderer: renderer.plan(plan)).splitlines()[10:]))
    settled = Policies().resolve(Options(max_cost_per_hour=10), {}, "prod", ("db", "events"))
    lines = fits(shown(lambda renderer: renderer.table_policy("db.events", settled.to_dict(), "EUR")))
    assert ["max_cost_per_hour", "10.00", "EUR", "request"] in lines
    assert ["closed_after", "1d", "default"] in lines
    assert ["priority_weights", "0.3,0.3,0.2,0.2", "default"] in lines


def test_a_plan_of_many_partitions_is_folded(shown: Shown) -> None:
    files = [data_file(f"{d}-{n}", MB, partition=(f"d{d:02d}",)) for d in range(72) for n in range(d + 5)]
    well = [data_file(f"well-{d}", 512 * MB, partition=(f"w{d:02d}",)) for d in range(30)]
    _, plan = reported([*files, *well])
    lines = shown(lambda renderer: renderer.plan(plan)).splitlines()
    told = [line for line in lines if line.startswith("  g00")]
    assert len(told) == SHOWN_GROUPS
    assert "day=d71: 76 files" in told[0]
    assert lines[3 + 2 * SHOWN_GROUPS].startswith("  and 62 groups (2,201 files, 2.1 GB -> 62) more like these; --all")
    assert any(line.startswith("  day=w00 to day=w29 (30 partitions): 30 files (15.0 GB); ") for line in lines)
    whole = shown(lambda renderer: renderer.plan(plan, whole=True))
    assert whole.startswith(plan.explain())
    assert whole.count("\n  g00") == 72


def test_a_pattern_that_means_no_partition_names_the_fields(shown: Shown) -> None:
    _, plan = reported([data_file("a", MB, partition=("2026-01-01",))], partition="ts_day=*")
    message = "no partition is like ts_day=*: partition fields are day, as in day=2026-01-01"
    assert plan.why_nothing == plan.note == message
    assert f"nothing to do: {message}" in shown(lambda renderer: renderer.plan(plan)).splitlines()
    assert reported([data_file("a", MB, partition=("2026-01-01",))], partition="day=*")[1].note == ""


def test_nothing_to_do_says_why(shown: Shown) -> None:
    _, plan = reported([data_file("a", 512 * MB, partition=("1",)), data_file("b", 500 * MB, partition=(None,))])
    word = data_file("c", 512 * MB, partition=("null",))
    assert [entry.partition for entry in reported([word])[1].left_out] == ["day='null'"]
    assert plan.why_nothing == "no file below 384 MB"
    assert [entry.partition for entry in plan.left_out] == ["day=null", "day=1"]
    outcome = run_outcome("r1", status=Status.NOTHING_TO_DO, groups=(), methods={}, reason=plan.why_nothing)
    text = shown(lambda renderer: renderer.outcome(outcome))
    assert text.splitlines()[1:] == ["nothing to do: no file below 384 MB"]
    assert reported([])[1].why_nothing == "there are no data files"


def test_a_rewrite_of_everything_tells_what_it_did(shown: Shown) -> None:
    outcome = run_outcome(
        "r1", files_before=5, files_after=5, methods={"assemble": 1}, effort=Effort(encoded_bytes=5 * MB)
    )
    text = shown(lambda renderer: renderer.outcome(outcome))
    assert "5 -> 5" in text
    assert "5.0 MB encoded anew" in text


def test_a_clean_up_lists_what_it_did(shown: Shown) -> None:
    entry = CleanupResult(
        run_id="r1", table="db.t", status="abandoned", files=["x"], bytes=MB, uploads=0, reason="it died", deleted=True
    )
    idle = replace(entry, run_id="r2", files=(), bytes=0)
    text = shown(lambda renderer: renderer.cleanup([entry, idle], deleted=True))
    assert text.splitlines() == [
        "run r1 on db.t: it died; deleted 1 file (1.0 MB)",
        "run r2 on db.t: it died; it is ended, and left nothing",
    ]
    assert (entry.in_vain, idle.in_vain, replace(idle, left_alone=True).in_vain) == (False, True, False)
    assert shown(lambda renderer: renderer.cleanup([], deleted=True)) == "nothing was left behind\n"


def test_an_error_does_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    Renderer(as_json=False).error("a\nb \x1b[31mred\x00\u202e", 2)
    assert capsys.readouterr().err == "icepact: a b ?[31mred??\n"
