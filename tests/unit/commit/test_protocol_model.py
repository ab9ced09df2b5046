"""No order of events hurts a table; see `tests.support.protocol_search`."""

import os

import pytest

from tests.support.protocol_search import search
from tests.support.protocol_world import SEEN

pytestmark = pytest.mark.usefixtures("stage")

EXAMPLES = int(os.environ.get("EXAMPLES", "100"))
"""Of the search; `make chaos` plays more."""
FIRST = int(os.environ.get("FIRST", "0"))
"""Number of the first: searches that begin elsewhere play other examples, and can run side by side."""


def test_no_order_of_events_hurts() -> None:
    SEEN.clear()
    search(EXAMPLES, first=FIRST)
    assert SEEN["landed strictly"] > SEEN["landed late"] > 0
    assert SEEN["landed with deletes"] > 0
