"""The check that every before/after test makes: the same rows in fewer files, and then nothing left to do."""

from typing import Any

from icepact import Compactor
from icepact.model.outcome import Outcome
from icepact.model.status import Status
from tests.support.oracle import data_files, seen


def keeps_rows(
    compactor: Compactor, table: str, *, lineage: bool = False, settles: bool = True, **options: Any
) -> Outcome:
    """Compact, and compare what readers saw before and after; with `settles` a second run must plan nothing."""
    spark, branch = compactor.spark, options.get("branch")
    rows = seen(spark, table, branch=branch, lineage=lineage)
    files = data_files(spark, table, branch=branch)
    outcome = compactor.compact(table, **options)
    assert (outcome.status, outcome.error) == (Status.COMMITTED, None), [g.reason for g in outcome.groups]
    assert seen(spark, table, branch=branch, lineage=lineage) == rows
    saved = len(files) - len(data_files(spark, table, branch=branch))
    assert saved == outcome.files_before - outcome.files_after >= 1
    if settles:
        assert compactor.plan(table, **options).rewrites == ()
    return outcome
