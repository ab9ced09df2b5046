"""What would be rewritten in one place, what that saves and what it costs: from counts alone."""

from dataclasses import dataclass

from icepact.model.health import Place
from icepact.model.plan import Cost, Gain
from icepact.plan.strategies.choice import Choice


@dataclass(frozen=True, kw_only=True, slots=True)
class Prospect:
    """The rewrite of one place, before it is judged."""

    place: Place
    choice: Choice
    files: int
    """Inputs."""
    bytes: int
    """Of the inputs."""
    outputs: int
    """Files that they become."""
    gain: Gain
    cost: Cost
