"""A Python worker is killed in the middle of a unit."""

import random

from icepact import Compactor
from tests.chaos.workers import worker_trial


def test_a_worker_is_killed(compactor: Compactor, table: str) -> None:
    entry = worker_trial(compactor, table, random.Random(7), version=3, most=1, rows=120_000)
    assert entry["clean"], entry
    assert entry["hit"], entry
