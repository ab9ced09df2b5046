"""What recovery rests on: who lives, what cannot land any more, what is tried again when."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import timedelta
from pathlib import Path

import pytest

from icepact.commit.reconcile import Fate, cannot_land, commit_window
from icepact.maintain.inspect import set_aside
from icepact.model.errors import BadInput, Cancelled, TableBusy
from icepact.model.files import DeleteKind, signature
from icepact.model.run import Attempt, Failure, Owner
from icepact.model.status import TRANSITIONS, Status
from icepact.policy.units import parse_duration
from icepact.record.kv.store import KvStore
from icepact.record.liveness import dead, resumable_run
from icepact.record.process import has_ended, is_gone, this_process
from icepact.record.watch import Watch
from tests.support.records import NOON, run_record
from tests.support.states import data_file, delete_file

US = this_process()
_WHO = """
import json, dataclasses; from icepact.record.process import this_process
print(json.dumps(dataclasses.asdict(this_process())), flush=True)"""
_APART = not subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], check=False).returncode
"""Whether these tests may make namespaces."""


# -- processes ------------------------------------------------------------------------------------


@contextmanager
def another_process() -> Iterator[tuple[subprocess.Popen[str], Owner]]:
    """A process that waits, and what it says of itself."""
    with subprocess.Popen(
        [sys.executable, "-c", f"{_WHO}; input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, Owner(**json.loads(process.stdout.readline()))
        process.kill()


def test_a_process_lives_until_it_is_gone() -> None:
    assert not is_gone(US)
    with another_process() as (process, owner):
        assert not is_gone(owner)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert is_gone(owner)  # a zombie does nothing any more
    assert is_gone(owner)


def test_a_pid_that_is_used_again_is_another_process() -> None:
    assert is_gone(replace(US, born=US.born - 1))
    assert not is_gone(replace(US, born=0)), "nobody knows when it started"


def test_of_other_machines_nothing_is_known() -> None:
    assert not is_gone(replace(US, host="elsewhere", pid=NOBODYS, born=1))
    assert not is_gone(replace(US, space="pid:[another container]", pid=NOBODYS, born=1))
    assert not is_gone(replace(US, boot="", pid=NOBODYS, born=1))
    assert is_gone(replace(US, pid=NOBODYS, born=1))


def test_another_start_of_the_machine_may_be_another_machine() -> None:
    """Containers and machines made from one image have one name and one machine-id."""
    assert not is_gone(replace(US, boot="another one", pid=NOBODYS))


NOBODYS = 2**22 + 1
"""Higher than any pid."""
_STAT = "{pid} (a) name) {state} 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 {born} 0 0"


def fake_proc(folder: Path, *, numbers: str = "") -> Path:
    """A /proc that shows no process but this one."""
    (folder / "self").mkdir()
    (folder / "self/status").write_text(f"Name:\tx\nNSpid:\t{numbers or os.getpid()}\n")
    return folder


def shown(proc: Path, pid: int, *, state: str = "S", threads: int = 1, born: int = 5) -> Path:
    """The same with another process."""
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "stat").write_text(_STAT.format(pid=pid, state=state, threads=threads, born=born))
    return proc


def test_what_proc_does_not_show_may_live_all_the_same(tmp_path: Path) -> None:
    with another_process() as (process, owner):
        assert not has_ended(owner.pid, owner.born, fake_proc(tmp_path))
        assert not has_ended(owner.pid, owner.born, tmp_path / "not mounted")
        process.kill()
        process.wait()
        assert has_ended(owner.pid, owner.born, tmp_path)
        assert has_ended(owner.pid, owner.born, tmp_path / "not mounted")


@pytest.mark.parametrize(
    ("born", "state", "threads", "ended"),
    [
        (5, "S", 1, False),
        (5, "Z", 1, True),
        (5, "X", 0, True),
        (5, "Z", 2, False),
        (6, "S", 1, True),
        (0, "S", 1, False),
    ],
)
def test_what_proc_shows_is_believed(tmp_path: Path, born: int, state: str, threads: int, ended: bool) -> None:
    proc = shown(fake_proc(tmp_path), os.getppid(), state=state, threads=threads)
    assert has_ended(os.getppid(), born, proc) is ended


def test_the_proc_of_another_container_is_not_believed(tmp_path: Path) -> None:
    proc = shown(fake_proc(tmp_path, numbers=f"4711 {os.getpid()}"), os.getppid(), born=6)
    assert not has_ended(os.getppid(), 5, proc)


@pytest.mark.parametrize("pid", [0, -1, pytest.param(-US.pid, id="own group"), 2**40])
def test_what_is_no_pid_has_not_ended(pid: int, tmp_path: Path) -> None:
    assert not has_ended(pid, 5, fake_proc(tmp_path))


def test_a_proc_that_hides_what_others_run() -> None:
    """For real where the tests may mount one: as somebody else, in a mount namespace of its own."""
    with another_process() as (process, owner):
        assert _seen_by_somebody_else(owner) == "lives"
        process.kill()
        process.wait()
        assert _seen_by_somebody_else(owner) == "gone"


def _seen_by_somebody_else(owner: Owner) -> str:
    code = "\n".join(
        [
            "import json, os, sys",
            "from pathlib import Path",
            "from icepact.model.run import Owner",
            "from icepact.record.process import is_gone",
            "owner = Owner(**json.loads(sys.argv[1]))",
            "if sys.argv[2:]:",
            "    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)",
            "    assert not Path(f'/proc/{owner.pid}').exists() and not Path('/proc/1').exists()",
            "print('gone' if is_gone(owner) else 'lives')",
        ]
    )
    command = [sys.executable, "-c", code, json.dumps(asdict(owner))]
    if _APART:
        hiding = 'mount -t proc -o hidepid=2 proc /proc && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", hiding, "sh", *command, "hidden"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_processes_of_another_container_are_not_judged() -> None:
    """For real where the tests may make one: it has pids of its own, and the same kernel and name."""
    apart = ["unshare", "--pid", "--fork", "--mount-proc"] if _APART else []
    told = subprocess.run([*apart, sys.executable, "-c", _WHO], capture_output=True, text=True, check=True).stdout
    owner = Owner(**json.loads(told))
    assert (owner.host, owner.boot) == (US.host, US.boot)
    assert is_gone(owner) is not bool(apart)


def test_an_unexpired_lease_is_enough_to_live() -> None:
    """A machine with the same name was started since, or is another one."""
    store = KvStore.in_memory(clock=lambda: NOON)
    record = run_record("r1", uuid="t", owner=replace(US, boot="another one"))
    store.begin(record)
    assert record.owner is not None
    store.acquire("t", "r1", record.owner, seconds=60)
    assert dead(record, store, NOON + timedelta(seconds=59)) is None
    assert dead(record, store, NOON + timedelta(seconds=61)) == (
        f"{record.owner} was last heard of at {NOON + timedelta(seconds=60):%Y-%m-%d %H:%M:%S} UTC"
    )
    ended = replace(record, owner=replace(US, pid=NOBODYS))
    assert dead(ended, store, NOON) == f"{ended.owner} is gone"


def test_a_dead_run_that_was_cancelled_is_not_carried_on_with() -> None:
    store = KvStore.in_memory(clock=lambda: NOON)
    for number, name in enumerate(("r1", "r2")):
        begun = run_record(name, uuid="t", owner=replace(US, pid=NOBODYS), started_at=NOON + timedelta(hours=number))
        store.begin(begun, b"a plan")

    def next_one() -> str | None:
        found = resumable_run(store, "local", "db.events")
        return None if found is None else found.run_id

    assert next_one() == "r2"
    store.ask_to_cancel("r2")
    assert next_one() == "r1"
    store.ask_to_cancel("r1")
    assert next_one() is None


# -- states ---------------------------------------------------------------------------------------


def test_every_state_is_reached_and_left() -> None:
    reached = {to for after in TRANSITIONS.values() for to in after} | {Status.RUNNING}
    recorded = set(Status) - {Status.PLANNED}
    assert reached == recorded == set(TRANSITIONS)
    for status in recorded:
        assert bool(TRANSITIONS[status] - {Status.ROLLED_BACK}) == status.open


def test_a_fenced_run_cannot_commit_and_an_ended_one_does_nothing() -> None:
    assert Status.COMMITTING not in TRANSITIONS[Status.FENCED]
    assert Status.RUNNING not in TRANSITIONS[Status.FENCED]
    for status in TRANSITIONS:
        if not status.open:
            assert TRANSITIONS[status] <= {Status.ROLLED_BACK}


# -- commits --------------------------------------------------------------------------------------

ATTEMPT = Attempt(commit_id="r/0.1/1", head=1, groups=["g"], started_at=NOON)


@pytest.mark.parametrize(
    ("settled", "later", "expected"),
    [
        (Fate.TAKEN_BACK, timedelta(0), True),
        *((settled, timedelta(minutes=34), False) for settled in (Fate.GONE, Fate.MOVED)),
        *((settled, timedelta(minutes=36), True) for settled in (Fate.GONE, Fate.MOVED)),
        (Fate.UNKNOWN, timedelta(days=365), False),
    ],
)
def test_when_an_attempt_is_over(settled: Fate, later: timedelta, expected: bool) -> None:
    assert cannot_land(settled, ATTEMPT, NOON + later) is expected


@pytest.mark.parametrize(
    ("told", "minutes"), [("3600000", 65), ("1000", 35), ("soon", 35), (str(2**63 - 1), 7 * 24 * 60 + 5)]
)
def test_a_table_whose_commits_are_tried_for_longer_is_waited_for(told: str, minutes: int) -> None:
    attempt = replace(ATTEMPT, until=NOON + commit_window({"commit.retry.total-timeout-ms": told}))
    assert not cannot_land(Fate.GONE, attempt, NOON + timedelta(minutes=minutes - 1))
    assert cannot_land(Fate.GONE, attempt, NOON + timedelta(minutes=minutes + 1))


# -- watching -------------------------------------------------------------------------------------


def test_a_watch_renews_and_gives_back() -> None:
    moment = [NOON]
    store = KvStore.in_memory(clock=lambda: moment[0])
    lease = store.acquire("t", "r1", US, seconds=60)
    with Watch(store, lease, seconds=60) as watch:
        moment[0] += timedelta(seconds=50)
        watch.look()
        watch.check()
        held = store.lease("t")
        assert held is not None
        assert held.expires_at == NOON + timedelta(seconds=110)
    assert store.lease("t") is None


def test_a_watch_hears_that_the_run_was_cancelled() -> None:
    store = KvStore.in_memory()
    store.begin(run_record("r1"))
    with Watch(store, store.acquire("t", "r1", US, seconds=60)) as watch:
        watch.check()
        store.ask_to_cancel("r1")
        watch.look()
        with pytest.raises(Cancelled, match="run r1 was cancelled"):
            watch.check()


def test_a_watch_hears_that_the_table_was_lost() -> None:
    """A paused holder wakes up: somebody else has the table by now."""
    moment = [NOON]
    store = KvStore.in_memory(clock=lambda: moment[0])
    lease = store.acquire("t", "r1", US, seconds=60)
    moment[0] += timedelta(seconds=61)
    with Watch(store, lease, seconds=60) as watch:
        store.acquire("t", "r2", replace(US, host="elsewhere", pid=7), seconds=60)
        watch.look()
        with pytest.raises(TableBusy, match=r"run r1 lost the table: run r2 \(process 7 on elsewhere\) has it now"):
            watch.check()
    held = store.lease("t")
    assert held is not None
    assert held.run_id == "r2"


def test_a_store_that_is_away_for_a_while_stops_nobody() -> None:
    class Away(KvStore):
        def renew(self, *args: object, **kwargs: object) -> None:
            raise BadInput("the run history cannot be used")

    store = Away.in_memory()
    with Watch(store, store.acquire("t", "r1", US, seconds=60)) as watch:
        watch.look()
        watch.check()


# -- what keeps failing ---------------------------------------------------------------------------


def failure(count: int) -> Failure:
    """A group that failed at noon."""
    return Failure(signature="s", partition="day=1", reason="disk full", count=count, last_at=NOON)


@pytest.mark.parametrize(
    ("count", "minutes", "expected"),
    [(1, 0, False), (2, 4, True), (2, 6, False), (3, 0, True), (3, 10**6, True)],
)
def test_when_a_group_is_tried_again(count: int, minutes: int, expected: bool) -> None:
    assert bool(set_aside([failure(count)], NOON + timedelta(minutes=minutes))) is expected


def test_a_signature_changes_with_the_files_and_what_applies_to_them() -> None:
    deletes = [delete_file("d1", DeleteKind.POSITION), delete_file("d2", DeleteKind.EQUALITY)]
    one, two = data_file("a", 10), data_file("b", 10)
    names = {
        signature([one], deletes),
        signature([two], deletes),
        signature([one, two], deletes),
        signature([one._replace(deletes=(0,))], deletes),
        signature([one._replace(deletes=(0, 1))], deletes),
        signature([one._replace(deletes=(1,))], deletes),
    }
    assert len(names) == 6
    assert signature([one, two], deletes) == signature([two, one], deletes)
    assert signature([one._replace(deletes=(0,))], deletes) == signature([one._replace(deletes=(1,))], deletes[::-1])


# -- lengths of time ------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "seconds"), [("45s", 45), ("30m", 1800), ("1.5h", 5400), ("1d", 86400), ("0s", 0)])
def test_lengths_of_time(text: str, seconds: int) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "1", "h", "-1h", "1 week"])
def test_other_texts_are_bad_input(text: str) -> None:
    with pytest.raises(BadInput, match="is not a length of time: write it like 45s, 30m, 2h or 1d"):
        parse_duration(text)
