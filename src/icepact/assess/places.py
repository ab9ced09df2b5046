"""Places: which files are judged together, and whether there are any news."""

from datetime import UTC, datetime

import numpy as np

from icepact.assess.facts import counted_facts
from icepact.model.census import Census, Flags, Ints, Tally
from icepact.model.health import Place
from icepact.model.looked import Clocks
from icepact.model.policy import Policy
from icepact.model.table import LastRun


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
    written = _written(tally)
    found = [
        Place(
            name=pin.show_partition(*keys[at]),
            keys=(keys[at],),
            facts=facts[number],
            settled_by=last.snapshot_id if last and settled[number] else None,
            written_at=written[number],
            compacted_at=clocks.get(pin.show_partition(*keys[at]), {}),
            broken=bool(census.broken[at]),
            unasked=unasked[at],
        )
        for number, at in enumerate(alone)
    ]
    for number, some in enumerate(together, start=len(alone)):
        name = pin.show_partition(*keys[some[0]]) if len(some) == 1 else f"{len(some)} partitions of old specs"
        found.append(
            Place(
                name=name,
                keys=[keys[at] for at in some],
                facts=facts[number],
                spread=_spread(census),
                settled_by=last.snapshot_id if last and settled[number] else None,
                written_at=written[number],
                compacted_at=clocks.get(name, {}),
                unasked=unasked[some[0]],
            )
        )
    return found


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


def _written(tally: Tally) -> list[datetime | None]:
    """Of each group: when the newest of its files was committed; null if that was before the oldest snapshot known."""
    pin = tally.census.pin
    if not pin.moments:
        return [None] * tally.groups
    numbers = np.array([number for number, _ in pin.moments])
    times = np.array([time for _, time in pin.moments])
    at = np.searchsorted(numbers, tally.newest, side="right") - 1
    moments = times[np.maximum(at, 0)].tolist()
    if pin.format_version == 1:  # no sequence numbers: anything may be as new as the newest snapshot
        moments, at = [int(times.max())] * tally.groups, np.zeros(tally.groups, np.int64)
    return [
        datetime.fromtimestamp(moment / 1000, UTC) if known >= 0 else None
        for moment, known in zip(moments, at.tolist(), strict=True)
    ]
