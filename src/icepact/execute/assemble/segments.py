"""Copy or encode: the decision, row group by row group."""

from collections.abc import Iterator
from dataclasses import dataclass

from icepact.execute.assemble.deleted import Deleted, Mask
from icepact.execute.assemble.target import LINEAGE_IDS
from icepact.execute.assemble.view import View
from icepact.execute.parquet.footer import RowGroup


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """One row group of an input, and what is to be done with it."""

    view: View
    group: int
    keep: Mask | None
    """Which rows survive; null if all do."""
    copied: bool
    """True if its bytes are copied."""
    small: bool
    """True if it is below the size at which row groups are worth keeping."""

    @property
    def where(self) -> RowGroup:
        """The row group itself."""
        return self.view.input.footer.row_groups[self.group]

    @property
    def rows(self) -> int:
        """Rows that survive."""
        return self.where.rows if self.keep is None else int(self.keep.sum())

    @property
    def joinable(self) -> frozenset[int]:
        """Numbers of the target's top-level columns whose pages can be joined to those of other row groups."""
        return self.view.joinable(self.group) if self.keep is None else frozenset()


def segments(view: View, deleted: Deleted, *, walk: bool) -> Iterator[Segment]:
    """All row groups of a file, in order; one of which nothing survives is left out."""
    for number, group in enumerate(view.input.footer.row_groups):
        keep = deleted.keep(number)
        if group.rows == 0 or (keep is not None and not keep.any()):
            continue
        small = group.size < view.context.writing.copy_floor
        copied = keep is None and not small and copyable(view, number, walk=walk)
        yield Segment(view=view, group=number, keep=keep, copied=copied, small=small)


def copyable(view: View, group: int, *, walk: bool) -> bool:
    """True if nothing speaks against copying the bytes of a row group that no delete touches."""
    if view.why_not_copied is not None:
        return False
    for leaf, place in zip(view.target.leaves, view.leaf_of, strict=True):
        if place is None or leaf.field_id in LINEAGE_IDS:
            continue
        if view.why_chunk_not_copied(group, place, walk=walk) is not None:
            return False
    return True
