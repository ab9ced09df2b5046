"""What a strategy says of a place."""

from dataclasses import dataclass
from enum import StrEnum


class Which(StrEnum):
    """Which files of a place are meant."""

    NONE = "none"
    SMALL = "small"
    """Those below the small-file threshold."""
    TOUCHED = "touched"
    """Those that deletes apply to."""
    SMALL_OR_TOUCHED = "small or touched"
    ALL = "all"

    def takes(self, *, small: bool, touched: bool) -> bool:
        """Whether a file is meant."""
        match self:
            case Which.NONE:
                return False
            case Which.SMALL:
                return small
            case Which.TOUCHED:
                return touched
            case Which.SMALL_OR_TOUCHED:
                return small or touched
            case Which.ALL:
                return True


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What is to be done with a place."""

    which: Which
    reason: str
    """Why these files, or why none."""
