"""Which data files are old as a whole. A file that may hold one younger row stays. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import nsmallest
from typing import NamedTuple

from icepact.housekeeping.event_time import EventTime, Span
from icepact.model.files import Partition
from icepact.model.formatting import format_size, plural
from icepact.model.housekeeping import Kept
from icepact.model.ttl import TtlLevel


class FileAge(NamedTuple):
    """What the manifests tell of one live data file, as far as its age goes."""

    number: int
    """In the list that was read."""
    path: str
    spec_id: int
    partition: Partition
    rows: int
    size: int
    nulls: int | None
    """Rows without a value of the column; `None` if nobody counted."""
    lower: bytes | None
    upper: bytes | None
    """Bounds of the column, as in the manifest."""
    deletes: tuple[int, ...] = ()
    """Indexes of the delete files that apply to it."""


class Stays(StrEnum):
    """Why a file stays that holds old rows, or may."""

    STRADDLES = "younger rows are in it, too, or may be"
    NULLS = "rows without a value in the column have no age"
    UNCOUNTED = "nobody counted the rows without a value in the column"
    NO_BOUNDS = "its manifest does not tell its oldest and newest value"
    ODD = "its oldest or newest value cannot be read as a time"
    NULL_PARTITION = "its partition is that of rows without a value"
    NO_PARTITION = "its partition spec says nothing of the column"
    CONTRADICTION = "its bounds say that it is younger than its partition is"


TimeFields = Mapping[int, Sequence[tuple[int, str]]]
"""By spec: positions and transforms of its fields that are made of the column."""
PROVING = ("identity", "year", "month", "day", "hour")
"""Transforms of which a value tells from when to when its rows are."""


def time_fields(specs: Mapping[int, Sequence[Mapping[str, object]]], column_id: int) -> TimeFields:
    """From the fields of all partition specs, as Iceberg's JSON has them."""
    return {
        spec_id: [
            (at, str(each["transform"]))
            for at, each in enumerate(fields)
            if each.get("source-id") == column_id and each["transform"] in PROVING
        ]
        for spec_id, fields in specs.items()
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class AgeRule:
    """What is old enough to go."""

    time: EventTime
    level: TtlLevel
    cutoff: int
    """Microseconds since 1970: what was over before that is old."""
    fields: TimeFields
    required: bool
    """Whether the column cannot be null."""
    old_values: tuple[Span, ...] = ()
    """Those by which single rows are old; none if nobody asks for rows."""

    def judge(self, file: FileAge, inside: Span | Stays | None = None) -> Span | Stays | None:
        """The times of a file that goes; why it stays although it holds old rows, or may; `None` if it is young.

        `inside` is what `of_partition` says of it, if that is known already.
        """
        inside = inside or self.of_partition(file)
        bounds = self._bounds(file)
        if self.level == "partition":
            return self._whole(inside, bounds)
        if isinstance(inside, Span) and self._old(inside):
            return self._whole(inside, bounds)
        if isinstance(bounds, Span):
            return bounds if self._old(bounds) else self._why_not(bounds)
        return None if isinstance(inside, Span) and self._young(inside) else bounds

    def may_hold_old(self, file: FileAge, inside: Span | Stays) -> bool:
        """Whether a file may hold a row that is old by itself, whatever the others are."""
        if inside is Stays.NULL_PARTITION or (file.nulls is not None and file.nulls >= file.rows):
            return False
        known = [span for span in (inside, self._times(file)) if isinstance(span, Span)]
        return any(all(old.start < span.end and span.start < old.end for span in known) for old in self.old_values)

    def _whole(self, inside: Span | Stays, bounds: Span | Stays) -> Span | Stays | None:
        """By the partition, unless the bounds say something else."""
        if isinstance(inside, Stays):
            return None if isinstance(bounds, Span) and self._young(bounds) else inside
        if not self._old(inside):
            return self._why_not(inside)
        if not isinstance(bounds, Span):
            return bounds if bounds in (Stays.NULLS, Stays.ODD) else inside
        if not self._old(bounds):
            return Stays.CONTRADICTION
        return Span(max(inside.start, bounds.start), min(inside.end, bounds.end))

    def _why_not(self, span: Span) -> Stays | None:
        return None if self._young(span) else Stays.STRADDLES

    def _old(self, span: Span) -> bool:
        over = self.time.over(span)
        return over is not None and over <= self.cutoff

    def _young(self, span: Span) -> bool:
        return span.start >= self.cutoff

    def of_partition(self, file: FileAge) -> Span | Stays:
        """The times of a file by the fields of its spec: the narrowest of all that they say."""
        fields = self.fields.get(file.spec_id, ())
        spans = [self.time.of_partition(transform, file.partition[at]) for at, transform in fields]
        known = [span for span in spans if span is not None]
        if known:
            return Span(max(span.start for span in known), min(span.end for span in known))
        if not fields:
            return Stays.NO_PARTITION
        return Stays.NULL_PARTITION if all(file.partition[at] is None for at, _ in fields) else Stays.ODD

    def _times(self, file: FileAge) -> Span | None:
        """The times of a file by its bounds; `None` if they do not tell."""
        if not self.time.bounded or file.lower is None or file.upper is None:
            return None
        return self.time.of_bounds(file.lower, file.upper)

    def _bounds(self, file: FileAge) -> Span | Stays:
        if not self.time.bounded or file.lower is None or file.upper is None:
            return Stays.NULLS if file.nulls else Stays.NO_BOUNDS
        span = self._times(file)
        if span is None:
            return Stays.ODD
        if self._young(span):
            return span
        if file.nulls:
            return Stays.NULLS
        return Stays.UNCOUNTED if file.nulls is None and not self.required else span


@dataclass(slots=True)
class Aged:
    """What a rule makes of the files of a snapshot."""

    numbers: list[int] = field(default_factory=list)
    """Of the files that go."""
    rows: int = 0
    size: int = 0
    span: Span | None = None
    """The times of all that goes."""
    partitions: dict[tuple[int, Partition], int] = field(default_factory=dict)
    """Those that lose files, with the start of their oldest value."""
    going: set[int] = field(default_factory=set)
    """Delete files that apply to files that go."""
    staying: set[int] = field(default_factory=set)
    """Delete files that apply to files that stay."""
    stays: dict[Stays, "_Some"] = field(default_factory=dict)
    mixed: list[int] = field(default_factory=list)
    """Numbers of files that stay and may hold rows that are old by themselves, if rows are asked for."""
    mixed_size: int = 0
    """Bytes of these."""

    @property
    def freed_deletes(self) -> set[int]:
        """Delete files that apply to nothing once the files are gone."""
        return self.going - self.staying

    def oldest_partitions(self, most: int) -> list[tuple[int, Partition]]:
        """Those that lose files, the oldest first."""
        return nsmallest(most, self.partitions, key=lambda key: (self.partitions[key], key[0], str(key[1])))

    @property
    def kept(self) -> tuple[Kept, ...]:
        """What holds old rows, or may, and stays; one entry for each reason."""
        return tuple(Kept(what=str(some), why=why.value) for why, some in sorted(self.stays.items()))


@dataclass(slots=True)
class _Some:
    """Files that stay for the same reason."""

    first: str
    files: int = 0
    size: int = 0

    def __str__(self) -> str:
        if self.files == 1:
            return self.first
        return f"{plural(self.files, 'file')} ({format_size(self.size)}), first {self.first}"


def age(files: Iterable[FileAge], rule: AgeRule) -> Aged:
    """What goes by a rule, and what stays and why."""
    aged = Aged()
    insides: dict[tuple[int, Partition], Span | Stays] = {}
    for file in files:
        key = file.spec_id, file.partition
        if key not in insides:
            insides[key] = rule.of_partition(file)
        verdict = rule.judge(file, insides[key])
        if isinstance(verdict, Span):
            _goes(aged, file, verdict)
            continue
        aged.staying.update(file.deletes)
        if rule.may_hold_old(file, insides[key]):
            aged.mixed.append(file.number)
            aged.mixed_size += file.size
        if verdict is not None:
            some = aged.stays.setdefault(verdict, _Some(file.path))
            some.files, some.size = some.files + 1, some.size + file.size
    return aged


def _goes(aged: Aged, file: FileAge, span: Span) -> None:
    aged.numbers.append(file.number)
    aged.rows, aged.size = aged.rows + file.rows, aged.size + file.size
    before = aged.span or span
    aged.span = Span(min(before.start, span.start), max(before.end, span.end))
    key = file.spec_id, file.partition
    aged.partitions[key] = min(span.start, aged.partitions.get(key, span.start))
    aged.going.update(file.deletes)
