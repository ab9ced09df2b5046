"""Plans as files: what is written is what is read, and what is no plan, or of another version, is one line."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact import Compactor
from icepact.entrypoints.cli.main import _guarded
from icepact.model.errors import BadInput
from icepact.model.limits import Limit, Resource
from icepact.model.plan import Plan
from icepact.model.policy import Policy
from icepact.model.saved import FORMAT, SavedPlan, parse_saved, saved_text
from icepact.model.snapshot import PinnedFiles
from icepact.plan.budget import fit_to_budget
from tests.support.planning import make_plan
from tests.support.random_tables import policies, tables
from tests.support.states import MB, data_file, make_policy, make_state

AT = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
cases = policies().flatmap(lambda policy: st.tuples(st.just(policy), tables(policy)))


def small_plan() -> Plan:
    """Three groups of two files each."""
    files = [data_file(f"{day}-{n}", MB, partition=(day,)) for day in ("d1", "d2", "d3") for n in range(2)]
    return make_plan(make_state(files), make_policy(min_input_files=2))


def text_of(plan: Plan) -> str:
    return saved_text(SavedPlan(plan=plan, made_at=AT, icepact="0.1.0"))


def changed(**given: Any) -> str:
    """A saved plan with something else in its document."""
    return json.dumps({**json.loads(text_of(small_plan())), **given})


@given(cases)
def test_what_is_written_is_what_is_read(case: tuple[Policy, PinnedFiles]) -> None:
    policy, state = case
    plan = make_plan(state, policy)
    read = parse_saved(text_of(plan), "plan.json")
    assert read.plan.to_json() == plan.to_json()
    assert (read.made_at, read.icepact, read.file) == (AT, "0.1.0", "plan.json")


def test_odd_partition_values_come_back() -> None:
    values = ("-Infinity", 0.1 + 0.2, "ü \u2028 \"'", None, 2**63 - 1)
    files = [data_file(f"{at}-{n}", MB, partition=(value,)) for at, value in enumerate(values) for n in range(6)]
    plan = make_plan(make_state(files), make_policy())
    read = parse_saved(text_of(plan), "plan.json").plan
    assert {f.partition[0] for step in read.rewrites for f in step.files} == set(values)


def test_a_person_can_read_it() -> None:
    document = json.loads(text_of(small_plan()))
    assert list(document) == ["kind", "format", "icepact", "table", "uuid", "made_at", "explained", "plan"]
    assert (document["kind"], document["format"], document["table"]) == ("icepact-plan", FORMAT, "db.events")
    assert document["made_at"] == "2026-01-02T03:04:00+00:00"
    assert any("day=d2: 2 files (2.0 MB) -> 1" in line for line in document["explained"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "plan.json is not a saved plan: `icepact plan TABLE --out FILE` writes one"),
        ("not json", "is not a saved plan"),
        ("[" * 100_000, "is not a saved plan"),
        ("[]", "is not a saved plan"),
        ("{}", "is not a saved plan"),
        (changed(kind="icepact-report"), "is not a saved plan"),
        (changed(format="1"), "is not a saved plan: it tells no format"),
        (changed(format=True), "is not a saved plan: it tells no format"),
        (
            changed(format=FORMAT + 1, icepact="9.9.9", plan={"other": 1}),
            f"was saved by icepact 9.9.9 in format {FORMAT + 1}, and this one knows up to {FORMAT}: plan again",
        ),
        (changed(plan=None), "is damaged, or was saved by another version of icepact (0.1.0): plan again"),
        (changed(plan={"table": "db.events"}), "is damaged, or was saved by another version of icepact"),
        (changed(made_at="yesterday"), "is damaged, or was saved by another version of icepact"),
        (changed(made_at="2026-01-01T00:00:00"), "is damaged, or was saved by another version of icepact"),
        (changed(uuid="other"), "is damaged: it names another table than its plan"),
        (changed(table="db.other"), "is damaged: it names another table than its plan"),
    ],
)
def test_what_is_no_plan_is_one_line(text: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        parse_saved(text, "plan.json")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("where", ["plan", "policy", "step"])
def test_what_this_version_does_not_know_is_not_passed_over(where: str) -> None:
    """A wish that is not understood must not be ignored."""
    document = json.loads(text_of(small_plan()))
    plan = document["plan"]
    {"plan": plan, "policy": plan["policy"], "step": plan["steps"][0]}[where]["shred"] = True
    with pytest.raises(BadInput, match="saved by another version of icepact"):
        parse_saved(json.dumps(document), "plan.json")


def test_the_library_writes_whole_files_and_reads_them(tmp_path: Path) -> None:
    compactor = Compactor(warehouse=tmp_path)
    file = tmp_path / "plan.json"
    file.write_text("what was there before")
    plan = small_plan()
    compactor.save_plan(plan, file)
    assert compactor.load_plan(file).plan.to_json() == plan.to_json()
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]
    with pytest.raises(BadInput, match=r"plan .*absent.json cannot be read: No such file"):
        compactor.load_plan(tmp_path / "absent.json")
    with pytest.raises(BadInput, match="is a folder: name a file"):
        compactor.save_plan(plan, tmp_path)


def test_a_plan_of_a_table_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text_of(small_plan()))
    assert _guarded(["--warehouse", str(tmp_path), "apply", str(file)]) == 2
    err = capsys.readouterr().err
    assert err.startswith("icepact: no table db.events: ")
    assert err.count("\n") == 1


# -- what a budget of now allows ----------------------------------------------------------------------


@given(cases, st.sampled_from(Resource), st.floats(0, 1))
def test_whole_groups_within_a_budget(case: tuple[Policy, PinnedFiles], resource: Resource, share: float) -> None:
    policy, state = case
    steps = make_plan(state, policy).rewrites
    budget = [Limit(resource=resource, amount=share * sum(s.demand.of(resource) for s in steps), name="the limit")]
    kept, refused = fit_to_budget(steps, budget)
    assert sum(step.demand.of(resource) for step in kept) <= budget[0].amount * (1 + 1e-9)
    assert [step.group_id for step in steps if step.group_id not in refused] == [step.group_id for step in kept]
    assert set(refused.values()) <= {"over the budget (the limit)"}
    assert fit_to_budget(steps, []) == (list(steps), {})
