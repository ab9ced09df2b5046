"""What every rewriter does."""

from typing import NamedTuple, Protocol

from icepact.model.plan import RewriteFiles, Unit
from icepact.model.policy import Policy
from icepact.model.rewrite import InputFacts, WrittenFile


class UnitResult(NamedTuple):
    """What one unit read and wrote."""

    inputs: list[InputFacts]
    rows_observed: int
    files: list[WrittenFile]


class Rewriter(Protocol):
    """Rewrites one unit of a group; called from several threads at once."""

    def rewrite(self, step: RewriteFiles, unit: Unit, unit_id: str, policy: Policy) -> UnitResult:
        """Write the unit's surviving rows into new files."""
        ...
