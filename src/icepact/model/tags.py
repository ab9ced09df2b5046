"""Automatic tags: the step that makes those that are due, and what became of it."""

from dataclasses import dataclass
from typing import Literal

from icepact.model.cost import NO_COST, Cost
from icepact.model.documents import Document, Moment
from icepact.model.formatting import format_duration, format_seconds, plural
from icepact.model.housekeeping import Kept, kept_lines

TagPeriod = Literal["hourly", "daily", "monthly"]


@dataclass(frozen=True, kw_only=True, slots=True)
class DueTag(Document):
    """A tag that is due, and the snapshot that gets it."""

    name: str
    snapshot_id: int
    committed_at: Moment
    """When the snapshot was committed."""
    trigger: Moment
    """From when on the tag was due."""
    max_age_seconds: float | None
    """How long the tag is kept; `None` for ever."""
    why: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TagsResult(Document):
    """What became of tags that were due."""

    kind: Literal["create-tags"] = "create-tags"
    created: tuple[DueTag, ...] = ()
    snapshot_id: int | None = None
    """Tags make no snapshot."""
    reason: str = ""
    """Why not all were made; empty if they were."""
    seconds: float = 0.0

    @property
    def done(self) -> bool:
        """Whether anything was done."""
        return bool(self.created)

    def lines(self) -> list[str]:
        """What was done, for people."""
        lines = [f"created tag {tag.name} on snapshot {tag.snapshot_id}{_kept_for(tag)}" for tag in self.created]
        if self.reason:
            lines.append(f"not all tags created: {self.reason}" if lines else f"no tag created: {self.reason}")
        return [*lines, f"  in {format_seconds(self.seconds)}"] if self.created else lines


@dataclass(frozen=True, kw_only=True, slots=True)
class CreateTags(Document):
    """Tags are made that a schedule asks for. A tag that there is, is never moved."""

    kind: Literal["create-tags"] = "create-tags"
    period: TagPeriod
    tags: tuple[DueTag, ...]
    reason: str
    kept: tuple[Kept, ...] = ()
    cost: Cost = NO_COST

    def explain(self, most: int | None) -> list[str]:
        """What a plan shows of it."""
        shown = self.tags if most is None else self.tags[:most]
        lines = [f"create {plural(len(self.tags), f'{self.period} tag')}", f"  why: {self.reason}"]
        lines += [f"  {tag.name} on snapshot {tag.snapshot_id}{_kept_for(tag)}: {tag.why}" for tag in shown]
        if len(self.tags) > len(shown):
            lines.append(f"  and {plural(len(self.tags) - len(shown), 'more tag')}")
        return [*lines, *kept_lines(self.kept, most)]

    @property
    def planned(self) -> TagsResult:
        """What it would do."""
        return TagsResult(created=self.tags)


def _kept_for(tag: DueTag) -> str:
    return "" if tag.max_age_seconds is None else f", kept for {format_duration(tag.max_age_seconds)}"
