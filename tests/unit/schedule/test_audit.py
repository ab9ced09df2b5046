"""The audit log: all that was changed, newest first, each tenant's by itself."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.model.errors import BadInput
from icepact.model.tenant import AuditEntry, Caller, Role
from icepact.record.kv.store import KvStore
from icepact.record.sql import SqlStore
from icepact.record.store import RecordStore
from icepact.schedule import audit as module
from icepact.schedule.audit import AUDIT, Audit
from icepact.schedule.scopes import Everything
from tests.support.stores import Clock

DEPLOY = Caller(tenant="red", role=Role.ADMIN, key_id="0123456789ab", name="deploy", scope=Everything())


@pytest.fixture
def clock() -> Clock:
    """It is noon."""
    return Clock()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[RecordStore]:
    """Empty."""
    kept: KvStore | SqlStore = SqlStore.in_file(tmp_path / "a.db", clock=clock)
    if request.param == "memory":
        kept = KvStore.in_memory(clock=clock)
    yield kept
    kept.close()


@pytest.fixture
def audit(store: RecordStore, clock: Clock) -> Audit:
    """Its log."""
    return Audit(store, clock=clock)


def targets(entries: Sequence[AuditEntry]) -> list[str]:
    """What they are about."""
    return [entry.target for entry in entries]


def test_an_entry_says_who_did_what_when_and_what_came_of_it(audit: Audit, clock: Clock) -> None:
    done = audit.record(DEPLOY, "keys.revoke", "k1", request_id="r1", details={"role": Role.ADMIN})
    assert (done.at, done.tenant, done.by) == (clock(), "red", "key 0123456789ab (deploy) of red")
    assert (done.action, done.target, done.result, done.request_id) == ("keys.revoke", "k1", "done", "r1")
    tried = audit.record("root on lab", "tenants.create", "blue", tenant="default", result="there is one already")
    assert audit.entries() == [tried, done]
    assert done.details == {"role": "admin"}
    with pytest.raises(BadInput):
        audit.record("root on lab", "tenants.create", "blue")
    with pytest.raises(BadInput):
        audit.record("root on lab", "tenants.create", "blue", tenant="red/../blue")


def test_entries_are_never_changed(audit: Audit, store: RecordStore) -> None:
    for n in range(5):
        audit.record(DEPLOY, "keys.revoke", f"k{n}")
    assert {one.version for one in store.documents(AUDIT)} == {1}


@given(
    steps=st.lists(st.tuples(st.sampled_from(["red", "re", "red-2", "red2", "r", "blue"]), st.integers(-5, 5))),
    size=st.integers(1, 4),
)
def test_pages_have_each_entry_once(steps: list[tuple[str, int]], size: int) -> None:
    """Whatever tenants are called. Entries of one process keep their order even if its clock goes back."""
    clock = Clock()
    audit = Audit(KvStore.in_memory(), clock=clock)
    written: list[tuple[str, str]] = []
    for n, (tenant, seconds) in enumerate(steps):
        clock.passes(seconds)
        audit.record("me", "a", str(n), tenant=tenant)
        written.insert(0, (tenant, str(n)))
    for whose in (None, "red", "r"):
        found: list[AuditEntry] = []
        while page := audit.entries(whose, after=found[-1].entry_id if found else "", limit=size):
            assert len(page) <= size
            found += page
        assert [(one.tenant, one.target) for one in found] == [one for one in written if whose in (None, one[0])]


def test_an_entry_that_is_written_meanwhile_moves_no_page(audit: Audit) -> None:
    for n in range(4):
        audit.record(DEPLOY, "a", f"k{n}")
    first = audit.entries("red", limit=2)
    audit.record(DEPLOY, "a", "k4")
    assert targets(audit.entries("red", after=first[-1].entry_id)) == ["k1", "k0"]


def test_one_log_tells_nothing_of_others(audit: Audit) -> None:
    """A page is full however much there is between its entries."""
    for n in range(30):
        audit.record("me", "a", str(n), tenant="blue" if n % 10 else "red")
    assert targets(audit.entries("red", limit=3)) == ["20", "10", "0"]


def test_threads_and_processes_write_to_one_log(tmp_path: Path) -> None:
    path = tmp_path / "a.db"

    def write(n: int) -> None:
        Audit(SqlStore.in_file(path)).record("me", "a", str(n), tenant="red")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(12)))
    found = Audit(SqlStore.in_file(path)).entries()
    assert {one.target for one in found} == {str(n) for n in range(12)}
    assert [one.entry_id for one in found] == sorted(one.entry_id for one in found)


def test_old_entries_are_forgotten(audit: Audit, clock: Clock) -> None:
    audit.record(DEPLOY, "a", "old")
    clock.passes(module.KEPT.total_seconds())
    audit.record(DEPLOY, "a", "new")
    assert audit.forget() == 0
    clock.passes(1)
    assert audit.forget() == 1
    assert targets(audit.entries()) == ["new"]
    assert audit.forget(kept=timedelta(seconds=-1)) == 1


def test_what_is_long_is_cut(audit: Audit) -> None:
    entry = audit.record(DEPLOY, "a", "x" * 5000, result="y" * 5000, details={"body": "z" * 50_000, "n": 1})
    assert (len(entry.target), len(entry.result), entry.details) == (1000, 1000, {"cut": ["body", "n"]})


def test_hostile_names_stay_in_their_log(audit: Audit) -> None:
    for text in ("../blue", "blue/0", "\x00", "\N{SNOWMAN}" * 10, "'; drop table documents; --"):
        audit.record(DEPLOY, text, text, request_id=text)
    assert len(audit.entries("red")) == 5
    assert audit.entries("blue") == []
    assert {one.tenant for one in audit.entries("red", after="../blue")} <= {"red"}
