"""What the kernel cannot do is told in one line: whether another method may try, and which file is to blame."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icepact.execute.assemble import task
from icepact.execute.assemble.kernel import assemble
from icepact.execute.assemble.messages import UnitReport, UnitWork
from icepact.execute.assemble.task import run_units
from icepact.execute.deletes.cache import DeleteCache
from icepact.execute.rewriters.assemble import AssembleRewriter
from icepact.execute.rewriters.base import Failed, Refused
from icepact.execute.storage.base import Source, StorageUnavailable
from icepact.execute.storage.open import TableStorage
from tests.support.kernel import COPY, Kernel, column, given, rows_of, stored, struct
from tests.support.spoilt import (
    fewer_values,
    footer_damaged,
    gone,
    index_beyond_dictionary,
    no_footer,
    page_unreadable,
    shorter,
)

ID, S = stored(1, "id", pa.int64()), stored(2, "s", pa.string())
SCHEMA = struct(column(1, "id", "long"), column(2, "s", "string"))


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(folder=tmp_path, schema=SCHEMA)


def outputs(kernel: Kernel) -> list[str]:
    """What is there of outputs, finished or not."""
    return sorted(path.name for path in kernel.folder.iterdir() if "out" in path.name)


# -- another method may try -------------------------------------------------------------------------


def test_what_was_not_thought_of_is_refused(tmp_path: Path) -> None:
    """A year that Python's dates do not have."""
    schema = struct(column(1, "id", "long"), column(3, "day", "date"))
    kernel = Kernel(folder=tmp_path, schema=schema, identity=(3,))
    files = [given(kernel.file(f"f{n}", rows_of({ID: [n]})), partition=("+12000-01-01",)) for n in range(2)]
    report = kernel.run(*files)
    assert (report.outputs, report.failed) == ((), None)
    assert report.refused is not None
    assert "12000" in report.refused
    assert outputs(kernel) == []


def test_a_scheme_that_only_others_know_is_refused(kernel: Kernel) -> None:
    file = replace(given(kernel.file("f", rows_of({ID: [1], S: ["a"]}))), path="oss://bucket/f.parquet")
    report = kernel.run(file)
    assert (report.outputs, report.failed) == ((), None)
    assert report.refused is not None
    assert "oss" in report.refused


# -- nobody can -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [{}, COPY], ids=["encode", "copy"])
@pytest.mark.parametrize("spoil", [gone, shorter, footer_damaged, no_footer])
def test_a_spoilt_file_is_named(tmp_path: Path, spoil: Callable[[Path], None], way: dict[str, Any]) -> None:
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, writing=way)
    good, bad = (kernel.file(name, rows_of({ID: [1], S: ["a" * 200]})) for name in ("good", "bad"))
    files = given(good), given(bad)
    spoil(bad)
    report = kernel.run(*files)
    assert (report.outputs, report.refused) == ((), None)
    assert report.failed is not None
    assert str(bad) in report.failed
    assert outputs(kernel) == []


def test_a_delete_file_that_is_gone_is_named(kernel: Kernel) -> None:
    path = kernel.file("f", rows_of({ID: [1], S: ["a"]}))
    delete = kernel.equality_delete("bad", rows_of({ID: [1]}))
    Path(delete.path).unlink()
    report = kernel.run(given(path, deletes=[delete]))
    assert (report.outputs, report.refused) == ((), None)
    assert report.failed is not None
    assert delete.path in report.failed


def test_a_delete_file_that_is_spoilt_is_named(kernel: Kernel) -> None:
    """Others may know a form that pyarrow does not; no row comes back meanwhile."""
    path = kernel.file("f", rows_of({ID: [1], S: ["a"]}))
    delete = kernel.equality_delete("bad", rows_of({ID: [1]}))
    footer_damaged(Path(delete.path))
    report = kernel.run(given(path, deletes=[delete]))
    assert (report.outputs, report.failed) == ((), None)
    assert report.refused is not None
    assert delete.path in report.refused


def test_a_file_whose_pages_are_spoilt_is_named(kernel: Kernel) -> None:
    """Others may read them, or say why not."""
    good, bad = (kernel.file(name, rows_of({ID: [1], S: ["a" * 200]}), compression="zstd") for name in ("good", "bad"))
    data = bytearray(bad.read_bytes())
    at = data.index(b"\x28\xb5\x2f\xfd")  # a frame of zstd begins
    data[at : at + 4] = b"\xaa" * 4
    bad.write_bytes(data)
    report = kernel.run(good, bad)
    assert (report.outputs, report.failed) == ((), None)
    assert report.refused is not None
    assert str(bad) in report.refused
    assert outputs(kernel) == []


@pytest.mark.parametrize("batch_rows", [2**20, 2])
def test_a_file_with_fewer_rows_than_it_says_is_named(tmp_path: Path, batch_rows: int) -> None:
    """Not even pyarrow notices."""
    kernel = Kernel(folder=tmp_path, schema=struct(column(1, "id", "long")), writing={"batch_rows": batch_rows})
    good, bad = (kernel.file(n, rows_of({ID: [1, 2, 3]}), use_dictionary=False) for n in ("good", "bad"))
    fewer_values(bad)
    assert pq.read_table(bad).num_rows == 2
    report = kernel.run(good, bad)
    assert (report.outputs, report.failed) == ((), None)
    assert report.refused == f"{bad}: 2 rows of a row group of 3 can be read"
    assert outputs(kernel) == []


@pytest.mark.parametrize("spoil", [page_unreadable, fewer_values])
def test_a_file_whose_keys_are_spoilt_is_named(kernel: Kernel, spoil: Callable[[Path], None]) -> None:
    path = kernel.file("bad", rows_of({ID: [1, 2, 3], S: ["a"] * 3}), use_dictionary=False, compression="none")
    spoil(path)
    report = kernel.run(given(path, deletes=[kernel.equality_delete("d", rows_of({ID: [2]}))]))
    assert (report.outputs, report.failed) == ((), None)
    assert report.refused is not None
    assert str(path) in report.refused
    assert "\n" not in report.refused
    assert outputs(kernel) == []


@pytest.mark.parametrize("kind", [pa.string(), pa.int64()], ids=str)
@pytest.mark.parametrize("batch_rows", [2**20, 999])
def test_a_row_whose_value_its_dictionary_lacks_is_named(tmp_path: Path, kind: pa.DataType, batch_rows: int) -> None:
    """Its index would be taken for a place in memory, and the row would get whatever is there."""
    kernel = Kernel(
        folder=tmp_path,
        schema=struct(column(1, "n", "string" if kind == pa.string() else "long")),
        writing={"codec": "uncompressed", "level": None, "batch_rows": batch_rows},
    )
    few = rows_of({stored(1, "n", kind): pa.array([n * 7919 % 5 for n in range(20_000)]).cast(kind)})
    path = kernel.file("bad", few, compression="none")
    index_beyond_dictionary(path)
    report = kernel.run(given(path, deletes=[kernel.vector("d", path, [0])]))
    assert (report.outputs, report.failed) == ((), None)
    assert report.refused is not None
    assert str(path) in report.refused
    assert outputs(kernel) == []


# -- nothing is left behind -------------------------------------------------------------------------


class Unreadable(TableStorage):
    """Storage from which one output cannot be read back."""

    def __init__(self, number: int) -> None:
        super().__init__({}, ())
        self._number = number
        self.seen: list[str] = []

    def open(self, path: str, size: int) -> Source:
        """A file to read, unless it is that one."""
        if "/out-" in path:
            assert Path(path).stat().st_size == size  # it was published
            self.seen.append(path)
            if len(self.seen) > self._number:
                raise StorageUnavailable(f"{path}: no answer")
        return super().open(path, size)


@pytest.mark.parametrize("number", [0, 1], ids=["first", "second"])
def test_an_output_that_cannot_be_looked_at_is_deleted(tmp_path: Path, number: int) -> None:
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, writing=COPY)
    files = tuple(given(kernel.file(f"f{n}", rows_of({ID: [n], S: ["a"]}))) for n in range(3))
    work = UnitWork(unit_id="u", inputs=files, output=str(tmp_path / "out"), max_file_size=1)
    storage = Unreadable(number)
    with pytest.raises(StorageUnavailable):
        assemble(work, kernel.context, storage, DeleteCache(lambda _: b""), "0")
    assert len(storage.seen) == number + 1
    assert outputs(kernel) == []


@pytest.mark.parametrize("last", [False, True], ids=["another try", "the last try"])
def test_units_of_one_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: bool) -> None:
    """The second of three gets no answer: all will be tried again, or it alone has failed."""
    kernel = Kernel(folder=tmp_path, schema=SCHEMA, writing=COPY)
    files = [given(kernel.file(f"f{n}", rows_of({ID: [n], S: ["a"]}))) for n in range(3)]
    works = [
        UnitWork(unit_id=f"u{n}", inputs=(file,), output=str(tmp_path / f"out-{n}"), max_file_size=2**40)
        for n, file in enumerate(files)
    ]
    storage = Unreadable(1)
    storage_open = storage.open

    def answers_again(path: str, size: int) -> Source:
        if "/out-2" in path:
            return TableStorage.open(storage, path, size)
        return storage_open(path, size)

    monkeypatch.setattr(storage, "open", answers_again)
    monkeypatch.setattr(task, "storage_for", lambda *_: storage)
    reports = run_units(works, kernel.context, "0", last=last)
    if last:
        assert [report.failed is None for report in reports] == [True, False, True]
        assert outputs(kernel) == ["out-0-0-0.parquet", "out-2-0-0.parquet"]
    else:
        with pytest.raises(StorageUnavailable):
            list(reports)
        assert outputs(kernel) == []


# -- nothing is told that is secret -----------------------------------------------------------------

SECRETS = "http://me:hunter2@host/f?X-Amz-Credential=AKIA1, s3.secret-access-key=s3cr3t"


@pytest.mark.parametrize(
    ("report", "kind"),
    [(UnitReport(unit_id="u", refused=SECRETS), Refused), (UnitReport(unit_id="u", failed=SECRETS), Failed)],
    ids=["refused", "failed"],
)
def test_reasons_are_masked(report: UnitReport, kind: type[Refused | Failed]) -> None:
    task: Any = None  # of no importance for a unit that has no outputs
    result = object.__new__(AssembleRewriter)._result(task, report)
    assert isinstance(result, kind)
    assert "host/f" in result.reason
    assert [word for word in ("hunter2", "AKIA1", "s3cr3t") if word in result.reason] == []


def test_signatures_are_masked() -> None:
    """With it, everybody may use a signed address."""
    task: Any = None
    signed = UnitReport(unit_id="u", failed="https://host/f?X-Amz-Expires=60&X-Amz-Signature=0a1b2c: 403")
    result = object.__new__(AssembleRewriter)._result(task, signed)
    assert isinstance(result, Failed)
    assert "host/f" in result.reason
    assert "0a1b2c" not in result.reason
