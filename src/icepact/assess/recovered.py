"""When partition groups were last compacted, as snapshots tell it: for a record store that has lost it."""

from datetime import UTC, datetime

import numpy as np

from icepact.assess.inspection import LastCompacted
from icepact.model.plan import OLD_SPECS
from icepact.model.snapshot import LastRun, PinnedSnapshot
from icepact.stats.table import FileStats


def clocks_of_snapshots(stats: FileStats) -> LastCompacted:
    """Of each partition group with a file that a complete run wrote: when that run saw the table, under its lightest
    tier. Format version 1 has no numbers by which files are known."""
    pin = stats.pin
    runs = [(run, at) for run in pin.last_runs if run.tier and (at := _seen_at(pin, run)) is not None]
    if not runs or pin.format_version == 1:
        return {}
    times: dict[str, dict[str, datetime]] = {}
    for run, at in runs:
        own = [number for number in run.own_sequence_numbers if number]
        for position in np.unique(stats.partition[np.isin(stats.number, own)]).tolist():
            spec_id, partition = stats.partitions[position]
            name = pin.show_partition(spec_id, partition) if spec_id == pin.spec_id else OLD_SPECS
            tiers = times.setdefault(name, {})
            tier = str(run.tier)
            tiers[tier] = max(at, tiers.get(tier, at))
    return times


def _seen_at(pin: PinnedSnapshot, run: LastRun) -> datetime | None:
    """When the snapshot was committed that a run planned from; if that has expired, when it planned."""
    moment = dict(pin.moments).get(run.pinned_sequence_number)
    return run.planned_at if moment is None else datetime.fromtimestamp(moment / 1000, UTC)
