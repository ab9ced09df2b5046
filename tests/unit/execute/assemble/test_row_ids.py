"""Rows found by their ids: as the row map finds them, where nobody made one."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given as supposing
from hypothesis import strategies as st

from icepact.execute.assemble.row_ids import IdentifiedFile, locate_by_id
from icepact.execute.assemble.row_map import Located, locate
from icepact.execute.storage.local import LocalStorage
from tests.support.kernel import COPY, ROW_ID, Kernel, column, given, rows_of, stored, struct

ID, OWN = stored(1, "id", pa.int64()), stored(ROW_ID, "_row_id", pa.int64())
SCHEMA = struct(column(1, "id", "long"))


def identified(path: str | Path, first: int | None = None) -> IdentifiedFile:
    size, rows = Path(path).stat().st_size, pq.read_metadata(path).num_rows
    return IdentifiedFile(str(path), size, rows, first)


def plain(located: Located) -> tuple[Any, list[int]]:
    return {output: rows.tolist() for output, rows in located.moved.items()}, located.dropped.tolist()


@supposing(
    gone=st.frozensets(st.integers(0, 99), max_size=20),
    asked=st.frozensets(st.integers(0, 99)),
    number=st.integers(0, 2),
    most=st.sampled_from([3000, 2**40]),
)
def test_ids_say_what_the_row_map_says(
    tmp_path_factory: pytest.TempPathFactory, gone: frozenset[int], asked: frozenset[int], number: int, most: int
) -> None:
    folder = tmp_path_factory.mktemp("ids")
    kernel = Kernel(folder=folder, schema=SCHEMA, lineage=True, writing=COPY, max_file_size=most)
    # the second has ids of its own, as an output of an earlier rewrite, and lacks some
    own = [None if n % 3 == 0 else 5000 - n for n in range(100)]
    paths = [
        kernel.file("a", rows_of({ID: range(100)}), row_group_size=30),
        kernel.file("b", rows_of({ID: range(100), OWN: own}), row_group_size=30),
        kernel.file("c", rows_of({ID: range(100)}), row_group_size=100),
    ]
    firsts = [100, 1000, 2000]
    inputs = [given(path, first_row_id=first) for path, first in zip(paths, firsts, strict=True)]
    if gone:
        delete = kernel.position_delete("d", paths[number], sorted(gone))
        inputs[number] = given(paths[number], first_row_id=firsts[number], deletes=[delete])
    report = kernel.run(*inputs)
    assert report.row_map is not None
    outputs = [identified(written.path) for written in report.outputs]
    positions = np.array(sorted(asked), dtype=np.int64)
    by_id = locate_by_id(identified(paths[number], firsts[number]), positions, outputs, LocalStorage())
    assert plain(by_id) == plain(locate(report.row_map, number, positions))


@pytest.mark.parametrize(
    ("own", "output", "message"),
    [
        ([1, None, 3], [1, 2, 3], "rows without an id"),
        ([1, 2, 3], [1, None, 3], "rows without an id"),
        ([1, 2, 2], [1, 2], "two rows have one id"),
        ([1, 2, 3], [1, 2, 2, 3], "two rows of its outputs have one id"),
    ],
)
def test_ids_that_do_not_tell_are_refused(
    tmp_path: Path, own: list[int | None], output: list[int | None], message: str
) -> None:
    kernel = Kernel(folder=tmp_path, schema=SCHEMA)
    files = [identified(kernel.file(str(n), rows_of({OWN: ids}))) for n, ids in enumerate((own, output))]
    with pytest.raises(ValueError, match=message):
        locate_by_id(files[0], np.arange(3), files[1:], LocalStorage())


def test_a_file_of_before_an_upgrade_has_no_ids(tmp_path: Path) -> None:
    file = identified(Kernel(folder=tmp_path, schema=SCHEMA).file("f", rows_of({ID: range(3)})))
    with pytest.raises(ValueError, match="rows without an id"):
        locate_by_id(file, np.arange(3), [file], LocalStorage())
