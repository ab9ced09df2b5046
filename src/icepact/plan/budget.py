"""Budgets: take groups in order while they fit, cut the one that does not, and name what is left."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from icepact.model.plan import LeftOut, RewriteFiles, Unit
from icepact.model.policy import Policy
from icepact.model.sizes import format_size
from icepact.model.table import DataFile, DeleteFile, delete_records
from icepact.plan.packing import outputs_of


@dataclass(slots=True)
class _Purse:
    """What is left to spend; null means no limit."""

    files: int | None
    bytes: int | None

    def fits(self, files: int, size: int) -> bool:
        return (self.files is None or files <= self.files) and (self.bytes is None or size <= self.bytes)

    def spend(self, files: int, size: int) -> None:
        if self.files is not None:
            self.files -= files
        if self.bytes is not None:
            self.bytes -= size


def within_budget(
    groups: Sequence[RewriteFiles], deletes: Sequence[DeleteFile], policy: Policy
) -> tuple[list[RewriteFiles], list[LeftOut]]:
    """The groups, or parts of them, that the budget allows; and what it holds back."""
    purse = _Purse(files=policy.max_files, bytes=policy.max_bytes)
    kept: list[RewriteFiles] = []
    cut: list[LeftOut] = []
    for group in groups:
        units = tuple(_affordable(group, purse))
        files = sum(len(u.files) for u in units)
        if units:
            kept.append(_shrunk(group, units, deletes, policy))
        if files < len(group.files):
            missing = len(group.files) - files
            size = group.bytes - sum(u.bytes for u in units)
            cut.append(LeftOut(partition=group.partition, files=missing, bytes=size, reason=_reason(policy)))
    return kept, cut


def _affordable(group: RewriteFiles, purse: _Purse) -> list[Unit]:
    """Whole units while they fit; of one that does not, as many files as still leave fewer outputs."""
    taken: list[Unit] = []
    for unit in group.units:
        part = unit if purse.fits(len(unit.files), unit.bytes) else _part(unit, purse)
        if part is unit or len(part.files) > 1 or any(f.deletes for f in part.files):
            purse.spend(len(part.files), part.bytes)
            taken.append(part)
    if sum(len(u.files) for u in taken) < len(group.files) and group.regroup:
        for unit in taken:  # rows spread over many partitions: a part of the group could leave more files
            purse.spend(-len(unit.files), -unit.bytes)
        return []
    return taken


def _part(unit: Unit, purse: _Purse) -> Unit:
    files: list[DataFile] = []
    size = 0
    for file in unit.files:
        if purse.fits(len(files) + 1, size + file.size):
            files.append(file)
            size += file.size
    predicted = None if unit.predicted is None else round(unit.predicted * size / max(1, unit.bytes))
    return Unit(files=tuple(files), predicted=predicted)


def _shrunk(
    group: RewriteFiles, units: tuple[Unit, ...], deletes: Sequence[DeleteFile], policy: Policy
) -> RewriteFiles:
    if units == group.units:
        return group
    share = sum(u.bytes for u in units) / max(1, group.bytes)
    return replace(
        group,
        units=units,
        cost=group.cost.part(share),
        predicted_files=sum(outputs_of(u, policy) for u in units),
        predicted_bytes=sum(u.predicted_bytes for u in units),
        delete_records=delete_records((f for u in units for f in u.files), deletes),
    )


def _reason(policy: Policy) -> str:
    limits = []
    if policy.max_files is not None:
        limits.append(f"max_files {policy.max_files}")
    if policy.max_bytes is not None:
        limits.append(f"max_bytes {format_size(policy.max_bytes)}")
    return f"over the budget ({', '.join(limits)})"
