"""How deep a rewrite goes."""

from enum import StrEnum


class Tier(StrEnum):
    """From the lightest to the deepest."""

    MINOR = "minor"
    """Small files."""
    MAJOR = "major"
    """Small files, and those that deletes apply to."""
    FULL = "full"
    """Everything."""
