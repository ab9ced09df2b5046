"""The behaviour suite of record stores, as far as it is about documents of the service."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from icepact.model.errors import Conflict
from icepact.record.store import RecordStore
from tests.support.stores import Clock


def test_an_empty_store_has_no_documents(store: RecordStore) -> None:
    assert store.document("tenant", "a") is None
    assert store.documents("tenant") == []
    assert not store.remove_document("tenant", "a")
    assert store.forget_documents("tenant", before=store.now()) == 0


def test_a_document_comes_back_as_it_was_written(store: RecordStore) -> None:
    body = {"text": "ü \N{SNOWMAN} ' \" %", "number": 1.5, "list": [None, True, {"deep": []}]}
    written = store.put_document("tenant", "a/b c", body)
    assert (written.version, written.body, written.changed_at) == (1, body, store.now())
    assert store.document("tenant", "a/b c") == written
    assert store.document("key", "a/b c") is None


def test_a_change_is_refused_if_somebody_was_faster(store: RecordStore) -> None:
    with pytest.raises(Conflict, match="tenant a was changed"):
        store.put_document("tenant", "a", {}, version=1)
    assert store.document("tenant", "a") is None
    first = store.put_document("tenant", "a", {"n": 1}, version=0)
    with pytest.raises(Conflict):
        store.put_document("tenant", "a", {"n": 2}, version=0)
    second = store.put_document("tenant", "a", {"n": 3}, version=first.version)
    with pytest.raises(Conflict):
        store.remove_document("tenant", "a", version=first.version)
    assert store.document("tenant", "a") == second
    assert store.put_document("tenant", "a", {"n": 4}).version == 3
    assert store.remove_document("tenant", "a", version=3)
    assert store.put_document("tenant", "a", {"n": 5}, version=0).version == 1


def test_documents_are_listed_by_their_keys_as_bytes(store: RecordStore) -> None:
    keys = ["B", "a", "a/1", "a/2", "a0", "a_", "b", "ä", "\N{SNOWMAN}", "\N{GRINNING FACE}"]
    for key in reversed(keys):
        store.put_document("audit", key, {"key": key})
    store.put_document("other", "a/3", {})
    assert [found.key for found in store.documents("audit")] == keys
    assert [found.key for found in store.documents("audit", prefix="a/")] == ["a/1", "a/2"]
    assert [found.key for found in store.documents("audit", after="a/1", limit=2)] == ["a/2", "a0"]
    assert [found.key for found in store.documents("audit", prefix="a", after="a/2")] == ["a0", "a_"]


def test_old_documents_are_forgotten_by_kind(store: RecordStore, clock: Clock) -> None:
    for key in ("old", "touched"):
        store.put_document("audit", key, {})
        store.put_document("tenant", key, {})
    clock.passes(60)
    store.put_document("audit", "touched", {})
    assert store.forget_documents("audit", before=store.now() - timedelta(seconds=30)) == 1
    assert [found.key for found in store.documents("audit")] == ["touched"]
    assert len(store.documents("tenant")) == 2


def test_of_many_who_change_a_document_at_once_each_sees_what_the_one_before_wrote(store: RecordStore) -> None:
    def add_one(_: int) -> int:
        for tries in range(200):
            seen = store.document("counter", "n")
            body = {"n": 1 + (seen.body["n"] if seen else 0)}
            try:
                store.put_document("counter", "n", body, version=seen.version if seen else 0)
            except Conflict:
                continue
            return tries
        raise AssertionError("never its turn")

    store.put_document("counter", "n", {"n": 0})
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add_one, range(40)))
    counter = store.document("counter", "n")
    assert counter is not None
    assert (counter.body, counter.version) == ({"n": 40}, 41)
