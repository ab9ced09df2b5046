"""What the steps of housekeeping have in common: counts of files, and what stays and why."""

from dataclasses import dataclass

from pydantic import computed_field

from icepact.model.documents import Document, Moment
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
class Waiting(Document):
    """What housekeeping would find of a table, as far as that is known without reading manifests or listing storage."""

    expirable_snapshots: int = 0
    """That its retention lets go."""
    expirable_bytes: int = 0
    """Of data files that these snapshots are the last to need, about."""
    orphans_removed_at: Moment | None = None
    """When orphans were last looked for; `None` if never, or nobody remembers."""
    statistics: str | None = None
    """How old the sketches of its columns are; `None` if there are none."""

    def lines(self) -> list[str]:
        """What people should know."""
        lines = []
        if self.expirable_snapshots:
            freed = f", about {format_size(self.expirable_bytes)}" if self.expirable_bytes else ""
            lines.append(f"{plural(self.expirable_snapshots, 'snapshot')} could expire{freed}")
        if self.orphans_removed_at is not None:
            lines.append(f"orphans were last looked for on {self.orphans_removed_at:%Y-%m-%d %H:%M} UTC")
        return [*lines, *([f"statistics {self.statistics}"] if self.statistics else [])]


NOTHING_WAITS = Waiting()


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
