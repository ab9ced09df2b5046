"""The report: one well-formed page that says what is known, harms nobody, and never grows too large."""

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.assess.signals import SIGNALS, score
from icepact.entrypoints.cli.markup import joined, tag, text
from icepact.entrypoints.cli.render import Renderer
from icepact.entrypoints.cli.report import page
from icepact.entrypoints.cli.svg import grade
from icepact.model.effort import NO_ESTIMATE, Estimate
from icepact.model.health import Health, Overlap
from icepact.model.plan import Plan
from tests.support.reports import NOW, life, messy, reported
from tests.support.states import MB, data_file

SCRIPT = """<script>alert("1")</script>&'"""


def parsed(health: Health, plan: Plan) -> ET.Element:
    return ET.fromstring(page(health, plan, written_at=NOW))


def said(element: ET.Element) -> str:
    return " ".join(" ".join(element.itertext()).split())


def sections(root: ET.Element) -> dict[str, ET.Element]:
    return {section.attrib["aria-label"]: section for section in root.iter("section")}


def classes(root: ET.Element, name: str) -> list[ET.Element]:
    return [element for element in root.iter() if name in element.attrib.get("class", "").split()]


# -- what it says ---------------------------------------------------------------------------------


def test_it_says_all_that_is_known() -> None:
    root = parsed(*messy())
    found = {title: said(section) for title, section in sections(root).items()}
    assert list(found) == [
        "Verdict",
        "What would be done, and why",
        "Score",
        "File sizes",
        "Partitions",
        "Delete debt",
        "Snapshots over time",
    ]
    assert "This table is in a bad state: 44.65 of 100. Compacting helps." in found["Verdict"]
    assert "data files 10 8 below 384 MB" in found["Score"]
    assert "small files -40 of 50" in found["Score"]
    assert all((signal.share.__doc__ or "?") in found["Score"] for signal in SIGNALS)
    assert "position deletes 1 4,321" in found["Delete debt"]
    assert "equality deletes 1 12" in found["Delete debt"]
    assert "1 of the delete files apply to nothing any more" in found["Delete debt"]
    assert "18 append, 2 replace" in found["Snapshots over time"]
    assert "10 data files become 3" in found["Verdict"]
    assert "day=2026-01-01 8 files below 384 MB; minor, by assemble" in found["What would be done, and why"]
    assert "no file below 384 MB 1 512 MB day=2026-01-03" in found["What would be done, and why"]


def test_the_threshold_and_the_target_are_marked_where_they_are() -> None:
    sizes = sections(parsed(*messy()))["File sizes"]
    assert [said(mark) for mark in classes(sizes, "marked")] == ["small below 384 MB", "target 512 MB"]
    small, target = (float(line.attrib["x1"]) for line in classes(sizes, "mark"))
    bars = {said(bar).split(" of ")[1].split(" to ")[0]: float(bar.attrib["x"]) for bar in classes(sizes, "before")}
    assert bars["1 MB"] < bars["256 MB"] < small < target < bars["512 MB"] + 10
    assert [said(bar) for bar in classes(sizes, "before")] == [
        "8 files of 1 MB to 2 MB now, 8 MB together",
        "1 file of 256 MB to 512 MB now, 500 MB together",
        "1 file of 512 MB to 1 GB now, 512 MB together",
    ]
    assert len(classes(sizes, "after")) == 3


def test_the_worst_partition_comes_first_and_every_cell_says_what_it_is() -> None:
    partitions = sections(parsed(*messy()))["Partitions"]
    rows = [said(row) for row in next(partitions.iter("tbody"))]
    assert [row.split()[0] for row in rows] == ["day=2026-01-01", "day=2026-01-02"]
    cells = next(element for element in partitions.iter("div") if element.attrib.get("role") == "img")
    assert [cell.attrib["title"] for cell in cells] == [
        "day=2026-01-01: score 50, 8 files, 8 small",
        "day=2026-01-02: score 54.67, 1 file, 4,333 delete records",
        "day=2026-01-03: score 100, 1 file",
    ]
    assert [cell.attrib["class"] for cell in cells] == ["s1", "s1", "s4"]


def test_a_better_score_never_has_a_worse_colour() -> None:
    grades = [grade(score / 10) for score in range(1001)]
    assert grades == sorted(grades)
    assert set(grades) == {0, 1, 2, 3, 4}


def test_prices_are_told_if_there_are_any() -> None:
    health, plan = messy()
    free = tuple(replace(step, cost=replace(step.cost, money=NO_ESTIMATE)) for step in plan.rewrites)
    assert "price" not in said(parsed(health, replace(plan, steps=free)))
    costs = [replace(step, cost=replace(step.cost, money=Estimate(likely=0.25))) for step in plan.rewrites]
    priced = said(parsed(health, replace(plan, steps=tuple(costs))))
    assert "cost about 0.50 USD" in priced
    assert "price" in priced
    assert "0.25 USD" in priced


def test_the_command_to_copy_is_the_one_that_was_asked_for() -> None:
    health, plan = reported([data_file(f"f{n}", MB) for n in range(9)], target_file_size=64 * MB)
    asked = replace(plan, table="db.`my table`", policy=replace(plan.policy, sources={"target_file_size": "request"}))
    root = ET.fromstring(page(health, asked, written_at=NOW, where=["--warehouse", "./my lake"]))
    command = "icepact compact 'db.`my table`' --target-file-size 67108864 --warehouse './my lake'"
    assert [said(code) for code in root.iter("code")] == [command]
    assert list(parsed(*reported([data_file("a", 512 * MB)])).iter("pre")) == []


def test_bars_are_as_green_as_they_are_full() -> None:
    score = sections(parsed(*messy()))["Score"]
    bars = [(bar[0].attrib["class"], bar[0].attrib["style"]) for bar in classes(score, "bar")]
    assert bars == [("s0", "width:20.0%"), ("s2", "width:69.0%"), ("s2", "width:70.0%")]
    sizes = sections(parsed(*messy()))["File sizes"]
    assert ["small" in bar.attrib["class"] for bar in classes(sizes, "before")] == [True, False, False]


def test_on_a_narrow_screen_every_number_says_what_it_is() -> None:
    plan = sections(parsed(*messy()))["What would be done, and why"]
    row = next(iter(next(plan.iter("tbody"))))
    assert [cell.attrib["data-label"] for cell in row] == [
        *("partition", "files", "becomes", "size", "saves a scan", "work", "price")
    ]


def test_a_plan_of_another_snapshot_or_of_a_part_says_so() -> None:
    health, plan = messy()
    assert "made on snapshot 101, which was committed meanwhile" in said(parsed(health, replace(plan, snapshot_id=101)))
    part = replace(plan, policy=replace(plan.policy, where="a < 1"))
    root = parsed(health, part)
    assert "hold rows with a < 1" in said(root)
    assert classes(root, "after") == []


def test_snapshots_that_tell_nothing_leave_a_gap() -> None:
    health, plan = messy()
    timeline = life(9)
    timeline[4] = replace(timeline[4], data_files=None, delete_files=None, bytes=None, operation="")
    chart = sections(parsed(replace(health, timeline=timeline), plan))["Snapshots over time"]
    assert len(classes(chart, "step")) == 2 * 3
    assert len(classes(chart, "dot")) + len(classes(chart, "replace")) == 8 * 3


@pytest.mark.parametrize("count", [0, 1, 2, 200])
def test_any_number_of_snapshots(count: int) -> None:
    health, plan = messy()
    chart = sections(parsed(replace(health, timeline=life(count)), plan))["Snapshots over time"]
    assert len(list(chart.iter("circle"))) == 3 * count


def test_an_empty_table_and_a_healthy_one() -> None:
    empty = said(parsed(*reported([])))
    assert "There are no data files." in empty
    assert "There are no snapshots." in empty
    assert "Nothing would be done, with strategy small-files: there are no data files." in empty
    well = said(parsed(*reported([data_file("a", 512 * MB)])))
    assert "No partition has anything to gain." in well
    assert "There are no deletes" in well


# -- that it harms nobody -------------------------------------------------------------------------


def test_what_is_in_a_table_is_never_markup() -> None:
    health, plan = messy(SCRIPT)
    health = replace(health, table=f"db.{SCRIPT}", branch=SCRIPT)
    plan = replace(plan, policy=replace(plan.policy, where=SCRIPT))
    written = page(health, plan, written_at=NOW)
    root = ET.fromstring(written)
    assert "<script" not in written
    assert said(root).count(SCRIPT) >= 5
    assert not [name for element in root.iter() for name in element.attrib if name.startswith("on")]


@given(st.text(st.characters(codec=None, categories=None), max_size=40))
def test_any_name_gives_a_page_that_can_be_written_and_read(name: str) -> None:
    health, plan = reported([data_file(f"{n}", MB, partition=(name,)) for n in range(6)])
    written = page(health, plan, written_at=NOW)
    assert ET.fromstring(written.encode()).tag == "html"


def test_it_needs_no_network_and_no_scripts() -> None:
    written = page(*messy(), written_at=NOW)
    root = ET.fromstring(written)
    assert not {"script", "link", "img", "iframe", "object"} & {element.tag for element in root.iter()}
    assert not {"src", "href"} & {name for element in root.iter() for name in element.attrib}
    assert not re.search(r"url\(|@import|https?:", written)


def test_pictures_have_words_for_those_who_do_not_see_them() -> None:
    root = parsed(*messy())
    pictures = [element for element in root.iter() if element.tag == "svg" or element.attrib.get("role") == "img"]
    assert len(pictures) == 4
    assert all(element.attrib["aria-label"] and element.attrib["role"] == "img" for element in pictures)
    assert root.attrib["lang"] == "en"
    assert said(next(root.iter("title"))).startswith("db.events: health ")


# -- that it never grows too large ----------------------------------------------------------------


@pytest.mark.parametrize(("partitions", "each"), [(2400, 1), (10_000, 5), (100_000, 42)])
def test_many_partitions_stay_readable(partitions: int, each: int) -> None:
    health, plan = messy(SCRIPT * 40)
    some = max(health.partitions, key=lambda p: len(p.name))
    assert len(some.name) > 900
    many = [replace(some, name=f"{n:06d}-{some.name}") for n in range(partitions)]
    steps = tuple(replace(plan.rewrites[0], partition=p.name) for p in many[:2000])
    left_out = [replace(plan.left_out[0], partition=p.name, reason=p.name) for p in many]
    health = replace(health, partitions=many, timeline=life(200))
    written = page(health, replace(plan, steps=steps, left_out=left_out), written_at=NOW)
    assert len(written.encode()) < 2_000_000
    root = ET.fromstring(written)
    cells = next(e for e in root.iter("div") if e.attrib.get("class") == "map")
    assert len(cells) == -(-partitions // each)
    assert f"And {partitions - 25:,} partitions more" in said(root)
    assert "And 1,975 groups more" in said(root)


# -- markup ---------------------------------------------------------------------------------------


def test_markup_is_escaped_once_and_only_once() -> None:
    assert tag("p", "<", tag("b", "&"), None, 5, class_="a", title='"') == (
        '<p class="a" title="&quot;">&lt;<b>&amp;</b>5</p>'
    )
    assert text(text("<")) == "&lt;"
    assert joined("a\x00\ud800\u202eb") == "a\ufffd\ufffd\ufffdb"
    assert tag("line", x1=1.25, stroke_width=2, y1=None) == '<line x1="1.25" stroke-width="2"/>'
    assert tag("i") == "<i></i>"


def test_overlap_is_told_of_sorted_tables_only(capsys: pytest.CaptureFixture[str]) -> None:
    health, plan = messy()
    facts = replace(health.facts, overlap=Overlap(average=4.0, maximum=9, files=10))
    sorted_one = replace(health, facts=facts, score=score(facts))
    assert "overlap" not in said(sections(parsed(health, plan))["Score"])
    told = said(sections(parsed(sorted_one, plan))["Score"])
    assert "9 at most" in told
    assert "overlap, up to 20 points" in told
    Renderer(as_json=False).health(health)
    assert "overlap" not in capsys.readouterr().out
    Renderer(as_json=False).health(sorted_one)
    assert "overlap 4.0 files lie over each other, 9 at most" in " ".join(capsys.readouterr().out.split())
