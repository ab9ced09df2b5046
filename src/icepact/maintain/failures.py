"""Failures as they are recorded: of a group, and of a table that nobody may touch any more."""

import logging
from datetime import UTC, datetime

from icepact.iceberg.table.table import IcebergTable
from icepact.model.errors import IcepactError
from icepact.model.run import Failure
from icepact.record.store import RecordStore

BROKEN = "(broken)"
"""Signature of the failure that records a commit with a wrong result: nobody touches the table before a person says
`icepact unblock`."""
_log = logging.getLogger("icepact")


def stop_the_table(table: IcebergTable, store: RecordStore, why: str) -> None:
    """Record that nobody touches a table until a person has looked and said `icepact unblock`."""
    try:
        store.failed(table.uuid, failure_of(BROKEN, why))
    except IcepactError as error:
        _log.error("%s must not be touched (%s), and that could not be recorded: %s", table.name, why, error)


def failure_of(signature: str, reason: str, partition: str = "") -> Failure:
    """One failure, now; how many there were before is the store's to know."""
    return Failure(signature=signature, partition=partition, reason=reason, count=0, last_at=datetime.now(UTC))
