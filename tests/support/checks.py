"""The check that every before/after test makes: the same rows in fewer files, and then nothing left to do."""

from typing import Any

from icepact import Compactor
from icepact.model.outcome import Outcome, Status
from tests.support.oracle import data_files, seen


def keeps_rows(
    compactor: Compactor, table: str, *, lineage: bool = False, settles: bool = True, **options: Any
) -> Outcome:
    """Compact, and compare what readers saw before and after; with `settles` a second run must plan nothing."""
    spark = compactor.spark
    rows = seen(spark, table, branch=options.get("branch"), lineage=lineage)
    files = data_files(spark, table)
    outcome = compactor.compact(table, **options)
    assert (outcome.status, outcome.error) == (Status.COMMITTED, None), [g.reason for g in outcome.groups]
    assert seen(spark, table, branch=options.get("branch"), lineage=lineage) == rows
    if "branch" not in options:
        assert len(data_files(spark, table)) < len(files)
        assert len(data_files(spark, table)) == outcome.files_after
    if settles:
        assert compactor.plan(table, **options).steps == ()
    return outcome
