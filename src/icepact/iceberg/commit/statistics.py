"""Registering statistics files: a compare-and-set on the table's metadata, without a snapshot."""

import time
from collections.abc import Callable
from typing import Any

from icepact.iceberg.java.bridge import JavaError, error_class, error_line
from icepact.iceberg.table.statistics import NewStatistics
from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import CommitRefused, CommitUnknown, HeadMoved, TableBusy

_ATTEMPTS = 6
_FIRST_WAIT = 0.05
_LONGEST_WAIT = 5.0
"""Seconds."""
_REFUSALS = {
    *("ValidationException", "IllegalArgumentException"),  # before anything is sent
    *("NotAuthorizedException", "ForbiddenException", "NoSuchTableException"),
}


def register_statistics(
    table: IcebergTable,
    new: NewStatistics,
    *,
    check: Callable[[], None],
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Register files for their snapshot. Judged at every attempt: the snapshot must still be there, and so must what is
    carried over, or an expiry deletes the file while it is registered.

    Raises HeadMoved if either is not, CommitRefused if the catalog does not want it, TableBusy if others commit all the
    while: the files are registered nowhere. CommitUnknown if nobody can tell: nothing may be deleted.
    """
    for number in range(_ATTEMPTS):
        check()
        operations = table.table.operations()
        base = operations.refresh()
        if _registered(table, base, new):
            break
        _judge(table, base, new)
        try:
            operations.commit(base, _with_statistics(table, base, new))
            break
        except Exception as error:  # also when Java is gone: then nobody knows
            kind = error_class(error)
            if kind != "CommitFailedException":
                _look_again(table, new, error, refused=kind in _REFUSALS, sleep=sleep)
                break
        sleep(min(_LONGEST_WAIT, _FIRST_WAIT * 2**number))
    else:
        if not _registered(table, table.table.operations().refresh(), new):
            raise TableBusy(f"others commit to {table.name} all the while: its statistics could not be registered")
    table.refresh()


def _judge(table: IcebergTable, base: Any, new: NewStatistics) -> None:
    if base.snapshot(new.snapshot_id) is None:
        raise HeadMoved(f"snapshot {new.snapshot_id} has expired meanwhile")
    known = [str(file.path()) for file in table.java.items(base.statisticsFiles())]
    if new.carried is not None and new.carried not in known:
        raise HeadMoved("the sketches that were to be carried over have expired meanwhile")


def _with_statistics(table: IcebergTable, base: Any, new: NewStatistics) -> Any:
    builder = table.java.iceberg.TableMetadata.buildFrom(base)
    if new.sketches is not None:
        builder.setStatistics(new.sketches)
    if new.partitions is not None:
        builder.setPartitionStatistics(new.partitions)
    return builder.build()


def _registered(table: IcebergTable, metadata: Any, new: NewStatistics) -> bool:
    """Whether the files are registered as they should be: an attempt may have landed whatever the catalog said."""
    items = table.java.items
    sketches = [file for file in items(metadata.statisticsFiles()) if int(file.snapshotId()) == new.snapshot_id]
    partitions = [f for f in items(metadata.partitionStatisticsFiles()) if int(f.snapshotId()) == new.snapshot_id]
    return (new.sketches is None or new.sketches in sketches) and (
        new.partitions is None or new.partitions in partitions
    )


def _look_again(
    table: IcebergTable, new: NewStatistics, error: Exception, *, refused: bool, sleep: Callable[[float], None]
) -> None:
    """After an answer that says nothing, or no, look for the files a few times; raise unless they are there."""
    line, landed = f"{error_class(error)}: {error_line(error)}", None
    for number in range(3):
        sleep(_FIRST_WAIT * 2**number)
        try:
            landed = _registered(table, table.table.operations().refresh(), new)
        except JavaError:  # whatever keeps us from looking, the answer is still unknown
            continue
        if landed:
            return
    if refused:
        raise CommitRefused(f"the catalog does not register statistics ({line})") from error
    raise CommitUnknown(f"nobody can tell whether the statistics are registered ({line})") from error
