"""What the steps of housekeeping have in common: counts of files, and what stays and why."""

from dataclasses import dataclass

from pydantic import computed_field

from icepact.model.documents import Document
from icepact.model.effort import Additive
from icepact.model.formatting import format_size, plural


@dataclass(frozen=True, kw_only=True, slots=True)
class FileTotals(Document, Additive):
    """Files by what they are, and the bytes of those whose size is known."""

    data_files: int = 0
    delete_files: int = 0
    """Of every kind, deletion vectors in Puffin files included."""
    manifests: int = 0
    manifest_lists: int = 0
    statistics_files: int = 0
    metadata_files: int = 0
    other_files: int = 0
    """Nobody can say what they were."""
    bytes: int = 0

    @computed_field
    @property
    def files(self) -> int:
        """All of them."""
        return sum(getattr(self, name) for name in self.__slots__ if name != "bytes")

    def __str__(self) -> str:
        kinds = {name: getattr(self, name) for name in self.__slots__ if name != "bytes"}
        some = ", ".join(plural(n, name.removesuffix("s").replace("_", " ")) for name, n in kinds.items() if n)
        return f"{some} ({format_size(self.bytes)})" if some else "no files"


NO_FILES = FileTotals()


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept(Document):
    """Something that could go, and stays."""

    what: str
    """As people name it: `snapshot 123`, `tag audit`, a path."""
    why: str


def kept_lines(kept: tuple[Kept, ...], most: int | None) -> list[str]:
    """What stays, as a plan explains it: the first few, and how many more."""
    shown = kept if most is None else kept[:most]
    lines = [f"  stays: {entry.what}: {entry.why}" for entry in shown]
    more = len(kept) - len(shown)
    return [*lines, f"  and {more} more that stay; --all lists them"] if more else lines
