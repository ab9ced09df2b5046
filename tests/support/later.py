"""What can be done about dead runs when enough time has passed."""

from datetime import UTC, datetime

from icepact import Compactor
from icepact.maintain.cleanup import TASK_TIMEOUT, clean_up


def clean_up_later(compactor: Compactor, table: str) -> None:
    """A clean-up when no task and no commit of a dead run can be on its way any more."""
    later = datetime.now(UTC) + 2 * TASK_TIMEOUT
    clean_up(compactor.application.spark_catalog, compactor.application.store, table=table, delete=True, now=later)
