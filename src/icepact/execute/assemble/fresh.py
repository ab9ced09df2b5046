"""New chunks for single columns of a row group whose other chunks are copied: a widened type, nulls that may be now."""

from collections.abc import Iterable

from icepact.execute.assemble.decode import Decoder
from icepact.execute.assemble.forms import Forms
from icepact.execute.assemble.input_view import InputView
from icepact.execute.assemble.lanes import Lanes
from icepact.execute.assemble.memory import batches, column_size, most_decoded
from icepact.execute.assemble.messages import MOST_ROWS
from icepact.execute.parquet.assembler import ChunkToWrite


def fits(view: InputView, group: int, columns: Iterable[int]) -> bool:
    """True if each of these columns of a row group can be decoded at once, within a task's memory."""
    writing = view.context.writing
    limit = most_decoded(writing)
    few = view.input.footer.row_groups[group].rows <= min(MOST_ROWS, writing.batch_rows)
    return few and all(column_size(view, group, column) <= limit for column in columns)


class FreshChunks:
    """Encodes new chunks for single columns, as few at a time as memory allows."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes
        self._target = lanes.encoder.target
        self._decoders: dict[frozenset[int], Decoder] = {}
        """Decoders of the file that was read last, by the columns that they read."""

    def chunks(self, view: InputView, group: int, columns: frozenset[int]) -> dict[int, ChunkToWrite]:
        """Chunks of these columns, all rows of a row group, by leaf of the target."""
        rows = view.input.footer.row_groups[group].rows
        forms = Forms(self._lanes.encoder)
        forms.remember(view, group)
        chunks: dict[int, ChunkToWrite] = {}
        limit = most_decoded(view.context.writing)
        for some in batches(sorted(columns), lambda column: column_size(view, group, column), limit):
            leaves = [n for n, top in enumerate(self._target.top_of_leaf) if top in some]
            [table] = self._decoder(view, frozenset(some)).rows(group, None, rows)
            chunks |= self._lanes.chunks(self._lanes.begin(table, forms, leaves))
        return chunks

    def _decoder(self, view: InputView, columns: frozenset[int]) -> Decoder:
        if any(decoder.view is not view for decoder in self._decoders.values()):
            self._decoders.clear()
        if columns not in self._decoders:
            others = frozenset(range(len(self._target.fields))) - columns
            self._decoders[columns] = Decoder(view, others)
        return self._decoders[columns]
