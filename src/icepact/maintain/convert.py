"""Conversion of deletes in a run: judged at the head, written by tasks, judged again, and committed.

What was written for a data file is good as long as that file is live with the same position deletes, and those equality
deletes still apply to it that were resolved. Equality deletes that came since are left for another time; new position
deletes are taken up by writing the file's deletes anew, for which no row is read again.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from icepact.commit.batches import Journal
from icepact.commit.delete_change import DeleteChange, commit_delete_change
from icepact.execute.assemble.messages import ConvertReport, ConvertWork, InputFile
from icepact.execute.convert import DeleteConverter
from icepact.execute.rewriters.writing import input_file
from icepact.housekeeping.deletes import (
    VECTORS_FROM,
    DeleteWork,
    Key,
    deletes_at_head,
    find_work,
    points_to,
    totals_of,
)
from icepact.iceberg.table.table import HeadView, IcebergTable
from icepact.maintain.rounds import Run
from icepact.model.delete_files import ConvertDeletes, ConvertDeletesResult
from icepact.model.errors import HeadMoved
from icepact.model.files import DataFile, DeleteFile, DeleteKind
from icepact.model.formatting import plural
from icepact.model.housekeeping import Kept
from icepact.model.progress import Progress, UnitDone

ATTEMPTS = 6
"""How often the head is judged."""
FIRST_WAIT = 0.1
"""Seconds before the next attempt after a commit was refused; doubles from there."""
MOST_KEPT = 64 * 1024**2
"""Bytes of bitmaps that are kept, so that no row need be read again if the head moves."""


def carry_out_convert(
    table: IcebergTable,
    step: ConvertDeletes,
    run: Run,
    journal: Journal,
    *,
    check: Callable[[], None],
    wait: Callable[[], None],
    progress: Progress,
) -> ConvertDeletesResult:
    """Convert deletes as is right at the head that there is by now, or say why nothing was done. `check` raises if the
    run must stop, `wait` waits for a moment at which to commit. Raises CommitUnknown if nobody can tell whether the
    commit landed: then nothing may be deleted."""
    converter = DeleteConverter(table, run.plan.policy, f"{run.run_id}/deletes-{run.claim.epoch}", check)
    began = time.monotonic()
    try:
        result = _Conversion(table, step, run, journal, check, wait, progress, converter).carry_out()
    finally:
        converter.close()
        run.clean = run.clean and converter.clean
    return replace(result, seconds=time.monotonic() - began)


class _Converted(NamedTuple):
    """What was written for one data file."""

    sequence_number: int
    by_position: frozenset[Key]
    """Its position deletes then."""
    by_key: frozenset[Key]
    """Its equality deletes that were resolved."""
    report: ConvertReport


class _AtHead(NamedTuple):
    """A data file at the head that is judged."""

    data: DataFile
    by_position: frozenset[Key]
    by_key: frozenset[Key]
    """All equality deletes that apply to it."""


class _Judged(NamedTuple):
    """What is to be done at one head."""

    view: HeadView
    work: DeleteWork
    files: Mapping[str, _AtHead]
    """All data files that a delete is attached to, by path."""
    alone: frozenset[Key]
    """Deletes that are attached to one data file only."""


@dataclass(slots=True)
class _Conversion:
    """One step under way."""

    table: IcebergTable
    step: ConvertDeletes
    run: Run
    journal: Journal
    check: Callable[[], None]
    wait: Callable[[], None]
    progress: Progress
    converter: DeleteConverter
    wanted: frozenset[Key] | None = None
    """Equality deletes that are resolved: those of the first head."""
    meaning: tuple[str, int] | None = None
    """What files and their columns meant when they were read, and the format version."""
    converted: dict[str, _Converted] = field(default_factory=dict)
    """By data file."""
    checked: set[Key] = field(default_factory=set)
    """Equality deletes without data files that hold what their manifest says."""
    kept: dict[str, Kept] = field(default_factory=dict)
    """What stays, by name."""
    why: str = ""
    """The last attempt came to nothing."""

    def carry_out(self) -> ConvertDeletesResult:
        """Judge, convert and commit; again if the head moves."""
        for number in range(1, ATTEMPTS + 1):
            self.check()
            judged = self._judge()
            if judged.work.is_nothing:
                return self._nothing("nothing is left to do: others did it, or moved the table", number)
            missing = self._missing(judged)
            if missing and number < ATTEMPTS:
                self._convert(judged, missing)
                if number == 1:
                    self.wait()
                self.table.refresh()
                if self.table.head_id(self.step.branch) != judged.view.snapshot_id:
                    self.why = "others committed meanwhile"
                    continue
            change = self._change(judged)
            if not change.removed:
                return self._nothing(
                    self._given_up(number) if self.why else "no delete could be done away with", number
                )
            try:
                landed = commit_delete_change(
                    self.table,
                    change,
                    self.journal,
                    commit_id=f"{self.run.run_id}/{self.run.claim.epoch}.deletes/{number}",
                    branch=self.step.branch,
                    group=self.step.kind,
                    facts={"run-id": self.run.run_id},
                )
            except HeadMoved as error:
                self.why = str(error)
                time.sleep(FIRST_WAIT * 2 ** (number - 1) * random.uniform(0.5, 1.5))
                continue
            self.run.carried -= {str(document["file-path"]) for document in change.added}
            return self._result(judged, change, landed.snapshot_id, number)
        return self._nothing(self._given_up(ATTEMPTS), ATTEMPTS)

    def _judge(self) -> _Judged:
        """What is to be done at the head as it is now."""
        view, files = deletes_at_head(self.table, self.step.branch)
        meaning = view.interpretation, view.format_version
        if meaning != self.meaning:  # what was read may mean something else by now
            self.converted.clear()
            self.checked.clear()
            self.meaning = meaning
        named = points_to(self.table, view, files)
        work = find_work(files, view.deletes, version=view.format_version, points_to=named, only=self.wanted)
        if self.wanted is None:
            self.wanted = work.by_key
        self.kept |= {one.what: one for one in work.kept}
        counts = Counter(number for file in files for number in file.deletes)
        self.progress.step("judged")
        return _Judged(
            view=view,
            work=work,
            files={file.path: _at_head(file, view.deletes) for file in files},
            alone=frozenset(view.deletes[number].key for number, count in counts.items() if count == 1),
        )

    # -- what must be written ---------------------------------------------------------------------

    def _missing(self, judged: _Judged) -> list[ConvertWork]:
        """What must be written or checked before there can be a commit."""
        view, work = judged.view, judged.work
        missing = [self._work(judged, file.path) for file in work.files if not self._fits(judged, file.path)]
        oldest = view.oldest_without([])
        for delete in view.deletes:
            idle = delete.kind is DeleteKind.EQUALITY and delete.key in work.idle and delete.key not in self.checked
            if idle and oldest is not None and delete.sequence_number > oldest:  # only its bounds say that it is
                missing.append(ConvertWork(file=_as_file(delete), only_checked=True))
        return [each for each in missing if each.file.path not in self.kept]

    def _fits(self, judged: _Judged, path: str) -> bool:
        """Whether what was written for a data file is right at this head."""
        known = self.converted.get(path)
        return (
            known is not None and self._resolves(judged, path) and known.by_position == judged.files[path].by_position
        )

    def _resolves(self, judged: _Judged, path: str) -> bool:
        """Whether the rows that equality deletes delete in a data file are those that were found."""
        known, now = self.converted.get(path), judged.files.get(path)
        if known is None or now is None or known.sequence_number != now.data.sequence_number:
            return False
        return now.by_key & judged.work.by_key <= known.by_key <= now.by_key

    def _work(self, judged: _Judged, path: str) -> ConvertWork:
        data, by_position, by_key = judged.files[path]
        view, wanted = judged.view, by_position | by_key & judged.work.by_key
        file = input_file(data, view.deletes)
        one = len(by_position) == 1 and by_position <= judged.alone
        vectors = all(d.kind is not DeleteKind.POSITION for d in file.deletes) or view.format_version < VECTORS_FROM
        return ConvertWork(
            file=replace(file, deletes=tuple(delete for delete in file.deletes if delete.key in wanted)),
            by_key=self.converted[path].report.by_key if self._resolves(judged, path) else None,
            may_stay=one and vectors,
        )

    def _convert(self, judged: _Judged, missing: Sequence[ConvertWork]) -> None:
        """Have it written, and remember what for."""
        reports = self.converter.convert(missing, judged.view)
        self.run.carried |= {report.written.path for report in reports if report.written is not None}
        self.progress.step("written")
        bitmaps = sum(len(known.report.by_key or b"") for known in self.converted.values())
        deletes = {delete.path: delete for delete in judged.view.deletes}
        for report in reports:
            now = judged.files.get(report.path)
            if report.refused is not None:
                self.kept[report.path] = Kept(what=report.path, why=report.refused)
            elif now is None:
                self.checked.add(deletes[report.path].key)
            else:
                bitmaps += len(report.by_key or b"")
                found = now.by_key & judged.work.by_key
                known = report if bitmaps <= MOST_KEPT else replace(report, by_key=None)
                self.converted[report.path] = _Converted(now.data.sequence_number, now.by_position, found, known)
                self.progress.advance(UnitDone(partition="", files=1, bytes=now.data.size))

    # -- what is committed ------------------------------------------------------------------------

    def _change(self, judged: _Judged) -> DeleteChange:
        """What can be committed at this head."""
        view, work = judged.view, judged.work
        good = {file.path: self.converted[file.path] for file in work.files if self._fits(judged, file.path)}
        needed = set[Key]()  # by a data file of which nothing was written
        for path, file in judged.files.items():
            known = good.get(path)
            if known is None:
                needed |= file.by_position | file.by_key
            else:
                needed |= (file.by_key - known.by_key) | (file.by_position if known.report.stays else frozenset())
        unchecked = {
            delete.key
            for delete in view.deletes
            if delete.key in work.idle and delete.kind is DeleteKind.EQUALITY and delete.path in self.kept
        }
        goes = ((work.by_key | work.by_position) - needed) | (work.idle - unchecked)
        return DeleteChange(
            view=view,
            added=[
                known.report.written.to_json(judged.files[path].data.spec_id, judged.files[path].data.partition)
                for path, known in good.items()
                if known.report.written is not None
            ],
            removed=[delete for delete in view.deletes if delete.key in goes],
        )

    def _given_up(self, attempts: int) -> str:
        return f"given up after {attempts} attempts, the last time because {self.why}"

    # -- the result -------------------------------------------------------------------------------

    def _nothing(self, reason: str, attempts: int) -> ConvertDeletesResult:
        kept = tuple(self.kept.values())
        reason = f"{kept[0].what}: {kept[0].why}" if kept and not self.why else reason
        return ConvertDeletesResult(reason=reason, attempts=attempts, kept=kept, data_files=len(self.converted))

    def _result(self, judged: _Judged, change: DeleteChange, snapshot_id: int, attempts: int) -> ConvertDeletesResult:
        gone = {delete.key for delete in change.removed}
        left = len(judged.work.by_key - gone)
        return ConvertDeletesResult(
            removed=totals_of(change.removed),
            idle=len(gone & judged.work.idle),
            added=len(change.added),
            bytes_written=sum(int(document["file-size-in-bytes"]) for document in change.files),
            rows=sum(known.report.by_key_rows for known in self.converted.values()),
            data_files=len(self.converted),
            snapshot_id=snapshot_id,
            kept=tuple(self.kept.values()),
            attempts=attempts,
            reason=f"{plural(left, 'equality delete file')} still applies to other data files" if left else "",
        )


def _at_head(file: DataFile, deletes: Sequence[DeleteFile]) -> _AtHead:
    """A data file with the deletes that apply to it."""
    attached = [deletes[number] for number in file.deletes]
    by_key = frozenset(delete.key for delete in attached if delete.kind is DeleteKind.EQUALITY)
    return _AtHead(file, frozenset(delete.key for delete in attached) - by_key, by_key)


def _as_file(delete: DeleteFile) -> InputFile:
    """A delete file, as tasks are told of what they read."""
    return InputFile(
        path=delete.path,
        size=delete.size,
        rows=delete.records,
        spec_id=delete.spec_id,
        partition=delete.partition,
        sequence_number=delete.sequence_number,
        first_row_id=None,
        deletes=(delete,),
    )
