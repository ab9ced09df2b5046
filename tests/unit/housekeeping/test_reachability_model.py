"""Random histories of a small model: nothing that must stay is ever among the files to go, and nothing else is left."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.reach_model import Divided, Manifest, divide, must_stay, should_go
from tests.support.reach_writers import Writers

EVENTS = sorted(Writers(lambda below: 0).events)


def lived(choices: random.Random, events: list[str], *, version: int) -> Writers:
    """A table to which these things happened."""
    writers = Writers(choices.randrange, version=version)
    writers.append("main")
    for name in events:
        writers.events[name]()
    return writers


def expirable(writers: Writers, choices: random.Random) -> list[int]:
    """Some snapshots that no ref names; mostly all the old ones, sometimes any."""
    free = sorted(writers.history.snapshots.keys() - set(writers.heads.values()))
    if choices.random() < 0.5:
        return free[: choices.randint(0, len(free))]
    return [number for number in free if choices.random() < 0.6]


def judged(writers: Writers, expired: list[int], gone: frozenset[str] = frozenset()) -> Divided:
    """What Java would delete, compared with what it should; what is gone already may be named again."""
    found = divide(writers.history, expired)
    assert found.goes & must_stay(writers.history, expired) == frozenset()
    assert found.goes - gone == should_go(writers.history, expired) - gone
    return found


@given(st.lists(st.sampled_from(EVENTS), max_size=16), st.integers(0, 2**32), st.sampled_from([1, 2]))
@settings(max_examples=300)
def test_exactly_what_only_the_expired_need_goes(events: list[str], seed: int, version: int) -> None:
    choices = random.Random(seed)
    writers = lived(choices, events, version=version)
    gone = frozenset[str]()
    for _ in range(3):
        expired = expirable(writers, choices)
        gone |= judged(writers, expired, gone).goes
        writers.expire(expired)
        for name in choices.choices(EVENTS, k=3):
            writers.events[name]()


@pytest.mark.matrix
def test_exactly_what_only_the_expired_need_goes_in_very_many_histories() -> None:
    for seed in range(30_000):
        choices = random.Random(seed)
        writers = lived(choices, choices.choices(EVENTS, k=choices.randint(1, 24)), version=choices.choice([1, 2, 2]))
        expired = expirable(writers, choices)
        judged(writers, expired)


def test_the_shortcut_is_taken_and_spares_most_manifests() -> None:
    """As tables live that are compacted and expired: manifests with one file each, of which one is removed."""
    writers = Writers(lambda below: below - 1)
    for _ in range(60):
        writers.append("main")
    writers.remove()
    newest = writers.heads["main"]
    writers.append("main")
    found = judged(writers, [number for number in writers.history.snapshots if number <= newest])
    kept = {manifest.path for manifest in writers.history.snapshots[newest + 1].manifests}
    assert len(kept) == 61
    assert 0 < len(found.doubtful) < 50


def test_a_file_that_was_added_twice_and_removed_once_is_seen() -> None:
    """Without a look at partitions, its last manifest would not be read."""
    writers = Writers(lambda below: below - 1)
    for name in ("append", "append", "add twice", "remove once", "append"):
        writers.events[name]()
    expired = list(writers.history.snapshots)[:-1]
    judged(writers, expired)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Manifest, "may_have", lambda self, partitions: False)
        assert divide(writers.history, expired).goes & must_stay(writers.history, expired)
