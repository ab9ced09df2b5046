"""What a scan spends on things that a compact table has fewer of."""

SECONDS_PER_FILE = 0.012
"""What a reader spends on opening a file, on one core."""
SECONDS_PER_ROW_GROUP = 0.002
SECONDS_PER_DELETE_FILE = 0.015
SECONDS_PER_DELETE_RECORD = 1e-6
"""Of reading and applying it."""


def scan_seconds(*, files: int, row_groups: int, delete_files: int, delete_records: int) -> float:
    """What a scan spends on so many of each."""
    return round(
        files * SECONDS_PER_FILE
        + row_groups * SECONDS_PER_ROW_GROUP
        + delete_files * SECONDS_PER_DELETE_FILE
        + delete_records * SECONDS_PER_DELETE_RECORD,
        6,
    )
