"""Conversion of deletes as tasks of Spark: the driver's part. Data files are many to a task; the kernel is
`execute/assemble/convert.py`."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from icepact.execute.assemble.errors import NotAssembled
from icepact.execute.assemble.messages import ConvertContext, ConvertReport, ConvertWork, InputFile
from icepact.execute.deletes.bitmaps import decode_positions
from icepact.execute.rewriters.anti_join import KeyJoiner
from icepact.execute.rewriters.base import Failed, Refused
from icepact.execute.rewriters.job import ConvertJob, attempts_of, in_workers, packed
from icepact.execute.rewriters.shipping import ship_package
from icepact.execute.rewriters.writing import facts_for_tasks, small_deletes, task_context
from icepact.execute.storage.open import refusal
from icepact.iceberg.java.bridge import missing_module
from icepact.iceberg.table.scan import bounds_of_deletes
from icepact.iceberg.table.staging import frozen_copy
from icepact.iceberg.table.table import HeadView, IcebergTable
from icepact.model.errors import PermanentError
from icepact.model.files import DeleteFile, DeleteKind, ManifestBounds
from icepact.model.masking import masked
from icepact.model.policy import Policy

_TASKS_PER_CORE = 2
_SECONDS_BETWEEN_LOOKS = 0.5
_VECTORS_FROM = 3
T = TypeVar("T")


class DeleteConverter:
    """Converts deletes of data files for one run."""

    def __init__(self, table: IcebergTable, policy: Policy, name: str, check: Callable[[], None]) -> None:
        """`name` begins with the run's id, and is used for nothing else; `check` raises if the run must stop."""
        self._table = table
        self._policy = policy
        self._name = name
        self._check = check
        self._spark = table.session.sparkContext
        self._jobs = count()
        speculation = str(self._spark._conf.get("spark.speculation", "false"))
        self._clean = speculation.lower() != "true"
        self._joiner: KeyJoiner | None = None

    @property
    def clean(self) -> bool:
        """False if an attempt may have died while writing: its files are not known by name."""
        return self._clean and (self._joiner is None or self._joiner.clean)

    def close(self) -> None:
        """Delete what was written for tasks alone. Called once, after the last conversion."""
        if self._joiner is not None:
            self._joiner.close()

    def convert(self, works: Sequence[ConvertWork], view: HeadView) -> list[ConvertReport]:
        """Read and write deletes as they are at a head. Raises PermanentError if nothing may be made of one of them, or
        if this cannot be done here at all."""
        return self._reports(works, self._context(works, view.format_version, self._bounds(works, view)))

    def rows_by_key(self, files: Sequence[InputFile], format_version: int) -> dict[str, NDArray[np.int64]]:
        """Rows of data files that their equality deletes delete, by path; nothing is written. Raises PermanentError if
        that cannot be found out."""
        works = [ConvertWork(file=file, only_found=True) for file in files]
        reports = self._reports(works, self._context(works, format_version, {}))
        refused = next((report for report in reports if report.refused is not None), None)
        if refused is not None:
            raise PermanentError(f"{refused.path}: {refused.refused}")
        return {report.path: decode_positions(report.by_key) for report in reports if report.by_key is not None}

    def _reports(self, works: Sequence[ConvertWork], context: ConvertContext) -> list[ConvertReport]:
        works, refused = self._joined(works, context)
        shared = self._spark.broadcast(context)
        try:
            reports = [*refused, *(self._run(works, shared) if works else [])]
        finally:
            with suppress(OSError):  # it holds secrets
                shared.destroy()
        self._clean = self._clean and not any(report.retried for report in reports)
        failed = next((report.failed for report in reports if report.failed is not None), None)
        if failed is not None:
            raise PermanentError(masked(failed))
        return reports

    def _context(
        self, works: Sequence[ConvertWork], format_version: int, bounds: Mapping[str, ManifestBounds]
    ) -> ConvertContext:
        table, number = self._table, next(self._jobs)
        facts = replace(facts_for_tasks(table), properties={})  # no row is written
        reason = refusal(facts.io, facts.credentials)
        if reason is not None:
            raise PermanentError(f"deletes of {table.name} cannot be converted: {reason}")
        deletes = _deletes_of(works)
        ship_package(self._spark)
        run_id = f"{self._name}-{number}"
        inline = small_deletes(facts, deletes)
        try:
            task = task_context(facts, self._policy, run_id, inline, format_version=format_version)
        except NotAssembled as error:
            raise PermanentError(f"deletes of {table.name} cannot be converted: {error}") from None
        locations = frozen_copy(table, self._name.partition("/")[0], {}).locationProvider()
        return ConvertContext(
            task=task,
            bounds=bounds,
            vectors=format_version >= _VECTORS_FROM,
            output=str(locations.newDataLocation(run_id.replace("/", "-"))),
        )

    def _bounds(self, works: Sequence[ConvertWork], view: HeadView) -> Mapping[str, ManifestBounds]:
        table = self._table
        paths = {delete.path for delete in _deletes_of(works) if delete.kind is not DeleteKind.DV}
        return bounds_of_deletes(table.java, table.table, table.table.snapshot(view.snapshot_id), paths)

    def _joined(
        self, works: Sequence[ConvertWork], context: ConvertContext
    ) -> tuple[list[ConvertWork], list[ConvertReport]]:
        """The work with positions in place of keys that are too many to be looked up, and what cannot be done."""
        if self._joiner is None:
            self._joiner = KeyJoiner(self._table, self._policy, context.output)
        joiner = self._joiner
        files = [work.file for work in works if work.by_key is None and not work.only_checked]
        if not joiner.needs(files):
            return list(works), []
        answers = self._watched(lambda: joiner.joined(files, context.task, lambda _: context.bounds))
        left: list[ConvertWork] = []
        reports: list[ConvertReport] = []
        for work in works:
            path = work.file.path
            match None if work.only_checked else answers.get(path):
                case None:
                    left.append(work)
                case Refused(reason):
                    reports.append(ConvertReport(path=path, refused=masked(reason)))
                case Failed(reason):
                    reports.append(ConvertReport(path=path, failed=reason))
                case file:
                    left.append(replace(work, file=file))
        return left, reports

    def _run(self, works: Sequence[ConvertWork], shared: Any) -> list[ConvertReport]:
        """One job."""
        cores = self._policy.parallelism or self._spark.defaultParallelism
        parts = packed(works, self._policy.parallelism or _TASKS_PER_CORE * cores)
        job = ConvertJob(shared, attempts_of(self._spark) - 1)
        return self._watched(lambda: in_workers(self._spark, parts, job).collect())

    def _watched(self, work: Callable[[], T]) -> T:
        """Have Spark do something, while whoever wants the run to stop is heard."""
        tag = f"icepact-{self._name.partition('/')[0]}"

        def tagged() -> T:
            self._spark.addJobTag(tag)
            return work()

        with ThreadPoolExecutor(1, thread_name_prefix="icepact-deletes") as pool:
            future = pool.submit(tagged)
            try:
                while not wait([future], timeout=_SECONDS_BETWEEN_LOOKS).done:
                    self._check()
            except BaseException:
                self._spark.cancelJobsWithTag(tag)
                self._clean = False
                raise
            try:
                return future.result()
            except Exception as error:
                self._clean = False
                module = missing_module(error)
                if module is None:
                    raise
                raise PermanentError(f"the executors' Python lacks {module}") from None


def _deletes_of(works: Sequence[ConvertWork]) -> list[DeleteFile]:
    """All deletes, each once."""
    return list({delete.key: delete for work in works for delete in work.file.deletes}.values())
