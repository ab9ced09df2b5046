"""Whether deletes are applied or carried: by what was asked for, and by what it costs."""

from collections.abc import Sequence
from typing import Any

import pytest

from icepact.assess.health import assess
from icepact.economics.speeds import Rates, Workload
from icepact.model.files import DataFile, DeleteFile, DeleteKind
from icepact.model.methods import Method
from icepact.model.plan import Plan
from icepact.model.prices import DEFAULT_PRESET, Prices
from icepact.plan.carrying import fragments
from icepact.plan.methods import cost_of
from icepact.stats.table import file_stats_of
from tests.support.planning import decided, make_plan
from tests.support.states import MB, attach, data_file, delete_file, make_policy, make_state

ROWS = 10_000
"""Of each file."""


def vector(path: str, **given: Any) -> DeleteFile:
    """A vector of a file."""
    return delete_file(f"{path}.puffin", DeleteKind.DV, referenced=path, **{"records": 100, **given})


def small(count: int, size: int = 11 * MB) -> list[DataFile]:
    return [data_file(f"s{n:02}", size, rows=ROWS) for n in range(count)]


def planned(files: Sequence[DataFile], existing: Sequence[DeleteFile], **given: Any) -> Plan:
    """As statistics decide it, and as the files are packed."""
    state, policy = make_state(attach(files, existing), existing, format_version=3), make_policy(**given)
    plan = make_plan(state, policy)
    chosen = decided(state, policy).decisions.chosen
    assert sum(d.cost.seconds.likely for d in chosen) == pytest.approx(plan.predicted.seconds.likely, abs=0.01)
    assert sum(d.files for d in chosen) == plan.predicted.input_files
    return plan


TEN = small(10)
VECTORS = [vector(file.path) for file in TEN]


def test_deletes_are_applied_unless_somebody_says_otherwise() -> None:
    [step] = planned(TEN, VECTORS).rewrites
    assert (step.carries, step.deletes_reason, step.deletes_carried) == (False, "", 0)


def test_carried_row_groups_are_copied_and_cost_that() -> None:
    [applied] = planned(TEN, VECTORS).rewrites
    plan = planned(TEN, VECTORS, deletes="carry")
    [step] = plan.rewrites
    assert (step.carries, step.deletes_reason) == (True, "as asked")
    assert applied.cost.copied_bytes == 0
    workload = Workload(units=1, files=10, copied=110 * MB - 40, encoded=40)  # but for what is before row groups
    prices = Prices.of(DEFAULT_PRESET).for_table({})
    assert step.cost == cost_of(Method.ASSEMBLE, workload, Rates(), prices, outputs=1)
    assert (step.delete_records, step.deletes_carried, plan.predicted.deletes_carried) == (1000, 1000, 1000)
    assert step.predicted_rows == 10 * ROWS
    assert step.predicted_bytes == 110 * MB
    assert (step.gain.delete_files, step.gain.delete_records) == (9, 0)  # one for the output
    assert (applied.gain.delete_files, applied.gain.delete_records) == (10, 1000)
    assert "1,000 delete records carried" in plan.explain()
    assert "1,000 delete records carried: as asked" in plan.explain()


def test_a_group_without_deletes_says_nothing_of_them() -> None:
    [step] = planned(TEN, [], deletes="carry").rewrites
    assert (step.carries, step.deletes_reason) == (False, "")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"deletes": "carry", "erase": True}, "deleted values are to be erased"),
        ({"deletes": "auto", "erase": True}, "deleted values are to be erased"),
        ({"erase": True}, "deleted values are to be erased"),
        ({"deletes": "auto", "rewrite_all": True}, "everything is rewritten"),
        ({"deletes": "auto", "tier": "full"}, "everything is rewritten"),
        ({"deletes": "auto", "max_delete_ratio": 0.009}, "1,000 delete records on 100,000 rows are too many"),
        ({"deletes": "carry", "method": "spark"}, "method spark leaves deleted rows out"),
    ],
)
def test_what_is_always_applied(given: dict[str, Any], reason: str) -> None:
    [step] = planned(TEN, VECTORS, **given).rewrites
    assert (step.carries, step.deletes_reason) == (False, reason)


def test_auto_weighs_encoding_against_what_readers_pay() -> None:
    [rarely] = planned(TEN, VECTORS, deletes="auto", scans_per_day=0.1).rewrites
    [often] = planned(TEN, VECTORS, deletes="auto", scans_per_day=10_000).rewrites
    assert (rarely.carries, often.carries) == (True, False)
    assert "of scans are saved by it in 7d" in rarely.deletes_reason
    assert "only" in rarely.deletes_reason
    assert "only" not in often.deletes_reason
    [more] = planned(TEN, [vector(f.path, records=ROWS // 20) for f in TEN], deletes="auto", scans_per_day=12).rewrites
    [fewer] = planned(TEN, [vector(f.path, records=1) for f in TEN], deletes="auto", scans_per_day=12).rewrites
    assert (more.carries, fewer.carries) == (False, True)


def test_the_limit_is_where_both_cost_the_same() -> None:
    """There is one number of scans below which deletes are carried, and above which they are applied."""
    answers = [planned(TEN, VECTORS, deletes="auto", scans_per_day=2.0**n).rewrites[0].carries for n in range(-4, 16)]
    assert answers == sorted(answers, reverse=True)
    assert set(answers) == {True, False}


# -- fixed points -----------------------------------------------------------------------------------

LARGE = [
    data_file(f"l{n}", 500 * MB, rows=ROWS, row_groups=tuple(4 + 125 * MB * i for i in range(4))) for n in range(3)
]


@pytest.mark.parametrize("strategy", ["small-files", "deletes", "auto", "cost-optimized"])
@pytest.mark.parametrize("deletes", ["carry", "auto"])
def test_what_was_carried_is_left_alone(strategy: str, deletes: str) -> None:
    """One vector for each large file: also when there is something new that is not enough to do."""
    carried = [vector(file.path) for file in LARGE]
    for news in ([], [data_file("new", MB, rows=10)]):
        given: dict[str, Any] = {"strategy": strategy, "deletes": deletes, "scans_per_day": 1}
        assert planned([*LARGE, *news], carried, **given).rewrites == ()


def test_applied_they_are_due_by_their_number() -> None:
    carried = [vector(file.path) for file in LARGE]
    assert planned(LARGE, carried, strategy="deletes").predicted.input_files == 3


def test_small_files_are_merged_beside_what_was_carried() -> None:
    """A large file is never copied for its deletes alone."""
    files = [*LARGE, *small(6)]
    deletes = [vector(file.path) for file in files]
    for strategy in ("small-files", "deletes"):
        plan = planned(files, deletes, deletes="carry", strategy=strategy)
        [step] = plan.rewrites
        assert {f.path for f in step.files} == {f.path for f in small(6)}
        assert step.carries
    assert "their deletes are carried" in {entry.reason.partition(", and ")[2] for entry in plan.left_out}


def test_a_large_file_is_rewritten_where_readers_pay_more_for_its_deletes() -> None:
    heavy = [vector(file.path, records=ROWS // 12) for file in LARGE]
    given: dict[str, Any] = {"strategy": "cost-optimized", "deletes": "auto"}
    often = planned(LARGE, heavy, **given, scans_per_day=5000)
    assert {step.carries for step in often.rewrites} == {False}
    assert often.predicted.input_files == 3
    assert planned(LARGE, heavy, **given, scans_per_day=0.1).rewrites == ()


@pytest.mark.parametrize(
    ("deletes", "single"),
    [
        ([], 0),
        ([vector("l0")], 1),
        ([vector("l0"), vector("l1")], 2),
        ([delete_file("p", DeleteKind.POSITION, referenced="l0")], 1),
        ([delete_file(f"p{n}", DeleteKind.POSITION, referenced="l0") for n in range(2)], 0),
        ([vector("l0"), delete_file("p", DeleteKind.POSITION)], 0),
        ([vector("l0"), delete_file("e", DeleteKind.EQUALITY)], 0),
        ([vector("s00")], 0),
        ([vector("l0", sequence_number=0)], 0),
    ],
)
def test_which_deletes_are_as_carrying_leaves_them(deletes: list[DeleteFile], single: int) -> None:
    files = [*LARGE, *small(1)]
    policy = make_policy()
    health = assess(file_stats_of(make_state(attach(files, deletes), deletes, format_version=3)), policy)
    assert health.facts.single_deletes == single
    every = health.facts.all_delete_files
    assert fragments(health.facts, make_policy(deletes="carry")) == every - single
    assert fragments(health.facts, make_policy(deletes="carry", erase=True)) == fragments(health.facts, policy) == every


# -- erasing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["small-files", "deletes", "auto", "cost-optimized"])
def test_whatever_deletes_apply_to_is_erased(strategy: str) -> None:
    """Large files with a single deleted row, whatever that costs; the others stay."""
    files = LARGE
    plan = planned(files, [vector("l1", records=1)], strategy=strategy, erase=True, scans_per_day=0.001)
    assert {f.path for step in plan.rewrites for f in step.files} == {"l1"}
    assert planned(files, [], strategy=strategy, erase=True, scans_per_day=0.001).rewrites == ()


def test_erasing_and_merging_in_one() -> None:
    plan = planned([*LARGE, *small(6)], [vector("l1", records=1)], erase=True)
    assert {f.path for step in plan.rewrites for f in step.files} == {"l1", *(f.path for f in small(6))}


def test_a_budget_takes_a_part() -> None:
    """Of carried groups, no single file is taken for its deletes."""
    whole = planned(TEN, VECTORS, deletes="carry")
    part = planned_in(TEN, VECTORS, max_files=4)
    [step] = part.rewrites
    assert (step.input_files, step.carries, step.delete_records) == (4, True, 400)
    assert step.cost.encoded_bytes < 100
    assert step.gain.scan_seconds < whole.rewrites[0].gain.scan_seconds
    assert planned_in(TEN, VECTORS, max_files=1).rewrites == ()


def planned_in(files: Sequence[DataFile], deletes: Sequence[DeleteFile], **budget: Any) -> Plan:
    """Within a budget."""
    state = make_state(attach(files, deletes), deletes, format_version=3)
    return make_plan(state, make_policy(deletes="carry", **budget))
