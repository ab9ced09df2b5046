"""The ways to rewrite a table, forced upon tiny files; and what a rewrite really copied, told from the bytes."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from icepact import Compactor
from icepact.execute.parquet.footer import Footer
from icepact.execute.parquet.input import Input, MemorySource
from icepact.model.outcome import Outcome
from tests.support.checks import keeps_rows
from tests.support.oracle import data_files

WAYS: Mapping[str, Mapping[str, Any]] = {
    "spark": {"method": "spark"},
    # what is smaller than eight megabytes is encoded anew
    "encode": {"method": "assemble", "row_group_size": "1MB"},
    # the same, but pages without a dictionary are joined, however small
    "join": {"method": "assemble", "row_group_size": "1MB", "min_page_rows": 1},
    # what may be copied is copied; with deletes in some row groups, an output has both kinds
    "copy": {"method": "assemble", "min_row_group_size": 1, "row_group_size": "1MB"},
}
SEVERAL_ROW_GROUPS = {
    "write.parquet.row-group-size-bytes": "1",
    "write.parquet.row-group-check-min-record-count": "20",
    "write.parquet.row-group-check-max-record-count": "20",
}
"""Spark's writers make row groups of twenty rows; the ways above are told otherwise."""
LINEAGE_IDS = frozenset({2147483540, 2147483539})


def maybe(value: str) -> str:
    """The same value, as Spark must write it into an optional column; `id` is never negative.

    What Spark knows to be never null it writes as a required column.
    """
    return f"IF(id < 0, NULL, {value})"


class Pieces(NamedTuple):
    """Of what outputs are made."""

    copied: int
    """Row groups with the bytes that they had in an input; columns that were made up aside."""
    mixed: int
    """Row groups of which some columns have the bytes that they had in an input, and others are encoded anew."""
    encoded: int
    """All other row groups."""
    copied_bytes: int
    """Bytes of chunks that are as they were."""
    encoded_bytes: int
    joined_bytes: int
    """Of these, bytes of chunks that have become part of a longer chunk."""


def rewritten(
    compactor: Compactor,
    table: str,
    way: str,
    *,
    copied: int | None = None,
    mixed: int = 0,
    encoded: int | None = None,
    lineage: bool = False,
    **options: Any,
) -> Outcome:
    """Compact in one way and no other: rows stay, and the outcome tells exactly what happened to the bytes.

    `copied`, `mixed` and `encoded` are row groups of the outputs, where the test knows them.
    """
    before = data_files(compactor.spark, table)
    outcome = keeps_rows(compactor, table, lineage=lineage, **{**WAYS[way], **options})
    after = data_files(compactor.spark, table)
    method = WAYS[way]["method"]
    assert outcome.methods == {method: len(outcome.groups)}, [g.method_reason for g in outcome.groups]
    if method == "assemble":
        found = pieces(sorted({*before} - {*after}), sorted({*after} - {*before}))
        told = outcome.effort.copied_bytes, outcome.effort.encoded_bytes
        assert sum(told) == found.copied_bytes + found.encoded_bytes, found
        assert outcome.effort.copied_bytes <= found.copied_bytes + found.joined_bytes, found
        if way == "join":
            return outcome
        assert (found.copied_bytes, found.encoded_bytes) == (
            outcome.effort.copied_bytes,
            outcome.effort.encoded_bytes,
        ), found
        assert copied in (None, found.copied), found
        assert encoded in (None, found.encoded), found
        assert copied is None or mixed == found.mixed, found
    return outcome


# -- bytes ------------------------------------------------------------------------------------------


class _Group(NamedTuple):
    rows: int
    chunks: dict[int | bytes, bytes]
    """By field id, or by name where a file has no ids."""


def local(path: str) -> Path:
    """A path of a table as the operating system knows it."""
    return Path(path.removeprefix("file:"))


def footer(path: str) -> Footer:
    """The footer of a local file."""
    return Input(MemorySource(local(path).read_bytes())).footer


def row_groups(path: str) -> Iterator[_Group]:
    """The row groups of a local file, byte by byte."""
    data = local(path).read_bytes()
    told = Input(MemorySource(data)).footer
    keys = [leaf.field_id if leaf.field_id is not None else b".".join(leaf.path) for leaf in told.leaves]
    for group in told.row_groups:
        chunks = {key: data[c.start : c.end] for key, c in zip(keys, group.chunks, strict=True)}
        yield _Group(group.rows, chunks)


def ids_of(path: str) -> list[set[int]]:
    """What stands in the column `id`, by row group."""
    file = pq.ParquetFile(local(path))
    return [set(file.read_row_group(n, columns=["id"])["id"].to_pylist()) for n in range(file.num_row_groups)]


def pieces(inputs: Sequence[str], outputs: Sequence[str]) -> Pieces:
    """What of the outputs is found in the inputs, chunk by chunk."""
    sources = [group for path in inputs for group in row_groups(path)]
    copied = mixed = encoded = copied_bytes = encoded_bytes = joined_bytes = 0
    for group in (group for path in outputs for group in row_groups(path)):
        alike = [s for s in sources if s.rows == group.rows]
        same = max((_shared(group, s) for s in alike), key=lambda held: _same_bytes(group, held), default={})
        keys = group.chunks.keys() & same.keys() - LINEAGE_IDS
        equal = {key for key in keys if same[key] == group.chunks[key]}
        if not equal:
            same = {}
        copied += bool(equal) and equal == keys
        mixed += bool(equal) and equal != keys
        encoded += not equal
        for key, chunk in group.chunks.items():
            if same.get(key) == chunk:
                copied_bytes += len(chunk)
            else:
                encoded_bytes += len(chunk)
                parts = {source.chunks[key] for source in sources if key in source.chunks}
                joined_bytes += sum(len(part) * chunk.count(part) for part in parts)
    return Pieces(copied, mixed, encoded, copied_bytes, encoded_bytes, joined_bytes)


def _shared(group: _Group, source: _Group) -> dict[int | bytes, bytes]:
    """The chunks of a source by the keys of a row group; without ids they are known by what they hold."""
    if all(isinstance(key, int) for key in source.chunks):
        return source.chunks
    held = set(source.chunks.values())
    return {key: data for key, data in group.chunks.items() if data in held}


def _same_bytes(group: _Group, held: Mapping[int | bytes, bytes]) -> int:
    return sum(len(data) for key, data in group.chunks.items() if key not in LINEAGE_IDS and held.get(key) == data)
