"""What retention lets go, held against what must stay by the words of the promise, snapshot by snapshot."""

import gzip
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from icepact.housekeeping.retention import MAX_REF_AGE, Retention, decide_retention, retention_settings
from icepact.iceberg.metadata import history_of
from icepact.model.history import SnapshotNode, SnapshotRef, TableHistory, age_of

NOW = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
HOURS = st.integers(0, 50).map(lambda hours: hours * HOUR)
MAYBE = st.one_of(st.none(), HOURS)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A history, and what is asked for."""

    history: TableHistory
    older_than: datetime
    retain_last: int
    needed: Mapping[int, str]

    def decided(self) -> Retention:
        """By the function."""
        return decide_retention(
            self.history, older_than=self.older_than, retain_last=self.retain_last, needed=self.needed, now=NOW
        )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Trees of snapshots with gaps, whose clocks are not always in order, and refs of every kind."""
    count = draw(st.integers(0, 12))
    ids = list(range(1, count + 1))
    nodes = [
        SnapshotNode(
            snapshot_id=number,
            parent_id=draw(st.sampled_from([None, 99, *range(1, number), *[max(number - 1, 1)] * number]))
            if number > 1
            else None,
            sequence_number=number,
            at=NOW - timedelta(hours=4 * (count - number)) + timedelta(hours=draw(st.integers(-5, 0))),
            manifest_list=None,
            staged=draw(st.sampled_from([None, None, None, "wap"])),
        )
        for number in ids
    ]
    names = draw(st.lists(st.sampled_from(["main", "b", "c", "t", "u"]), unique=True)) if ids else []
    refs = []
    for name in names:
        tag = name in "tu"
        refs.append(
            SnapshotRef(
                name=name,
                snapshot_id=draw(st.sampled_from(ids)),
                tag=tag,
                min_snapshots=None if tag else draw(st.one_of(st.none(), st.integers(1, 4))),
                max_snapshot_age=None if tag else draw(st.one_of(MAYBE, st.just(age_of(2**63 - 1)))),
                max_age=draw(MAYBE.filter(lambda age: age is None or age > timedelta(0))),
            )
        )
    age = draw(st.sampled_from([None, None, "36000000", "9223372036854775807", "soon"]))
    return Case(
        history=TableHistory(snapshots=nodes, refs=refs, properties={} if age is None else {MAX_REF_AGE: age}),
        older_than=NOW - draw(HOURS),
        retain_last=draw(st.integers(1, 4)),
        needed=dict.fromkeys(draw(st.sets(st.sampled_from([*ids, 77]), max_size=2)), "somebody"),
    )


# -- by the words of the promise --------------------------------------------------------------------


def line(history: TableHistory, newest: int) -> list[SnapshotNode]:
    """A snapshot and its ancestors."""
    found = [node for node in history.snapshots if node.snapshot_id == newest]
    while found and any(node.snapshot_id == found[-1].parent_id for node in history.snapshots):
        found += [node for node in history.snapshots if node.snapshot_id == found[-1].parent_id]
    return found


def outlived(case: Case, ref: SnapshotRef) -> bool:
    """Whether a ref goes itself."""
    [node] = line(case.history, ref.snapshot_id)[:1]
    wide = {"36000000": 10 * HOUR}.get(case.history.properties.get(MAX_REF_AGE, ""))
    age = ref.max_age or wide
    return ref.name != "main" and age is not None and NOW - node.at > age


def must_stay(case: Case) -> Iterator[int]:
    """Ids, some more than once."""
    on_a_branch_or_tag = set[int]()
    for ref in case.history.refs:
        if outlived(case, ref):
            continue
        way = line(case.history, ref.snapshot_id)
        on_a_branch_or_tag |= {node.snapshot_id for node in way}
        yield ref.snapshot_id
        if not ref.tag:
            yield from (node.snapshot_id for node in way[: ref.min_snapshots or case.retain_last])
            own = ref.max_snapshot_age
            yield from (n.snapshot_id for n in way if (n.at >= case.older_than if own is None else NOW - n.at <= own))
    for node in case.history.snapshots:
        if node.staged or node.snapshot_id in case.needed:
            yield node.snapshot_id
        if node.at >= case.older_than and node.snapshot_id not in on_a_branch_or_tag:
            yield node.snapshot_id


@given(cases())
def test_exactly_what_nothing_keeps_goes(case: Case) -> None:
    decided = case.decided()
    everything = {node.snapshot_id for node in case.history.snapshots}
    assert set(decided.snapshot_ids) == everything - set(must_stay(case))
    assert list(decided.refs) == sorted(ref.name for ref in case.history.refs if outlived(case, ref))
    gone_heads = {ref.snapshot_id for ref in case.history.refs if ref.name not in decided.refs}
    assert gone_heads.isdisjoint(decided.snapshot_ids)


@given(cases())
def test_what_is_old_and_stays_is_named_once(case: Case) -> None:
    decided = case.decided()
    old = [n.snapshot_id for n in case.history.snapshots if n.at < case.older_than]
    named = [int(entry.what.split()[1]) for entry in decided.kept]
    assert sorted(named) == sorted(set(old) - set(decided.snapshot_ids))
    assert all(entry.why for entry in decided.kept)


@given(cases(), st.randoms(use_true_random=False))
def test_the_order_in_which_things_are_given_does_not_matter(case: Case, order: random.Random) -> None:
    snapshots, refs = list(case.history.snapshots), list(case.history.refs)
    order.shuffle(snapshots)
    shuffled = replace(case, history=replace(case.history, snapshots=snapshots))
    assert shuffled.decided() == case.decided()
    order.shuffle(refs)
    again = replace(case, history=replace(case.history, snapshots=snapshots, refs=refs)).decided()
    assert (again.snapshot_ids, again.refs) == (case.decided().snapshot_ids, case.decided().refs)


@given(cases(), HOURS)
def test_whoever_wants_less_old_ones_loses_no_less(case: Case, more: timedelta) -> None:
    later = replace(case, older_than=case.older_than + more).decided()
    assert set(case.decided().snapshot_ids) <= set(later.snapshot_ids)
    assert case.decided().refs == later.refs


@given(cases())
def test_more_protection_never_lets_more_go(case: Case) -> None:
    gone = set(case.decided().snapshot_ids)
    assert set(replace(case, retain_last=case.retain_last + 1).decided().snapshot_ids) <= gone
    everybody = {node.snapshot_id: "somebody" for node in case.history.snapshots}
    assert replace(case, needed=everybody).decided().snapshot_ids == ()


def test_settings_of_a_table() -> None:
    assert retention_settings({}) == (timedelta(days=5), 1)
    given_ = {"history.expire.max-snapshot-age-ms": "1000", "history.expire.min-snapshots-to-keep": "0"}
    assert retention_settings(given_) == (timedelta(seconds=1), 1)
    odd = {"history.expire.max-snapshot-age-ms": "-1", "history.expire.min-snapshots-to-keep": "many"}
    assert retention_settings(odd) == (timedelta(days=5), 1)
    ever, _ = retention_settings({"history.expire.max-snapshot-age-ms": str(2**63 - 1)})
    assert (NOW - ever).year < 1970


# -- metadata files ---------------------------------------------------------------------------------


def snapshot(number: int, parent: int | None = None, **summary: str) -> dict[str, Any]:
    """As metadata has one."""
    found: dict[str, Any] = {"snapshot-id": number, "timestamp-ms": 1000 * number, "summary": summary}
    if parent is not None:
        found["parent-snapshot-id"] = parent
    return found


def ids(nodes: Sequence[SnapshotNode]) -> list[int]:
    """Of snapshots."""
    return [node.snapshot_id for node in nodes]


def test_the_history_of_a_table_of_version_1_that_names_no_refs() -> None:
    old = snapshot(1) | {"manifests": ["m.avro"]}
    old.pop("summary")
    document = {"format-version": 1, "current-snapshot-id": 2, "snapshots": [old, snapshot(2, 1)]}
    history = history_of(document, "/t/v2.metadata.json")
    assert [(ref.name, ref.snapshot_id, ref.tag) for ref in history.refs] == [("main", 2, False)]
    assert (ids(history.snapshots), history.snapshots[0].manifest_list) == ([1, 2], None)
    assert history.snapshots[1] == SnapshotNode(
        snapshot_id=2, parent_id=1, sequence_number=0, at=datetime.fromtimestamp(2, UTC), manifest_list=None
    )
    assert history.metadata_files == ["/t/v2.metadata.json"]
    for nothing in ({}, {"current-snapshot-id": -1}, {"current-snapshot-id": None, "snapshots": None}):
        assert history_of(nothing, "/t/v0.metadata.json").refs == []


def test_the_history_of_compressed_metadata_with_statistics_of_both_kinds() -> None:
    document = {
        "format-version": 3,
        "snapshots": [
            snapshot(1) | {"sequence-number": 1, "manifest-list": "/t/l1"},
            snapshot(2, 1, **{"wap.id": "w"}) | {"sequence-number": 2},
            snapshot(3, 1, **{"wap.id": "p"}) | {"sequence-number": 3},
            snapshot(4, 1, **{"published-wap-id": "p"}) | {"sequence-number": 4},
        ],
        "refs": {
            "main": {"snapshot-id": 4, "type": "branch", "min-snapshots-to-keep": 2, "max-snapshot-age-ms": 1000},
            "t": {"snapshot-id": 1, "type": "TAG", "max-ref-age-ms": 2**63 - 1},
        },
        "statistics": [
            {"snapshot-id": 1, "statistics-path": "/t/s.stats", "file-size-in-bytes": 5, "blob-metadata": []}
        ],
        "partition-statistics": [{"snapshot-id": 4, "statistics-path": "/t/p.parquet", "file-size-in-bytes": 6}],
        "metadata-log": [{"metadata-file": "/t/v1.gz.metadata.json", "timestamp-ms": 1}],
        "properties": {"a": "b"},
    }
    stored = gzip.compress(json.dumps(document).encode())
    history = history_of(json.loads(gzip.decompress(stored)), "/t/v2.gz.metadata.json")
    assert [node.staged for node in history.snapshots] == [None, "w", None, None]
    assert [node.manifest_list for node in history.snapshots][:2] == ["/t/l1", None]
    assert [(file.snapshot_id, file.path, file.size) for file in history.statistics] == [
        (1, "/t/s.stats", 5),
        (4, "/t/p.parquet", 6),
    ]
    assert history.metadata_files == ["/t/v2.gz.metadata.json", "/t/v1.gz.metadata.json"]
    main, tag = history.refs
    assert (main.min_snapshots, main.max_snapshot_age, main.max_age) == (2, timedelta(seconds=1), None)
    assert (tag.tag, tag.max_age, history.properties) == (True, timedelta(milliseconds=10**13), {"a": "b"})
    # for ever is for ever
    decided = decide_retention(history, older_than=NOW, retain_last=1, needed={}, now=NOW)
    assert (decided.refs, decided.snapshot_ids) == ((), (3,))
