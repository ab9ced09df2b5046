"""The search for a harmful order of events, in pieces: `tests.support.protocol_search` plays them."""

import itertools
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.model_iceberg import Violation
from tests.support.protocol_search import search
from tests.support.protocol_world import SEEN, record_stores, set_the_stage

KIND = "search"
PIECE = 500
"""Examples in one entry of the ledger."""
_APART = 10_000_000
"""Numbers of examples between two seeds: searches with different seeds can run side by side."""


def pieces(*, first: int, seed: int) -> Iterator[dict[str, Any]]:
    """Search without an end, and tell of what happened."""
    with pytest.MonkeyPatch.context() as patch, record_stores():
        set_the_stage(patch)
        patch.setattr(logging.getLogger("icepact"), "disabled", True)
        for number in itertools.count(first):
            SEEN.clear()
            began, error = time.monotonic(), None
            try:
                search(PIECE, first=seed * _APART + number * PIECE)
            except Violation as found:
                error = str(found)
            yield {
                "seed": seed,
                "number": number,
                "kind": KIND,
                "seen": dict(SEEN),
                "seconds": round(time.monotonic() - began, 1),
                "clean": error is None,
                **({} if error is None else {"error": error}),
            }
