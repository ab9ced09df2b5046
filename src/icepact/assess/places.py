"""Places: which files are judged together, and whether there are any news."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from pydantic_core import from_json

from icepact.assess.facts import counted_facts
from icepact.model.census import NEVER, Census, Flags, Ints
from icepact.model.health import Place
from icepact.model.looked import Clocks
from icepact.model.plan import OLD_SPECS
from icepact.model.policy import Policy
from icepact.model.table import Key, LastRun, Pinned, SpecField
from icepact.model.tally import Tally


def places(census: Census, policy: Policy, clocks: Clocks) -> list[Place]:
    """Each partition of the current spec, and the files of old specs as one: those that are asked for, and the others.

    One shuffle then writes each current partition once, whereas a place for every old partition would leave a small
    file of its own in each.
    """
    pin, keys = census.pin, census.places
    unasked = [not policy.asks_for(pin.specs[spec_id].show(partition)) for spec_id, partition in keys]
    old = [at for at, (spec_id, _) in enumerate(keys) if spec_id != pin.spec_id and not census.broken[at]]
    together = [some for no in (False, True) if (some := [at for at in old if unasked[at] is no])]
    alone = [at for at in range(len(keys)) if at not in set(old)]
    group = np.zeros(len(keys), np.int64)
    for number, some in enumerate([*([at] for at in alone), *together]):
        group[some] = number
    tally = Tally(census, group)
    facts = counted_facts(tally, policy.min_file_size)
    last = next((run for run in pin.last_runs if run.layout == policy.fingerprint), None)
    settled = _settled(tally, last)
    written = _moments(pin, tally.newest_of(_as_written(pin, census.number)))
    small = _moments(pin, tally.oldest_of(census.size < policy.min_file_size))
    times = _times(pin, keys, policy.time_column)
    rates = _files_per_hour(tally)
    dangling = tally.dangling.tolist()
    ours = settled & np.isin(tally.last, _own_numbers(pin, policy)) if pin.format_version > 1 else settled
    pinned_at = _moments(pin, np.array([0 if last is None else last.pinned_sequence_number]))[0]

    def place(number: int, some: Sequence[int], name: str, clock: str, **more: Any) -> Place:
        by = last if settled[number] else None
        worked = by is not None and any(
            pinned_at is None or moment >= pinned_at for moment in clocks.get(clock, {}).values()
        )
        return Place(
            name=name,
            keys=[keys[at] for at in some],
            facts=facts[number],
            settled_by=None if by is None else by.snapshot_id,
            settled_at=None if by is None or worked else by.planned_at,
            written_at=written[number],
            small_since=small[number],
            time=times[some[0]],
            compacted_at=clocks.get(clock, {}),
            compacted_last=bool(ours[number]) or worked,
            files_per_hour=rates[number],
            unasked=unasked[some[0]],
            **more,
        )

    found: list[Place] = []
    for number, at in enumerate(alone):
        name = pin.show_partition(*keys[at])
        found.append(place(number, [at], name, name, dangling=dangling[number], broken=bool(census.broken[at])))
    for number, some in enumerate(together, start=len(alone)):
        name = pin.show_partition(*keys[some[0]]) if len(some) == 1 else f"{len(some)} partitions of old specs"
        found.append(place(number, some, name, OLD_SPECS, spread=_spread(census)))
    return found


def _as_written(pin: Pinned, numbers: Ints) -> Ints:
    """Sequence numbers of data files; of those that runs of ours wrote, what there was to rewrite: their pin."""
    found = numbers.copy()
    for run in pin.last_runs:
        found[np.isin(numbers, [number for number in run.own_sequence_numbers if number])] = run.pinned_sequence_number
    return found


def _own_numbers(pin: Pinned, policy: Policy) -> list[int]:
    """Sequence numbers of what complete runs by this same policy wrote."""
    return [number for run in pin.last_runs if run.layout == policy.fingerprint for number in run.own_sequence_numbers]


def _spread(census: Census) -> int:
    pin = census.pin
    if pin.specs[pin.spec_id].unpartitioned:
        return 1
    return max(1, sum(spec_id == pin.spec_id for spec_id, _ in census.places))


def _settled(tally: Tally, last: LastRun | None) -> Flags:
    """Of each group: whether a complete run with this same policy has already judged every one of its files.

    Outputs are often smaller than predicted (one footer instead of a hundred), so packing alone would find new work in
    them. The run's own snapshot says what it had seen; only news since then count.
    """
    if last is None:
        return np.zeros(tally.groups, np.bool_)
    pin = tally.census.pin
    if pin.format_version == 1:  # no sequence numbers: settled only while nothing else was committed
        return np.full(tally.groups, pin.snapshot_id == last.snapshot_id)
    own = list(last.own_sequence_numbers)

    def seen(numbers: Ints) -> Flags:
        known: Flags = (numbers <= last.pinned_sequence_number) | np.isin(numbers, own)
        return known

    return ~tally.unseen(seen)


def _moments(pin: Pinned, numbers: Ints) -> list[datetime | None]:
    """Of each sequence number: when it was committed; null if that was before the oldest snapshot known, or never."""
    if not pin.moments:
        return [None] * len(numbers)
    known = np.array([number for number, _ in pin.moments])
    times = np.array([time for _, time in pin.moments])
    at = np.searchsorted(known, numbers, side="right") - 1
    if pin.format_version == 1:  # no sequence numbers: anything may be as new as the newest snapshot
        at, times = np.zeros(len(numbers), np.int64), times[[int(times.argmax())]]
    at = np.where(numbers == NEVER, -1, at)
    return [
        datetime.fromtimestamp(moment / 1000, UTC) if found >= 0 else None
        for moment, found in zip(times[np.maximum(at, 0)].tolist(), at.tolist(), strict=True)
    ]


_DAY = 24 * 3600 * 1000
_HOUR = 3600 * 1000


def _files_per_hour(tally: Tally) -> list[float | None]:
    """Of each group: how often data files were added on the last day that any were, as far as they are still there.
    Null if sequence numbers or snapshots do not tell. What runs of ours wrote does not count."""
    pin, census = tally.census.pin, tally.census
    if not pin.moments or pin.format_version == 1:
        return [None] * tally.groups
    known = np.array([number for number, _ in pin.moments])
    times = np.array([time for _, time in pin.moments])
    own = list(pin.own_sequence_numbers)
    at = np.searchsorted(known, census.number, side="right") - 1
    when = np.where(at >= 0, times[np.maximum(at, 0)], 0)
    came = (at >= 0) & ~np.isin(census.number, own)
    last = np.zeros(tally.groups, np.int64)
    np.maximum.at(last, tally.of_file[came], when[came])
    recent = came & (when > last[tally.of_file] - _DAY)
    hours = np.clip((last - int(times.min())) / _HOUR, 1, 24)
    found: list[float | None] = (tally.sums(where=recent) / hours).tolist()
    return found


_TIMES = ("year", "month", "day", "hour")
"""Transforms that only times have."""
_TYPES = ("date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")


def _times(pin: Pinned, keys: Sequence[Key], column: str | None) -> list[Any]:
    """Of each partition: the value of its field over a time, null where the spec has none."""
    schema: Mapping[str, Any] = from_json(pin.schema)
    types = {field["name"]: field["type"] for field in schema.get("fields", ())}
    at: dict[int, int | None] = {}
    for spec_id, spec in pin.specs.items():
        found = [
            number
            for number, field in enumerate(spec.fields)
            if (field.source == column and (field.transform in _TIMES or field.transform == "identity"))
            or (column is None and (field.transform in _TIMES or _is_time(field, types)))
        ]
        at[spec_id] = found[0] if found else None
    return [
        None if (field := at[spec_id]) is None else "null" if partition[field] is None else partition[field]
        for spec_id, partition in keys
    ]


def _is_time(field: SpecField, types: Mapping[str, Any]) -> bool:
    return field.transform == "identity" and types.get(field.source) in _TYPES
