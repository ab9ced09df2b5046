"""Copied bytes are read back and compared with their source: pages at the ends of chunks, or all."""

import itertools
import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given as supposing
from hypothesis import strategies as st

from icepact.execute.assemble import task
from icepact.execute.assemble.copies import NEAR, CopiedRange, Extent, far_extent, sampled
from icepact.execute.assemble.errors import CopyDiffers
from icepact.execute.assemble.messages import Compared, UnitReport
from icepact.execute.parquet.assembler import Copy
from icepact.execute.parquet.input import Input, MemorySource, Range
from icepact.execute.storage.base import MIB
from icepact.execute.storage.local import LocalSink, LocalSource, LocalStorage
from icepact.model.errors import ProofFailed
from tests.support.kernel import COPY, Kernel, column, given, output, rows_of, stored, struct
from tests.support.parquet_bent import walk
from tests.support.parquet_files import Stored

SCHEMA = struct(column(1, "id", "long"), column(2, "s", "string"))
PAGES: Mapping[str, Any] = {
    "use_dictionary": ["s"],
    "write_page_index": True,
    "compression": "zstd",
    "data_page_size": 1000,
    "write_batch_size": 100,
}
WAYS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "copy": (COPY, PAGES),
    "no page index": (COPY, {**PAGES, "write_page_index": False}),
    "join": ({"fewest_page_rows": 1}, {**PAGES, "use_dictionary": False}),
}
"""How the kernel writes, and how its inputs were written."""

Spoil = Callable[[bytearray], object]


class Spoiling(LocalStorage):
    """Storage that keeps something else than it was given."""

    def __init__(self, spoil: Spoil) -> None:
        super().__init__()
        self.spoil = spoil

    def create(self, path: str) -> "SpoilingSink":
        """A new file."""
        return SpoilingSink(self, path)


class SpoilingSink(LocalSink):
    """A file that is not what was written once it is published."""

    def __init__(self, storage: Spoiling, path: str) -> None:
        super().__init__(path, storage._meter, storage._ways)
        self._storage = storage

    def close(self) -> None:
        """Publish."""
        super().close()
        data = bytearray(Path(self.path).read_bytes())
        self._storage.spoil(data)
        Path(self.path).write_bytes(data)


def flipped(page: int, column: int, group: int, *, within: float) -> Spoil:
    """One bit of a page is another; pages are counted from either end."""

    def spoil(data: bytearray) -> None:
        chunk = Input(MemorySource(bytes(data))).footer.row_groups[group].chunks[column]
        pages = list(walk(bytes(data), chunk))
        assert len(pages) > 4
        at, size, _ = pages[page]
        data[at + int(within * (size - 1))] ^= 1

    return spoil


def kernel(folder: Path, way: str, how: Compared) -> Kernel:
    """A kernel with three inputs."""
    folder.mkdir(exist_ok=True)
    work = Kernel(folder=folder, schema=SCHEMA, writing=WAYS[way][0], compared=how)
    for n in range(3):
        numbers = range(n * 2000, (n + 1) * 2000)
        texts = [f"text {number % 900}" for number in numbers]
        rows = rows_of({stored(1, "id", pa.int64()): list(numbers), stored(2, "s", pa.string()): texts})
        work.file(f"f{n}", rows, **WAYS[way][1])
    return work


def rewritten(work: Kernel) -> UnitReport:
    """The inputs as one unit."""
    return work.run(*(work.folder / f"f{n}.parquet" for n in range(3)))


def spoilt(work: Kernel, monkeypatch: pytest.MonkeyPatch, spoil: Spoil) -> str | None:
    """Why a unit failed whose output is kept badly; null if nobody noticed."""
    monkeypatch.setattr(task, "storage_for", lambda *_: Spoiling(spoil))
    report = rewritten(work)
    assert report.refused is None
    left = list(work.folder.glob("out-*"))
    assert len(left) == len(report.outputs) == (report.failed is None)
    return report.failed


# -- noticed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", Compared)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("page", [0, -1], ids=["first", "last"])
@pytest.mark.parametrize("within", [0.0, 0.5, 1.0])
def test_a_bit_in_a_page_at_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: Compared, way: str, page: int, within: float
) -> None:
    work = kernel(tmp_path, way, how)
    for place in (0, 1):
        reason = spoilt(work, monkeypatch, flipped(page, place, 0, within=within))
        if how is Compared.NOTHING:
            assert reason is None
        else:
            assert reason is not None
            assert "which they were copied from" in reason
            assert str(work.folder / ("f0" if page == 0 or way != "join" else "f2")) in reason
        for path in work.folder.glob("out-*"):
            path.unlink()


@pytest.mark.parametrize("way", ["copy", "join"])
def test_a_bit_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    """Is seen where everything is compared, and not otherwise."""
    for how in (Compared.SAMPLE, Compared.ALL):
        reason = spoilt(kernel(tmp_path / how, way, how), monkeypatch, flipped(2, 1, 0, within=0.5))
        assert (reason is not None) is (how is Compared.ALL)


def test_bytes_that_are_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two row groups have changed places, as if parts had been put together in another order."""

    def swap(data: bytearray) -> None:
        one, other = Input(MemorySource(bytes(data))).footer.row_groups[:2]
        first, second = (bytes(data[g.chunks[0].start : g.chunks[-1].end]) for g in (one, other))
        data[one.chunks[0].start : other.chunks[-1].end] = second + first

    reason = spoilt(kernel(tmp_path, "copy", Compared.SAMPLE), monkeypatch, swap)
    assert reason is not None
    assert "which they were copied from" in reason


def test_what_was_encoded_has_no_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read for it."""
    opened: list[str] = []

    class Watched(LocalStorage):
        def open(self, path: str, size: int) -> LocalSource:
            opened.append(Path(path).name)
            return super().open(path, size)

    monkeypatch.setattr(task, "storage_for", lambda *_: Watched())
    work = kernel(tmp_path, "copy", Compared.ALL)
    path = tmp_path / "f0.parquet"
    for given_file, often in (given(path), 2), (given(path, deletes=[work.position_delete("d", path, [7])]), 1):
        opened.clear()
        report = work.run(given_file)
        assert (report.failed, report.effort.copied_bytes > 0) == (None, often == 2)
        assert opened.count("f0.parquet") == often


def test_the_error_travels() -> None:
    error = pickle.loads(pickle.dumps(CopyDiffers("out: bytes 1 to 2")))
    assert (type(error), str(error)) == (CopyDiffers, "out: bytes 1 to 2")
    assert isinstance(error, ProofFailed)
    assert str(CopyDiffers()) == "Bytes that were copied are not those of their source."


# -- what it costs ----------------------------------------------------------------------------------


def test_what_is_compared_is_counted(tmp_path: Path) -> None:
    reports = {how: rewritten(kernel(tmp_path / how, "copy", how)) for how in Compared}
    copied = reports[Compared.NOTHING].effort.copied_bytes
    without = reports[Compared.NOTHING].effort.transferred_bytes
    read = {how: report.effort.transferred_bytes - without for how, report in reports.items()}
    assert read[Compared.ALL] == 2 * copied
    assert 0 < read[Compared.SAMPLE] < copied
    assert len({output(report).read_bytes() for report in reports.values()}) == 1


SIZES = st.tuples(st.integers(1, 3 * MIB), st.integers(1, 2 * MIB), st.integers(1, 2 * MIB), st.booleans())


def laid_out(chunks: Sequence[tuple[int, int, int, bool]]) -> list[Copy]:
    """Chunks behind each other; now and then from another file."""
    copies: list[Copy] = []
    source, start, at = Stored(b"", "first"), 4, 4
    for number, (size, first, last, elsewhere) in enumerate(chunks):
        if elsewhere:
            source, start = Stored(b"", str(number)), 4
        copies.append(Copy(Range(source, start, size, min(first, size), min(last, size)), at))
        start, at = start + size, at + size
    return copies


def inside(place: CopiedRange, copies: Sequence[Copy]) -> bool:
    """Whether each byte of a place was copied from where it says."""
    left = place.size
    for copy in copies:
        low, high = max(place.at, copy.at), min(place.at + place.size, copy.at + copy.origin.size)
        if low < high:
            assert place.path == copy.origin.source.path
            assert place.at - place.start == copy.at - copy.origin.start
            left -= high - low
    return left == 0


EXTENTS = [NEAR, *map(far_extent, (1, 12, 100))]


@supposing(st.lists(SIZES, min_size=1, max_size=60), st.sampled_from(EXTENTS), st.integers(0, 2**32))
def test_the_sample(chunks: list[tuple[int, int, int, bool]], extent: Extent, phase: int) -> None:
    copies = laid_out(chunks)
    places = sampled(copies, extent, phase=phase)
    assert all(inside(place, copies) for place in places)
    assert sorted(places, key=lambda place: place.at) == places
    assert 0 < len(set(places)) == len(places) <= extent.ranges
    assert all(place.size <= 2 * extent.longest for place in places)
    ends = {copy.at for copy in copies} | {copy.at + copy.origin.size for copy in copies}
    assert all(any(place.at <= end <= place.at + place.size for end in ends) for place in places)


def test_all_ends_of_few_chunks() -> None:
    copies = laid_out([(MIB, 5000, 7000, number % 4 == 0) for number in range(20)])
    seen = sampled(copies, NEAR, phase=3)
    assert sum(place.size for place in seen) == 20 * 12_000
    assert len(seen) == 20 + 5  # the last page of a chunk and the first of the next are one place


@pytest.mark.parametrize("phase", [0, 1, 7, 12345])
def test_some_of_many_chunks_evenly_spread(phase: int) -> None:
    """One percent of the bytes, and a few places where each is a request."""
    copies = laid_out([(MIB // 2, 50_000, 50_000, False) for _ in range(1000)])
    whole = 1000 * MIB // 2
    seen = sampled(copies, NEAR, phase=phase)
    assert 0.008 * whole < sum(place.size for place in seen) < 0.012 * whole
    far = sampled(copies, far_extent(50), phase=phase)
    assert len(far) == 4
    gaps = [other.at - one.at for one, other in itertools.pairwise(far)]
    assert max(gaps) < 1.1 * min(gaps)
