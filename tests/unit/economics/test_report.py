"""Costs: before a run from a few counts, after it from what was measured, and both side by side."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from icepact.economics.overhead import learned_overhead
from icepact.economics.report import costs_of
from icepact.economics.speeds import Rates, Workload, measurements
from icepact.entrypoints.cli import main as cli
from icepact.entrypoints.library import Compactor
from icepact.execute.checkpoint import written_of
from icepact.execute.units import unit_ids
from icepact.maintain.inspect import learned_rates
from icepact.maintain.outcomes import outcome_of
from icepact.maintain.rounds import Run
from icepact.model.cost import Cost
from icepact.model.costs import Amounts
from icepact.model.effort import NO_ESTIMATE, Effort, Estimate
from icepact.model.methods import Method
from icepact.model.outcome import GroupOutcome, Outcome, StepCost
from icepact.model.plan import Plan
from icepact.model.prices import GB, TB, Prices
from icepact.model.rewrite import Written, WrittenFile
from icepact.model.run import Claim, CommittedBatch
from icepact.model.status import Status
from icepact.plan.methods import cost_of
from icepact.record.kv.store import KvStore
from icepact.record.sql import SqlStore
from tests.support.machines import Machine, history
from tests.support.planning import make_plan
from tests.support.records import NOON, run_outcome, run_record
from tests.support.states import MB, data_file, make_policy, make_state

S3 = Prices.of("s3-ec2")


def cost(method: Method = Method.ASSEMBLE, *, rates: Rates | None = None, prices: Prices = S3, **given: Any) -> Cost:
    """Of a group of ten files of a GB together."""
    outputs = given.pop("outputs", None)
    workload = Workload(**{"files": 10, "units": 2, "copied": 0, "encoded": GB, **given})
    return cost_of(method, workload, rates or Rates(), prices, outputs=outputs)


# -- before ---------------------------------------------------------------------------------------


def test_money_is_compute_requests_and_storage() -> None:
    told = cost()
    assert told.compute_money == pytest.approx(told.seconds.likely / 3600 * 0.048, rel=1e-3)
    assert told.request_money == pytest.approx((20 * 0.0004 + 2 * 0.005) / 1000)
    assert told.storage_money == pytest.approx(0.023 * 5 / 30)
    assert told.money.likely == pytest.approx(told.compute_money + told.request_money + told.storage_money)
    assert (told.read_requests, told.write_requests, told.requests) == (20, 2, 22)
    more, longer = (estimate.high - estimate.likely for estimate in (told.money, told.seconds))
    assert more == pytest.approx(longer / 3600 * 0.048, rel=1e-3)
    assert cost(outputs=7).write_requests == 7


def test_method_spark_copies_nothing() -> None:
    assert cost(Method.SPARK, copied=GB, encoded=5) == cost(Method.SPARK, copied=0, encoded=GB + 5)


@given(
    seed=st.integers(0, 10**6),
    runs=st.integers(0, 4),
    preset=st.sampled_from(["s3-ec2", "on-premise"]),
    method=st.sampled_from(Method),
    small=st.tuples(*[st.integers(1, 10**10)] * 4),
    more=st.tuples(*[st.integers(0, 10**10)] * 4),
)
def test_more_is_never_cheaper(
    seed: int, runs: int, preset: str, method: Method, small: tuple[int, ...], more: tuple[int, ...]
) -> None:
    rates, prices = Rates.learned(history(Machine(seed=seed, slow=2.0), runs), "t"), Prices.of(preset)
    names = ("files", "units", "copied", "encoded")
    before = cost(method, rates=rates, prices=prices, **dict(zip(names, small, strict=True)))
    larger = [a + b for a, b in zip(small, more, strict=True)]
    after = cost(method, rates=rates, prices=prices, **dict(zip(names, larger, strict=True)))
    assert after.seconds.likely >= before.seconds.likely
    assert after.money.likely >= before.money.likely
    for told in (before.seconds, before.money, after.seconds, after.money):
        assert told.low <= told.likely <= told.high


def test_a_part_costs_its_share() -> None:
    whole = cost()
    half = whole.part(0.5)
    assert half.money.likely == pytest.approx(whole.money.likely / 2)
    assert (half.seconds.high, half.encoded_bytes) == (pytest.approx(whole.seconds.high / 2), GB // 2)
    assert whole.part(1.0) == whole


def test_a_plan_is_priced_by_the_prices_and_the_table() -> None:
    """A table that keeps snapshots for two days pays for two days."""
    state = make_state([data_file(f"f{n}", 100 * MB) for n in range(6)])
    short = replace(state, properties={"history.expire.max-snapshot-age-ms": str(2 * 24 * 3600 * 1000)})
    [five], [two] = make_plan(state, make_policy()).rewrites, make_plan(short, make_policy()).rewrites
    assert two.cost.storage_money == pytest.approx(five.cost.storage_money * 2 / 5, rel=1e-6)
    free = replace(Prices.of("on-premise"), compute_per_core_hour=0.0, storage_per_gb_month=0.0)
    plan = make_plan(state, make_policy(), prices=free)
    assert (plan.rewrites[0].cost.money, plan.predicted.money) == (NO_ESTIMATE, NO_ESTIMATE)
    assert Plan.from_json(plan.to_json()).prices == free
    assert "0.00 USD" in plan.explain()


# -- after ----------------------------------------------------------------------------------------


def ended(*, committed: bool = True, methods: dict[str, int] | None = None, path: str = "/f", **given: Any) -> Outcome:
    """The outcome of a run with one group of six files of 80 MB, which took ten seconds."""
    state = make_state([data_file(f"{path}{n}", 80 * MB) for n in range(6)])
    plan = make_plan(state, make_policy())
    [step] = plan.rewrites
    file = WrittenFile(
        path="out",
        size=400 * MB,
        rows=480 * MB,
        spec_id=1,
        partition=("d1",),
        format="parquet",
        stored_size=400 * MB,
        stored_rows=480 * MB,
        columns=None,
    )
    made = Written(
        group_id=step.group_id,
        inputs=(),
        rows_observed=480 * MB,
        files=(file,),
        effort=Effort(seconds=10.0, **given),
        methods=methods or {"assemble": 1},
    )
    run = Run(plan=plan, run_id="r1", started_at=NOON, clock=0.0, claim=Claim(run_id="r1", epoch=0))
    run.written[step.group_id] = made
    if committed:
        run.landed.append(
            CommittedBatch(commit_id="r1/0.1", snapshot_id=5, parent_id=4, sequence_number=9, groups=[step.group_id])
        )
    return outcome_of(run)


def test_an_outcome_tells_what_was_predicted_and_what_came_of_it() -> None:
    outcome = ended()
    [group] = outcome.groups
    assert (group.units, group.predicted_files, group.output_files) == (1, 1, 1)
    assert (group.predicted_bytes, group.bytes_out, group.predicted_rows) == (480 * MB, 400 * MB, 480 * MB)
    foreseen = group.predicted_seconds
    assert foreseen.low < foreseen.likely < foreseen.high
    assert (group.planned_copied_bytes + group.planned_encoded_bytes, group.requests_counted) == (480 * MB, True)
    for name in ("predicted_files", "predicted_bytes", "predicted_seconds"):
        assert getattr(outcome, name) == getattr(group, name)
    assert (outcome.effort.seconds, outcome.output_files, outcome.output_bytes) == (10.0, 1, 400 * MB)
    assert (outcome.money, outcome.predicted_money, outcome.currency) == (group.money, group.predicted_money, "USD")


@pytest.mark.parametrize(
    ("given", "reads", "writes", "counted"),
    [
        pytest.param({}, 0, 0, True, id="local files ask nobody"),
        pytest.param({"path": "s3://b/f", "requests": 20, "write_requests": 4}, 16, 4, True, id="counted"),
        pytest.param({"path": "gs://b/f"}, 12, 1, False, id="a store that does not count"),
        pytest.param({"methods": {"spark": 1}}, 12, 1, False, id="method spark does not count"),
    ],
)
def test_money_after_a_run(given: dict[str, Any], reads: int, writes: int, counted: bool) -> None:
    for committed in (True, False):
        [group] = ended(committed=committed, **given).groups
        kept = S3.storage(480 * MB) if committed else 0.0
        spent = S3.compute(10) + S3.requests(reads=reads, writes=writes) + kept
        assert group.money == pytest.approx(spent, abs=1e-9)
        assert group.requests_counted is counted


def test_what_is_learned_from_an_outcome_is_what_it_says() -> None:
    [one] = measurements(ended())
    [group] = ended().groups
    assert one.workload == (1, 6, group.planned_copied_bytes, group.planned_encoded_bytes)
    assert (one.seconds, one.bytes_out, one.kept, one.reads) == (10.0, 400 * MB, 1.0, 0)


def test_a_plan_and_checkpoints_of_an_earlier_version_are_still_understood() -> None:
    """A run that died before an update is carried on with after it."""
    plan = make_plan(make_state([data_file(f"/f{n}", 80 * MB) for n in range(6)]), make_policy())
    told = json.loads(plan.to_json())
    del told["prices"]
    for step in told["steps"]:
        del step["predicted_rows"]
        step["units"] = [{"files": unit["files"]} for unit in step["units"]]
        old = ("seconds", "copied_bytes", "encoded_bytes", "requests")
        step["cost"] = {"baseline_seconds": 1.0, **{name: step["cost"][name] for name in old}}
    again = Plan.from_json(json.dumps(told).encode())
    assert again.prices == S3
    [step] = again.rewrites
    assert step.cost.seconds == Estimate(likely=plan.rewrites[0].cost.seconds.likely)
    assert (step.cost.money, step.predicted_rows) == (NO_ESTIMATE, None)
    names = ("rows_observed", "seconds", "copied_bytes", "encoded_bytes", "requests", "transferred_bytes")
    checkpoint = {"method": "assemble", "files": [], **dict.fromkeys(names, 3)}
    written = written_of(step, dict.fromkeys(unit_ids(step), checkpoint))
    assert written.effort == Effort(seconds=3, copied_bytes=3, encoded_bytes=3, transferred_bytes=3, requests=3)


def test_a_plan_learns_from_its_table_first_and_from_the_catalog() -> None:
    """From runs that had something to do, each once, newest first."""
    store = KvStore.in_memory()
    group: dict[str, Any] = {
        "method": "assemble",
        "effort": Effort(seconds=100.0),
        "bytes_in": 480 * MB,
        "planned_encoded_bytes": 480 * MB,
        "units": 1,
    }
    for number in range(40):
        table = "db.events" if number < 4 else "db.other"
        idle = number % 2 == 1
        record = run_record(f"r{number:02d}", table=table, started_at=NOON + timedelta(minutes=number))
        [made] = run_outcome("any").groups
        outcome = run_outcome(
            record.run_id,
            table=table,
            status=Status.NOTHING_TO_DO if idle else Status.COMMITTED,
            groups=() if idle else (replace(made, **group),),
        )
        store.finish(store.begin(record), outcome)
    mine = learned_rates(store, "local", "db.events").methods[Method.ASSEMBLE]
    other = learned_rates(store, "local", "db.other").methods[Method.ASSEMBLE]
    none = learned_rates(store, "elsewhere", "db.events")
    assert (mine.runs, other.runs, none) == (2, 16, Rates(overhead=learned_overhead([], first=False)))
    workload = Workload(units=1, files=6, copied=0, encoded=480 * MB)
    for table in ("db.events", "db.other", "db.new"):
        told = learned_rates(store, "local", table).seconds(Method.ASSEMBLE, workload)
        assert told.likely == pytest.approx(100, rel=0.25)
    store.close()


# -- side by side ---------------------------------------------------------------------------------


def run_of(run_id: str, *groups: dict[str, Any], **given: Any) -> Outcome:
    """An outcome; its groups differ from the usual one in what is given."""
    outcome = run_outcome(run_id, currency="USD", **given)
    made: list[GroupOutcome] = [replace(outcome.groups[0], **group) for group in groups]
    return replace(outcome, groups=tuple(made))


EXACT: dict[str, Any] = {
    "method": "assemble",
    "predicted_files": 1,
    "predicted_bytes": 400,
    "predicted_seconds": Estimate(likely=1.5, low=1.0, high=2.0),
    "predicted_money": 0.2,
    "money": 0.25,
}


def test_errors_are_medians_over_runs_and_groups_of_a_run_are_added_up() -> None:
    [found] = costs_of(
        [
            run_of("r1", EXACT, {**EXACT, "predicted_seconds": Estimate(likely=4.5, low=1.0, high=5.0)}),
            run_of("r2", {**EXACT, "predicted_files": 2, "predicted_bytes": 500, "effort": Effort(seconds=2.5)}),
            run_of("r3", EXACT),
        ]
    )
    assert (found.table, found.method, found.runs) == ("db.events", "assemble", 3)
    assert (found.error.files, found.error.bytes, found.error.seconds) == (0.0, 0.0, 0.4)
    assert found.coverage == pytest.approx(2 / 3, abs=1e-4)
    assert (found.predicted.files, found.actual.files, found.predicted.bytes, found.actual.bytes) == (5, 4, 1700, 1600)
    assert (found.actual.seconds, found.predicted.money, found.actual.money) == (7.0, 0.8, 1.0)
    assert found.money_per_tb == pytest.approx(1.0 / 2400 * TB)


def test_tables_methods_and_currencies_are_told_apart() -> None:
    found = costs_of(
        [
            run_of("r1", EXACT, {**EXACT, "method": "spark"}),
            run_of("r2", EXACT, table="db.other"),
            replace(run_of("r3", EXACT), currency="EUR"),
        ]
    )
    assert [(c.table, c.method, c.currency, c.runs) for c in found] == [
        ("db.events", "assemble", "EUR", 1),
        ("db.events", "assemble", "USD", 1),
        ("db.events", "spark", "USD", 1),
        ("db.other", "assemble", "USD", 1),
    ]


def test_housekeeping_has_lines_of_its_own() -> None:
    step = StepCost(
        kind="expire-snapshots",
        finished=True,
        effort=Effort(seconds=2.0, requests=3),
        predicted_seconds=Estimate(likely=1.0, low=0.5, high=3.0),
        predicted_money=0.1,
        money=0.2,
    )
    found = costs_of([run_of("r1", operation="expire", step_costs=(step,)), run_of("r2", EXACT)])
    assert [(one.method, one.runs) for one in found] == [("assemble", 1), ("expire-snapshots", 1)]
    expired = found[1]
    assert (expired.predicted, expired.actual) == (Amounts(seconds=1.0, money=0.1), Amounts(seconds=2.0, money=0.2))
    assert (expired.error.files, expired.error.seconds, expired.coverage) == (None, 0.5, 1.0)
    assert expired.money_per_tb is None


def test_older_documents_count_for_what_they_tell() -> None:
    """They predicted seconds only; nothing of them is taken for a wrong prediction or for free work."""
    document = run_of("r1", {"method": "assemble", "predicted_seconds": Estimate(likely=1.2)}).to_dict()
    kept = {
        *("group_id", "partition", "committed", "reason", "method", "input_files", "output_files"),
        *("rows_in", "rows_out", "bytes_in", "bytes_out", "seconds", "predicted_seconds"),
    }
    document["groups"] = [{k: v for k, v in group.items() if k in kept} for group in document["groups"]]
    old = Outcome.from_json(json.dumps(document))
    [found] = costs_of([old])
    assert (found.error.files, found.error.bytes, found.error.seconds) == (None, None, 0.2)
    assert (found.coverage, found.money_per_tb, found.actual.files) == (None, None, 1)
    both = costs_of([old, run_of("r2", EXACT)])
    assert [(c.runs, c.error.files, c.coverage) for c in both] == [(2, 0.0, 1.0)]
    assert both[0].money_per_tb == pytest.approx(0.25 / 600 * TB)


def test_groups_that_never_began_are_not_counted() -> None:
    assert costs_of([run_of("r1", {**EXACT, "output_files": 0, "effort": Effort()}), run_of("r2")]) == ()


def warehouse(folder: Path) -> Path:
    """With three runs on record, and no table."""
    store = SqlStore.in_file(folder / "icepact.db")
    for run_id, money in (("r1", 0.5), ("r2", 0.25)):
        claim = store.begin(run_record(run_id))
        group = replace(run_outcome(run_id).groups[0], **{**EXACT, "money": money})
        store.finish(claim, run_outcome(run_id, groups=(group,), currency="USD"))
    store.begin(run_record("r3"))
    store.close()
    return folder


def test_the_library_and_the_command_need_nothing_but_the_record_store(tmp_path: Path) -> None:
    place = warehouse(tmp_path)
    [found] = Compactor(warehouse=place).costs("db.events")
    assert (found.runs, found.actual.money) == (2, 0.75)
    assert Compactor(warehouse=place).costs("db.other") == ()
    [newest] = Compactor(warehouse=place).costs(limit=1)
    assert newest.runs == 1
    asked = CliRunner().invoke(cli.app, ["--warehouse", str(place), "--json", "costs"])
    assert json.loads(asked.stdout) == {"costs": [found.to_dict()]}
    shown = CliRunner().invoke(cli.app, ["--warehouse", str(place), "costs", "db.events"], env={"COLUMNS": "120"})
    assert "db.events  assemble" in shown.stdout
    assert "2 : 2" in shown.stdout
    nothing = CliRunner().invoke(cli.app, ["--warehouse", str(place), "costs", "db.none"])
    assert nothing.stdout == "no runs yet\n"
