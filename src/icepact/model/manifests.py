"""Manifests: what is known of them without reading them, the step that rewrites them, and what it did."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from pydantic import computed_field

from icepact.model.cost import NO_COST, Cost
from icepact.model.documents import Document
from icepact.model.formatting import format_seconds, format_size, plural
from icepact.model.housekeeping import Kept, kept_lines


class FieldRange(NamedTuple):
    """Which values of one partition field a manifest has: numbers that are in the order of the values."""

    low: int
    high: int
    """Below `low` if there are none but nulls."""
    nulls: bool

    @property
    def single(self) -> bool:
        """Whether it is one value, or nulls alone."""
        return self.low == self.high and not self.nulls if self.low <= self.high else self.nulls


@dataclass(frozen=True, kw_only=True, slots=True)
class ManifestFacts:
    """A manifest as the list of a snapshot's manifests describes it."""

    path: str
    spec_id: int
    deletes: bool
    """Whether its files are delete files."""
    length: int
    """Bytes."""
    overhead: int
    """Bytes that a manifest of its kind has without any entry."""
    live: int | None
    """Files that are part of the table; unknown in very old manifests."""
    dead: int
    """Entries of files that are not, any more."""
    ranges: tuple[FieldRange, ...] | None
    """By partition field; `None` if nobody wrote them down."""
    order: int
    """Grows with the time at which manifests came into the table."""
    run: str = ""
    """What wrote it, sorted by partition, together with others; empty for manifests of other writers."""
    wishes: str = ""
    """What was asked of that run, as far as it is still known."""
    has_row_ids: bool = True
    """Whether the rows of its files have been given ids, from format version 3 on."""
    unwritable: bool = False
    """Whether a column that its partitions come from was dropped: Iceberg cannot write them down again."""

    @property
    def payload(self) -> float:
        """Bytes of the entries of live files."""
        live = self.live or 0
        return max(0, self.length - self.overhead) * live / max(1, live + self.dead)

    @property
    def single(self) -> bool:
        """Whether all its files are of one partition."""
        return self.ranges is not None and all(field.single for field in self.ranges)


class PartitionWeight(NamedTuple):
    """What one partition weighs in the manifests that are rewritten; in the order of partitions."""

    entries: int
    bytes: int
    level: int
    """The first field in which it differs from the partition before."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ManifestGroup(Document):
    """Manifests of one partition spec, of data files or of delete files, that are rewritten together."""

    content: Literal["data", "deletes"]
    """What the files are that they list."""
    spec_id: int
    manifests_in: int
    """Manifests that are replaced."""
    manifests_out: int
    """Manifests that come instead."""
    left_alone: int
    """Manifests of the same kind that stay as they are."""
    entries: int
    """Live files that they list."""
    bytes_in: int
    bytes_out: int
    reason: str
    """Why it pays."""

    def __str__(self) -> str:
        kind = "data" if self.content == "data" else "delete"
        beside = f", {self.left_alone:,} stay" if self.left_alone else ""
        return (
            f"{plural(self.manifests_in, f'{kind} manifest')} of spec {self.spec_id} become {self.manifests_out:,}"
            f" ({plural(self.entries, 'file')}, {format_size(self.bytes_in)}{beside})"
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ManifestsResult(Document):
    """What a rewrite of manifests did."""

    kind: Literal["rewrite-manifests"] = "rewrite-manifests"
    groups: tuple[ManifestGroup, ...] = ()
    """What was rewritten; outputs and bytes are counted."""
    snapshot_id: int | None = None
    """The snapshot that has the new manifests; `None` if nothing was committed."""
    attempts: int = 0
    """How often it was tried to commit: more than once if others committed in between."""
    reason: str = ""
    """Why nothing was done; empty if it was."""
    seconds: float = 0.0

    @computed_field
    @property
    def manifests_in(self) -> int:
        """Manifests that were replaced."""
        return sum(group.manifests_in for group in self.groups)

    @computed_field
    @property
    def manifests_out(self) -> int:
        """Manifests that came instead."""
        return sum(group.manifests_out for group in self.groups)

    @property
    def done(self) -> bool:
        """Whether anything was done."""
        return self.snapshot_id is not None

    def lines(self) -> list[str]:
        """For people."""
        if self.snapshot_id is None:
            return [f"manifests: nothing was rewritten: {self.reason}"]
        return [
            f"manifests: {self.manifests_in:,} became {self.manifests_out:,}"
            f" in {format_seconds(self.seconds)} (snapshot {self.snapshot_id})",
            *(f"  {group}" for group in self.groups),
        ]


@dataclass(frozen=True, kw_only=True, slots=True)
class RewriteManifests(Document):
    """Step: replace small and scattered manifests by fewer, parted by partition."""

    kind: Literal["rewrite-manifests"] = "rewrite-manifests"
    branch: str
    snapshot_id: int
    """Head of the branch that it was judged at."""
    target_bytes: int
    """Size that a manifest should have."""
    least: int
    """Fewer small manifests than this are left alone."""
    groups: tuple[ManifestGroup, ...]
    """What is rewritten; outputs and their bytes are predicted."""
    reason: str
    kept: tuple[Kept, ...] = ()
    cost: Cost = NO_COST

    @computed_field
    @property
    def manifests_in(self) -> int:
        """Manifests that are replaced."""
        return sum(group.manifests_in for group in self.groups)

    @computed_field
    @property
    def manifests_out(self) -> int:
        """Manifests that are predicted to come instead."""
        return sum(group.manifests_out for group in self.groups)

    @property
    def bytes_in(self) -> int:
        """Bytes of manifests that are read."""
        return sum(group.bytes_in for group in self.groups)

    def explain(self, most: int | None) -> list[str]:
        """The lines of a plan on this step."""
        shown = self.groups if most is None else self.groups[:most]
        lines = [
            f"rewrite {plural(self.manifests_in, 'manifest')} ({format_size(self.bytes_in)}) as about"
            f" {self.manifests_out:,}: {self.reason}",
            *(f"  {group}: {group.reason}" for group in shown),
        ]
        if len(shown) < len(self.groups):
            lines.append(f"  and {plural(len(self.groups) - len(shown), 'more kind')} of manifests; --all lists them")
        return [*lines, *kept_lines(self.kept, most)]

    @property
    def planned(self) -> ManifestsResult:
        """What it would do."""
        return ManifestsResult(groups=self.groups)
