"""Tenants and their keys: who somebody is that comes with a secret."""

import multiprocessing
import string
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.model.errors import BadInput, Conflict, IcepactError, KeyNotFound, StoreUnusable, TenantNotFound
from icepact.model.tenant import Caller, Quota, Role
from icepact.record.kv.store import KvStore
from icepact.record.sql import SqlStore
from icepact.record.store import RecordStore
from icepact.schedule import tenants as module
from icepact.schedule.tenants import KEYS, TENANTS, USES, Tenants
from tests.support.stores import Clock

HOUR = timedelta(hours=1)


class Timer:
    """Seconds that are set by hand."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """It is noon."""
    return Clock()


@pytest.fixture
def timer() -> Timer:
    """Of this process."""
    return Timer()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[RecordStore]:
    """Empty."""
    kept: KvStore | SqlStore = SqlStore.in_file(tmp_path / "a.db")
    if request.param == "memory":
        kept = KvStore.in_memory(clock=clock)
    yield kept
    kept.close()


@pytest.fixture
def tenants(store: RecordStore, clock: Clock, timer: Timer) -> Tenants:
    """Of a catalog `prod`."""
    return Tenants(store, catalog="prod", clock=clock, timer=timer)


def who(tenants: Tenants, secret: str, now: datetime | None = None) -> Caller:
    """Who comes with it."""
    caller = tenants.authenticate(secret, now)
    assert caller is not None
    return caller


# -- tenants --------------------------------------------------------------------------------------


def test_a_tenant_is_made_changed_listed_and_removed(tenants: Tenants, clock: Clock) -> None:
    assert tenants.tenants() == []
    made = tenants.create("red", tables=["red.*", "red.*"], quota=Quota(jobs_at_once=2))
    assert (made.tables, made.created_at, made.version) == (("red.*",), clock(), 1)
    assert tenants.tenant("red") == made
    changed = tenants.change("red", tables=["red.*", "shared.prices"], description="the red team")
    assert (changed.quota, changed.version, changed.created_at) == (made.quota, 2, made.created_at)
    tenants.create("blue")
    assert [one.name for one in tenants.tenants()] == ["blue", "red"]
    assert tenants.tenants()[1] == changed
    tenants.remove("red")
    with pytest.raises(TenantNotFound, match="there is no tenant red"):
        tenants.tenant("red")


def test_a_second_one_of_the_name_is_refused(tenants: Tenants) -> None:
    made = tenants.create("red", tables=["red.*"])
    with pytest.raises(Conflict, match="there is a tenant red already"):
        tenants.create("red", tables=["*"])
    assert tenants.tenant("red") == made


def test_a_change_of_what_was_seen_is_refused_if_somebody_was_faster(tenants: Tenants) -> None:
    seen = tenants.create("red").version
    tenants.change("red", description="first", version=seen)
    with pytest.raises(Conflict, match="tenant red was changed by somebody else"):
        tenants.change("red", description="second", version=seen)
    assert tenants.tenant("red").description == "first"


@pytest.mark.parametrize(
    "name", ["", "Red", "red/blue", "-red", "red-", "a" * 64, "rød", "red\n", "../x", "red team", "r\u0435d", "RED"]
)
def test_a_tenant_cannot_be_called_anything(tenants: Tenants, name: str) -> None:
    for use in (tenants.create, tenants.tenant, tenants.remove):
        with pytest.raises(BadInput, match="is no name of a tenant"):
            use(name)
    assert tenants.tenants() == []


@pytest.mark.parametrize("pattern", ["", "events", "a b", "x..y", "*.*.*.*.*.*.*.*.*", "x." + "y" * 5000])
def test_what_is_no_pattern_is_no_scope(tenants: Tenants, pattern: str) -> None:
    with pytest.raises(BadInput):
        tenants.create("red", tables=[pattern])
    assert tenants.tenants() == []


@pytest.mark.parametrize(("name", "value"), [("jobs_at_once", 0), ("bytes_per_hour", -1), ("money_per_hour", 1e999)])
def test_a_quota_is_above_zero(name: str, value: Any) -> None:
    with pytest.raises(BadInput, match=f"{name} must be above zero"):
        Quota(**{name: value})
    with pytest.raises(BadInput):
        Quota(money_per_hour=float("nan"))


def _make_one(path: Path, number: int, answers: Any) -> None:
    store = SqlStore.in_file(path)
    try:
        Tenants(store).create("red", description=str(number))
        answers.put(number)
    except Conflict:
        answers.put(None)


def test_of_two_processes_that_make_a_tenant_one_is_refused(tmp_path: Path) -> None:
    SqlStore.in_file(tmp_path / "a.db").put_document("other", "a", {})
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    both = [context.Process(target=_make_one, args=(tmp_path / "a.db", n, answers)) for n in (1, 2)]
    for process in both:
        process.start()
    said = {answers.get(timeout=30) for _ in both}
    for process in both:
        process.join()
    [winner] = said - {None}
    assert len(said) == 2
    assert Tenants(SqlStore.in_file(tmp_path / "a.db")).tenant("red").description == str(winner)


# -- keys -----------------------------------------------------------------------------------------


def test_whoever_has_the_secret_is_known(tenants: Tenants) -> None:
    tenants.create("red", tables=["red.*"])
    key, secret = tenants.new_key("red", Role.OPERATOR, "deploy")
    caller = who(tenants, secret)
    assert (caller.tenant, caller.role, caller.key_id, caller.name) == ("red", Role.OPERATOR, key.key_id, "deploy")
    assert [role for role in Role if caller.may(role)] == [Role.VIEWER, Role.OPERATOR]
    assert caller.sees("red.events")
    assert not caller.sees("blue.events")


def test_a_secret_is_long_recognisable_and_kept_nowhere(tenants: Tenants, store: RecordStore) -> None:
    made = [tenants.new_key("default", Role.ADMIN) for _ in range(5)]
    assert len({secret for _, secret in made}) == 5
    kept = "".join(str(one) for kind in (KEYS, TENANTS, USES) for one in store.documents(kind))
    for key, secret in made:
        assert secret.startswith(f"icp_{key.key_id}_")
        random = secret.rpartition("_")[2]
        assert len(bytes.fromhex(random)) == 32
        assert random not in kept + repr(key) + str(key.to_dict()) + repr(who(tenants, secret))
    assert not any("hash" in key.to_dict() for key in tenants.keys("default"))


def test_each_role_may_do_what_those_before_it_may() -> None:
    assert [[role.includes(other) for other in Role] for role in Role] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]


def test_an_admin_manages_their_own_tenant_and_those_of_default_all(tenants: Tenants) -> None:
    tenants.create("red")
    secrets = {(name, role): tenants.new_key(name, role)[1] for name in ("red", "default") for role in Role}
    manages = {asked: [who(tenants, s).manages(t) for t in ("red", "blue")] for asked, s in secrets.items()}
    assert manages.pop(("red", Role.ADMIN)) == [True, False]
    assert manages.pop(("default", Role.ADMIN)) == [True, True]
    assert set(map(tuple, manages.values())) == {(False, False)}
    assert [asked for asked, s in secrets.items() if who(tenants, s).looks_after_tenants] == [("default", Role.ADMIN)]


@given(secret=st.text(max_size=300) | st.text(alphabet="icp_0123456789abcdef\0\n", min_size=80, max_size=90))
def test_no_other_text_is_a_secret(secret: str) -> None:
    tenants = Tenants(KvStore.in_memory())
    tenants.new_key("default", Role.ADMIN)
    assert tenants.authenticate(secret) is None


def test_nothing_close_to_a_secret_is_one(tenants: Tenants) -> None:
    (key, secret), (other, _) = tenants.new_key("default", Role.ADMIN), tenants.new_key("default", Role.VIEWER)
    last = "0" if secret[-1] != "0" else "1"
    close = [
        *(secret[:-1], secret + "0", secret[:-1] + last, f" {secret}", f"{secret}\n", secret.upper(), secret + "\0"),
        secret.replace(key.key_id, other.key_id),
        secret.replace("icp_", "icp__"),
        secret[:-1] + "\N{FULLWIDTH DIGIT ONE}",
        f"icp_{key.key_id}_" + "0" * 64,
        f"icp_{'0' * 12}_" + "0" * 64,
        "x" * 1_000_000,
        "\ud800",
    ]
    assert [text for text in close if tenants.authenticate(text) is not None] == []


def test_a_key_expires(tenants: Tenants, clock: Clock) -> None:
    key, secret = tenants.new_key("default", Role.VIEWER, expires=HOUR)
    assert key.expires_at == clock() + HOUR
    clock.passes(3599)
    assert tenants.authenticate(secret) is not None
    clock.passes(1)
    assert tenants.authenticate(secret) is None


@pytest.mark.parametrize("life", [timedelta(), timedelta(seconds=-1)])
def test_a_key_that_has_expired_already_is_refused(tenants: Tenants, clock: Clock, life: timedelta) -> None:
    with pytest.raises(BadInput, match="good for nothing"):
        tenants.new_key("default", Role.VIEWER, expires=life)
    with pytest.raises(BadInput, match="time zone"):
        tenants.new_key("default", Role.VIEWER, expires=clock().replace(tzinfo=None))
    for name in ("x" * 201, "two\nlines", "\x1b[2J"):
        with pytest.raises(BadInput, match="name of a key"):
            tenants.new_key("default", Role.VIEWER, name)
    assert tenants.keys() == []


def test_a_revoked_key_is_good_for_nothing_whatever_the_clock_says(tenants: Tenants, clock: Clock) -> None:
    key, secret = tenants.new_key("default", Role.VIEWER)
    assert tenants.authenticate(secret) is not None
    ended = tenants.revoke(key.key_id)
    assert tenants.authenticate(secret) is None
    assert tenants.revoke(key.key_id) == ended
    clock.passes(-365 * 86400)
    assert tenants.authenticate(secret) is None
    with pytest.raises(KeyNotFound):
        tenants.revoke("0" * 12)
    with pytest.raises(KeyNotFound):
        tenants.revoke("../../tenant/red")


def test_what_another_process_changes_holds_after_a_second(store: RecordStore, clock: Clock) -> None:
    timers = Timer(), Timer()
    here, there = (Tenants(store, catalog="prod", clock=clock, timer=timer) for timer in timers)
    here.create("red", tables=["red.*"])
    key, secret = here.new_key("red", Role.VIEWER)
    assert who(there, secret).sees("red.a")
    here.change("red", tables=["green.*"])
    here.revoke(key.key_id)
    assert here.authenticate(secret) is None
    timers[1].now += 1.0
    assert there.authenticate(secret) is None
    assert not there.sees("red", "red.a")


def test_a_new_key_is_good_everywhere_at_once(store: RecordStore, clock: Clock) -> None:
    timer = Timer()
    here, there = (Tenants(store, clock=clock, timer=timer) for _ in range(2))
    assert there.is_open()
    _, secret = here.new_key("default", Role.VIEWER)
    assert there.authenticate(secret) is not None
    assert not here.is_open()
    timer.now += 1.0
    assert not there.is_open()


# -- rotation -------------------------------------------------------------------------------------


def test_both_keys_are_good_as_long_as_they_overlap(tenants: Tenants, clock: Clock) -> None:
    tenants.create("red", tables=["red.*"])
    old, before = tenants.new_key("red", Role.OPERATOR, "deploy", timedelta(days=30))
    clock.passes(86400)
    new, after = tenants.rotate(old.key_id, HOUR)
    assert (new.role, new.name, new.tenant) == (old.role, old.name, "red")
    assert new.expires_at == clock() + timedelta(days=30)
    assert tenants.key(old.key_id).replaced_by == new.key_id
    assert {who(tenants, secret).key_id for secret in (before, after)} == {old.key_id, new.key_id}
    clock.passes(3600)
    assert tenants.authenticate(before) is None
    assert tenants.authenticate(after) is not None


def test_an_overlap_makes_no_life_longer(tenants: Tenants) -> None:
    old, _ = tenants.new_key("default", Role.VIEWER, expires=HOUR)
    tenants.rotate(old.key_id, timedelta(days=7))
    assert tenants.key(old.key_id).expires_at == old.expires_at


def test_without_an_overlap_the_old_key_ends_at_once(tenants: Tenants) -> None:
    old, secret = tenants.new_key("default", Role.VIEWER)
    new, _ = tenants.rotate(old.key_id)
    assert new.expires_at is None
    assert tenants.authenticate(secret) is None


def test_only_a_good_key_is_rotated_and_only_once(tenants: Tenants, clock: Clock) -> None:
    revoked, _ = tenants.new_key("default", Role.VIEWER)
    tenants.revoke(revoked.key_id)
    expired, _ = tenants.new_key("default", Role.VIEWER, expires=HOUR)
    rotated, _ = tenants.new_key("default", Role.VIEWER)
    tenants.rotate(rotated.key_id, 2 * HOUR)
    clock.passes(3600)
    for key in (revoked, expired, rotated):
        with pytest.raises(Conflict):
            tenants.rotate(key.key_id)
    for overlap in (timedelta(seconds=-1), timedelta(days=366)):
        with pytest.raises(BadInput):
            tenants.rotate(rotated.key_id, overlap)
    assert len(tenants.keys()) == 4


def test_of_many_that_rotate_one_key_one_does(tmp_path: Path) -> None:
    """Each with what it knows; nobody is left with a key that nobody else knows of."""
    first = Tenants(SqlStore.in_file(tmp_path / "a.db"))
    key, _ = first.new_key("default", Role.ADMIN)

    def rotate(_: int) -> str | None:
        try:
            return Tenants(SqlStore.in_file(tmp_path / "a.db")).rotate(key.key_id, HOUR)[1]
        except Conflict:
            return None

    with ThreadPoolExecutor(6) as pool:
        secrets = [secret for secret in pool.map(rotate, range(6)) if secret is not None]
    assert len(secrets) == 1
    assert {who(first, secrets[0]).key_id, key.key_id} == {one.key_id for one in first.keys("default")}


# -- tenants and their keys -----------------------------------------------------------------------


def test_keys_of_a_tenant_that_is_removed_are_good_for_nothing_even_if_it_is_made_again(tenants: Tenants) -> None:
    tenants.create("red", tables=["*"])
    _, secret = tenants.new_key("red", Role.ADMIN)
    tenants.remove("red")
    assert tenants.authenticate(secret) is None
    tenants.create("red", tables=["*"])
    assert tenants.authenticate(secret) is None


def test_a_key_that_is_made_while_its_tenant_is_removed_is_none_of_the_next_one(
    tenants: Tenants, store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenants.create("red")
    found = tenants._tenant("red")
    tenants.remove("red")
    monkeypatch.setattr(tenants, "_tenant", lambda name: found)  # as it was before
    key, secret = tenants.new_key("red", Role.ADMIN)
    monkeypatch.undo()
    assert tenants.authenticate(secret) is None
    tenants.create("red", tables=["*"])
    assert key.revoked_at is None
    assert tenants.authenticate(secret) is None


def test_nobody_gets_a_key_of_a_tenant_that_there_is_not(tenants: Tenants) -> None:
    with pytest.raises(TenantNotFound):
        tenants.new_key("red", Role.ADMIN)


def test_default_has_everything_until_there_are_tenants(tenants: Tenants) -> None:
    _, secret = tenants.new_key("default", Role.ADMIN)
    assert who(tenants, secret).sees("red.events")
    tenants.create("red", tables=["red.*"])
    assert not who(tenants, secret).sees("red.events")
    assert not tenants.sees("default", "other.events")
    tenants.change("default", tables=["*"])
    assert who(tenants, secret).sees("red.events")
    tenants.remove("default")
    assert tenants.authenticate(secret) is not None
    assert not tenants.sees("default", "red.events")


def test_nobody_needs_a_key_only_as_long_as_there_never_was_one(tenants: Tenants) -> None:
    nobody = tenants.anonymous()
    assert nobody is not None
    assert nobody.looks_after_tenants
    assert nobody.sees("any.table")
    tenants.create("red")
    assert tenants.anonymous() is None
    tenants.remove("red")
    assert tenants.anonymous() is not None
    key, _ = tenants.new_key("default", Role.VIEWER)
    tenants.revoke(key.key_id)
    assert tenants.anonymous() is None


def test_work_that_nobody_asked_for_is_for_whose_scope_means_the_table_most_closely(tenants: Tenants) -> None:
    assert tenants.tenant_of("red.events") == "default"
    tenants.create("all", tables=["*"])
    tenants.create("red", tables=["red.*"])
    tenants.create("also-red", tables=["red.*"])
    tenants.create("exact", tables=["red.prices"])
    assert [tenants.tenant_of(table) for table in ("red.prices", "red.events", "blue.events")] == [
        *("exact", "also-red", "all"),
    ]


# -- last use -------------------------------------------------------------------------------------


def test_the_last_use_is_written_once_a_minute(
    tenants: Tenants, store: RecordStore, clock: Clock, timer: Timer
) -> None:
    key, secret = tenants.new_key("default", Role.VIEWER)
    assert tenants.key(key.key_id).last_used_at is None

    def use(seconds: float) -> tuple[int, datetime | None]:
        clock.passes(seconds)
        timer.now += seconds
        who(tenants, secret)
        written = store.document(USES, key.key_id)
        assert written is not None
        return written.version, tenants.key(key.key_id).last_used_at

    first = clock()
    assert [use(0), use(30), use(29)] == [(1, first)] * 3
    assert use(1) == (2, first + timedelta(minutes=1))
    assert [use(one) for one in (59, 0.5)] == [(2, first + timedelta(minutes=1))] * 2
    clock.passes(-86400)  # a clock that goes back writes no earlier use
    assert use(120) == (2, first + timedelta(minutes=1))


def test_nobody_is_turned_away_because_a_use_cannot_be_written(
    tenants: Tenants, store: RecordStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, secret = tenants.new_key("default", Role.VIEWER)

    def full(*given: Any, **more: Any) -> None:
        raise StoreUnusable("disk full")

    monkeypatch.setattr(store, "put_document", full)
    assert tenants.authenticate(secret) is not None


def test_what_a_process_remembers_is_bounded(tenants: Tenants, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_KEPT", 3)
    secrets = [tenants.new_key("default", Role.VIEWER)[1] for _ in range(6)]
    assert all(tenants.authenticate(secret) for secret in secrets)
    for number in range(20):
        assert tenants.authenticate(f"icp_{number:012x}_{'0' * 64}") is None
    assert len(tenants._kept) <= 4
    assert len(tenants._uses) <= 4


@given(
    steps=st.lists(
        st.sampled_from(["new", "rotate", "revoke", "wait", "back", "remove", "make"]), min_size=1, max_size=12
    )
)
def test_a_secret_is_good_as_long_as_its_key_says_so(steps: list[str]) -> None:
    """Whatever happens to keys, tenants and the clock."""
    clock, timer = Clock(), Timer()
    tenants = Tenants(KvStore.in_memory(clock=clock), clock=clock, timer=timer)
    tenants.create("red")
    secrets: dict[str, str] = {}
    born: dict[str, int] = {}
    life = 0
    for step in steps:
        timer.now += 1
        last = next(reversed(secrets), "0" * 12)
        actions: dict[str, Callable[[], Any]] = {
            "new": lambda: tenants.new_key("red", Role.VIEWER, expires=HOUR),
            "rotate": partial(tenants.rotate, last, HOUR / 2),
            "revoke": partial(tenants.revoke, last),
            "wait": lambda: clock.passes(1200),
            "back": lambda: clock.passes(-600),
            "remove": lambda: tenants.remove("red"),
            "make": lambda: tenants.create("red"),
        }
        try:
            made = actions[step]()
        except IcepactError:
            continue
        life += step == "make"
        if step in ("new", "rotate"):
            secrets[made[0].key_id] = made[1]
            born[made[0].key_id] = life
    there = "red" in [one.name for one in tenants.tenants()]
    for key in tenants.keys("red"):
        good = there and born[key.key_id] == life and key.revoked_at is None
        assert key.expires_at is not None
        assert (tenants.authenticate(secrets[key.key_id]) is not None) == (good and key.expires_at > clock())


def test_ids_of_keys_have_no_letters_that_need_quoting(tenants: Tenants) -> None:
    key, secret = tenants.new_key("default", Role.VIEWER)
    assert set(secret) <= {*string.ascii_lowercase, *string.digits, "_"}
    assert len(key.key_id) == 12
