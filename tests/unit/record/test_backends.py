"""One behaviour suite over every backend of keys and values, and over what is made of them."""

import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from icepact.model.errors import BadInput
from icepact.model.job import JobStatus
from icepact.record.kv.interface import Entry, KeyValue, Span
from icepact.record.kv.keys import ascending, below, descending, inverted, key
from icepact.record.kv.memory import Memory
from icepact.record.kv.space import Change, Space
from icepact.record.kv.store import KvStore
from icepact.schedule.queue import next_job
from tests.support.jobs import US, job_request, make_job
from tests.support.records import NOON, run_outcome, run_record
from tests.support.stores import BACKENDS, Clock, backend_of


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> Iterator[KeyValue]:
    """Every backend, empty."""
    made = backend_of(request.param, request)
    yield made
    made.close()


def found(backend: KeyValue, span: Span) -> list[tuple[str, bytes]]:
    """What is in a span."""
    [entries] = backend.read([span])
    return [(entry.key, entry.value) for entry in entries]


def version(backend: KeyValue, name: str) -> int:
    """Of a key; 0 if there is none."""
    [entries] = backend.read([Span.of(name)])
    return entries[0].version if entries else 0


def test_keys_are_sorted_as_bytes_and_read_in_spans(backend: KeyValue) -> None:
    names = ["B", "a", "a\0b", "a\0c", "a\1", "ab", "b", "ä", "\N{SNOWMAN}", "\N{GRINNING FACE}"]
    assert backend.commit({}, {name: name.encode() for name in random.Random(1).sample(names, len(names))})
    everything = Span("A", "\U0010ffff")
    assert [name for name, _ in found(backend, everything)] == sorted(names, key=str.encode)
    assert found(backend, Span("a\0", "a\1")) == [("a\0b", b"a\0b"), ("a\0c", b"a\0c")]
    assert [name for name, _ in found(backend, Span("a", "c", 2))] == ["a", "a\0b"]
    both = backend.read([Span.of("b"), Span.of("c"), Span("ab", "b")])
    assert [[entry.key for entry in some] for some in both] == [["b"], [], ["ab"]]


def test_a_transaction_is_done_as_a_whole_or_not_at_all(backend: KeyValue) -> None:
    assert backend.commit({"a": 0, "b": 0}, {"a": b"1", "b": bytes(range(256))})
    seen = version(backend, "a")
    assert not backend.commit({"a": seen, "b": 0}, {"a": b"2"}, ["b"])
    assert found(backend, Span("a", "c")) == [("a", b"1"), ("b", bytes(range(256)))]
    assert backend.commit({"a": seen}, {"c": b""}, ["a", "nobody"])
    assert found(backend, Span("a", "d")) == [("b", bytes(range(256))), ("c", b"")]
    assert backend.commit({"a": 0}, {"a": b"3"})
    assert version(backend, "a") > seen  # never one that it had before


def test_what_is_parked_stays_if_a_transaction_says_so(backend: KeyValue) -> None:
    backend.park("part", b"x" * 1000, seconds=60)
    assert backend.commit({}, {"whole": b"1"}, persists=["part"])
    assert found(backend, Span.of("part")) == [("part", b"x" * 1000)]
    assert [name for name, _ in found(backend, Span("p", "q"))] == ["part"]


def test_of_many_who_change_a_key_one_is_first(backend: KeyValue) -> None:
    space = Space(backend)

    def add_one(_: int) -> int:
        def decide(values: Mapping[str, bytes]) -> Change[int]:
            number = int(values.get("n", b"0")) + 1
            return Change(result=number, puts={"n": str(number).encode()})

        return space.change(["n"], decide)

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(add_one, range(40))) == list(range(1, 41))


def test_values_of_any_size_come_back_and_leave_nothing_behind(backend: KeyValue) -> None:
    space = Space(backend)
    large, larger = random.Random(1).randbytes(3_000_000), random.Random(2).randbytes(5_000_000)
    for value in (large, larger, b"small", large):
        change: Change[None] = Change(result=None, puts={"k": value})
        space.change(["k"], lambda _, change=change: change)  # type: ignore[misc]
        assert space.one("k") == value
        assert dict(space.scan(("k", "l"))) == {"k": value}
    assert space.remove("k")
    assert not space.remove("k")
    [left] = backend.read([Span("k", "q")])
    assert left == []


def test_large_outcomes_and_results_are_kept(backend: KeyValue, clock: Clock) -> None:
    store = KvStore(backend, clock=clock)
    noise = random.Random(1).randbytes(2_000_000).hex()
    claim = store.begin(run_record("r1"), noise.encode())
    store.finish(claim, run_outcome("r1", error=noise))
    run = store.run("r1")
    assert run is not None
    assert run.outcome is not None
    assert (run.outcome.error, store.plan("r1")) == (noise, noise.encode())
    store.keep_manifest_stats("u", {"m": noise.encode()}, live={"m"}, room=10**9)
    assert store.stats_by_manifest(["m"]) == {"m": noise.encode()}
    store.keep_manifest_stats("u", {}, live={"m"}, room=0)
    assert (store.stats_by_manifest(["m"]), store.stats_bytes()) == ({}, 0)


# -- names ----------------------------------------------------------------------------------------


def test_names_sort_part_by_part() -> None:
    wanted = [key("a", "a", "c"), key("a", "b"), key("a b", "a")]
    assert sorted({*wanted}) == wanted
    with pytest.raises(BadInput, match="zero byte"):
        key("a", "b\0c")
    start, end = below("a", after="b")
    assert key("a", "b", "c") < start < key("a", "b!") < end < key("b")


def test_inverted_names_sort_the_other_way() -> None:
    names = ["", "a", "ab", "b", "ä", "\N{SNOWMAN}x", "\N{SNOWMAN}"]
    assert sorted(names, key=inverted) == sorted(names, key=str.encode, reverse=True)
    moments = [NOON + timedelta(microseconds=n) for n in (5, 1, 3)]
    assert sorted(moments, key=ascending) == sorted(moments)
    assert sorted(moments, key=descending) == sorted(moments, reverse=True)


# -- bounded work ---------------------------------------------------------------------------------


class Counting(Memory):
    """Counts what is read and written."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def read(self, spans: Sequence[Span]) -> Sequence[Sequence[Entry]]:
        """Counted."""
        some = super().read(spans)
        self.counts["read"] += sum(map(len, some))
        return some

    def commit(
        self,
        compares: Mapping[str, int],
        puts: Mapping[str, bytes],
        deletes: Collection[str] = (),
        *,
        persists: Collection[str] = (),
        tells: str | None = None,
    ) -> bool:
        """Counted."""
        self.counts["written"] += len(puts) + len(deletes)
        return super().commit(compares, puts, deletes, persists=persists, tells=tells)


def test_no_call_reads_all_that_ever_was(clock: Clock) -> None:
    """Many jobs and runs that have ended, and a few that have not."""
    backend = Counting()
    store = KvStore(backend, clock=clock)
    for n in range(600):
        store.submit_job(make_job(f"j{n:05}", job_request(table=f"db.t{n}"), tenant=f"t{n % 3}"))
        job = store.take_job("local", US, seconds=60, choose=next_job)
        assert job is not None
        store.end_job(job.claim, JobStatus.SUCCEEDED)
        claim = store.begin(run_record(f"r{n:05}", table=f"db.t{n}", started_at=clock.now))
        store.finish(claim, run_outcome(f"r{n:05}", started_at=clock.now, seconds=1))
        clock.passes(60)
    for n in range(5):
        store.submit_job(make_job(f"k{n}", job_request(table="db.t1")))
    open_claim = store.begin(run_record("open", started_at=clock.now))

    def counted(call: object, most: int) -> None:
        assert callable(call)
        backend.counts.clear()
        call()
        assert 0 < backend.counts.total() <= most, call

    counted(lambda: store.submit_job(make_job("new", idempotency_key="k")), 15)
    counted(lambda: store.take_job("local", US, seconds=60, choose=next_job), 40)
    counted(lambda: store.queue_sizes("local"), 10)
    counted(lambda: store.jobs(catalog="local", limit=10), 80)
    counted(lambda: store.jobs(catalog="local", tenant="t1", statuses=[JobStatus.SUCCEEDED], limit=10), 40)
    counted(lambda: store.jobs(catalog="local", table="db.t7"), 10)
    counted(lambda: store.jobs(catalog="local", before="j00100", limit=10), 80)
    counted(lambda: store.runs(catalog="local", open_only=True), 5)
    counted(lambda: store.runs(catalog="local", table="db.t7"), 10)
    counted(lambda: store.runs(catalog="local", limit=10), 30)
    counted(lambda: store.recent(catalog="local", since=clock.now - timedelta(minutes=10)), 60)
    counted(lambda: store.finish(open_claim, run_outcome("open", started_at=clock.now)), 20)
    counted(lambda: store.forget_jobs(before=NOON + timedelta(minutes=3)), 60)
