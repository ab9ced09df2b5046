"""Methods: the ways in which files of a group are rewritten, and what sets them apart. One row of `METHODS` each.

How fast a method is stands in `icepact.economics.speeds`, its rewriter in `icepact.execute.methods`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Method(StrEnum):
    """How the files of a group are rewritten."""

    ASSEMBLE = "assemble"
    SPARK = "spark"


@dataclass(frozen=True, kw_only=True, slots=True)
class MethodTraits:
    """What a method can, and what it needs."""

    copies: bool
    """Whether it copies row groups as bytes; else every byte is encoded anew."""
    every_table: bool
    """Whether it rewrites whatever Iceberg reads: all formats, types and partition specs."""
    keeps_order: bool
    """Whether its outputs follow the table's sort order."""
    counts_requests: bool
    """Whether it tells of all requests to an object store."""
    needs_workers: bool
    """Whether it runs in Python workers, several threads of which encode where cores would be idle."""
    fallback: Method | None = None
    """The method that does what this one refuses; `None` if there is none."""


METHODS: Mapping[Method, MethodTraits] = {
    Method.ASSEMBLE: MethodTraits(
        copies=True,
        every_table=False,
        keeps_order=False,
        counts_requests=True,
        needs_workers=True,
        fallback=Method.SPARK,
    ),
    Method.SPARK: MethodTraits(
        copies=False, every_table=True, keeps_order=True, counts_requests=False, needs_workers=False
    ),
}
