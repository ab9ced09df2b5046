"""What a rewrite read and wrote: the facts a proof compares."""

from collections.abc import Mapping
from dataclasses import dataclass

from icepact.model.table import Partition


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnFacts:
    """What is known about columns, by field id, of one file or many; a column not told of is missing."""

    nulls: Mapping[int, int]
    lower: Mapping[int, str]
    """Single-value serialization in hex."""
    upper: Mapping[int, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenFile:
    """One new file, as its writer described it and as its footer on storage says."""

    path: str
    size: int
    """Bytes, as described."""
    rows: int
    """As described."""
    spec_id: int
    partition: Partition
    format: str
    """parquet, orc or avro."""
    stored_size: int
    """Bytes that storage really has."""
    stored_rows: int | None
    """From the footer on storage; null for formats without one."""
    columns: ColumnFacts | None
    """From the footer on storage; null for formats without one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InputFacts:
    """One input as the manifest described it when it was pinned."""

    path: str
    rows: int
    columns: ColumnFacts


@dataclass(frozen=True, kw_only=True, slots=True)
class Written:
    """What the units of one group read and wrote."""

    group_id: str
    inputs: tuple[InputFacts, ...]
    rows_observed: int
    """Rows that flowed from the scan to the writer: what readers see."""
    files: tuple[WrittenFile, ...]
    seconds: float
    """Work of all units, added up."""
    methods: Mapping[str, int]
    """Units by the method that really did them."""
    fallback: str = ""
    """Why the planned method could not do some of them; empty if it could."""
    copied_bytes: int = 0
    encoded_bytes: int = 0
    requests: int = 0
    """To an object store."""
    write_requests: int = 0
    """Those of them that write."""
    transferred_bytes: int = 0
    """Bytes that passed through the tasks, where the method counts them."""
