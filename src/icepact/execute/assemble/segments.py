"""Copy or encode: the decision, row group by row group, and chunk by chunk where no row is deleted."""

from collections.abc import Iterator
from dataclasses import dataclass

from icepact.execute.assemble.deleted import DeletedRows, Mask
from icepact.execute.assemble.fresh import fits
from icepact.execute.assemble.input_view import InputView
from icepact.execute.assemble.row_map import SourceRows
from icepact.execute.parquet.footer import RowGroup


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """One row group of an input, and what is to be done with it."""

    view: InputView
    group: int
    keep: Mask | None
    """Which rows survive; `None` if all do."""
    first: int
    """Number of the first row that survives, among all of the file that do."""
    fresh: frozenset[int] | None
    """Numbers of the target's top-level columns that are encoded while others are copied; `None` if all are encoded."""
    small: bool
    """True if it is below the size at which row groups are worth keeping."""

    @property
    def row_group(self) -> RowGroup:
        """The row group itself."""
        return self.view.input.footer.row_groups[self.group]

    @property
    def rows(self) -> int:
        """Rows that survive."""
        return self.row_group.rows if self.keep is None else int(self.keep.sum())

    def sources(self, after: int = 0, rows: int | None = None) -> SourceRows:
        """Its surviving rows, or so many of them after the first few, as the row map counts them."""
        return SourceRows(self.view.file.path, self.first + after, self.rows if rows is None else rows)

    @property
    def joinable(self) -> frozenset[int]:
        """Numbers of the target's top-level columns whose pages can be joined to those of other row groups."""
        return self.view.joinable(self.group) if self.keep is None else frozenset()


def segments(view: InputView, deleted: DeletedRows, *, walk: bool, carries: bool = False) -> Iterator[Segment]:
    """All row groups of a file, in order; one of which nothing survives is left out. Where deletes are carried, all of
    every row group survives."""
    first = 0
    for number, group in enumerate(view.input.footer.row_groups):
        keep = deleted.keep(number)
        if carries:
            keep = None  # what is deleted is known by now
        if group.rows == 0 or (keep is not None and not keep.any()):
            continue
        small = group.size < view.context.writing.copy_floor
        fresh = fresh_columns(view, number, walk=walk) if keep is None and not small else None
        segment = Segment(view=view, group=number, keep=keep, first=first, fresh=fresh, small=small)
        first += segment.rows
        yield segment


def fresh_columns(view: InputView, group: int, *, walk: bool) -> frozenset[int] | None:
    """Columns of a row group without deleted rows whose chunks cannot be copied; `None` if none can, or if those
    that cannot are too large to be encoded by themselves."""
    copied = view.copyable(group, walk=walk)
    fresh = view.present - copied
    if fresh and not (copied and fits(view, group, fresh)):
        return None
    return None if view.input.why_nothing_copied is not None else fresh
