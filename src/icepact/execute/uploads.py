"""Uploads to an object store that nobody will finish."""

from datetime import datetime

from icepact.execute.storage.open import refusal, storage_for
from icepact.iceberg.table.table import IcebergTable
from icepact.iceberg.table.write_context import write_context


def unfinished_uploads(table: IcebergTable, folder: str, *, abort: bool = False, before: datetime | None = None) -> int:
    """How many there are below a folder, of those begun before a moment if one is given; 0 where nobody can tell. They
    are aborted if asked for."""
    facts = write_context(table, [])
    if refusal(facts.io, facts.credentials) is not None:  # then icepact's own tasks have not uploaded anything either
        return 0
    return storage_for(facts.io, facts.credentials).unfinished(f"{folder}/", abort=abort, before=before)
