"""Local files, and every other kind through PyIceberg, behave alike."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepact.execute.storage import base
from icepact.execute.storage.base import (
    MIB,
    FileDamaged,
    FileMissing,
    FileTaken,
    Meter,
    Storage,
    StorageError,
    StorageRefused,
    Traffic,
)
from icepact.execute.storage.local import LocalStorage, by_copy_file_range, by_sendfile, local_path
from icepact.execute.storage.open import storage_for
from icepact.execute.storage.pyiceberg_io import PyIcebergStorage
from icepact.model.errors import IcepactError, PermanentError, TemporaryError, Unsupported
from tests.unit.execute.storage.test_verbs import noise

KINDS: dict[str, Callable[[], Storage]] = {"local": LocalStorage, "other": lambda: PyIcebergStorage({}, "file:///")}


@pytest.fixture(params=list(KINDS))
def storage(request: pytest.FixtureRequest) -> Storage:
    """Each kind there is without a server."""
    return KINDS[request.param]()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of 100,000 bytes."""
    path = tmp_path / "in"
    path.write_bytes(noise(100_000))
    return path


# -- reading --------------------------------------------------------------------------------------


def test_reads_give_the_bytes_asked_for(storage: Storage, file: Path) -> None:
    source = storage.open(str(file), 100_000)
    content = file.read_bytes()
    source.preload([(0, 10), (500, 20)])
    assert source.read(0, 100_000) == content
    assert source.read(17, 4_000) == content[17:4_017]
    assert source.read(100_000, 0) == b""
    assert source.tail(8) == content[-8:]
    assert storage.traffic == Traffic(bytes_read=100_000 + 4_000 + 8)
    source.close()


def test_several_ranges_at_once(storage: Storage, file: Path) -> None:
    """In any order, and as they are now."""
    source = storage.open(str(file), 100_000)
    source.tail(50_000)
    content = noise(100_000, seed=9)
    file.write_bytes(content)
    ranges = [(90_000, 10_000), (0, 4), (50, 0), (2, 100)]
    assert source.gather(ranges) == [content[offset : offset + length] for offset, length in ranges]
    assert source.gather([]) == []
    assert source.far is isinstance(storage, PyIcebergStorage)
    source.close()


@pytest.mark.parametrize(("offset", "length"), [(-1, 5), (99_999, 2), (200_000, 1), (5, -1)])
def test_ranges_outside_the_file_are_refused(storage: Storage, file: Path, offset: int, length: int) -> None:
    source = storage.open(str(file), 100_000)
    outside = f"{file}: bytes {offset} to {offset + length} are not within its 100000"
    with pytest.raises(FileDamaged, match=outside):
        source.read(offset, length)
    with pytest.raises(FileDamaged, match=outside):
        source.gather([(0, 1), (offset, length)])
    source.close()


def test_a_tail_longer_than_the_file_is_refused(storage: Storage, file: Path) -> None:
    source = storage.open(str(file), 100_000)
    with pytest.raises(FileDamaged, match=str(file)):
        source.tail(100_001)
    source.close()


def test_a_missing_file_is_named(storage: Storage, tmp_path: Path) -> None:
    with pytest.raises(FileMissing, match=f"{tmp_path}/none"):
        storage.open(f"{tmp_path}/none", 10)


@pytest.mark.parametrize("told", [99_999, 100_001])
def test_another_size_than_the_table_says_is_damage(file: Path, told: int) -> None:
    with pytest.raises(FileDamaged, match=f"{file}: has 100000 bytes, the table says {told}"):
        LocalStorage().open(str(file), told)


def test_a_file_that_shrinks_under_the_reader_is_damage(storage: Storage, file: Path) -> None:
    source = storage.open(str(file), 100_000)
    os.truncate(file, 60_000)
    with pytest.raises(FileDamaged, match=str(file)):
        source.read(50_000, 50_000)
    source.close()


@pytest.mark.parametrize("ways", [[by_copy_file_range], [by_sendfile], []])
def test_a_copy_from_a_file_that_shrinks_is_damage(file: Path, tmp_path: Path, ways: list[Callable[..., int]]) -> None:
    storage = LocalStorage(ways=ways)
    source, sink = storage.open(str(file), 100_000), storage.create(f"{tmp_path}/out")
    os.truncate(file, 60_000)
    with pytest.raises(FileDamaged, match=str(file)):
        sink.copy(source, 0, 100_000)
    sink.abort()
    source.close()


def test_pyarrow_reads_through_the_source(storage: Storage, tmp_path: Path) -> None:
    table = pa.table({"a": list(range(50_000)), "b": [str(n) for n in range(50_000)]})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=7_000)
    source = storage.open(f"{tmp_path}/t.parquet", (tmp_path / "t.parquet").stat().st_size)
    file = pq.ParquetFile(source.arrow())
    assert pa.concat_tables(file.read_row_group(n) for n in range(8)) == table
    assert storage.traffic.bytes_read >= source.size
    source.close()


def test_local_files_are_not_mapped_into_memory(file: Path) -> None:
    """A mapped file would count as memory of the task, all of it."""
    source = LocalStorage().open(str(file), 100_000)
    opened = source.arrow()
    kept = opened.read_buffer(100_000)
    assert str(file) not in Path("/proc/self/maps").read_text()
    assert len(kept) == 100_000
    source.close()


# -- writing --------------------------------------------------------------------------------------


def test_parents_are_made_and_the_file_is_there_after_close(storage: Storage, tmp_path: Path) -> None:
    sink = storage.create(f"{tmp_path}/data/p=1/out")
    sink.append(b"one")
    sink.append(bytearray(b" two"))
    sink.append(memoryview(noise(3 * MIB)))
    sink.append(memoryview(pa.py_buffer(b" three")))
    sink.close()
    assert (tmp_path / "data/p=1/out").read_bytes() == b"one two" + noise(3 * MIB) + b" three"
    assert sink.position == 7 + 3 * MIB + 6
    assert storage.traffic == Traffic(bytes_written=sink.position)
    assert not sink.copies_server_side


def test_an_existing_file_is_never_written_to(storage: Storage, file: Path) -> None:
    with pytest.raises(FileTaken, match=str(file)):
        storage.create(str(file))
    assert file.read_bytes() == noise(100_000)


def test_an_aborted_file_is_gone_and_its_folder_stays(storage: Storage, tmp_path: Path) -> None:
    sink = storage.create(f"{tmp_path}/data/out")
    sink.append(noise(2 * MIB))
    sink.abort()
    sink.abort()
    assert list((tmp_path / "data").iterdir()) == []
    with pytest.raises(StorageError, match="is closed already"):
        sink.close()


def test_aborting_after_a_good_close_does_nothing(storage: Storage, tmp_path: Path) -> None:
    sink = storage.create(f"{tmp_path}/out")
    sink.append(b"kept")
    sink.close()
    sink.abort()
    assert (tmp_path / "out").read_bytes() == b"kept"


def test_a_name_is_free_again_after_an_abort(storage: Storage, tmp_path: Path) -> None:
    storage.create(f"{tmp_path}/out").abort()
    again = storage.create(f"{tmp_path}/out")
    again.append(b"second")
    again.close()
    assert (tmp_path / "out").read_bytes() == b"second"


def test_deleting_twice_is_no_error(storage: Storage, file: Path) -> None:
    storage.delete(str(file))
    assert not file.exists()
    storage.delete(str(file))


def test_a_folder_that_cannot_be_made_is_refused(file: Path) -> None:
    with pytest.raises(StorageRefused, match=f"{file}/below: no folder for it"):
        LocalStorage().create(f"{file}/below")


@pytest.mark.parametrize(
    ("ways", "expected"),
    [
        ([by_copy_file_range], Traffic(bytes_copied=99_000, bytes_written=4)),
        ([by_sendfile], Traffic(bytes_copied=99_000, bytes_written=4)),
        ([], Traffic(bytes_read=99_000, bytes_written=99_004)),
    ],
)
def test_copies_are_counted_by_the_way_they_went(
    file: Path, tmp_path: Path, ways: list[Callable[..., int]], expected: Traffic
) -> None:
    storage = LocalStorage(ways=ways)
    source, sink = storage.open(str(file), 100_000), storage.create(f"{tmp_path}/out")
    sink.append(b"PAR1")
    sink.copy(source, 1_000, 99_000)
    sink.close()
    source.close()
    assert (tmp_path / "out").read_bytes() == b"PAR1" + noise(100_000)[1_000:]
    assert storage.traffic == expected


def test_a_way_that_the_system_refuses_gives_way_to_the_next(file: Path, tmp_path: Path) -> None:
    """The kernel itself refuses: nothing can be copied or sent into a file that is open for appending only."""
    storage = LocalStorage()
    source, sink = storage.open(str(file), 100_000), storage.create(f"{tmp_path}/out")
    os.close(sink._handle)
    sink._handle = os.open(f"{tmp_path}/out", os.O_WRONLY | os.O_APPEND)
    sink.copy(source, 0, 100_000)
    sink.copy(source, 5, 10)
    sink.close()
    source.close()
    assert (tmp_path / "out").read_bytes() == noise(100_000) + noise(100_000)[5:15]
    assert storage.traffic == Traffic(bytes_read=100_010, bytes_written=100_010)


def test_a_file_is_copied_from_one_kind_of_storage_to_another(file: Path, tmp_path: Path) -> None:
    source = PyIcebergStorage({}, "file:///").open(str(file), 100_000)
    sink = LocalStorage().create(f"{tmp_path}/out")
    sink.copy(source, 10, 99_000)
    sink.close()
    source.close()
    assert (tmp_path / "out").read_bytes() == noise(100_000)[10:99_010]


# -- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/x/y", "/x/y"),
        ("file:/x/y", "/x/y"),
        ("file:///x/y", "/x/y"),
        ("file://localhost/x/y", "/x/y"),
        ("file:/x/p=a%2Fb/c d#e?f", "/x/p=a%2Fb/c d#e?f"),
    ],
)
def test_local_paths_are_taken_literally(path: str, expected: str) -> None:
    assert local_path(path) == expected


@pytest.mark.parametrize("path", ["x/y", "file:x", "file://elsewhere/x", "", "file:"])
def test_paths_that_are_not_local_are_refused(path: str) -> None:
    with pytest.raises(Unsupported, match="not an absolute local path"):
        local_path(path)


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_every_spelling_reaches_the_same_file(tmp_path: Path, form: str) -> None:
    storage = storage_for({})
    path = form.format(f"{tmp_path}/p=a%2Fb/100%.parquet")
    sink = storage.create(path)
    sink.append(b"bytes")
    sink.close()
    assert (tmp_path / "p=a%2Fb" / "100%.parquet").read_bytes() == b"bytes"
    source = storage.open(path, 5)
    assert source.read(0, 5) == b"bytes"
    source.close()
    storage.delete(path)
    assert list((tmp_path / "p=a%2Fb").iterdir()) == []


def test_checksum_files_of_hadoop_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".out.crc").write_bytes(b"crc")
    sink = LocalStorage().create(f"{tmp_path}/out")
    sink.abort()
    assert (tmp_path / ".out.crc").read_bytes() == b"crc"


def test_a_scheme_that_nothing_knows_is_refused() -> None:
    with pytest.raises(Unsupported, match="ftp://host/x: no way to reach it"):
        storage_for({}).open("ftp://host/x", 1)


# -- errors, counting and imports -----------------------------------------------------------------

ERRORS = [kind for kind in vars(base).values() if isinstance(kind, type) and issubclass(kind, StorageError)]


@pytest.mark.parametrize("kind", ERRORS)
def test_errors_survive_the_way_back_from_an_executor(kind: type[StorageError]) -> None:
    again = pickle.loads(pickle.dumps(kind("/x: gone")))
    assert (type(again), str(again)) == (kind, "/x: gone")
    assert issubclass(kind, IcepactError)
    assert kind.__name__ in (base.__doc__ or "")


def test_only_silence_is_worth_a_retry() -> None:
    assert {kind.__name__ for kind in ERRORS if issubclass(kind, TemporaryError)} == {"StorageUnavailable"}
    assert {kind.__name__ for kind in ERRORS if not issubclass(kind, TemporaryError | PermanentError)} == {
        "StorageError"
    }


def test_traffic_adds_up() -> None:
    meter = Meter()
    meter.add(requests=2, read=3)
    meter.add(written=5, copied=7)
    total = Traffic(requests=2, bytes_read=3, bytes_written=5, bytes_copied=7)
    assert meter.traffic == total
    meter.add(requests=3, writes=2)
    assert (meter.traffic.requests, meter.traffic.writes, (meter.traffic + meter.traffic).writes) == (5, 2, 4)
    assert total + total == Traffic(requests=4, bytes_read=6, bytes_written=10, bytes_copied=14)


def test_local_work_loads_neither_boto3_nor_pyiceberg_nor_spark() -> None:
    heavy = ["boto3", "botocore", "pyiceberg", "pyspark", "py4j", "pydantic"]
    program = (
        "import sys; from icepact.execute.storage.open import storage_for, refusal; refusal({}, [])\n"
        "storage_for({}).delete('/nowhere/at/all')\n"
        f"print(*(name for name in {heavy!r} if name in sys.modules))"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == []
