"""Loggers as they were before somebody set them up."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def restored_loggers() -> Iterator[None]:
    """After the block, whatever was done to the loggers of icepact and the root is undone."""
    loggers = [logging.getLogger(), logging.getLogger("icepact")]
    before = [(list(one.handlers), one.level, one.propagate) for one in loggers]
    try:
        yield
    finally:
        for one, (handlers, level, propagate) in zip(loggers, before, strict=True):
            one.handlers[:], one.level, one.propagate = handlers, level, propagate
        logging.captureWarnings(False)
