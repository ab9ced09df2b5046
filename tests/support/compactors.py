"""Compactors for tests that start many processes."""

from typing import Any

from icepact import Compactor
from icepact.entrypoints.wiring import build_application


def short_compactor(**given: Any) -> Compactor:
    """A compactor whose Java is started for a short life, as for commands that end soon."""
    return Compactor.of(build_application(**given, short=True))
