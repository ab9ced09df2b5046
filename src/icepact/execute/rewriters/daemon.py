"""What Spark starts to fork Python workers from, in sessions of our own.

Spark ends workers that were idle for a minute, and new ones would load Arrow and the kernel again. Here they are loaded
once, before the first fork; only for workers of ours, which are told apart by their environment.
"""

import gc
import os

from pyspark.daemon import manager

if __name__ == "__main__":
    if "ICEPACT_WORKERS" in os.environ:
        import icepact.execute.rewriters.job
        import icepact.execute.rewriters.key_jobs  # noqa: F401

        gc.freeze()  # so that no worker looks through it for garbage
    manager()
