"""Tables at the terminal that fit: columns that matter least go first, and what stays is wrapped, never cut off."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

_UNLIMITED = 100_000
_MATTERS = 2
"""Up to this rank a column stays, and names are wrapped instead."""
_NAME = 24
"""Characters to which names are wrapped for that."""


class Column(NamedTuple):
    """One column; its cells may have markup."""

    title: str
    cells: Sequence[str]
    rank: int = 0
    """0 stays whatever happens; of the others, the one with the highest rank goes first."""
    left: bool = False
    """True for words, false for numbers."""
    whole: bool = False
    """Never wrapped, so that it can be copied."""


class Fitted(NamedTuple):
    """What fits, and what does not."""

    table: Table
    dropped: tuple[str, ...]
    """Titles of the columns that went."""


def fitted(columns: Sequence[Column], console: Console) -> Fitted:
    """A table of the columns that fit next to each other. Names are wrapped rather than that what matters goes."""
    kept = list(columns)

    def drop(least: int, names: int | None) -> None:
        anything = console.options.update_width(_UNLIMITED)
        while Measurement.get(console, anything, plain_table(kept, names)).maximum > console.width:
            last = max(kept, key=lambda column: column.rank)
            if last.rank < least:
                break
            kept.remove(last)

    drop(_MATTERS + 1, None)
    drop(1, _NAME)
    return Fitted(plain_table(kept), tuple(column.title for column in columns if column not in kept))


def plain_table(columns: Sequence[Column], names: int | None = None) -> Table:
    """All of them, without lines around; names are wrapped where it is too wide, or at so many characters."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        wraps = column.left and not column.whole
        most = names if wraps and not column.rank else None
        justify: Literal["left", "right"] = "left" if column.left else "right"
        table.add_column(column.title, justify=justify, overflow="fold", no_wrap=not wraps, max_width=most)
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*row)
    return table
