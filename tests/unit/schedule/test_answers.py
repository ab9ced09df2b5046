"""What workers leave behind: results that are not too large, plans in pieces, the last health."""

import json
import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.model.errors import BadInput
from icepact.record.kv.store import KvStore
from icepact.schedule.answers import (
    WORKER,
    KnownWorker,
    forget_answers,
    keep_health,
    keep_plan,
    keep_tables,
    keep_worker,
    kept_plan,
    known_health,
    known_healths,
    known_tables,
    known_workers,
)
from icepact.schedule.operations import cut
from tests.support.records import NOON
from tests.support.stores import Clock

LATER = NOON.replace(hour=13)


@pytest.fixture
def store() -> KvStore:
    """An empty one."""
    return KvStore.in_memory(clock=Clock())


def test_a_result_that_fits_is_as_it_is() -> None:
    assert cut({"groups": [1] * 50, "files": 3}) == {"groups": [1] * 50, "files": 3}


def test_a_result_that_is_too_large_has_shorter_lists_and_says_so() -> None:
    groups = [{"name": "x" * 100, "files": list(range(30))} for _ in range(5000)]
    short = cut({"status": "committed", "groups": groups}, most_bytes=5_000)
    assert len(json.dumps(short)) <= 5_000
    assert short["status"] == "committed"
    assert short["groups"] == [{**group, "files": group["files"][:10]} for group in groups[: len(short["groups"])]]
    assert short["cut"]["groups"] == 5000
    assert short["cut"]["groups.files"] == 30


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=3), inner, max_size=5),
    max_leaves=60,
)


@given(document=st.dictionaries(st.text(max_size=3), JSON, max_size=6), most=st.integers(50, 400))
def test_only_lists_and_mappings_are_cut(document: dict[str, Any], most: int) -> None:
    short = cut(document, most_bytes=most)
    if len(json.dumps(document)) <= most:
        assert short == document
    else:
        assert "cut" in short
        for name in document.keys() & short.keys() - {"cut"}:
            assert type(short[name]) is type(document[name])


@pytest.mark.parametrize("size", [0, 1, 200_000, 1_000_000])
def test_a_plan_is_kept_in_pieces(store: KvStore, size: int) -> None:
    plan = random.Random(1).randbytes(size)
    assert keep_plan(store, "j1", plan)
    assert kept_plan(store, "j1") == plan
    assert len(store.documents("plan")) == max(1, round(size * 4 / 3 / (256 * 1024) + 0.5))


def test_a_plan_that_is_not_there_is_refused(store: KvStore) -> None:
    keep_plan(store, "j1", random.Random(1).randbytes(500_000))
    for job in ("j", "j2"):
        with pytest.raises(BadInput, match=f"there is no plan of job {job},"):
            kept_plan(store, job)
    store.remove_document("plan", "j1/001")
    with pytest.raises(BadInput, match="not kept any more"):
        kept_plan(store, "j1")
    forget_answers(store, plans_before=LATER, workers_before=NOON)
    assert store.documents("plan") == []


def test_the_last_health_of_each_table(store: KvStore) -> None:
    assert known_health(store, "local", "a.b") is None
    for catalog in ("local", "other"):
        for table in ("a.b", "a.c"):
            keep_health(store, catalog, table, {"snapshot_id": 7, "in": catalog}, taken_at=NOON)
    keep_health(store, "local", "a.b", {"snapshot_id": 8, "in": "local"}, taken_at=LATER)
    found = known_health(store, "local", "a.b")
    assert found is not None
    assert (found.snapshot_id, found.taken_at) == (8, LATER)
    assert {name: one.health["in"] for name, one in known_healths(store, "local").items()} == {
        "a.b": "local",
        "a.c": "local",
    }
    assert [*known_healths(store, "local", after="a.b")] == ["a.c"]
    assert [*known_healths(store, "local", limit=1)] == ["a.b"]


def test_workers_that_were_heard_of(store: KvStore) -> None:
    one = KnownWorker(
        catalog="local", host="h", pid=1, since=NOON, state="busy", job="j1", jobs=3, seen_at=NOON + timedelta(hours=1)
    )
    keep_worker(store, "h/1/x", one)
    stored = store.document(WORKER, "h/1/x")
    assert stored is not None
    store.put_document(WORKER, "h/1/x", {**stored.body, "added": "by a later version"})
    keep_worker(store, "h/2/x", replace(one, catalog="other", job=None))
    assert known_workers(store, "local") == [one]
    assert one.is_there(one.seen_at + timedelta(seconds=59))
    assert not one.is_there(one.seen_at + timedelta(seconds=60))


def test_the_list_of_tables(store: KvStore) -> None:
    assert known_tables(store, "local") is None
    keep_tables(store, "local", ["a.b", "a.c"], taken_at=NOON)
    assert known_tables(store, "local") == (["a.b", "a.c"], NOON)
