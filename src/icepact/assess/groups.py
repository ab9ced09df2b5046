"""Partition groups: which files are judged together, and whether there are any news."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from pydantic_core import from_json

from icepact.assess.facts import facts_of
from icepact.assess.inspection import LastCompacted
from icepact.model.files import PartitionKey
from icepact.model.health import PartitionGroup
from icepact.model.plan import OLD_SPECS
from icepact.model.policy import Policy
from icepact.model.snapshot import LastRun, PinnedSnapshot
from icepact.stats.manifest import NEVER, Flags, Ints
from icepact.stats.table import FileStats
from icepact.stats.totals import PartitionTotals


def group_partitions(stats: FileStats, policy: Policy, last_compacted: LastCompacted) -> list[PartitionGroup]:
    """Each partition of the current spec, and the files of old specs as one: those that are asked for, and the others.

    One shuffle then writes each current partition once, whereas a group for every old partition would leave a small
    file of its own in each.
    """
    pin, keys = stats.pin, stats.partitions
    filtered_out = [not policy.asks_for(pin.specs[spec_id].show(partition)) for spec_id, partition in keys]
    old = [at for at, (spec_id, _) in enumerate(keys) if spec_id != pin.spec_id and not stats.has_duplicate_paths[at]]
    together = [some for no in (False, True) if (some := [at for at in old if filtered_out[at] is no])]
    alone = [at for at in range(len(keys)) if at not in set(old)]
    group = np.zeros(len(keys), np.int64)
    for number, some in enumerate([*([at] for at in alone), *together]):
        group[some] = number
    totals = PartitionTotals(stats, group)
    facts = facts_of(totals, policy.min_file_size)
    by_this_policy = [run for run in pin.last_runs if run.layout == policy.fingerprint]
    last = by_this_policy[0] if by_this_policy else None
    already_judged = _already_judged(totals, last)
    written = _moments(pin, totals.newest_of(_as_written(pin, stats.number)))
    small = _moments(pin, totals.oldest_of(stats.size < policy.min_file_size))
    times = _times(pin, keys, policy.time_column)
    rates = _files_per_hour(totals)
    dangling = totals.dangling.tolist()
    ours = already_judged
    if pin.format_version > 1:
        own = [number for run in by_this_policy for number in run.own_sequence_numbers]
        ours = already_judged & np.isin(totals.last, own)
    pinned_at = _moments(pin, np.array([0 if last is None else last.pinned_sequence_number]))[0]
    seen_at = _seen_at(pin, by_this_policy)

    def partition_group(number: int, some: Sequence[int], name: str, key: str, **more: Any) -> PartitionGroup:
        by, compacted = last if already_judged[number] else None, last_compacted.get(key, {})
        worked = by is not None and any(pinned_at is None or moment >= pinned_at for moment in compacted.values())
        # by an earlier run: what it left of the group has no number of its own, and later runs had work elsewhere
        worked_before = by is not None and any(
            seen_at.get(moment, -1) >= totals.last[number] for moment in compacted.values()
        )
        return PartitionGroup(
            name=name,
            keys=[keys[at] for at in some],
            facts=facts[number],
            unchanged_since=None if by is None else by.snapshot_id,
            judged_at=None if by is None or worked else by.planned_at,
            written_at=written[number],
            small_since=small[number],
            time=times[some[0]],
            compacted_at=compacted,
            compacted_last=bool(ours[number]) or worked or worked_before,
            files_per_hour=rates[number],
            filtered_out=filtered_out[some[0]],
            **more,
        )

    groups: list[PartitionGroup] = []
    for number, at in enumerate(alone):
        name = pin.show_partition(*keys[at])
        duplicated = bool(stats.has_duplicate_paths[at])
        groups.append(
            partition_group(number, [at], name, name, dangling=dangling[number], has_duplicate_paths=duplicated)
        )
    for number, some in enumerate(together, start=len(alone)):
        name = pin.show_partition(*keys[some[0]]) if len(some) == 1 else f"{len(some)} partitions of old specs"
        groups.append(partition_group(number, some, name, OLD_SPECS, target_partitions=_target_partitions(stats)))
    return groups


def _as_written(pin: PinnedSnapshot, numbers: Ints) -> Ints:
    """Sequence numbers of data files; of those that runs of ours wrote, what there was to rewrite: their pin."""
    written = numbers.copy()
    for run in pin.last_runs:
        own = [number for number in run.own_sequence_numbers if number]
        written[np.isin(numbers, own)] = run.pinned_sequence_number
    return written


def _seen_at(pin: PinnedSnapshot, runs: Sequence[LastRun]) -> Mapping[datetime, int]:
    """Sequence numbers up to which complete runs had seen the table, by the moment of the snapshot that they planned
    from: the same that is kept of each partition group that they rewrote."""
    known = {number for number, _ in pin.moments}  # of one that has expired, an older one would tell the moment
    pinned = sorted({run.pinned_sequence_number for run in runs} & known)
    moments = _moments(pin, np.array(pinned, np.int64))
    return {moment: number for moment, number in zip(moments, pinned, strict=True) if moment is not None}


def _target_partitions(stats: FileStats) -> int:
    """Over how many current partitions the rows of old specs will go: a guess."""
    pin = stats.pin
    if pin.specs[pin.spec_id].unpartitioned:
        return 1
    return max(1, sum(spec_id == pin.spec_id for spec_id, _ in stats.partitions))


def _already_judged(totals: PartitionTotals, last: LastRun | None) -> Flags:
    """Of each group: whether a complete run with this same policy has already judged every one of its files.

    Outputs are often smaller than predicted (one footer instead of a hundred), so packing alone would find new work in
    them. The run's own snapshot says what it had seen; only news since then count.
    """
    if last is None:
        return np.zeros(totals.groups, np.bool_)
    pin = totals.stats.pin
    if pin.format_version == 1:  # no sequence numbers: judged only while nothing else was committed
        return np.full(totals.groups, pin.snapshot_id == last.snapshot_id)
    own = list(last.own_sequence_numbers)

    def seen(numbers: Ints) -> Flags:
        known: Flags = (numbers <= last.pinned_sequence_number) | np.isin(numbers, own)
        return known

    return ~totals.unseen(seen)


def _moments(pin: PinnedSnapshot, numbers: Ints) -> list[datetime | None]:
    """Of each sequence number: when it was committed; `None` if that was before the oldest snapshot known, or never."""
    if not pin.moments:
        return [None] * len(numbers)
    known = np.array([number for number, _ in pin.moments])
    times = np.array([time for _, time in pin.moments])
    at = np.searchsorted(known, numbers, side="right") - 1
    if pin.format_version == 1:  # no sequence numbers: anything may be as new as the newest snapshot
        at, times = np.zeros(len(numbers), np.int64), times[[int(times.argmax())]]
    at = np.where(numbers == NEVER, -1, at)
    return [
        datetime.fromtimestamp(moment / 1000, UTC) if position >= 0 else None
        for moment, position in zip(times[np.maximum(at, 0)].tolist(), at.tolist(), strict=True)
    ]


_DAY = 24 * 3600 * 1000
_HOUR = 3600 * 1000


def _files_per_hour(totals: PartitionTotals) -> list[float | None]:
    """Of each group: how often data files were added on the last day that any were, as far as they are still there.
    `None` if sequence numbers or snapshots do not tell. What runs of ours wrote does not count."""
    pin, stats = totals.stats.pin, totals.stats
    if not pin.moments or pin.format_version == 1:
        return [None] * totals.groups
    known = np.array([number for number, _ in pin.moments])
    times = np.array([time for _, time in pin.moments])
    own = list(pin.own_sequence_numbers)
    at = np.searchsorted(known, stats.number, side="right") - 1
    when = np.where(at >= 0, times[np.maximum(at, 0)], 0)
    came = (at >= 0) & ~np.isin(stats.number, own)
    last = np.zeros(totals.groups, np.int64)
    np.maximum.at(last, totals.of_file[came], when[came])
    recent = came & (when > last[totals.of_file] - _DAY)
    hours = np.clip((last - int(times.min())) / _HOUR, 1, 24)
    rates: list[float | None] = (totals.sums(where=recent) / hours).tolist()
    return rates


_TIMES = ("year", "month", "day", "hour")
"""Transforms that only times have."""
_TYPES = ("date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")


def _times(pin: PinnedSnapshot, keys: Sequence[PartitionKey], column: str | None) -> list[Any]:
    """Of each partition: the value of its field over a time; `None` where the spec has none."""
    schema: Mapping[str, Any] = from_json(pin.schema)
    types = {field["name"]: field["type"] for field in schema.get("fields", ())}
    at: dict[int, int | None] = {}
    for spec_id, spec in pin.specs.items():
        over_time = [
            number
            for number, field in enumerate(spec.fields)
            if (field.source == column and (field.transform in _TIMES or field.transform == "identity"))
            or (column is None and field.transform in _TIMES)
            or (column is None and field.transform == "identity" and types.get(field.source) in _TYPES)
        ]
        at[spec_id] = over_time[0] if over_time else None
    return [
        None if (field := at[spec_id]) is None else "null" if partition[field] is None else partition[field]
        for spec_id, partition in keys
    ]
