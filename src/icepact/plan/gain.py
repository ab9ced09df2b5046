"""What a rewrite saves whoever reads the table afterwards."""

from collections.abc import Sequence

from icepact.economics.scans import scan_seconds
from icepact.model.cost import Gain
from icepact.model.files import DataFile, DeleteFile


def gain_of(files: Sequence[DataFile], outputs: int, deletes: Sequence[DeleteFile]) -> Gain:
    """What is saved if these files become so many, and no others are left that their deletes apply to."""
    applied = {index for f in files for index in f.deletes}
    return make_gain(
        files=len(files) - outputs,
        row_groups=max(0, sum(len(f.row_groups) or 1 for f in files) - outputs),
        delete_files=len(applied),
        delete_records=sum(deletes[index].records for index in applied),
    )


def make_gain(*, files: int, row_groups: int, delete_files: int, delete_records: int, idle: int = 0) -> Gain:
    """A gain with its seconds. No scan ever opens deletes that are idle."""
    return Gain(
        files=files,
        row_groups=row_groups,
        delete_files=delete_files + idle,
        delete_records=delete_records,
        scan_seconds=scan_seconds(
            files=files, row_groups=row_groups, delete_files=delete_files, delete_records=delete_records
        ),
    )
