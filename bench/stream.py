"""Compaction of a table under a stream of merges: does it commit at once, and are the rows right?

Each run starts at any moment of a stream that merges every two seconds (`merges.py`), and ends with the table rolled
back to its 91 files. Spark's own action runs under the same stream, with the retries that it has by default.
"""

import itertools
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.merges import APPENDED, EVERY, ID, MERGE, SUMS, Merge, Merger, Rows, Stream, table_of_its_own
from bench.result import Result
from bench.rewrite.measure import open_workshop
from bench.rewrite.rows import Kind
from bench.rewrite.sides import Tuning, rewrite_by_spark
from bench.rewrite.tables import Pile, Workshop, data_paths, local
from bench.rewrite.workloads import GB, TARGET
from icepact.iceberg.java.bridge import error_line
from icepact.iceberg.table.table import IcebergTable
from icepact.model.formatting import plural
from icepact.model.progress import UnitDone
from icepact.model.status import Status

FILES = 91
"""Of the table, however large it is."""
VERSIONS = (2, 3)
MODES = ("apply", "carry")
"""What icepact does with deletes, in turn."""
SPARK = "spark"
RUNS_PER_SPARK_RUN = 8
_LINEAGE_FROM = 3
_LONGEST_WAIT = 2 * EVERY
"""Before a compaction starts: between none and two merges have been made by then."""


class _Steps:
    """Counts the steps that a run passes."""

    def __init__(self) -> None:
        self.passed: Counter[str] = Counter()

    def advance(self, done: UnitDone) -> None:
        """Units are not counted."""

    def step(self, name: str) -> None:
        """One more."""
        self.passed[name] += 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """One compaction under the stream."""

    side: str
    """`apply`, `carry`, or `spark`."""
    seconds: float
    failure: str = ""
    """Why it did not commit, or not all of it."""
    rounds: int = 1
    attempts: int = 1
    """To commit."""
    late_rows: int = 0
    """Deleted meanwhile, and taken along."""
    merges: Sequence[Merge] = ()
    missed: int = 0
    """Beats that were missed."""
    wrong: str = ""
    """How the rows differ from what they should be."""

    @property
    def at_once(self) -> bool:
        """Whether it committed in its first round, with nothing redone."""
        return not self.failure and self.rounds == 1


@dataclass(slots=True)
class _Ground:
    """The table that every run finds, and how it was."""

    workshop: Workshop
    table: str
    own: IcebergTable
    """As the writer has it."""
    version: int
    rows: Rows
    snapshot_id: int
    files: frozenset[str]
    random: np.random.Generator
    numbers: "itertools.count[int]"
    """Of appended files."""
    ids: Mapping[str, NDArray[np.uint64]] = field(default_factory=dict)


def stream(runs: int, scale: float, folder: Path, heap: str) -> list[Result]:
    """Half of the runs on each format version."""
    folder.mkdir(parents=True, exist_ok=True)
    results: list[Result] = []
    with tempfile.TemporaryDirectory(dir=folder, prefix="stream-", ignore_cleanup_errors=True) as place:
        workshop = open_workshop(Path(place), heap)
        _warm_up(workshop)
        pile = _pile(workshop, round(GB * scale / FILES))
        for version, number in zip(VERSIONS, (runs - runs // 2, runs // 2), strict=True):
            if number:
                ground = _ground(workshop, pile, version)
                size = sum(Path(path).stat().st_size for path in data_paths(workshop, ground.table))
                trials = _trials(ground, number)
                workshop.drop(ground.table)
                results += _results(version, trials, f"{size / 1e9:.2f} GB in {FILES} files")
    return results


def _pile(workshop: Workshop, size: int) -> Pile:
    return Pile(kind=Kind.LINEITEM, files=FILES, rows=workshop.rows_for(Kind.LINEITEM, size))


def _warm_up(workshop: Workshop) -> None:
    """Every side once on next to nothing."""
    pile = Pile(kind=Kind.LINEITEM, files=5, rows=20_000)
    for version in VERSIONS:
        ground = _ground(workshop, pile, version)
        for side in (*MODES, SPARK):
            _trial(ground, side)
        workshop.drop(ground.table)
    workshop.forget(pile)


def _ground(workshop: Workshop, pile: Pile, version: int) -> _Ground:
    name = workshop.table(pile, version=version)
    count = pile.files * pile.rows
    table = workshop.java(name)
    ground = _Ground(
        workshop=workshop,
        table=name,
        own=table_of_its_own(workshop, name),
        version=version,
        rows=Rows().plus(np.arange(count, dtype=np.uint64)),
        snapshot_id=int(table.table.currentSnapshot().snapshotId()),
        files=frozenset(_stored(table)),
        random=np.random.default_rng(version),
        numbers=itertools.count(-(-count // APPENDED)),
    )
    merger = _merger(ground)
    merger.learn()
    ground.ids = dict(merger.ids)
    return ground


def _merger(ground: _Ground) -> Merger:
    return Merger(
        table=ground.own,
        rows=ground.rows,
        random=ground.random,
        numbers=ground.numbers,
        ids=dict(ground.ids),
    )


def _trials(ground: _Ground, runs: int) -> list[Trial]:
    """icepact's, with Spark's between them."""
    trials = []
    for number in range(runs):
        sides = [MODES[number % len(MODES)]]
        if number % RUNS_PER_SPARK_RUN == 0:
            sides.append(SPARK)
        for side in sides:
            trial = _trial(ground, side)
            trials.append(trial)
            _say(f"version {ground.version}, {number + 1}/{runs} {side}: {_told(trial)}")
    return trials


def _trial(ground: _Ground, side: str) -> Trial:
    """One compaction while merges go on; then the rows are compared with the writer's record, and all is undone."""
    os.sync()
    merger = _merger(ground)
    try:
        with Stream(merger) as flow:
            time.sleep(float(ground.random.uniform(0, _LONGEST_WAIT)))
            started = time.monotonic()
            steps = _Steps()
            late, failure = _by_spark(ground) if side == SPARK else _by_icepact(ground, side, steps)
            seconds = time.monotonic() - started
        return Trial(
            side=side,
            seconds=seconds,
            failure=failure,
            rounds=max(1, steps.passed["staged"]),
            attempts=max(1, steps.passed["attempting"]),
            late_rows=late,
            merges=tuple(flow.merges),
            missed=flow.missed,
            wrong=_wrong(ground, merger),
        )
    finally:
        _roll_back(ground)


def _by_icepact(ground: _Ground, mode: str, steps: _Steps) -> tuple[int, str]:
    """Deletes that were taken along, and why not everything was committed."""
    compactor = ground.workshop.compactor
    outcome = compactor.compact(ground.table, target_file_size=TARGET, deletes=mode, progress=steps)
    lost = sorted({group.reason for group in outcome.groups if not group.committed})
    if outcome.status is Status.COMMITTED and not lost:
        return outcome.late_deletes, ""
    return outcome.late_deletes, f"{outcome.status}: {outcome.error or '; '.join(lost)}"


def _by_spark(ground: _Ground) -> tuple[int, str]:
    ground.workshop.spark.sql(f"REFRESH TABLE {ground.table}")
    try:
        rewrite_by_spark(ground.workshop, ground.table, TARGET, Tuning())
    except Exception as error:
        return 0, error_line(error).partition(". ")[0][:200]
    return 0, ""


# -- the rows -----------------------------------------------------------------------------------------


def _wrong(ground: _Ground, merger: Merger) -> str:
    """How the rows differ from the writer's record, and those of a compaction from the rows before it; empty if they do
    not."""
    table = ground.workshop.java(ground.table)
    numbers, others = _history(ground, table)
    seen: dict[int, tuple[int, ...]] = {}
    for snapshot_id in dict.fromkeys((*others, *filter(None, map(table.parent_of, others)), next(iter(numbers)))):
        seen[snapshot_id] = _seen(ground, snapshot_id)
        number = numbers[snapshot_id]
        expected = merger.record[number] if number else ground.rows
        if Rows(*seen[snapshot_id][:3]) != expected:
            return f"snapshot {snapshot_id} has {Rows(*seen[snapshot_id][:3])} instead of {expected}"
    for snapshot_id in others:
        parent = table.parent_of(snapshot_id)
        if parent is not None and seen[snapshot_id] != seen[parent]:
            return f"snapshot {snapshot_id} has {seen[snapshot_id]}, the one before it {seen[parent]}"
    return ""


def _history(ground: _Ground, table: IcebergTable) -> tuple[dict[int, int], list[int]]:
    """For each snapshot since the run began, newest first, the last merge that is in it, 0 for none; and the snapshots
    that are not merges."""
    newest = table.newest("main", 1_000)
    since = newest[: newest.index(ground.snapshot_id) + 1]
    numbers: dict[int, int] = {}
    others: list[int] = []
    last = 0
    for snapshot_id in reversed(since):
        number = (table.table.snapshot(snapshot_id).summary() or {}).get(MERGE)
        last = last if number is None else int(number)
        numbers[snapshot_id] = last
        if number is None and snapshot_id != ground.snapshot_id:
            others.append(snapshot_id)
    return dict(reversed(numbers.items())), others


def _seen(ground: _Ground, snapshot_id: int) -> tuple[int, ...]:
    """`Rows` of a snapshot, and sums over hashes of whole rows, on format version 3 over their lineage, too."""
    spark, table = ground.workshop.spark, ground.table
    spark.sql(f"REFRESH TABLE {table}")
    hashed = f"xxhash64({', '.join(spark.table(table).columns)})"
    lineage = ", _row_id, _last_updated_sequence_number" if ground.version >= _LINEAGE_FROM else ""
    text = (
        f"SELECT {SUMS}, sum({hashed} & 4294967295), sum(xxhash64({ID}{lineage}) & 4294967295)"
        f" FROM {table} VERSION AS OF {snapshot_id}"
    )
    return tuple(map(int, spark.sql(text).collect()[0]))


def _roll_back(ground: _Ground) -> None:
    """The table is as every run finds it, and what was written since is gone."""
    table = ground.workshop.java(ground.table)
    if int(table.table.currentSnapshot().snapshotId()) != ground.snapshot_id:
        table.table.manageSnapshots().rollbackTo(ground.snapshot_id).commit()
        now = round(time.time() * 1000)
        table.table.expireSnapshots().expireOlderThan(now).retainLast(1).cleanExpiredFiles(False).commit()
    ground.workshop.spark.sql(f"REFRESH TABLE {ground.table}")
    for path in set(_stored(table)) - ground.files:
        Path(path).unlink()


def _stored(table: IcebergTable) -> list[str]:
    """Files of data and deletes below the table's own folder."""
    folder = Path(local(table.location)) / "data"
    return [str(path) for path in folder.rglob("*") if path.is_file()]


# -- what is told -------------------------------------------------------------------------------------


def _results(version: int, trials: Sequence[Trial], what: str) -> list[Result]:
    ours = [trial for trial in trials if trial.side != SPARK]
    spark = [trial for trial in trials if trial.side == SPARK]
    where = f"under a stream of merges, version {version}"
    merges = [merge for trial in ours for merge in trial.merges]
    slow = max(merge.seconds for merge in merges)
    stream_told = (
        f"{what}; {len(merges)} merges, one every {EVERY:g} s, {sum(t.missed for t in ours)} beats missed, "
        f"the slowest took {slow:.1f} s"
    )
    sides = ", ".join(f"{_seconds(t for t in ours if t.side == mode)} s with {mode}" for mode in MODES)
    late = sum(trial.late_rows for trial in ours)
    return [
        Result(
            f"{where}: runs of icepact that did not commit all in their first round",
            sum(not trial.at_once for trial in ours),
            f"of {len(ours)}",
            0,
            f"median {sides}; {sum(t.attempts for t in ours)} attempts to commit, {late:,} late deletes taken along; "
            f"{stream_told}{_failures(ours)}",
        ),
        Result(
            f"{where}: runs of icepact or Spark after which a row was missing, back or changed",
            sum(bool(trial.wrong) for trial in trials),
            f"of {len(trials)}",
            0,
            "ids that the writer recorded, and hashes of whole rows before and after the compaction's commit",
        ),
        Result(
            f"{where}: runs of Spark's rewrite_data_files that did not commit",
            sum(bool(trial.failure) for trial in spark),
            f"of {len(spark)}",
            None,
            f"median {_seconds(spark)} s, retries as they are by default; {what}{_failures(spark)}",
        ),
        Result(
            f"{where}: merges that a compaction of icepact made fail, for each run",
            _refused(ours),
            "",
            None,
            f"Spark's rewrite_data_files: {_refused(spark):.2f}; each was done again at once",
        ),
    ]


def _seconds(trials: Iterable[Trial]) -> str:
    taken = [trial.seconds for trial in trials]
    return f"{float(np.median(taken)):.1f}" if taken else "no"


def _refused(trials: Sequence[Trial]) -> float:
    return sum(merge.refused for trial in trials for merge in trial.merges) / max(1, len(trials))


def _failures(trials: Sequence[Trial]) -> str:
    reasons = Counter(trial.failure for trial in trials if trial.failure)
    return "".join(f"; {plural(count, 'run')}: {reason}" for reason, count in reasons.items())


def _told(trial: Trial) -> str:
    how = "committed at once" if trial.at_once else trial.failure or f"committed in {trial.rounds} rounds"
    merges = f"{len(trial.merges)} merges, {trial.missed} missed, {sum(m.refused for m in trial.merges)} refused"
    return (
        f"{trial.seconds:.1f} s, {how}, {trial.attempts} attempts, {trial.late_rows} late; {merges}"
        f"{'; WRONG: ' + trial.wrong if trial.wrong else ''}"
    )


def _say(text: str) -> None:
    print(f"{datetime.now(UTC):%H:%M:%S} {text}", file=sys.stderr, flush=True)
