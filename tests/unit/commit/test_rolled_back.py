"""Whether a commit was rolled back, by the history of its branch: never said of one that may still be part of it."""

from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.commit.reconcile import EXPIRED, rolled_back
from icepact.iceberg.table.table import IcebergTable, SnapshotLine
from icepact.model.run import CommittedBatch


@dataclass
class Metadata:
    """All that is asked of a table."""

    last_sequence_number: int
    known: frozenset[int]

    def has_snapshot(self, snapshot_id: int) -> bool:
        return snapshot_id in self.known


def snapshot(number_of: int, parent: int | None, number: int) -> SnapshotLine:
    """One in the history of a branch."""
    return SnapshotLine(number_of, parent, number, 0, ())


def landed(snapshot_id: int = 5, parent: int | None = 4, number: int = 5) -> CommittedBatch:
    return CommittedBatch(
        commit_id="r/1/1", snapshot_id=snapshot_id, parent_id=parent, sequence_number=number, groups=()
    )


def judged(commit: CommittedBatch, history: list[SnapshotLine], last: int, *known: int) -> bool:
    table: Any = Metadata(last, frozenset(known))
    return rolled_back(cast(IcebergTable, table), commit, history)


def chain(*ids: int, first: int | None = None) -> list[SnapshotLine]:
    """Snapshots whose numbers are their ids, newest first; the parent of the oldest is `first`."""
    return [snapshot(one, parent, one) for one, parent in zip(ids, (*ids[1:], first), strict=True)]


@pytest.mark.parametrize(
    ("history", "last", "answer"),
    [
        pytest.param(chain(5, 4, 3), 5, False, id="it is the head"),
        pytest.param(chain(7, 6, 5, 4), 7, False, id="others came since"),
        pytest.param(chain(7, 6, first=5), 7, False, id="it has expired"),
        pytest.param(chain(8, 7, first=6), 8, False, id="it has expired, and what came next"),
        pytest.param([], 8, False, id="the branch is gone"),
        pytest.param(chain(4, 3), 4, False, id="an older state of the table"),
        pytest.param(chain(4, 3), 5, True, id="rolled back, and nothing came since"),
        pytest.param([snapshot(6, 4, 6), *chain(4, 3)], 6, True, id="rolled back for another writer"),
        pytest.param([snapshot(6, 4, 6)], 6, True, id="and the snapshots before have expired"),
        pytest.param([snapshot(9, 4, 5), *chain(4, 3)], 5, True, id="another writer has its number"),
        pytest.param([snapshot(10, 9, 6), snapshot(9, 4, 5)], 6, True, id="and others came since"),
        pytest.param(chain(9, 8), 9, True, id="the table was made anew"),
    ],
)
def test_by_what_came_since(history: list[SnapshotLine], last: int, answer: bool) -> None:
    assert judged(landed(), history, last) is answer


@pytest.mark.parametrize(("known", "answer"), [((5,), True), ((), False)])
def test_without_numbers_only_a_snapshot_that_is_there_was_rolled_back(known: tuple[int, ...], answer: bool) -> None:
    """Format version 1 does not tell an older state of the table from a newer one."""
    assert judged(landed(number=0), [snapshot(4, 3, 0), snapshot(3, None, 0)], 0, *known) is answer


def test_nothing_is_known_of_a_snapshot_that_nobody_saw() -> None:
    assert not judged(landed(EXPIRED, None, 0), chain(4, 3), 9)


@given(st.integers(2, 12), st.data())
def test_histories_with_and_without_it(length: int, data: st.DataObject) -> None:
    """Ids are no guide. A history that goes on from the commit never says that it was rolled back, however much has
    expired; one that goes around it always does, as long as it reaches back to the number of the commit."""
    ids = data.draw(st.lists(st.integers(1, 10**6), min_size=length, max_size=length, unique=True))
    at = data.draw(st.integers(1, length - 1))
    kept = data.draw(st.integers(0, length))
    oldest_first = [snapshot(one, ids[n - 1] if n else None, n + 1) for n, one in enumerate(ids)]
    commit = landed(ids[at], ids[at - 1], at + 1)
    assert not judged(commit, oldest_first[kept:][::-1], length)
    around = [*oldest_first[:at], *(snapshot(-n, -n + 1 if n > at + 1 else ids[at - 1], n) for n in range(at + 1, 15))]
    start = data.draw(st.integers(0, at))
    assert judged(commit, around[start:][::-1], 14)
