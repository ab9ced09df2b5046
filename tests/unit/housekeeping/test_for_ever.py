"""Ages as people write them who mean for ever."""

from datetime import UTC, datetime, timedelta

import pytest

from icepact.housekeeping.retention import before, decide_retention, retention_settings
from icepact.iceberg.metadata import history_of
from icepact.model.history import TableHistory

NOW = datetime(2026, 11, 18, tzinfo=UTC)
FOR_EVER = str(2**63 - 1)


def history(**ref: object) -> TableHistory:
    """Two snapshots, of which a branch leads to both."""
    times = [int((NOW - timedelta(days=days)).timestamp() * 1000) for days in (30, 20)]
    snapshots = [
        {"snapshot-id": 1, "timestamp-ms": times[0], "manifest-list": "1"},
        {"snapshot-id": 2, "parent-snapshot-id": 1, "timestamp-ms": times[1], "manifest-list": "2"},
    ]
    refs = {
        "main": {"snapshot-id": 2, "type": "branch"},
        "other": {"snapshot-id": 2, "type": "branch", **ref},
    }
    return history_of(
        {"snapshots": snapshots, "refs": refs, "properties": {"history.expire.max-ref-age-ms": FOR_EVER}}, "m"
    )


@pytest.mark.parametrize("key", ["max-snapshot-age-ms", "max-ref-age-ms"])
def test_the_largest_number_is_for_ever(key: str) -> None:
    decided = decide_retention(history(**{key: int(FOR_EVER)}), older_than=NOW, retain_last=1, needed={}, now=NOW)
    assert decided.refs == ()
    assert decided.snapshot_ids == (() if key == "max-snapshot-age-ms" else (1,))


def test_properties_may_say_for_ever_or_not_at_all() -> None:
    age, least = retention_settings({"history.expire.max-snapshot-age-ms": FOR_EVER})
    assert before(NOW, age).year < 1800
    assert least == 1
    assert retention_settings({"history.expire.max-snapshot-age-ms": "0"})[0] == timedelta(0)
    assert retention_settings({"history.expire.max-snapshot-age-ms": "soon"})[0] == timedelta(days=5)
