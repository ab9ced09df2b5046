"""What was read of deletes is kept, shared between threads, and forgotten in time."""

import io
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepact.execute.deletes.cache import DeleteCache
from icepact.execute.deletes.errors import BrokenDelete, UnsupportedDelete
from icepact.model.files import DeleteFile, DeleteKind
from tests.support.states import delete_file
from tests.unit.execute.deletes.test_vectors import blob_of


class Store:
    """Delete files in memory; counts how often each is fetched."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, int | None], bytes] = {}
        self.fetched: Counter[tuple[str, int | None]] = Counter()

    def fetch(self, ref: DeleteFile) -> bytes:
        self.fetched[ref.key] += 1
        return self.files[ref.key]

    def _put(self, table: pa.Table, **about: Any) -> DeleteFile:
        out = io.BytesIO()
        pq.write_table(table, out)
        ref = delete_file(format="parquet", size=len(out.getvalue()), records=table.num_rows, **about)
        self.files[ref.key] = out.getvalue()
        return ref

    def equality(self, path: str, columns: dict[int, list[Any]], ids: tuple[int, ...] | None = None) -> DeleteFile:
        arrays = {i: pa.array(values) for i, values in columns.items()}
        fields = [pa.field(f"c{i}", a.type, metadata={"PARQUET:field_id": str(i)}) for i, a in arrays.items()]
        table = pa.table(list(arrays.values()), schema=pa.schema(fields))
        return self._put(table, path=path, kind=DeleteKind.EQUALITY, equality_ids=ids or tuple(columns))

    def positions(self, path: str, rows: list[tuple[str, int]]) -> DeleteFile:
        table = pa.table({"file_path": [p for p, _ in rows], "pos": [n for _, n in rows]})
        return self._put(table, path=path, kind=DeleteKind.POSITION)

    def vector(self, offset: int, positions: list[int], referenced: str) -> DeleteFile:
        blob = blob_of(positions)
        ref = delete_file(
            path="v.puffin",
            kind=DeleteKind.DV,
            format="puffin",
            size=len(blob),
            file_size=10_000,
            records=len(positions),
            offset=offset,
            referenced=referenced,
        )
        self.files[ref.key] = blob
        return ref


TYPES = {1: "long", 2: "string", 3: "long"}


@pytest.fixture
def store() -> Store:
    return Store()


def test_positions_are_read_once(store: Store) -> None:
    one = store.positions("one", [("a", 1), ("b", 2), ("b", 1)])
    two = store.positions("two", [("a", 5)])
    vectors = [store.vector(4, [7, 9], "c"), store.vector(60, [1], "d")]
    keys = store.equality("keys", {1: [1]})
    cache = DeleteCache(store.fetch)
    for _ in range(3):
        assert cache.positions([one, two, keys], "a").tolist() == [1, 5]
        assert cache.positions([one], "b").tolist() == [1, 2]
        assert cache.positions([one, vectors[0]], "c").tolist() == [7, 9]
        assert cache.positions([vectors[1]], "d").tolist() == [1]
        assert cache.positions([], "e").tolist() == []
    assert store.fetched == {one.key: 1, two.key: 1, vectors[0].key: 1, vectors[1].key: 1}


def test_what_is_shared_cannot_be_written_to(store: Store) -> None:
    cache = DeleteCache(store.fetch)
    for ref in (store.positions("one", [("a", 1)]), store.vector(4, [1], "a")):
        with pytest.raises(ValueError, match="read-only"):
            cache.positions([ref], "a")[0] = 2


def test_one_set_for_each_choice_of_columns(store: Store) -> None:
    refs = [
        store.equality("a", {1: [1, 2]}),
        store.equality("b", {1: [3], 2: ["x"]}),
        store.equality("c", {2: ["y"], 1: [4]}),
        store.equality("d", {1: [9], 2: ["extra"]}, ids=(1,)),
        store.positions("p", [("a", 1)]),
    ]
    cache = DeleteCache(store.fetch)
    single, double = cache.key_sets([*refs, refs[0]], TYPES)
    assert (single.field_ids, len(single)) == ((1,), 3)
    assert single.matches({1: pa.array([1, 2, 3, 9, None])}).tolist() == [True, True, False, True, False]
    assert (double.field_ids, len(double)) == ((1, 2), 2)
    rows = {1: pa.array([3, 4, 4]), 2: pa.array(["x", "y", "x"])}
    assert double.matches(rows).tolist() == [True, True, False]
    assert cache.key_sets([refs[4]], TYPES) == []


def test_sets_are_built_once_and_files_are_shared_by_sets(store: Store) -> None:
    refs = [store.equality(name, {1: [n]}) for n, name in enumerate("abc")]
    cache = DeleteCache(store.fetch)
    (all_three,) = cache.key_sets(refs, TYPES)
    assert cache.key_sets(reversed(refs), TYPES)[0] is all_three
    (two,) = cache.key_sets(refs[1:], TYPES)
    assert two.matches({1: pa.array([0, 1, 2])}).tolist() == [False, True, True]
    assert set(store.fetched.values()) == {1}


def test_constants_stand_for_columns_that_a_delete_file_lacks(store: Store) -> None:
    ref = store.equality("a", {1: [1]}, ids=(1, 2))
    cache = DeleteCache(store.fetch)
    rows = {1: pa.array([1, 1]), 2: pa.array(["x", None])}
    assert cache.key_sets([ref], TYPES)[0].matches(rows).tolist() == [False, True]
    assert cache.key_sets([ref], TYPES, {2: "x"})[0].matches(rows).tolist() == [True, False]


def test_a_key_column_of_unknown_type_is_left_to_others(store: Store) -> None:
    ref = store.equality("a.parquet", {1: [1], 7: [1]})
    with pytest.raises(UnsupportedDelete, match=r"key columns \[7\] are not known \(a\.parquet\)"):
        DeleteCache(store.fetch).key_sets([ref], TYPES)


def test_a_failure_is_not_remembered(store: Store) -> None:
    ref = store.vector(4, [1, 2], "a")
    right, store.files[ref.key] = store.files[ref.key], b"damaged"
    cache = DeleteCache(store.fetch)
    with pytest.raises(BrokenDelete):
        cache.positions([ref], "a")
    store.files[ref.key] = right
    assert cache.positions([ref], "a").tolist() == [1, 2]


def test_what_was_used_longest_ago_is_forgotten(store: Store) -> None:
    refs = [store.vector(offset, list(range(1000)), "a") for offset in (10, 20, 30)]
    cache = DeleteCache(store.fetch, limit=2 * 8000)
    for ref in (refs[0], refs[1], refs[0], refs[2]):
        cache.positions([ref], "a")
    assert cache.nbytes == 16_000
    cache.positions([refs[0]], "a")
    cache.positions([refs[2]], "a")
    assert store.fetched == {refs[0].key: 1, refs[1].key: 1, refs[2].key: 1}
    cache.positions([refs[1]], "a")
    assert store.fetched[refs[1].key] == 2
    assert cache.nbytes == 16_000


def test_what_is_larger_than_the_limit_is_used_but_not_kept(store: Store) -> None:
    ref, small = store.vector(4, list(range(1000)), "a"), store.vector(9, [1], "a")
    cache = DeleteCache(store.fetch, limit=100)
    cache.positions([small], "a")
    for _ in range(2):
        assert len(cache.positions([ref], "a")) == 1000
    assert store.fetched == {ref.key: 2, small.key: 1}
    cache.positions([small], "a")
    assert store.fetched[small.key] == 1


@pytest.mark.parametrize("kind", ["long", "string"])
def test_the_estimate_counts_the_keys(store: Store, kind: str) -> None:
    values: list[Any] = list(range(10_000)) if kind == "long" else [f"key {n:020}" for n in range(10_000)]
    ref = store.equality("a", {1: values})
    cache = DeleteCache(store.fetch)
    cache.key_sets([ref], {1: kind})
    # file and set hold the values, the set a hash of 8 bytes and its tables too
    least = 10_000 * (2 * (8 if kind == "long" else 32) + 8)
    assert least < cache.nbytes < 5 * least


def test_threads_wait_for_one_another(store: Store) -> None:
    ref = store.equality("a", {1: [1, 2]})
    entered, release = threading.Event(), threading.Event()

    def slow(wanted: DeleteFile) -> bytes:
        entered.set()
        assert release.wait(60)
        return store.fetch(wanted)

    cache = DeleteCache(slow)
    with ThreadPoolExecutor(8) as threads:
        asked = [threads.submit(cache.key_sets, [ref], TYPES) for _ in range(8)]
        assert entered.wait(60)
        release.set()
        sets = {id(each.result(60)[0]) for each in asked}
    assert len(sets) == 1
    assert store.fetched == {ref.key: 1}


def test_waiting_threads_hear_of_a_failure(store: Store) -> None:
    ref = store.vector(4, [1], "a")
    store.files[ref.key] = b"damaged"
    entered, release = threading.Event(), threading.Event()

    def slow(wanted: DeleteFile) -> bytes:
        entered.set()
        assert release.wait(60)
        return store.fetch(wanted)

    cache = DeleteCache(slow)
    with ThreadPoolExecutor(4) as threads:
        asked = [threads.submit(cache.positions, [ref], "a") for _ in range(4)]
        assert entered.wait(60)
        release.set()
        assert {type(each.exception(60)) for each in asked} == {BrokenDelete}
