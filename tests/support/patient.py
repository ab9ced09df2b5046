"""`python -m tests.support.patient ARGUMENTS`: the command line with processes that hardly ever look into the store.

Its workers, and who waits for jobs in its API, look once, and then after an hour, unless somebody tells them to. On
stderr they say so when they begin to wait.
"""

import sys

import pytest

from icepact.entrypoints.api.context import Watch
from icepact.entrypoints.cli.start import run
from icepact.entrypoints.service import supervisor
from icepact.entrypoints.service import worker as child
from icepact.model.job import Job
from icepact.schedule import worker
from icepact.schedule.bell import Bell

WAITS = "waits until it is told"
_HOUR = 3600.0


def main() -> None:
    """The command line, or a worker that it starts."""
    patch = pytest.MonkeyPatch()
    if len(sys.argv) > 1:
        patch.setattr(supervisor, "_PROGRAM", "tests.support.patient")
        _make_api_patient(patch)
        run()
    else:
        _make_worker_patient(patch)
        child.run()


def _make_worker_patient(patch: pytest.MonkeyPatch) -> None:
    for name in ("_FIRST_IDLE", "_LONGEST_IDLE"):
        patch.setattr(worker, name, _HOUR)
    wait = Bell.wait

    def says_so(bell: Bell, seconds: float, *, since: int) -> bool:
        print(WAITS, file=sys.stderr, flush=True)
        return wait(bell, seconds, since=since)

    patch.setattr(Bell, "wait", says_so)


def _make_api_patient(patch: pytest.MonkeyPatch) -> None:
    pause = Watch.pause

    async def says_so(watch: Watch, job: Job, look: float, most: float, *, since: int) -> float:
        print(WAITS, file=sys.stderr, flush=True)
        await pause(watch, job, _HOUR, _HOUR, since=since)
        return look

    patch.setattr(Watch, "pause", says_so)


if __name__ == "__main__":
    main()
