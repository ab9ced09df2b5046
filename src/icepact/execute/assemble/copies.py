"""Copied bytes, read back from storage and compared with those of their source.

Counts and statistics say nothing of them: they are taken over from the source. All are compared if the policy says
so. Otherwise as many as cost little: pages at the ends of chunks, where bytes are that belong somewhere else if a
copy was put together wrongly. Where each look is a request to either side, that is a few places of an output.
"""

import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import NamedTuple, assert_never

import pyarrow as pa

from icepact.execute.assemble.errors import CopyDiffers
from icepact.execute.assemble.work import Compared
from icepact.execute.parquet.assembler import Copy
from icepact.execute.storage.base import KIB, MIB, Source, Storage

_LEAST = 4 * MIB
_SHARE = 100
"""Of each hundred bytes one is compared, but so many bytes at least."""
_FILES_PER_PLACE, _FAR_PLACES = 4, 4
"""Far away, one place for so many inputs is looked at, and so many at most."""
_AT_ONCE = 8
"""Inputs that are read at the same time, if they are far away."""
_STEP = 32 * MIB
"""Bytes of either side that are held at once."""


class Extent(NamedTuple):
    """How much is looked at."""

    places: int
    """Of an output, at most."""
    longest: int
    """Bytes of a page, or of pages that follow each other, that are compared."""


NEAR = Extent(places=256, longest=MIB)


class Place(NamedTuple):
    """Bytes of an output, and where they come from."""

    path: str
    """Of the source."""
    file_size: int
    start: int
    at: int
    size: int


def check_copies(copies: Sequence[Copy], output: Source, storage: Storage, how: Compared) -> None:
    """Compare what was copied into an output, or some of it, with what it was copied from."""
    match how:
        case Compared.NOTHING:
            return
        case Compared.SAMPLE:
            extent = far_extent(len({copy.found.source.path for copy in copies})) if output.far else NEAR
            _compare(sampled(copies, extent, phase=zlib.crc32(output.path.encode())), output, storage)
        case Compared.ALL:
            for batch in _batches(_merged(_whole(copies), _STEP)):
                _compare(batch, output, storage)
        case _:
            assert_never(how)


def far_extent(files: int) -> Extent:
    """What is looked at of an output of so many inputs where each look is a request."""
    return Extent(places=min(max(1, files // _FILES_PER_PLACE), _FAR_PLACES), longest=64 * KIB)


def sampled(copies: Sequence[Copy], extent: Extent, *, phase: int) -> list[Place]:
    """The pages at the ends of all chunks; if they are too many, some of them, evenly spread from anywhere on."""
    edges = list(_merged(_edges(copies, extent.longest), extent.longest))
    size = sum(edge.size for edge in edges)
    room = max(_LEAST, sum(copy.found.size for copy in copies) // _SHARE)
    if len(edges) <= extent.places and size <= room:
        return edges
    count = max(1, min(extent.places, len(edges) * room // size))
    return [edges[(n * len(edges) + phase % len(edges)) // count] for n in range(count)]


def _edges(copies: Sequence[Copy], longest: int) -> Iterator[Place]:
    for copy in copies:
        size = copy.found.size
        first, last = min(copy.found.first, longest), min(copy.found.last, longest)
        if first + last >= size:
            yield _place(copy, 0, size)
        else:
            yield _place(copy, 0, first)
            yield _place(copy, size - last, last)


def _whole(copies: Sequence[Copy]) -> Iterator[Place]:
    for copy in copies:
        for within in range(0, copy.found.size, _STEP):
            yield _place(copy, within, min(_STEP, copy.found.size - within))


def _place(copy: Copy, within: int, size: int) -> Place:
    source = copy.found.source
    return Place(source.path, source.size, copy.found.start + within, copy.at + within, size)


def _merged(places: Iterator[Place], longest: int) -> Iterator[Place]:
    """Places with their neighbours, up to a length; what follows in the output must follow in the source."""
    last: Place | None = None
    for place in places:
        if last is not None and _follows(last, place) and last.size + place.size <= longest:
            last = last._replace(size=last.size + place.size)
        else:
            if last is not None:
                yield last
            last = place
    if last is not None:
        yield last


def _follows(one: Place, other: Place) -> bool:
    return (one.path, one.start + one.size, one.at + one.size) == (other.path, other.start, other.at)


def _batches(places: Iterator[Place]) -> Iterator[list[Place]]:
    """As many places as may be held at once."""
    batch: list[Place] = []
    held = 0
    for place in places:
        if batch and held + place.size > _STEP:
            yield batch
            batch, held = [], 0
        batch.append(place)
        held += place.size
    if batch:
        yield batch


# -- comparing --------------------------------------------------------------------------------------


def _compare(places: Sequence[Place], output: Source, storage: Storage) -> None:
    ours = dict(zip(places, output.gather([(place.at, place.size) for place in places]), strict=True))
    by_file = [list(group) for _, group in groupby(sorted(places), key=lambda place: place.path)]
    if output.far and len(by_file) > 1:
        with ThreadPoolExecutor(min(len(by_file), _AT_ONCE)) as pool:
            theirs = list(pool.map(lambda group: _read(group, storage), by_file))
    else:
        theirs = [_read(group, storage) for group in by_file]
    for group, found in zip(by_file, theirs, strict=True):
        for place, data in zip(group, found, strict=True):
            if not pa.py_buffer(data).equals(pa.py_buffer(ours[place])):
                end = place.at + place.size
                raise CopyDiffers(
                    f"{output.path}: bytes {place.at} to {end} are not those of {place.path} from byte {place.start}"
                    " on, which they were copied from"
                )


def _read(places: Sequence[Place], storage: Storage) -> list[memoryview]:
    source = storage.open(places[0].path, places[0].file_size)
    try:
        return source.gather([(place.start, place.size) for place in places])
    finally:
        source.close()
