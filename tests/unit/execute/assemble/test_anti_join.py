"""Keys that are joined outside of a task: what tasks read and write, Python in Spark's place, against every row."""

import math
import struct as packing
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given as examples
from hypothesis import strategies as st

from icepact.execute.assemble import anti_join
from icepact.execute.assemble.anti_join import deleted_keys, make_join, row_keys, write_found
from icepact.execute.assemble.convert import deleted_by_key
from icepact.execute.assemble.deleted import DeletedRows
from icepact.execute.assemble.input_view import InputView
from icepact.execute.assemble.messages import InputFile, JoinContext, Unjoined
from icepact.execute.assemble.target import no_columns
from icepact.execute.assemble.task import fetch
from icepact.execute.deletes.cache import DeleteCache
from icepact.execute.storage.local import LocalStorage
from icepact.model.errors import TemporaryError
from icepact.model.files import DeleteFile, DeleteKind, ManifestBounds
from tests.support.kernel import Kernel, column, given, rows_of, stored, struct
from tests.support.states import delete_file

FIELDS = ((1, "id", pa.int64(), "long"), (2, "num", pa.float64(), "double"), (3, "word", pa.string(), "string"))
SCHEMA = struct(*(column(number, name, kind) for number, name, _, kind in FIELDS))
NUMBERS = st.sampled_from([None, 0.0, -0.0, math.nan, 1.5])
WORDS = st.sampled_from([None, "", "a", "b"])
ROW = st.tuples(st.integers(0, 4) | st.none(), NUMBERS, WORDS)
KEYS = st.sampled_from([(0,), (1,), (2,), (0, 1), (1, 2), (0, 1, 2)])
PLACES = st.sampled_from([(0, ()), (1, ("a",)), (1, ("b",))])
"""Of files and deletes: spec 0 has no partitions."""
STORAGE = LocalStorage()


def joined(context: JoinContext) -> tuple[dict[str, DeleteFile], list[Unjoined]]:
    """What Spark does with keys: the newest delete of each, and all rows of data files that are older."""
    notes: list[Unjoined] = []
    newest: dict[tuple[bytes, int], int] = {}
    for batch in deleted_keys(range(len(context.deletes)), context, lambda d: fetch(STORAGE, d), notes.append):
        for row in batch.to_pylist():
            at = row["key"], row["source"]
            newest[at] = max(newest.get(at, 0), row["number"])
    by_key: dict[bytes, list[tuple[int, int]]] = {}
    for (key, source), number in newest.items():
        by_key.setdefault(key, []).append((source, number))
    found = [
        {"file": row["file"], "pos": row["pos"], "source": source}
        for batch in row_keys(range(len(context.files)), context, STORAGE, notes.append)
        for row in batch.to_pylist()
        for source, number in by_key.get(row["key"], ())
        if number > row["number"]
    ]
    found.sort(key=lambda row: (row["file"], row["pos"]))
    schema = pa.schema([("file", pa.int32()), ("pos", pa.int64()), ("source", pa.int32())])
    batches = [pa.RecordBatch.from_pylist(found[n : n + 5], schema=schema) for n in range(0, len(found), 5)]
    vectors = {}
    for each in write_found(batches, context, STORAGE, f"{context.output}-0"):
        v = each.vector
        where = {"offset": v.offset, "size": v.size, "file_size": v.file_size, "format": "puffin"}
        file = context.files[each.file].file
        assert v.referenced == file.path
        vectors[file.path] = delete_file(v.path, DeleteKind.DV, records=v.positions, referenced=v.referenced, **where)
    return vectors, notes


def join_of(kernel: Kernel, *files: InputFile, **bounds: ManifestBounds) -> JoinContext:
    context = replace(kernel.context, identity={0: kernel.identity, 1: (None,)})
    return make_join(files, context, bounds, str(kernel.folder / f"keys-{context.run_id}"))


def positions(vectors: dict[str, DeleteFile], path: str) -> list[int]:
    if path not in vectors:
        return []
    found = DeleteCache(lambda delete: fetch(STORAGE, delete)).positions([vectors[path]], path)
    return [int(position) for position in found]


def same(one: Any, other: Any) -> bool:
    """As Iceberg compares keys."""
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return packing.pack("<d", one) == packing.pack("<d", other)
    return bool(one == other)


def table(rows: Sequence[tuple[Any, ...]], columns: Sequence[int] = (0, 1, 2)) -> pa.Table:
    fields = {n: stored(FIELDS[n][0], FIELDS[n][1], FIELDS[n][2]) for n in columns}
    return rows_of({fields[n]: [row[n] for row in rows] for n in columns})


@examples(
    files=st.lists(st.tuples(st.lists(ROW, max_size=20), PLACES, st.integers(1, 6)), min_size=1, max_size=4),
    deletes=st.lists(st.tuples(KEYS, st.lists(ROW, max_size=6), PLACES, st.integers(1, 7)), min_size=1, max_size=6),
    rows_in_group=st.integers(1, 9),
    most_waiting=st.sampled_from([1, 4_000_000]),
)
def test_every_row_with_a_newer_delete_in_reach(
    tmp_path_factory: pytest.TempPathFactory,
    files: Sequence[tuple[Sequence[tuple[Any, ...]], tuple[int, tuple[Any, ...]], int]],
    deletes: Sequence[tuple[tuple[int, ...], Sequence[tuple[Any, ...]], tuple[int, tuple[Any, ...]], int]],
    rows_in_group: int,
    most_waiting: int,
) -> None:
    """Keys of any columns, the same again and again, in partitions and everywhere; as lookups find them."""
    kernel = Kernel(folder=tmp_path_factory.mktemp("t"), schema=SCHEMA)
    written = [
        kernel.equality_delete(f"d{n}", table(rows, ids))._replace(
            spec_id=spec, partition=partition, sequence_number=number
        )
        for n, (ids, rows, (spec, partition), number) in enumerate(deletes)
    ]
    inputs, expected = [], []
    for number, (rows, (spec, partition), sequence) in enumerate(files):
        path = kernel.file(f"f{number}", table(rows), row_group_size=rows_in_group)
        apply = [
            n
            for n, (_, _, (delete_spec, delete_partition), newer) in enumerate(deletes)
            if newer > sequence and (delete_spec == 0 or (delete_spec, delete_partition) == (spec, partition))
        ]
        mine = [written[n] for n in apply]
        inputs.append(given(path, deletes=mine, sequence_number=sequence, spec_id=spec, partition=partition))
        hit = [
            at
            for at, row in enumerate(rows)
            if any(all(same(row[i], key[i]) for i in deletes[n][0]) for n in apply for key in deletes[n][1])
        ]
        expected.append(hit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(anti_join, "MOST_WAITING", most_waiting)
        vectors, notes = joined(join_of(kernel, *inputs))
    assert notes == []
    assert [positions(vectors, file.path) for file in inputs] == expected
    context = replace(kernel.context, identity={0: (), 1: (None,)})
    cache = DeleteCache(lambda delete: fetch(STORAGE, delete))
    for file, hit in zip(inputs, expected, strict=True):
        assert deleted_by_key(file, context, STORAGE, cache).tolist() == hit
        known = replace(file, deletes=(), by_key=vectors.get(file.path))
        assert deleted_by_key(known, context, STORAGE, cache).tolist() == hit


def test_columns_of_other_times(tmp_path: Path) -> None:
    """Widened, added with a default, and dropped since; a partition value stands for what the file holds."""
    kernel = Kernel(
        folder=tmp_path,
        schema=struct(column(1, "id", "long"), column(4, "kind", "string", default="new"), column(5, "day", "int")),
        older=[struct(column(1, "id", "int"), column(9, "gone", "int"))],
        identity=(5,),
    )
    old = kernel.file(
        "old",
        rows_of({stored(1, "id", pa.int32()): [1, 2, 3, 4], stored(9, "gone", pa.int32()): [None, 7, 8, 9]}),
    )
    deletes = [
        kernel.equality_delete(
            "a", rows_of({stored(1, "id", pa.int64()): [1], stored(4, "kind", pa.string()): ["new"]})
        ),
        kernel.equality_delete(
            "b", rows_of({stored(1, "id", pa.int64()): [2], stored(4, "kind", pa.string()): [None]})
        ),
        kernel.equality_delete("c", rows_of({stored(9, "gone", pa.int32()): [8]})),
        kernel.equality_delete("d", rows_of({stored(1, "id", pa.int64()): [4], stored(5, "day", pa.int32()): [20]})),
    ]
    file = given(old, deletes=deletes, partition=(20,))
    vectors, notes = joined(join_of(kernel, file))
    assert (positions(vectors, file.path), notes) == ([0, 2, 3], [])


def test_a_delete_that_readers_pass_over(tmp_path: Path) -> None:
    """NaN is in no bounds: a delete with NaN whose other keys miss a file's is not attached to it by a scan, and
    another of the same key is."""
    kernel = Kernel(folder=tmp_path, schema=SCHEMA)
    path = kernel.file("f", table([(0, math.nan, "a"), (1, 1.5, "b")]))
    passed, attached = (
        kernel.equality_delete(name, table([(None, value, None) for value in values], (1,)))
        for name, values in (("p", [math.nan, 9.0]), ("q", [1.5]))
    )
    other = kernel.file("g", table([(0, math.nan, "a"), (1, 9.0, "b")]))
    files = given(path, deletes=[attached]), given(other, deletes=[passed, attached])
    vectors, _ = joined(join_of(kernel, *files))
    assert [positions(vectors, file.path) for file in files] == [[1], [0, 1]]


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Damaged files for good; what another method can read is left to it. The others are joined."""
    kernel = Kernel(folder=tmp_path, schema=SCHEMA)
    good, lying, strange = (
        kernel.equality_delete(name, table([(n, None, None)], (0,))) for n, name in enumerate("abc")
    )
    long = packing.Struct("<q").pack
    bounds = {lying.path: ManifestBounds(lower={1: long(5)}, upper={1: long(9)}, nulls={}, values={})}
    strange = strange._replace(equality_ids=(77,))
    rows = table([(n, None, None) for n in range(3)])
    fine = given(kernel.file("f", rows), deletes=[good, lying])
    odd = given(kernel.file("o", rows), deletes=[good, strange])
    cut = given(kernel.file("g", rows), deletes=[good])
    Path(cut.path).write_bytes(Path(cut.path).read_bytes()[:-1] + b"x")
    counted = given(kernel.file("h", rows), deletes=[good], rows=17)
    context = kernel.context
    join = make_join([fine, odd, cut, counted], context, bounds, str(tmp_path / "keys"))
    vectors, notes = joined(join)
    assert positions(vectors, fine.path) == [0]
    assert {note.path: note.for_good for note in notes} == {
        lying.path: True,
        strange.path: False,
        odd.path: False,
        cut.path: True,
        counted.path: False,
    }


def test_nothing_is_left_of_what_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anti_join, "MOST_WAITING", 1)
    kernel = Kernel(folder=tmp_path, schema=SCHEMA)
    delete = kernel.equality_delete("d", table([(1, None, None)], (0,)))
    files = [given(kernel.file(f"f{n}", table([(1, None, None)])), deletes=[delete]) for n in range(2)]
    context = join_of(kernel, *files)

    def found() -> Any:
        numbers = np.arange(2, dtype=np.int32)
        yield pa.RecordBatch.from_pydict(
            {"file": numbers, "pos": numbers.astype(np.int64), "source": numbers - 1 - numbers}
        )
        raise TemporaryError("the network went away")

    with pytest.raises(TemporaryError):
        list(write_found(found(), context, STORAGE, f"{context.output}-0"))
    assert list(tmp_path.glob("*.puffin")) == []


def test_row_groups_without_deleted_rows_stay_whole(tmp_path: Path) -> None:
    """Positions that were found before are applied row group by row group."""
    kernel = Kernel(folder=tmp_path, schema=SCHEMA)
    path = kernel.file("f", table([(n, None, None) for n in range(6)]), row_group_size=2)
    file = replace(given(path), by_key=kernel.vector("v", path, [3]))
    source = STORAGE.open(file.path, file.size)
    rows = DeletedRows(InputView(file, source, no_columns(), kernel.context), DeleteCache(lambda d: fetch(STORAGE, d)))
    kept = [None if keep is None else keep.tolist() for keep in (rows.keep(group) for group in range(3))]
    source.close()
    assert kept == [None, [True, False], None]
