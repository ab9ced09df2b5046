"""Deletes of inputs written anew as deletes of outputs: readers of these see what they would see of the inputs."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given as supposing
from hypothesis import strategies as st

from icepact.execute import late_deletes
from icepact.execute.assemble.messages import InputFile, UnitReport
from icepact.execute.deletes.cache import DeleteCache
from icepact.execute.late_deletes import LateDeletes
from icepact.execute.rewriters.base import UnitResult
from icepact.model.files import DeleteFile, DeleteKind
from icepact.model.late_deletes import HeadDeletes, NotCarried
from icepact.model.methods import Method
from icepact.model.plan import Unit
from icepact.model.rewrite import WrittenFile
from tests.support.kernel import COPY, Kernel, column, given, rows_of, stored, struct
from tests.support.states import data_file, delete_file

ID = stored(1, "id", pa.int64())
SCHEMA = struct(column(1, "id", "long"))
ROWS = 100
POSITIONS = st.frozensets(st.integers(0, ROWS - 1), max_size=30)


@pytest.fixture(scope="module", autouse=True)
def _local_files() -> Iterator[None]:
    """No table says how its files are reached."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(late_deletes, "write_context", lambda table, columns: SimpleNamespace(io={}, credentials=()))
        yield


class Case:
    """One unit that was assembled of some files, each with some rows deleted before."""

    def __init__(
        self, folder: Path, version: int, before: Sequence[frozenset[int]], most: int = 2**40, *, carries: bool = False
    ) -> None:
        self.folder, self.version = folder, version
        self.kernel = Kernel(
            folder=folder, schema=SCHEMA, writing=COPY, max_file_size=most, lineage=version > 2, carries=carries
        )
        self.paths = [
            self.kernel.file(f"f{n}", rows_of({ID: range(n * ROWS, (n + 1) * ROWS)}), row_group_size=17)
            for n in range(len(before))
        ]
        self.deletes = [self.deletes_of(n, positions, "before") for n, positions in enumerate(before)]
        inputs = [
            given(path, deletes=deletes, first_row_id=n * ROWS)
            for n, (path, deletes) in enumerate(zip(self.paths, self.deletes, strict=True))
        ]
        self.report = self.kernel.run(*inputs)
        self.files_heard: list[str] = []
        self.hit_by_key: frozenset[int] = frozenset()
        """Positions, in any file, that its equality deletes delete."""

    def deletes_of(self, number: int, positions: frozenset[int], word: str) -> list[DeleteFile]:
        """A delete of rows of an input."""
        if not positions:
            return []
        write = self.kernel.vector if self.version > 2 else self.kernel.position_delete
        return [write(f"{word}-{number}", self.paths[number], sorted(positions))]

    def carry(self, changed: dict[str, HeadDeletes], *, row_map: bool = True, **of_a_file: Any) -> Any:
        """What becomes of these deletes."""
        self.asked: list[InputFile] = []

        def find_by_key(files: Sequence[InputFile]) -> dict[str, Any]:
            self.asked += files
            return {file.path: np.array(sorted(self.hit_by_key), dtype=np.int64) for file in files}

        files = [
            data_file(str(path), path.stat().st_size, **{"rows": ROWS, "first_row_id": n * ROWS, **of_a_file})
            for n, path in enumerate(self.paths)
        ]
        step: Any = SimpleNamespace(group_id="g1", units=(Unit(files=tuple(files)),))
        plan: Any = SimpleNamespace(rewrites=(step,), format_version=self.version)
        staging: Any = SimpleNamespace(table=None, output_path=lambda unit_id: str(self.folder / f"out-{unit_id}"))
        results = {"g1-0": result_of(self.report, row_map=row_map)}
        return LateDeletes(staging, plan, results, self.files_heard.append, find_by_key).carry("g1", changed)

    def seen(self, documents: Sequence[Any]) -> list[int]:
        """Ids that readers of the outputs see with these deletes."""
        kept: list[int] = []
        for output in self.report.outputs:
            mine = [described(d) for d in documents if d["referenced-data-file"] == output.path]
            assert len(mine) <= 1
            gone = DeleteCache(fetched).positions(mine, output.path)
            kept += np.delete(pq.read_table(output.path)["id"].to_numpy(), gone).tolist()
        return sorted(kept)


def result_of(report: UnitReport, *, row_map: bool) -> UnitResult:
    documents = [
        {
            **{"file-path": o.path, "file-size-in-bytes": o.size, "record-count": o.rows, "spec-id": 0},
            **{"partition": [], "file-format": "parquet"},
        }
        for o in report.outputs
    ]
    return UnitResult(
        rows_observed=report.rows_read - report.rows_deleted,
        files=[WrittenFile.described(document) for document in documents],
        documents=documents,
        method=Method.ASSEMBLE if row_map else Method.SPARK,
        row_map=report.row_map if row_map else None,
        deletes=[delete.to_json(0, ()) for delete in report.deletes],
    )


def described(document: Any) -> DeleteFile:
    vector = document["file-format"] == "puffin"
    return delete_file(
        document["file-path"],
        DeleteKind.DV if vector else DeleteKind.POSITION,
        size=document["content-size-in-bytes"] if vector else document["file-size-in-bytes"],
        file_size=document["file-size-in-bytes"],
        records=document["record-count"],
        offset=document.get("content-offset"),
        referenced=document["referenced-data-file"],
        format=document["file-format"],
    )


def fetched(delete: DeleteFile) -> bytes:
    start = delete.offset or 0
    return Path(delete.path).read_bytes()[start : start + delete.size]


@supposing(
    before=st.lists(POSITIONS, min_size=1, max_size=3),
    late=st.lists(POSITIONS, min_size=3, max_size=3),
    version=st.sampled_from([2, 3]),
    most=st.sampled_from([1500, 2**40]),
    carries=st.booleans(),
)
def test_readers_see_of_the_outputs_what_they_would_see_of_the_inputs(
    before: list[frozenset[int]], late: list[frozenset[int]], version: int, most: int, carries: bool
) -> None:
    """Vectors are replaced by larger ones, files of position deletes come beside those of before. What was carried is
    said once more by new deletes, or by those that there were."""
    with tempfile.TemporaryDirectory() as folder:
        case = Case(Path(folder), version, before, most, carries=carries)
        changed: dict[str, HeadDeletes] = {}
        left = set(range(len(before) * ROWS))
        for number, (then, new) in enumerate(zip(before, late, strict=False)):
            left -= {number * ROWS + position for position in then | new}
            if new:
                vector = version > 2
                now = case.deletes_of(number, then | new if vector else new, "late")
                applying = now if vector else [*case.deletes[number], *now]
                changed[str(case.paths[number])] = HeadDeletes(applying, replaced=vector and bool(then))
        found = case.carry(changed)
        assert not isinstance(found, NotCarried), found
        assert case.seen(found) == sorted(left)
        own = {delete.path for delete in case.report.deletes}
        fresh = [document for document in found if document["file-path"] not in own]
        assert sorted({document["file-path"] for document in fresh}) == sorted(case.files_heard)
        assert len(case.files_heard) == (len(fresh) if version < 3 else min(1, len(fresh)))


@pytest.mark.parametrize("carries", [False, True])
@pytest.mark.parametrize("version", [2, 3])
def test_a_row_that_is_not_deleted_any_more_is_not_lost(tmp_path: Path, version: int, carries: bool) -> None:
    """Somebody replaced a delete by one that says less: outputs lack the row, or their deletes hide it."""
    case = Case(tmp_path, version, [frozenset({1, 2})], carries=carries)
    now = case.deletes_of(0, frozenset({2, 3}), "late")
    why = case.carry({str(case.paths[0]): HeadDeletes(now, replaced=True)})
    useless = frozenset(output.path for output in case.report.outputs)
    assert why == NotCarried(f"rows of {case.paths[0]} that were deleted are not any more", useless)
    assert case.files_heard == []


@pytest.mark.parametrize("version", [2, 3])
def test_a_position_beyond_the_file_is_refused(tmp_path: Path, version: int) -> None:
    case = Case(tmp_path, version, [frozenset()])
    now = case.deletes_of(0, frozenset({2, ROWS}), "late")
    why = case.carry({str(case.paths[0]): HeadDeletes(now, replaced=False)})
    assert why == NotCarried(f"they cannot be taken along: positions 2 to {ROWS} are not within {ROWS} rows")


def test_a_damaged_vector_is_refused(tmp_path: Path) -> None:
    case = Case(tmp_path, 3, [frozenset()])
    [now] = case.deletes_of(0, frozenset({2, 5}), "late")
    data = bytearray(Path(now.path).read_bytes())
    data[-1] ^= 1
    Path(now.path).write_bytes(data)
    why = case.carry({str(case.paths[0]): HeadDeletes([now], replaced=False)})
    assert "its checksum does not fit" in why.reason


def test_two_vectors_of_one_file_are_refused(tmp_path: Path) -> None:
    case = Case(tmp_path, 3, [frozenset()])
    now = [*case.deletes_of(0, frozenset({2}), "one"), *case.deletes_of(0, frozenset({3}), "other")]
    why = case.carry({str(case.paths[0]): HeadDeletes(now, replaced=False)})
    assert "has 2 deletion vectors" in why.reason


@pytest.mark.parametrize("version", [2, 3])
def test_where_nothing_tells_where_rows_are(tmp_path: Path, version: int) -> None:
    case = Case(tmp_path, version, [frozenset()])
    now = case.deletes_of(0, frozenset({2}), "late")
    why = case.carry({str(case.paths[0]): HeadDeletes(now, replaced=False)}, row_map=False)
    useless = frozenset(output.path for output in case.report.outputs)
    assert why == NotCarried("method spark does not tell where rows are", useless)


def test_a_map_of_other_files_is_not_believed(tmp_path: Path) -> None:
    case = Case(tmp_path, 2, [frozenset()])
    now = case.deletes_of(0, frozenset({2}), "late")
    why = case.carry({str(case.paths[0]): HeadDeletes(now, replaced=False)}, rows=ROWS + 1)
    assert why.reason == "what tells where rows are is of other files"


def test_too_much_is_left_to_the_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(late_deletes, "MOST_ROWS", 3)
    case = Case(tmp_path, 2, [frozenset()])
    now = case.deletes_of(0, frozenset({2, 3, 4, 5}), "late")
    assert "or 3 rows" in case.carry({str(case.paths[0]): HeadDeletes(now, replaced=False)}).reason


@pytest.mark.parametrize("carries", [False, True])
@pytest.mark.parametrize("replaced", [False, True])
def test_rows_of_equality_deletes_are_deleted_by_position(tmp_path: Path, replaced: bool, carries: bool) -> None:
    """Together with those of position deletes; where a delete was replaced, they count as deleted, too."""
    case = Case(tmp_path, 3, [frozenset({1, 2}), frozenset()], carries=carries)
    key = delete_file("keys", DeleteKind.EQUALITY, equality_ids=(1,))
    now = case.deletes_of(0, frozenset({2, 3} if replaced else {1, 2, 3}), "late")
    case.hit_by_key = frozenset({1, 7})
    found = case.carry({str(case.paths[0]): HeadDeletes([*now, key], True, [key])})
    assert case.seen(found) == sorted(set(range(2 * ROWS)) - {1, 2, 3, 7})
    assert [(file.path, file.deletes) for file in case.asked] == [(str(case.paths[0]), (key,))]


def test_keys_are_not_looked_for_in_vain(tmp_path: Path) -> None:
    """Where rows are is asked first."""
    case = Case(tmp_path, 2, [frozenset()])
    key = delete_file("keys", DeleteKind.EQUALITY, equality_ids=(1,))
    assert isinstance(case.carry({str(case.paths[0]): HeadDeletes([key], False, [key])}, row_map=False), NotCarried)
    assert case.asked == []
