"""What recovery rests on: who lives, what cannot land any more, what is tried again when."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest

from icepact.commit.settle import Settled, over, window
from icepact.maintain.looking import set_aside
from icepact.model.durations import parse_duration
from icepact.model.errors import BadInput, Cancelled, TableBusy
from icepact.model.run import TRANSITIONS, Attempt, Failure, Owner, Status, this_process
from icepact.model.table import DeleteKind, signature
from icepact.record.sql import SqlStore
from icepact.record.watch import Watch
from tests.support.records import NOON, run_record
from tests.support.states import data_file, delete_file

US = this_process()


# -- processes ------------------------------------------------------------------------------------


@contextmanager
def another_process() -> Iterator[tuple[subprocess.Popen[str], Owner]]:
    """A process that waits, and what it says of itself."""
    code = "import json, dataclasses; from icepact.model.run import this_process\n"
    code += "print(json.dumps(dataclasses.asdict(this_process())), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield process, Owner(**json.loads(process.stdout.readline()))
        process.kill()


def test_a_process_lives_until_it_is_gone() -> None:
    assert not US.gone
    with another_process() as (process, owner):
        assert not owner.gone
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert owner.gone  # a zombie does nothing any more
    assert owner.gone


def test_a_pid_that_is_used_again_is_another_process() -> None:
    assert replace(US, born=US.born - 1).gone


def test_of_other_machines_nothing_is_known() -> None:
    assert not replace(US, host="elsewhere", pid=1, born=1).gone
    assert not replace(US, space="pid:[another container]", born=1).gone
    assert not replace(US, boot="", born=1).gone


def test_nothing_survives_a_restart_of_the_machine() -> None:
    assert replace(US, boot="an earlier one").gone == bool(US.machine)


def test_machines_may_share_a_name() -> None:
    assert not replace(US, boot="another one", machine="another one").gone
    assert not replace(US, boot="another one", machine="").gone


# -- states ---------------------------------------------------------------------------------------


def test_every_state_is_reached_and_left() -> None:
    reached = {to for after in TRANSITIONS.values() for to in after} | {Status.RUNNING}
    assert reached == set(Status) == set(TRANSITIONS)
    for status in Status:
        assert bool(TRANSITIONS[status] - {Status.ROLLED_BACK}) == status.open


def test_a_fenced_run_cannot_commit_and_an_ended_one_does_nothing() -> None:
    assert Status.COMMITTING not in TRANSITIONS[Status.FENCED]
    assert Status.RUNNING not in TRANSITIONS[Status.FENCED]
    for status in Status:
        if not status.open:
            assert TRANSITIONS[status] <= {Status.ROLLED_BACK}


# -- commits --------------------------------------------------------------------------------------

ATTEMPT = Attempt(commit_id="r/0.1/1", head=1, groups=["g"], started_at=NOON)


@pytest.mark.parametrize(
    ("settled", "later", "expected"),
    [
        (Settled.TAKEN_BACK, timedelta(0), True),
        *((settled, timedelta(minutes=34), False) for settled in (Settled.GONE, Settled.MOVED)),
        *((settled, timedelta(minutes=36), True) for settled in (Settled.GONE, Settled.MOVED)),
        (Settled.UNKNOWN, timedelta(days=365), False),
    ],
)
def test_when_an_attempt_is_over(settled: Settled, later: timedelta, expected: bool) -> None:
    assert over(settled, ATTEMPT, NOON + later) is expected


@pytest.mark.parametrize(
    ("told", "minutes"), [("3600000", 65), ("1000", 35), ("soon", 35), (str(2**63 - 1), 7 * 24 * 60 + 5)]
)
def test_a_table_whose_commits_are_tried_for_longer_is_waited_for(told: str, minutes: int) -> None:
    attempt = replace(ATTEMPT, until=NOON + window({"commit.retry.total-timeout-ms": told}))
    assert not over(Settled.GONE, attempt, NOON + timedelta(minutes=minutes - 1))
    assert over(Settled.GONE, attempt, NOON + timedelta(minutes=minutes + 1))


# -- watching -------------------------------------------------------------------------------------


def test_a_watch_renews_and_gives_back() -> None:
    moment = [NOON]
    store = SqlStore.in_memory(clock=lambda: moment[0])
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
    store = SqlStore.in_memory()
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
    store = SqlStore.in_memory(clock=lambda: moment[0])
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
    class Away(SqlStore):
        def renew(self, *args: object, **kwargs: object) -> None:  # type: ignore[override]
            raise BadInput("the run history cannot be used")

    store = Away("sqlite://")
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
