"""Uploads to an object store that nobody will finish."""

from icepact.execute.storage.open import refusal, storage_for
from icepact.iceberg.facts import write_facts
from icepact.iceberg.leftovers import run_prefix
from icepact.iceberg.table import IcebergTable


def unfinished_uploads(table: IcebergTable, run_id: str) -> int:
    """How many there are below a run's folder."""
    return _uploads(table, run_id, abort=False)


def abort_uploads(table: IcebergTable, run_id: str) -> int:
    """Abort them all; returns how many."""
    return _uploads(table, run_id, abort=True)


def _uploads(table: IcebergTable, run_id: str, *, abort: bool) -> int:
    prefix = run_prefix(table, run_id)
    if prefix is None:
        return 0
    facts = write_facts(table, [])
    if refusal(facts.io, facts.credentials) is not None:
        return 0
    return storage_for(facts.io, facts.credentials).unfinished(f"{prefix}/", abort=abort)
