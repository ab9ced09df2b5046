"""The task itself: what Spark calls in a worker process, and what the process keeps between tasks."""

import gc
import threading
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial

import pyarrow as pa

from icepact.execute.assemble.convert import convert
from icepact.execute.assemble.errors import CopyDiffers, NotAssembled, one_line
from icepact.execute.assemble.kernel import assemble
from icepact.execute.assemble.messages import (
    ConvertContext,
    ConvertReport,
    ConvertWork,
    TaskContext,
    UnitReport,
    UnitWork,
)
from icepact.execute.deletes.cache import DeleteCache
from icepact.execute.deletes.errors import BrokenDelete, UnsupportedDelete
from icepact.execute.parquet.errors import Damaged
from icepact.execute.storage.base import FileDamaged, FileMissing, Storage
from icepact.execute.storage.open import storage_for
from icepact.model.errors import TemporaryError
from icepact.model.files import DeleteFile, ManifestBounds

_lock = threading.Lock()
_kept: tuple[str, Storage, DeleteCache] | None = None
"""Run id, storage and deletes of the run that this process works for: workers are reused, and these with them."""


def run_units(works: Iterable[UnitWork], context: TaskContext, attempt: str, *, last: bool) -> Iterator[UnitReport]:
    """Rewrite units, one after the other. What a retry can help is raised, unless this was the last chance."""
    storage, cache = _of_run(context)
    written: list[str] = []
    for work in works:
        try:
            report = _attempted(work, context, storage, cache, attempt)
        except TemporaryError as error:
            if not last:  # the next attempt begins with the first unit, and nobody hears of these files
                for path in written:
                    with suppress(Exception):
                        storage.delete(path)
                raise
            report = UnitReport(unit_id=work.unit_id, failed=str(error))
        written += [output.path for output in report.outputs] + [delete.path for delete in report.deletes]
        yield report


def _attempted(work: UnitWork, context: TaskContext, storage: Storage, cache: DeleteCache, attempt: str) -> UnitReport:
    try:
        return assemble(work, context, storage, cache, attempt)
    except TemporaryError:
        raise
    except _NOBODY_CAN as error:
        return UnitReport(unit_id=work.unit_id, failed=str(error) or type(error).__name__)
    except _ANOTHER_CAN as error:
        return UnitReport(unit_id=work.unit_id, refused=one_line(error))
    except Exception as error:  # another method may know better
        frame = traceback.extract_tb(error.__traceback__)[-1]
        location = f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}"
        return UnitReport(unit_id=work.unit_id, refused=f"{type(error).__name__}: {one_line(error)} ({location})")


def convert_deletes(
    works: Sequence[ConvertWork], context: ConvertContext, attempt: str, *, last: bool
) -> Iterator[ConvertReport]:
    """Convert the deletes of data files. What a retry can help is raised, unless this was the last chance."""
    storage, cache = _of_run(context.task, context.bounds)
    try:
        yield from convert(works, context, storage, cache, attempt)
    except TemporaryError as error:
        if not last:
            raise
        yield ConvertReport(path=works[0].file.path, failed=str(error))
    except _NOBODY_CAN as error:
        yield ConvertReport(path=works[0].file.path, failed=str(error) or type(error).__name__)


_NOBODY_CAN = (BrokenDelete, CopyDiffers, Damaged, FileMissing, FileDamaged, MemoryError)
"""What no other method could do better."""
_ANOTHER_CAN = (NotAssembled, UnsupportedDelete, pa.ArrowInvalid, pa.ArrowNotImplementedError)


def storage_of(context: TaskContext) -> Storage:
    """The storage of a run, in this process."""
    return _of_run(context)[0]


def _of_run(context: TaskContext, bounds: Mapping[str, ManifestBounds] | None = None) -> tuple[Storage, DeleteCache]:
    global _kept
    with _lock:
        if _kept is None:
            gc.freeze()  # what was imported stays: Spark searches everything else for garbage after each task
        if _kept is None or _kept[0] != context.run_id:
            storage = storage_for(context.properties, context.credentials)
            cache = DeleteCache(
                partial(_sent_or_fetched, storage, context.inline_deletes),
                limit=context.writing.task_memory // 2,
                bounds=bounds,
            )
            _kept = context.run_id, storage, cache
        return _kept[1], _kept[2]


def _sent_or_fetched(
    storage: Storage, inline: Mapping[tuple[str, int | None], bytes], delete: DeleteFile
) -> bytes | memoryview:
    """The bytes of a delete: sent along by the driver, or fetched by this process."""
    sent = inline.get(delete.key)
    return sent if sent is not None else fetch(storage, delete)


def fetch(storage: Storage, delete: DeleteFile) -> memoryview:
    """A delete file, or the part of a Puffin file that holds one vector."""
    source = storage.open(delete.path, delete.file_size)
    try:
        return source.read(delete.offset or 0, delete.size)
    finally:
        source.close()
