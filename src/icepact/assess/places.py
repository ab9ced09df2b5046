"""Places: which files are judged together, and whether there are any news."""

import numpy as np

from icepact.assess.facts import counted_facts
from icepact.model.census import Census, Flags, Ints, Tally
from icepact.model.health import Place
from icepact.model.policy import Policy
from icepact.model.table import LastRun, Pinned


def places(census: Census, policy: Policy) -> list[Place]:
    """Each partition of the current spec, and the files of old specs as one.

    One shuffle then writes each current partition once, whereas a place for every old partition would leave a small file
    of its own in each.
    """
    pin, keys = census.pin, census.places
    old = [at for at, (spec_id, _) in enumerate(keys) if spec_id != pin.spec_id and not census.broken[at]]
    alone = [at for at in range(len(keys)) if at not in set(old)]
    group = np.zeros(len(keys), np.int64)
    group[alone] = np.arange(len(alone))
    group[old] = len(alone)
    tally = Tally(census, group)
    facts = counted_facts(tally, policy.min_file_size)
    last = next((run for run in pin.last_runs if run.layout == policy.fingerprint), None)
    settled = _settled(tally, last)
    ours = settled & np.isin(tally.last, _own_numbers(pin, policy)) if pin.format_version > 1 else settled
    found = [
        Place(
            name=pin.show_partition(*keys[at]),
            keys=(keys[at],),
            facts=facts[number],
            settled_by=last.snapshot_id if last and settled[number] else None,
            compacted_last=bool(ours[number]),
            broken=bool(census.broken[at]),
        )
        for number, at in enumerate(alone)
    ]
    if old:
        name = pin.show_partition(*keys[old[0]]) if len(old) == 1 else f"{len(old)} partitions of old specs"
        found.append(
            Place(
                name=name,
                keys=[keys[at] for at in old],
                facts=facts[-1],
                spread=_spread(census),
                settled_by=last.snapshot_id if last and settled[-1] else None,
                compacted_last=bool(ours[-1]),
            )
        )
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
