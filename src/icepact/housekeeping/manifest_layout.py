"""Layout of manifests: which of them it pays to rewrite, and where one output ends and the next begins. Pure.

What a scan opens is decided by the ranges of partition values that the manifest list tells of each manifest, so these
are what scattering is judged by: how many manifests have a partition within their ranges. Manifests that one rewrite
has written together count as one, because their ranges overlap no more than they have to; that is also why a second
rewrite finds nothing to do. As in a log-structured merge tree, what is new and small is merged often, and the large
sorted ones only when enough has gathered beside them.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from icepact.model.formatting import plural
from icepact.model.housekeeping import Kept
from icepact.model.manifests import ManifestFacts, ManifestGroup, PartitionWeight

LEAST = 4
"""Fewer small manifests than this are left alone."""
_SMALL = 0.5
"""Share of the target size below which a manifest is small."""
_PAYBACK = 4.0
"""Manifests of the target size that may be rewritten for each square of the manifests that a scan then saves: the more
is rewritten at once, the more it must save, and the rarer it happens."""
_PROBES = 256
"""Partitions for which it is worked out how many manifests a scan of them opens."""
_LOW, _HIGH, _MOST = 0.75, 1.25, 1.75
"""Sizes of outputs, as shares of the target: between the first two if partitions end there, never above the third."""
_NULL = -1
_UNKNOWN = np.iinfo(np.int64).max
Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """Manifests of one kind that are rewritten together."""

    group: ManifestGroup
    paths: tuple[str, ...]
    overhead: int
    """Bytes of such a manifest without any entry."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """What is rewritten, and why all else stays."""

    chosen: tuple[Chosen, ...]
    kept: tuple[Kept, ...]


def choose(manifests: Iterable[ManifestFacts], *, target: int, least: int = LEAST) -> Choice:
    """Decide for each kind of manifests which of them are rewritten."""
    kinds: dict[tuple[bool, int], list[ManifestFacts]] = {}
    for manifest in manifests:
        kinds.setdefault((manifest.deletes, manifest.spec_id), []).append(manifest)
    chosen, kept = list[Chosen](), list[Kept]()
    for (deletes, spec_id), group in sorted(kinds.items()):
        answer = _judge(group, target, least)
        if isinstance(answer, Chosen):
            chosen.append(answer)
        else:
            kind = "delete" if deletes else "data"
            kept.append(Kept(what=f"{plural(len(group), f'{kind} manifest')} of spec {spec_id}", why=answer))
    return Choice(chosen=tuple(chosen), kept=tuple(kept))


def wishes_of(target: int, least: int) -> str:
    """What is asked for, in a word: where nothing is new, only other wishes are a reason to look again."""
    return f"{target}/{least}"


def room(target: int, overhead: int) -> int:
    """Bytes of entries that a manifest of the target size has; more if it would have next to none."""
    return max(target - overhead, target // 2, 1)


def outputs_of(payload: float, target: int) -> int:
    """How many manifests so many bytes of entries fill, if each has room for so many."""
    return max(1, ceil(payload / target - (_HIGH - 1))) if payload else 0


def _judge(group: Sequence[ManifestFacts], target: int, least: int) -> Chosen | str:
    """The manifests of one kind that are rewritten, or why none is."""
    usable = [manifest for manifest in group if manifest.live is not None]
    if any(manifest.unwritable for manifest in group):
        return "a column that their partitions come from was dropped: Iceberg would lose the partitions"
    if len(usable) < 2:
        return "there is only one" if len(group) == 1 else "very old manifests do not say how many files they have"
    newest = max(usable, key=lambda manifest: (manifest.order, manifest.run))
    if newest.run and newest.wishes in ("", wishes_of(target, least)):
        return "none has come since they were rewritten"
    target = room(target, usable[0].overhead)  # that of entries, from here on
    small = np.array([manifest.payload < target * _SMALL for manifest in usable], np.bool_)
    many = _many(usable, small, target, least)
    scattered, opened = _scattered(usable, small, target, small_count=many)
    wanted = scattered | small if many else scattered
    if not wanted.any():
        return _why_not(small, least, opened)
    number = int(np.count_nonzero(small & wanted))
    reasons = [f"{number:,} of them are small"] if many else []
    if scattered.any():
        reasons.append(f"a scan of one partition opens up to {opened:,} of them")
    return _chosen(usable, wanted, len(group), target, " and ".join(reasons))


def _chosen(manifests: Sequence[ManifestFacts], wanted: Flags, all_of_kind: int, target: int, reason: str) -> Chosen:
    taken = [manifest for manifest, flag in zip(manifests, wanted.tolist(), strict=True) if flag]
    payload = sum(manifest.payload for manifest in taken)
    outputs = outputs_of(payload, target)
    group = ManifestGroup(
        content="deletes" if taken[0].deletes else "data",
        spec_id=taken[0].spec_id,
        manifests_in=len(taken),
        manifests_out=outputs,
        left_alone=all_of_kind - len(taken),
        entries=sum(manifest.live or 0 for manifest in taken),
        bytes_in=sum(manifest.length for manifest in taken),
        bytes_out=round(payload) + outputs * taken[0].overhead,
        reason=reason,
    )
    return Chosen(group=group, paths=tuple(manifest.path for manifest in taken), overhead=taken[0].overhead)


def _many(manifests: Sequence[ManifestFacts], small: Flags, target: int, least: int) -> bool:
    """Whether there are many small ones: so many that merging them leaves half of them, or fewer."""
    number = int(np.count_nonzero(small))
    payload = sum(manifest.payload for manifest, flag in zip(manifests, small.tolist(), strict=True) if flag)
    return number >= max(2, least) and 2 * outputs_of(payload, target) <= number


def _why_not(small: Flags, least: int, opened: int) -> str:
    number = int(np.count_nonzero(small))
    parts = f", and a scan of one partition opens {opened:,} at most" if opened else ""
    if not number:
        return f"all are large{parts}"
    return f"{plural(number, 'small one')}: too few to merge (from {least} on){parts}"


# -- scattering -----------------------------------------------------------------------------------


def _scattered(
    manifests: Sequence[ManifestFacts], small: Flags, target: int, *, small_count: bool
) -> tuple[Flags, int]:
    """Which manifests are to be rewritten because scans of one partition open too many, and how many they open at most.

    Each level of excess is tried, the lowest first: there the most manifests are rewritten.
    """
    nothing = np.zeros(len(manifests), np.bool_)
    fields = max((len(manifest.ranges) for manifest in manifests if manifest.ranges is not None), default=0)
    if not fields:
        return nothing, 0
    inside = _inside(manifests, fields)
    excess = _excess(manifests, inside, small, target, small_count=small_count)
    payload = np.array([manifest.payload for manifest in manifests])
    single = np.array([manifest.single for manifest in manifests], np.bool_) & ~small
    opened = int(inside.sum(axis=1).max())
    for level in np.unique(excess[excess > 0]).tolist():
        taken = inside[excess >= level].any(axis=0) & ~single
        if taken.sum() > 1 and payload[taken].sum() / target <= _PAYBACK * level * level:
            return taken, opened
    return nothing, opened


def _inside(manifests: Sequence[ManifestFacts], fields: int) -> Flags:
    """By partition and manifest: whether a scan of the partition opens the manifest. The partitions are the ends of the
    manifests' ranges."""
    low = np.zeros((len(manifests), fields), np.int64)
    high = np.full((len(manifests), fields), _UNKNOWN, np.int64)
    nulls = np.ones((len(manifests), fields), np.bool_)
    for at, manifest in enumerate(manifests):
        if manifest.ranges is not None:
            for field, known in enumerate(manifest.ranges):
                low[at, field], high[at, field], nulls[at, field] = known
    empty = low > high
    known_ends = high < _UNKNOWN
    ends = np.concatenate(
        [
            np.where(empty, _NULL, low),
            np.where(empty, _NULL, np.where(known_ends, high, low)),
            np.where(nulls, _NULL, low),
        ]
    )
    ends = np.unique(ends, axis=0)
    ends = ends[np.unique(np.linspace(0, len(ends) - 1, _PROBES).astype(np.int64))]
    inside = np.ones((len(ends), len(manifests)), np.bool_)
    for field in range(fields):
        value = ends[:, field, None]
        within = (value >= low[None, :, field]) & (value <= high[None, :, field])
        inside &= np.where(value == _NULL, nulls[None, :, field], within)
    return inside


def _excess(
    manifests: Sequence[ManifestFacts], inside: Flags, small: Flags, target: int, *, small_count: bool
) -> NDArray[np.float64]:
    """By partition: how many manifests a scan of it opens beside the first, as far as a rewrite could help it.

    Those that were written together count as one. So do large ones with one partition alone, which stay as they are,
    and all small ones: merging these is cheap. Beside manifests that are sorted they weigh by their size, so that a few
    small ones do not make large ones be rewritten again.
    """
    run = np.array([manifest.run for manifest in manifests], object)
    single = np.array([manifest.single for manifest in manifests], np.bool_)
    others = inside[:, ~small & ~single & (run == "")].sum(axis=1)
    opened = others + inside[:, ~small & single & (run == "")].any(axis=1).astype(np.float64)
    for name in sorted({manifest.run for manifest in manifests} - {""}):
        opened += inside[:, ~small & (run == name)].any(axis=1)
    if small_count:
        payload = sum(manifest.payload for manifest, flag in zip(manifests, small.tolist(), strict=True) if flag)
        share = np.where(others > 0, 1.0, min(1.0, payload / (target * _SMALL)))
        opened += inside[:, small].any(axis=1) * share
    excess: NDArray[np.float64] = opened - 1
    return excess


# -- outputs --------------------------------------------------------------------------------------


def cut(partitions: Sequence[PartitionWeight], target: int) -> list[int]:
    """The entries, counted in the order of partitions, at which a further output begins.

    A partition is in one output if it can be. Outputs end where a partition does, and rather where the first field of
    partitions changes than a later one: then a scan has to open fewer of them.
    """
    sizes, entries = _sums(p.bytes for p in partitions), _sums(p.entries for p in partitions)
    cuts: list[int] = []
    begin = 0.0
    while sizes[-1] - begin > _HIGH * target:
        end = _end(partitions, sizes, begin, target)
        if isinstance(end, int):
            position, begin = entries[end], float(sizes[end])
        else:
            at = bisect_right(sizes, end) - 1
            position = entries[at] + ceil((end - sizes[at]) / partitions[at].bytes * partitions[at].entries)
            begin = sizes[at] + (position - entries[at]) / partitions[at].entries * partitions[at].bytes
        if not (cuts[-1] if cuts else 0) < position < entries[-1]:
            break
        cuts.append(position)
    return cuts


def _end(partitions: Sequence[PartitionWeight], sizes: Sequence[int], begin: float, target: int) -> int | float:
    """Where an output ends: the number of the partition that comes next, or the byte inside one that is too large."""
    first = bisect_left(sizes, begin + _LOW * target)
    beyond = bisect_right(sizes, begin + _HIGH * target)
    if first < beyond:
        return min(range(first, beyond), key=lambda at: (partitions[at].level, abs(sizes[at] - begin - target), at))
    if sizes[first - 1] - begin >= _SMALL * target:
        return first - 1
    if sizes[first] - begin <= _MOST * target:
        return first
    return begin + _HIGH * target


def _sums(values: Iterable[int]) -> list[int]:
    sums = [0]
    for value in values:
        sums.append(sums[-1] + value)
    return sums
