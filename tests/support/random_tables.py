"""Random policies and tables for property tests, and what a table looks like once a plan is committed.

Sizes are in bytes and small: planning knows no absolute sizes, and small numbers find the edges.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from hypothesis import strategies as st

from icepact.model.files import DataFile, DeleteFile, DeleteKind, Partition
from icepact.model.plan import Plan, RewriteFiles
from icepact.model.policy import JobOrder, Policy
from icepact.model.snapshot import LastRun, PinnedFiles
from icepact.plan.pack import outputs_of
from tests.support.states import attach, data_file, delete_file, make_policy, make_state

DAYS: list[tuple[int, Partition]] = [(1, (f"d{n}",)) for n in range(4)]
OLD: list[tuple[int, Partition]] = [(0, ()), (2, ("eu",)), (2, (None,))]


@st.composite
def policies(draw: st.DrawFn, *, group_limits: bool = True, budgets: bool = False) -> Policy:
    """Sensible and odd ones: thresholds at the target, maxima at the target, limits below the target."""
    target = draw(st.integers(10, 1000))
    given: dict[str, object] = {
        "target_file_size": target,
        "min_file_size": draw(st.sampled_from([None, 1, target]) | st.integers(1, target)),
        "max_file_size": draw(st.sampled_from([None, target, target + 1]) | st.integers(target, 4 * target)),
        "min_input_files": draw(st.integers(1, 8)),
        "max_file_count_per_partition": draw(st.sampled_from([None, 1, 10])),
        "max_delete_ratio": draw(st.sampled_from([None, 0.0, 0.5, 1.0])),
    }
    if group_limits:
        given["max_group_size"] = draw(st.none() | st.integers(target // 2, 5 * target))
        given["max_group_files"] = draw(st.none() | st.integers(2, 12))
    if budgets:
        given["max_files"] = draw(st.none() | st.integers(1, 60))
        given["max_bytes"] = draw(st.none() | st.integers(1, 20 * target))
        given["max_duration"] = draw(st.none() | st.sampled_from(["0.05s", "0.2s", "1s", "5s"]))
        given["job_order"] = draw(st.sampled_from(JobOrder))
    return make_policy(**given)


def sizes(policy: Policy) -> st.SearchStrategy[int]:
    """Tiny files, ordinary ones, and ones above the maximum."""
    tiny = st.integers(1, max(1, policy.min_file_size // 5))
    return st.one_of(tiny, st.integers(1, policy.target_file_size), st.integers(1, 3 * policy.max_file_size))


@st.composite
def tables(
    draw: st.DrawFn, policy: Policy, *, old_specs: bool = True, versions: tuple[int, ...] = (1, 2, 3)
) -> PinnedFiles:
    """A table with several partitions, specs old and current, and every kind of delete its version knows."""
    version = draw(st.sampled_from(versions))
    places = draw(st.lists(st.sampled_from(DAYS + (OLD if old_specs else [])), min_size=1, max_size=4, unique=True))
    files: list[DataFile] = []
    deletes: list[DeleteFile] = []
    for spec_id, partition in places:
        for size in draw(st.lists(sizes(policy), min_size=1, max_size=15)):
            number = draw(st.integers(1, 6)) if version > 1 else 0
            path = f"f{len(files):03d}"
            files.append(data_file(path, size, spec_id=spec_id, partition=partition, sequence_number=number))
        if version > 1:
            here = [f for f in files if (f.spec_id, f.partition) == (spec_id, partition)]
            deletes += draw(st.lists(_deletes(version, here, len(deletes)), max_size=3))
    deletes = _one_vector_per_file(deletes)
    return make_state(attach(files, deletes), deletes, format_version=version, sequence_number=10 if version > 1 else 0)


@st.composite
def _deletes(draw: st.DrawFn, version: int, files: list[DataFile], number: int) -> DeleteFile:
    """One delete for some files of a partition."""
    bound = draw(st.sampled_from(files))
    plain = DeleteKind.DV if version == 3 else DeleteKind.POSITION
    kind = draw(st.sampled_from([plain, DeleteKind.EQUALITY]))
    everywhere = kind is DeleteKind.EQUALITY and draw(st.booleans())
    referenced = kind is DeleteKind.DV or (kind is DeleteKind.POSITION and draw(st.booleans()))
    return delete_file(
        f"delete-{number}-{draw(st.integers(0, 10**6))}",
        kind,
        spec_id=0 if everywhere else bound.spec_id,
        partition=() if everywhere else bound.partition,
        sequence_number=draw(st.integers(bound.sequence_number, 8)),
        records=draw(st.integers(1, 300)),
        referenced=bound.path if referenced else None,
    )


def _one_vector_per_file(deletes: list[DeleteFile]) -> list[DeleteFile]:
    vectors = {d.referenced: d for d in deletes if d.kind is DeleteKind.DV}
    return [d for d in deletes if d.kind is not DeleteKind.DV or vectors[d.referenced] is d]


def shrinking(seed: int) -> Callable[[int], int]:
    """How large an output really is: anything from next to nothing to somewhat more than predicted."""
    numbers = random.Random(seed)
    return lambda size: max(1, int(size * numbers.uniform(0.001, 1.2)))


def exactly(size: int) -> int:
    """An output as large as predicted."""
    return size


def committed(state: PinnedFiles, plan: Plan, actual: Callable[[int], int], *, marker: bool = True) -> PinnedFiles:
    """The table once every group of a plan is committed in one snapshot."""
    gone = {f.path for step in plan.rewrites for f in step.files}
    number = state.sequence_number + 1 if state.format_version > 1 else 0
    outputs = [
        data_file(f"out-{number}-{n:04d}", actual(size), spec_id=place[0], partition=place[1], sequence_number=number)
        for n, (size, place) in enumerate(_outputs(state, plan))
    ]
    run = LastRun(
        layout=plan.policy.fingerprint,
        snapshot_id=101,
        own_sequence_numbers=frozenset({number}),
        pinned_sequence_number=plan.sequence_number,
        planned_at=plan.planned_at,
    )
    return replace(
        state,
        snapshot_id=101,
        sequence_number=number,
        files=[*(f for f in state.files if f.path not in gone), *outputs],
        last_runs=(run,) if marker and plan.complete else (),
    )


def _outputs(state: PinnedFiles, plan: Plan) -> Iterator[tuple[int, tuple[int, Partition]]]:
    """Predicted size and place of every output; rows of an old spec spread over all current partitions."""
    for step in plan.rewrites:
        if not step.regroup:
            place = step.files[0].spec_id, step.files[0].partition
            for unit in step.units:
                pieces = outputs_of(unit.predicted_bytes, plan.policy)
                yield from ((unit.predicted_bytes // pieces, place) for _ in range(pieces))
        else:
            places = _current_places(state, step)
            yield from ((max(1, step.bytes // len(places)), place) for place in places)


def _current_places(state: PinnedFiles, step: RewriteFiles) -> list[tuple[int, Partition]]:
    found = [place for place in state.by_partition if place[0] == step.output_spec_id]
    return found or [(step.output_spec_id, ("new",))]
