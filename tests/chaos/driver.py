"""A process that compacts one table and may be killed on the way: at a named step, or after a time.

python -m tests.chaos.driver WAREHOUSE TABLE '{"step": "landed", "pass": 1}'
python -m tests.chaos.driver WAREHOUSE TABLE '{"seconds": 2.5, "whole": true, "options": {"method": "spark"}}'
python -m tests.chaos.driver WAREHOUSE TABLE '{"config": "icepact.yaml"}'

With `whole`, Java dies in the same instant; without, it sees the end of its driver and may carry a commit through
first. With neither step nor seconds nobody is killed here.
"""

import json
import os
import signal
import sys
import threading
import time
from typing import Any

from icepact.model.progress import UnitDone
from tests.support.compactors import short_compactor

OPTIONS: dict[str, Any] = {
    "target_file_size": "64KB",
    "min_row_group_size": "1KB",
    "max_commits": 2,
    "rewrite_all": True,
    "commit_when": "quiet",
    "max_commit_wait": "1s",
}
"""Several units in every group, two commits, which may wait a while, and always something to do."""


def killed(*, whole: bool = False) -> None:
    """The end, without a chance to tidy up."""
    if whole:
        os.killpg(os.getpgrp(), signal.SIGKILL)  # the leader of a session of its own: nobody else is in it
    os.kill(os.getpid(), signal.SIGKILL)


class Killed:
    """Dies when a step is passed for the n-th time."""

    def __init__(self, step: str | None, number: int, *, whole: bool) -> None:
        self._step = step
        self._left = number
        self._whole = whole

    def advance(self, done: UnitDone) -> None:
        """Nothing to do."""

    def step(self, name: str) -> None:
        """Die, if it is time."""
        if name == self._step:
            self._left -= 1
            if not self._left:
                killed(whole=self._whole)


def main(warehouse: str, table: str, how: dict[str, Any]) -> None:
    """Compact, and perhaps do not survive it."""
    place = {"config": how["config"]} if "config" in how else {"warehouse": warehouse}
    compactor = short_compactor(**place)
    compactor.spark  # noqa: B018  Spark is started before the clock is
    plan = compactor.plan(table, **{**OPTIONS, **how.get("options", {})})
    print("begun", flush=True)
    whole = bool(how.get("whole"))
    if "seconds" in how:
        threading.Timer(how["seconds"], killed, kwargs={"whole": whole}).start()
    started = time.monotonic()
    outcome = compactor.apply(plan, progress=Killed(how.get("step"), how.get("pass", 1), whole=whole))
    took = round(time.monotonic() - started, 3)
    error = outcome.error or "; ".join(sorted({group.reason for group in outcome.groups if group.reason}))
    print(json.dumps({"status": outcome.status.value, "error": error, "seconds": took}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))
