"""Strategies: which files of a partition are candidates, and why.

Each is one function from a partition and a policy to a `Choice`; `STRATEGIES` is the whole list.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from icepact.model.policy import Policy, Strategy
from icepact.model.sizes import format_size
from icepact.model.table import DataFile, DeleteFile, delete_records
from icepact.model.words import counted


@dataclass(frozen=True, kw_only=True, slots=True)
class Choice:
    """The files of one partition that are worth rewriting; none if it is to be left out."""

    files: Sequence[DataFile]
    reason: str


def small_files(files: Sequence[DataFile], deletes: Sequence[DeleteFile], policy: Policy) -> Choice:
    """Merge small files; where deletes weigh too much, rewrite what they apply to as well."""
    small = [f for f in files if f.size < policy.min_file_size]
    rows = sum(f.rows for f in files)
    records = delete_records(files, deletes)
    average = sum(f.size for f in files) / len(files)
    threshold = format_size(policy.min_file_size)
    if records > policy.max_delete_ratio * rows:
        chosen = [f for f in files if f.deletes or f.size < policy.min_file_size]
        return Choice(files=chosen, reason=f"{counted(records, 'delete record')} on {counted(rows, 'row')}")
    if not small:
        return Choice(files=(), reason=f"no file below {threshold}")
    if len(files) > policy.max_file_count_per_partition:
        reason = f"{counted(len(files), 'file')}, more than {policy.max_file_count_per_partition:,}"
    elif len(small) >= policy.min_input_files:
        reason = f"{counted(len(small), 'file')} below {threshold}"
    elif len(files) > 1 and average < policy.min_file_size:
        reason = f"{len(files)} files of {format_size(average)} on average, below {threshold}"
    else:
        return Choice(
            files=(),
            reason=f"only {counted(len(small), 'file')} below {threshold}, {policy.min_input_files} are wanted",
        )
    return Choice(files=small, reason=reason)


STRATEGIES: Mapping[Strategy, Callable[[Sequence[DataFile], Sequence[DeleteFile], Policy], Choice]] = {
    Strategy.SMALL_FILES: small_files
}
