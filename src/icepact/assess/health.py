"""Facts per partition and for the table, from the census of its files alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from icepact.assess.facts import counted_facts
from icepact.assess.places import places
from icepact.assess.signals import score
from icepact.model.census import Census, order_of
from icepact.model.health import Facts, Health, Overlap, PartitionHealth, Place
from icepact.model.histogram import Histogram
from icepact.model.looked import Clocks, Looked
from icepact.model.policy import Policy
from icepact.model.table import DeleteKind, Key, Pinned
from icepact.model.tally import Tally


def assess(census: Census, policy: Policy, *, clocks: Clocks | None = None, before: Looked | None = None) -> Health:
    """The health of a pinned table.

    `before` is an earlier look: of partitions that are in no manifest that came or went since, the same is said again.
    """
    clocks = clocks or {}
    changed = None if before is None else _changed(before, census, policy, clocks)
    if before is None or changed is None:
        return _health(census, census, policy, clocks)
    return _health(
        census,
        census.only(changed),
        policy,
        clocks,
        partitions=[p for p in before.health.partitions if (p.spec_id, p.partition) not in changed],
        of_place=[place for place in before.health.places if place.keys[0] not in changed],
        dangling={key: count for key, count in before.health.dangling.items() if key not in changed},
    )


def _changed(before: Looked, census: Census, policy: Policy, clocks: Clocks) -> frozenset[Key] | None:
    """Partitions that may not be as they were; null if that can be any."""
    asked = (before.policy.without_budgets, before.clocks)
    if asked != (policy.without_budgets, clocks) or _ground(before.census) != _ground(census):
        return None
    if list(before.census.pin.moments) != list(census.pin.moments[: len(before.census.pin.moments)]):
        return None  # snapshots have expired: of some files it is not known any more when they came
    if any(sheet.spec_id != census.pin.spec_id for sheet in census.sheets.values()):
        return None  # files of old specs are one place
    if census.pin.specs[census.pin.spec_id].unpartitioned:
        return None  # so is everything
    was, now = before.census.sheets, census.sheets
    moved = [*(now[path] for path in now.keys() - was.keys()), *(was[path] for path in was.keys() - now.keys())]
    return frozenset((sheet.spec_id, partition) for sheet in moved for partition in sheet.partitions)


def _ground(census: Census) -> tuple[Any, ...]:
    """What a whole table is judged by."""
    pin: Pinned = census.pin
    names = ("uuid", "branch", "format_version", "specs", "spec_id", "sort_key", "sort_order", "properties", "schema")
    only_here = pin.snapshot_id if pin.format_version == 1 else None  # without sequence numbers any commit is news
    return (*(getattr(pin, name) for name in names), list(pin.last_runs), only_here)


def _health(
    census: Census,
    part: Census,
    policy: Policy,
    clocks: Clocks,
    *,
    partitions: Sequence[PartitionHealth] = (),
    of_place: Sequence[Place] = (),
    dangling: Mapping[Key, int] | None = None,
) -> Health:
    """Of a census of which only a part is looked at; the rest is known."""
    pin, threshold = census.pin, policy.min_file_size
    judged = places(part, policy, clocks)
    counted = {place.keys[0]: place.facts for place in judged if len(place.keys) == 1}
    if len(counted) < len(part.places):
        counted = dict(zip(part.places, counted_facts(Tally(part), threshold), strict=True))
    fresh = [
        PartitionHealth(
            spec_id=spec_id,
            partition=partition,
            name=pin.show_partition(spec_id, partition),
            facts=counted[spec_id, partition],
            score=score(counted[spec_id, partition]),
        )
        for spec_id, partition in part.places
    ]
    partitions = [*partitions, *fresh]
    of_place = [*of_place, *judged]
    if len(fresh) < len(partitions):
        partitions.sort(key=lambda p: order_of((p.spec_id, p.partition)))
        of_place.sort(key=lambda place: (place.spread > 0, order_of(place.keys[0])))
    dangling = {**(dangling or {}), **_dangling(part)}
    facts = _total(partitions, census)
    return Health(
        table=pin.table,
        branch=pin.branch,
        snapshot_id=pin.snapshot_id,
        format_version=pin.format_version,
        threshold=threshold,
        target=policy.target_file_size,
        facts=facts,
        score=score(facts),
        dangling=dangling,
        manifests=pin.manifests,
        snapshots=pin.snapshots,
        partitions=partitions,
        places=of_place,
        histogram=Histogram.sum(s.sizes for s in census.sheets.values() if not s.deletes),
    )


def _dangling(census: Census) -> Mapping[Key, int]:
    """Deletes that apply to no live file, by the partition that they are in."""
    found: Counter[Key] = Counter()
    begin, idle = 0, ~census.deletes.applied
    for sheet in census.sheets.values():
        if sheet.deletes:
            for place in sheet.place[idle[begin : begin + len(sheet)]].tolist():
                found[(sheet.spec_id, sheet.partitions[place])] += 1
            begin += len(sheet)
    return found


def _total(partitions: Sequence[PartitionHealth], census: Census) -> Facts:
    parts = [p.facts for p in partitions]
    counts = dict.fromkeys(DeleteKind, 0)
    records = dict.fromkeys(DeleteKind, 0)
    for sheet in census.sheets.values():  # over the table: one delete file can apply to many partitions
        if sheet.deletes:
            for number, kind in enumerate(DeleteKind):
                of_kind = sheet.kind == number
                counts[kind] += int(np.count_nonzero(of_kind))
                records[kind] += int(sheet.rows[of_kind].sum())
    overlaps = [f.overlap for f in parts if f.overlap is not None]
    return Facts(
        data_files=sum(f.data_files for f in parts),
        small_files=sum(f.small_files for f in parts),
        mergeable_files=sum(f.mergeable_files for f in parts),
        bytes=sum(f.bytes for f in parts),
        rows=sum(f.rows for f in parts),
        row_groups=sum(f.row_groups for f in parts),
        delete_files={kind.value: count for kind, count in counts.items()},
        delete_records={kind.value: count for kind, count in records.items()},
        overlap=Overlap.sum(overlaps) if overlaps else None,
    )
