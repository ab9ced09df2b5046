"""Copied bytes, read back from storage and compared with those of their source.

Counts and statistics say nothing of them: they are taken over from the source. All are compared if the policy says
so. Otherwise as many as cost little: pages at the ends of chunks, where bytes are that belong somewhere else if a
copy was put together wrongly. Where each read is a request to either side, that is a few ranges of an output.
"""

import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import NamedTuple, assert_never

import pyarrow as pa

from icepact.execute.assemble.errors import CopyDiffers
from icepact.execute.assemble.memory import batches
from icepact.execute.assemble.messages import Compared
from icepact.execute.parquet.assembler import Copy
from icepact.execute.storage.base import KIB, MIB, Source, Storage

_LEAST = 4 * MIB
_SHARE = 100
"""Of each hundred bytes one is compared, but so many bytes at least."""
_FILES_PER_RANGE, _MOST_FAR_RANGES = 4, 4
"""Far away, one range for so many inputs is compared, and so many ranges at most."""
_AT_ONCE = 8
"""Inputs that are read at the same time, if they are far away."""
_STEP = 32 * MIB
"""Bytes of either side that are in memory at once."""


class Extent(NamedTuple):
    """Upper limits of a sample of copied ranges."""

    ranges: int
    """Ranges of an output that are compared."""
    longest: int
    """Bytes of a range: a page, or pages that follow each other."""


NEAR = Extent(ranges=256, longest=MIB)


class CopiedRange(NamedTuple):
    """Bytes of an output, and where they come from."""

    path: str
    """Path of the source."""
    file_size: int
    """Bytes of the source."""
    start: int
    """Offset in the source."""
    at: int
    """Offset in the output."""
    size: int
    """Bytes of the range."""


def check_copies(copies: Sequence[Copy], output: Source, storage: Storage, how: Compared) -> None:
    """Compare what was copied into an output, or some of it, with what it was copied from."""
    match how:
        case Compared.NOTHING:
            return
        case Compared.SAMPLE:
            extent = far_extent(len({copy.origin.source.path for copy in copies})) if output.far else NEAR
            _compare(sampled(copies, extent, phase=zlib.crc32(output.path.encode())), output, storage)
        case Compared.ALL:
            for batch in batches(_merged(_whole(copies), _STEP), lambda copied: copied.size, _STEP):
                _compare(batch, output, storage)
        case _:
            assert_never(how)


def far_extent(files: int) -> Extent:
    """Limits of the sample of an output of so many inputs, where each read is a request."""
    return Extent(ranges=min(max(1, files // _FILES_PER_RANGE), _MOST_FAR_RANGES), longest=64 * KIB)


def sampled(copies: Sequence[Copy], extent: Extent, *, phase: int) -> list[CopiedRange]:
    """Pages at the ends of all chunks; if they are too many, some of them, evenly spread from anywhere on."""
    edges = list(_merged(_edges(copies, extent.longest), extent.longest))
    size = sum(edge.size for edge in edges)
    room = max(_LEAST, sum(copy.origin.size for copy in copies) // _SHARE)
    if len(edges) <= extent.ranges and size <= room:
        return edges
    count = max(1, min(extent.ranges, len(edges) * room // size))
    return [edges[(n * len(edges) + phase % len(edges)) // count] for n in range(count)]


def _edges(copies: Sequence[Copy], longest: int) -> Iterator[CopiedRange]:
    for copy in copies:
        size = copy.origin.size
        first, last = min(copy.origin.first, longest), min(copy.origin.last, longest)
        if first + last >= size:
            yield _copied_range(copy, 0, size)
        else:
            yield _copied_range(copy, 0, first)
            yield _copied_range(copy, size - last, last)


def _whole(copies: Sequence[Copy]) -> Iterator[CopiedRange]:
    for copy in copies:
        for within in range(0, copy.origin.size, _STEP):
            yield _copied_range(copy, within, min(_STEP, copy.origin.size - within))


def _copied_range(copy: Copy, within: int, size: int) -> CopiedRange:
    source = copy.origin.source
    return CopiedRange(source.path, source.size, copy.origin.start + within, copy.at + within, size)


def _merged(ranges: Iterator[CopiedRange], longest: int) -> Iterator[CopiedRange]:
    """Ranges with their neighbours, up to a length; what follows in the output must follow in the source."""
    last: CopiedRange | None = None
    for copied in ranges:
        following = last and (last.path, last.start + last.size, last.at + last.size)
        if last and following == (copied.path, copied.start, copied.at) and last.size + copied.size <= longest:
            last = last._replace(size=last.size + copied.size)
        else:
            if last is not None:
                yield last
            last = copied
    if last is not None:
        yield last


# -- comparing --------------------------------------------------------------------------------------


def _compare(ranges: Sequence[CopiedRange], output: Source, storage: Storage) -> None:
    ours = dict(zip(ranges, output.gather([(copied.at, copied.size) for copied in ranges]), strict=True))
    by_file = [list(group) for _, group in groupby(sorted(ranges), key=lambda copied: copied.path)]
    if output.far and len(by_file) > 1:
        with ThreadPoolExecutor(min(len(by_file), _AT_ONCE)) as pool:
            theirs = list(pool.map(lambda group: _read(group, storage), by_file))
    else:
        theirs = [_read(group, storage) for group in by_file]
    for group, pieces in zip(by_file, theirs, strict=True):
        for copied, data in zip(group, pieces, strict=True):
            if not pa.py_buffer(data).equals(pa.py_buffer(ours[copied])):
                end = copied.at + copied.size
                raise CopyDiffers(
                    f"{output.path}: bytes {copied.at} to {end} are not those of {copied.path} from byte {copied.start}"
                    " on, which they were copied from"
                )


def _read(ranges: Sequence[CopiedRange], storage: Storage) -> list[memoryview]:
    source = storage.open(ranges[0].path, ranges[0].file_size)
    try:
        return source.gather([(copied.start, copied.size) for copied in ranges])
    finally:
        source.close()
