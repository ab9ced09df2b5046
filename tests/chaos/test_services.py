"""A worker and the API are killed under load: every job ends, and is done once."""

import random
import time
from pathlib import Path

from icepact import Compactor
from icepact.model.job import Job
from tests.chaos.services import LONGEST, Load, busy, service


def test_jobs_outlive_worker_and_api(compactor: Compactor, namespace: str) -> None:
    """The worker dies in the middle of a run. So does the API: its new worker has hardly any time to end what it does,
    and hands it over, which is no failure."""
    warehouse = compactor.catalog.embedded
    assert warehouse is not None
    load = Load(compactor, compactor.application.store, [f"{namespace}.t{at}" for at in range(3)])
    load.write(0)
    with service(Path(warehouse), workers=1, grace="0.1s") as served:
        load.submit(served, random.Random(1))
        until = time.monotonic() + LONGEST
        killed: list[int] = []
        handed_over: list[Job] = []
        while load.open():
            assert time.monotonic() < until, served.log.read_text()
            time.sleep(0.02)
            for pid, job in busy(load, served.workers()).items():
                if not killed:
                    served.kill(pid)
                    killed.append(pid)
                elif len(killed) == 1 and pid not in killed:
                    killed.extend(served.serves)
                    handed_over.append(job)
                    served.kill(served.serves[0])
                    served.start()
        load.judge()
        assert load.verdict.clean, load.verdict
        assert len(killed) == 2
        for job in handed_over:
            after = compactor.application.store.job(job.job_id)
            assert after is not None
            assert after.failures == job.failures
        assert served.end() == [0]
