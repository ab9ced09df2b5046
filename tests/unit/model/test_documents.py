"""Documents of results: each has a schema, and is as it says; what stores keep can be read again."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

import icepact
from icepact.economics.learning import learn
from icepact.economics.report import costs_of
from icepact.model.decision import Decision, TableDecisions
from icepact.model.documents import Document, from_json, schema_of, to_json
from icepact.model.effort import NO_EFFORT, NO_ESTIMATE, Effort, Estimate
from icepact.model.expiry import ExpireResult
from icepact.model.fleet import Fleet, InspectionError, RankedTable, Round, TableSummary, Visit, VisitStatus
from icepact.model.health import Facts, Health, Overlap, PartitionGroup, PartitionHealth, Priority, Score
from icepact.model.histogram import from_counts
from icepact.model.housekeeping import FileTotals, Kept
from icepact.model.maintenance import MaintenanceOutcome, OperationResult
from icepact.model.manifests import ManifestsResult
from icepact.model.orphans import OrphansResult
from icepact.model.outcome import ChoreResult, Outcome
from icepact.model.recovery import CleanupResult, VerifyResult
from icepact.model.run import CommittedBatch, Owner
from icepact.model.snapshot import SnapshotInfo
from icepact.model.statistics import StatisticsResult
from icepact.model.tags import TagsResult
from icepact.model.ttl import ExpireDataResult
from tests.support.planning import make_plan
from tests.support.records import NOON, run_outcome, run_record
from tests.support.states import MB, data_file, make_policy, make_state

PLAN = make_plan(make_state([data_file(f"f{n}", MB) for n in range(6)]), make_policy(max_files=4))
[STEP] = PLAN.rewrites
FACTS = Facts(
    data_files=3,
    small_files=2,
    mergeable_files=2,
    bytes=1000,
    rows=70,
    row_groups=5,
    delete_files={"dv": 1},
    delete_records={"dv": 2},
    overlap=Overlap(1.234, 2, 3),
)
SCORE = Score(value=96.5, parts={"small files": 3.5})
HEALTH = Health(
    table="db.events",
    branch="main",
    snapshot_id=7,
    format_version=2,
    threshold=75,
    target=100,
    facts=replace(FACTS, overlap=None),
    score=SCORE,
    dangling={(1, ("d1",)): 2},
    manifests=1,
    snapshots=2,
    partitions=[
        PartitionHealth(
            spec_id=1, partition=("d1",), name="day=d1", facts=FACTS, score=SCORE, priority=Priority(value=0.3, rank=1)
        )
    ],
    partition_groups=[PartitionGroup(name="day=d1", keys=(), facts=FACTS)],
    histogram=from_counts({4: (2, 9), 16: (1, 17)}),
    timeline=[
        SnapshotInfo(snapshot_id=1, at=NOON, operation="append", data_files=None, delete_files=2, bytes=3),
    ],
)
DECISION = Decision(
    partition_group=HEALTH.partition_groups[0], chosen=True, reason="small", files=4, cost=STEP.cost, gain=STEP.gain
)
OUTCOME = run_outcome(
    "r2",
    effort=Effort(seconds=1.5, copied_bytes=3, requests=2, write_requests=1),
    predicted_duration=Estimate(likely=2.0, low=1.0, high=4.0),
    planned_at=NOON,
    snapshots=(101,),
    resumed=run_outcome("r1"),
    kept_options={"max_files": 4},
)
LANDED = CommittedBatch(commit_id="r2/1", snapshot_id=101, parent_id=None, sequence_number=3, groups=["g0001"])
RECORD = run_record(
    "r2", finished_at=NOON, outcome=OUTCOME, owner=Owner(host="here", pid=3, born=1), landed=[LANDED], folder="/data"
)
SUMMARY = TableSummary(
    table="db.events", score=96.5, data_files=3, bytes=1000, small_files=2, delete_records=2, seconds=2.0, money=0.25
)
FLEET = Fleet(
    tables=[RankedTable(rank=1, summary=SUMMARY, chosen=True, reason="worth it")],
    failed=[InspectionError(table="db.gone", reason="it is gone")],
    budget=PLAN.budget,
    currency="USD",
    warnings=("db.* matches no table",),
)
ROUND = Round(
    visits=[
        Visit(table="db.a", ended=VisitStatus.PLANNED, plan=PLAN),
        Visit(table="db.b", ended=VisitStatus.DONE, plan=PLAN, outcome=OUTCOME, resumed=run_outcome("r1")),
    ],
    dry_run=True,
)
[COSTS] = costs_of([OUTCOME])
CLEANUP = CleanupResult(run_id="r1", table="t", status="abandoned", files=["/a"], bytes=4, uploads=1, reason="dead")
LESSONS = learn([OUTCOME], "db.events", now=NOON + timedelta(days=1))

CHORES: tuple[ChoreResult, ...] = (
    ExpireResult(snapshots_expired=2, snapshot_ids=(1, 2), files=FileTotals(data_files=3, bytes=30), bytes_freed=30),
    OrphansResult(files=FileTotals(other_files=1), kept=(Kept(what="2 files", why="young"),)),
    ManifestsResult(snapshot_id=4, seconds=0.5),
    ExpireDataResult(column="day", branch="main", cutoff=OUTCOME.started_at),
    TagsResult(reason="nothing is due"),
    StatisticsResult(of_snapshot=4, table="compute"),
)
KEPT: list[Document] = [
    *(OUTCOME, OUTCOME.groups[0], CLEANUP, VerifyResult(snapshot_id=3, rows=None, same=None, reason="expired")),
    *(COSTS, FLEET.tables[0], SUMMARY, FLEET.failed[0], HEALTH.timeline[0]),
    *(STEP.cost, STEP.gain, PLAN.predicted, PLAN.left_out[0], PLAN.budget[0], PLAN.prices),
]
"""Values that can be had again from their documents."""
SHOWN: list[Document] = [
    *(HEALTH, HEALTH.partitions[0], FACTS, DECISION, TableDecisions(health=HEALTH, partitions=[DECISION])),
    *(RECORD, FLEET, ROUND, ROUND.visits[0], LESSONS, *CHORES),
    MaintenanceOutcome(
        table="db.t",
        started_at=OUTCOME.started_at,
        seconds=1.5,
        operations=[
            OperationResult(operation="expire", outcome=replace(OUTCOME, steps=CHORES)),
            OperationResult(operation="orphans", reason="over the budget"),
        ],
    ),
]
"""Values whose documents leave something out."""


KINDS: Mapping[str, tuple[type, ...]] = {
    **{"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,), "null": (type(None),)},
    **{"object": (dict,), "array": (list,)},
}


def test_results_of_housekeeping_can_be_had_again() -> None:
    outcome = replace(OUTCOME, steps=CHORES, operation="maintain")
    assert Outcome.from_json(to_json(outcome)).to_dict() == outcome.to_dict()


def wrong(document: Any, schema: Mapping[str, Any], defs: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """Where a document is not as a schema says: types, what must be there, and what is not described."""
    if "$ref" in schema:
        yield from wrong(document, defs[schema["$ref"].rpartition("/")[2]], defs, at)
    elif "anyOf" in schema:
        if all(any(wrong(document, one, defs, at)) for one in schema["anyOf"]):
            yield f"{at}: {document!r} is none of {schema['anyOf']}"
    elif "type" in schema:
        if not isinstance(document, KINDS[schema["type"]]) or ("enum" in schema and document not in schema["enum"]):
            yield f"{at}: {document!r} is no {schema.get('enum', schema['type'])}"
        elif isinstance(document, list):
            for number, item in enumerate(document):
                yield from wrong(item, schema["items"], defs, f"{at}[{number}]")
        elif isinstance(document, dict):
            yield from _wrong_inside(document, schema, defs, at)


def _wrong_inside(
    document: Mapping[str, Any], schema: Mapping[str, Any], defs: Mapping[str, Any], at: str
) -> Iterator[str]:
    known, others = schema.get("properties", {}), schema.get("additionalProperties")
    yield from (f"{at}.{name} is missing" for name in schema.get("required", ()) if name not in document)
    for name, part in document.items():
        if name in known or isinstance(others, dict):
            yield from wrong(part, known.get(name, others), defs, f"{at}.{name}")
        elif not others:
            yield f"{at}.{name} is not described"


def judged(document: Any, kind: type) -> list[str]:
    """Where a document is not as the schema of its type says."""
    schema = json.loads(json.dumps(schema_of(kind)))
    return list(wrong(document, schema, schema.get("$defs", {})))


@pytest.mark.parametrize("value", [*KEPT, *SHOWN], ids=lambda value: type(value).__name__)
def test_a_document_is_as_its_schema_says(value: Document) -> None:
    document = json.loads(json.dumps(value.to_dict()))
    assert document == value.to_dict()
    assert judged(document, type(value)) == []


def test_every_public_result_has_a_schema() -> None:
    """But plans and policies, which are written in two ways: in full, and as people read them."""
    results = {name for name in icepact.__all__ if isinstance(getattr(icepact, name), type)}
    tested = {type(value).__name__ for value in (*KEPT, *SHOWN)}
    others = {"Compactor", "Plan", "Policies", "Rule", "SavedPlan", "Status", "TablePolicy"}
    assert results - others <= tested


@pytest.mark.parametrize("value", KEPT, ids=lambda value: type(value).__name__)
def test_what_is_kept_can_be_had_again(value: Document) -> None:
    assert from_json(type(value), json.dumps(value.to_dict())) == value
    assert from_json(type(value), to_json(value)) == value


@pytest.mark.parametrize(
    ("spoilt", "said"),
    [
        ({"status": "odd"}, ".status: 'odd' is no "),
        ({"copied_bytes": "many"}, ".copied_bytes: 'many' is no integer"),
        ({"effort": {}}, ".effort is not described"),
        ({"planned_at": 3}, ".planned_at: 3 is none of "),
    ],
)
def test_the_judge_sees_what_is_wrong(spoilt: dict[str, Any], said: str) -> None:
    [found] = judged({**OUTCOME.to_dict(), **spoilt}, Outcome)
    assert found.startswith(said)
    missing = {k: v for k, v in OUTCOME.to_dict().items() if k != "run_id"}
    assert judged(missing, Outcome) == [".run_id is missing"]


def test_measures_and_estimates_stand_flat() -> None:
    document = OUTCOME.to_dict()
    assert {name: document[name] for name in ("work_seconds", "copied_bytes", "requests", "write_requests")} == {
        "work_seconds": 1.5,
        "copied_bytes": 3,
        "requests": 2,
        "write_requests": 1,
    }
    names = ("predicted_duration", "predicted_duration_low", "predicted_duration_high", "seconds")
    assert [document[name] for name in names] == [2.0, 1.0, 4.0, 90.0]
    assert document["groups"][0]["seconds"] == 1.5
    assert document["started_at"] == "2026-01-01T12:00:00+00:00"
    assert (document["resumed"]["run_id"], document["resumed"]["work_seconds"]) == ("r1", 0.0)


def test_what_an_earlier_version_did_not_tell_is_as_if_it_was_not_known() -> None:
    """The first one had only what every outcome must have; a later one may tell more."""
    needed = schema_of(Outcome)["$defs"]["Outcome"]["required"]
    first = {name: value for name, value in run_outcome("r1").to_dict().items() if name in needed}
    needed = schema_of(Outcome)["$defs"]["GroupOutcome"]["required"]
    first["groups"] = [{name: group[name] for name in (*needed, "seconds")} for group in first["groups"]]
    assert Outcome.from_json(json.dumps(first)) == run_outcome("r1")
    assert Outcome.from_json(json.dumps({**first, "news": 1})) == run_outcome("r1")
    del first["run_id"]
    with pytest.raises(ValueError, match="run_id"):
        Outcome.from_json(json.dumps(first))


def test_effort_and_estimates_add_up() -> None:
    one, two = Effort(seconds=1.5, copied_bytes=1, requests=3, write_requests=1), Effort(encoded_bytes=2, requests=4)
    both = Effort(seconds=1.5, copied_bytes=1, encoded_bytes=2, requests=7, write_requests=1)
    assert (one + two, Effort.sum([one, two]), Effort.sum([])) == (both, both, NO_EFFORT)
    assert both.read_requests == 6
    work = Estimate(likely=2.0, low=1.0, high=4.004)
    assert Estimate.sum([work, work]) == Estimate(likely=4.0, low=2.0, high=8.008)
    assert work.each(lambda amount: amount / 2).rounded(2) == Estimate(likely=1.0, low=0.5, high=2.0)
    assert Estimate.sum([]) == NO_ESTIMATE
