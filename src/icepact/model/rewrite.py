"""What a rewrite read and wrote: the facts a proof compares."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from icepact.model.effort import NO_EFFORT, Effort
from icepact.model.files import Partition


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnFacts:
    """What is known about columns, by field id, of one file or many; a column of which nothing is known is missing."""

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
    """From the footer on storage; `None` for formats without one."""
    columns: ColumnFacts | None
    """From the footer on storage; `None` for formats without one."""

    @staticmethod
    def described(document: Mapping[str, Any], **stored: Any) -> "WrittenFile":
        """A file by Iceberg's JSON of it, and by what is `stored`; without that it is taken to be as described."""
        size, rows = document["file-size-in-bytes"], document["record-count"]
        return WrittenFile(
            path=document["file-path"],
            size=size,
            rows=rows,
            spec_id=document["spec-id"],
            partition=tuple(document.get("partition", ())),
            format=document["file-format"].lower(),
            **{"stored_size": size, "stored_rows": rows, "columns": None, **stored},
        )


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
    methods: Mapping[str, int]
    """Units by the method that really did them."""
    effort: Effort = NO_EFFORT
    """Of all units."""
    fallback: str = ""
    """Why the planned method could not do some of them; empty if it could."""
    deletes_carried: int = 0
    """Rows of the new files that readers do not see: deletes of these say so, which are committed with them."""
