"""A worker and the API are killed under load: every job ends, and is done once."""

import time
from pathlib import Path

from icepact import Compactor
from tests.chaos.services import LONGEST, Load, busy, service


def test_jobs_outlive_worker_and_api(compactor: Compactor, namespace: str) -> None:
    """The worker dies in the middle of a run, and the API with its new worker at its side."""
    warehouse = compactor.catalog.embedded
    assert warehouse is not None
    load = Load(compactor, compactor.application.store, [f"{namespace}.t{at}" for at in range(3)])
    load.submit(0)
    with service(Path(warehouse), workers=1) as served:
        until = time.monotonic() + LONGEST
        killed: list[int] = []
        while load.open():
            assert time.monotonic() < until, served.log.read_text()
            time.sleep(0.02)
            for pid in busy(load, served.workers()):
                if not killed:
                    served.kill(pid)
                    killed.append(pid)
                elif len(killed) == 1 and pid not in killed:
                    killed.append(served.serve)
                    served.kill(served.serve)
                    served.start()
        load.judge()
        assert load.verdict.clean, load.verdict
        assert len(killed) == 2
        assert served.end() == 0
