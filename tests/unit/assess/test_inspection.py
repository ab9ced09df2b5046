"""A second look that costs only what has changed says what a first look would say."""

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from icepact.assess.health import assess
from icepact.assess.inspection import Inspection
from icepact.economics.valuation import Valuation
from icepact.model.policy import Policy
from icepact.model.snapshot import PinnedFiles
from icepact.plan.decide import decide
from icepact.stats.manifest import COLUMNS, ManifestStats
from icepact.stats.table import FileStats, file_stats_of
from tests.support.planning import NOW
from tests.support.random_tables import policies, tables
from tests.support.states import MB, data_file, make_policy, make_state

cases = policies().flatmap(lambda policy: st.tuples(st.just(policy), tables(policy)))


def torn(stats: FileStats, dice: random.Random) -> dict[str, ManifestStats]:
    """The same files in several manifests, each of which names only its own partitions."""
    stats_by_manifest: dict[str, ManifestStats] = {}
    for manifest_stats in stats.stats_by_manifest.values():
        for at in range(len(manifest_stats.partitions)):
            files = [i for i in range(len(manifest_stats)) if manifest_stats.partition[i] == at]
            dice.shuffle(files)
            cut = dice.randint(0, len(files))
            for some in (files[:cut], files[cut:]):
                if some:
                    columns = {name: getattr(manifest_stats, name)[some] for name in COLUMNS if name != "partition"}
                    columns |= {
                        "low": columns["low"] + dice.randint(0, 9),
                        "high": columns["high"] + dice.randint(5, 15),
                    }
                    stats_by_manifest[f"m{len(stats_by_manifest)}"] = replace(
                        manifest_stats,
                        partitions=(manifest_stats.partitions[at],),
                        partition=0 * manifest_stats.partition[some],
                        sorted_by=7,
                        **columns,
                    )
    return stats_by_manifest


@given(cases, st.integers())
def test_a_second_look_says_what_a_first_one_would(case: tuple[Policy, PinnedFiles], seed: int) -> None:
    policy, state = case
    dice = random.Random(seed)
    state = replace(state, sort_key=dice.choice([0, 7]))
    stats_by_manifest = torn(file_stats_of(state), dice)
    earlier = {path: manifest_stats for path, manifest_stats in stats_by_manifest.items() if dice.random() < 0.7}
    was = FileStats(pin=replace(state, snapshot_id=99), stats_by_manifest=earlier)
    health = assess(was, policy)
    before = Inspection(
        stats=was,
        policy=policy,
        last_compacted={},
        health=health,
    )
    now = FileStats(pin=state, stats_by_manifest=stats_by_manifest)
    again, fresh = assess(now, policy, before=before), assess(now, policy)
    assert again == fresh
    valuation = Valuation(now=NOW)
    said = decide(health, was, policy, valuation=valuation)
    decided = decide(again, now, policy, valuation=valuation, before=said)
    assert decided.decisions == decide(fresh, now, policy, valuation=valuation).decisions


def test_partitions_that_nothing_happened_to_are_not_looked_at_again() -> None:
    def state(files: int) -> FileStats:
        made = [
            data_file(f"{d}-{n}", MB, partition=(d,)) for d in ("d1", "d2") for n in range(files if d == "d1" else 6)
        ]
        return file_stats_of(make_state(made))

    policy = make_policy()
    was, now = state(6), state(7)
    [path] = was.stats_by_manifest
    only_d2 = was.stats_by_manifest[path].only({(1, ("d2",))})
    of_d1 = [c.stats_by_manifest[path].only({(1, ("d1",))}) for c in (was, now)]
    assert only_d2 is not None
    only_d1 = [replace(s, partitions=s.partitions[:1]) for s in of_d1 if s]
    first = FileStats(pin=was.pin, stats_by_manifest={"a": only_d2, "b": only_d1[0]})
    second = FileStats(pin=now.pin, stats_by_manifest={"a": only_d2, "c": only_d1[1]})
    health = assess(first, policy)
    allowed = replace(policy, max_files=5, max_cost=1.0, sources={"max_files": "request"})
    before = Inspection(stats=first, policy=allowed, last_compacted={}, health=health)
    again = assess(second, policy, before=before)
    kept = {partition_group.name: partition_group for partition_group in health.partition_groups}
    assert {p.name: p is kept[p.name] for p in again.partition_groups} == {"day=d1": False, "day=d2": True}
