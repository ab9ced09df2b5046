"""New delete files: what is written is read back, by us and by others, and what was damaged since is refused."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile

from icepact.execute.deletes import writing
from icepact.execute.deletes.errors import BrokenDelete
from icepact.execute.deletes.positions import read_positions
from icepact.execute.deletes.vectors import decode_vector
from icepact.execute.deletes.writing import WrittenDelete, write_positions, write_vectors
from icepact.execute.storage.local import LocalStorage
from icepact.model.files import DeleteFile, DeleteKind
from tests.support.states import delete_file

BY = "icepact version 0"
POSITIONS = st.frozensets(st.one_of(st.integers(0, 200_000), st.integers(0, 2**63 - 1)), min_size=1, max_size=60)


def array(positions: frozenset[int] | range) -> np.ndarray:
    return np.array(sorted(positions), dtype=np.int64)


def vectors_at(path: Path, rows: Mapping[str, np.ndarray]) -> list[WrittenDelete]:
    sink = LocalStorage().create(str(path))
    deletes = write_vectors(sink, rows, created_by=BY)
    sink.close()
    return deletes


def described(delete: WrittenDelete) -> DeleteFile:
    """As a manifest describes it."""
    document = delete.to_json(0, ())
    vector = document["file-format"] == "puffin"
    size = document["content-size-in-bytes"] if vector else document["file-size-in-bytes"]
    return delete_file(
        document["file-path"],
        DeleteKind.DV if vector else DeleteKind.POSITION,
        size=size,
        file_size=document["file-size-in-bytes"],
        records=document["record-count"],
        offset=document.get("content-offset"),
        referenced=document["referenced-data-file"],
        format=document["file-format"],
    )


def blob(delete: DeleteFile) -> bytes:
    assert delete.offset is not None
    return Path(delete.path).read_bytes()[delete.offset : delete.offset + delete.size]


@given(some=st.lists(POSITIONS, min_size=1, max_size=4))
def test_vectors_are_read_back(tmp_path_factory: pytest.TempPathFactory, some: list[frozenset[int]]) -> None:
    path = tmp_path_factory.mktemp("v") / "new.puffin"
    rows = {f"s3://b/data é {n}.parquet": array(positions) for n, positions in enumerate(some)}
    deletes = vectors_at(path, rows)
    assert [delete.referenced for delete in deletes] == list(rows)
    for delete in deletes:
        assert delete.file_size == path.stat().st_size
        assert decode_vector(blob(described(delete)), described(delete)).tolist() == rows[delete.referenced].tolist()


def test_pyiceberg_reads_vectors(tmp_path: Path) -> None:
    rows = {"a": array(range(70_000)), "b": array(frozenset({3, 65_536, 2**33}))}
    vectors_at(tmp_path / "new.puffin", rows)
    puffin = PuffinFile((tmp_path / "new.puffin").read_bytes())
    assert puffin.footer.properties == {"created-by": BY}
    assert [one.properties["cardinality"] for one in puffin.footer.blobs] == ["70000", "3"]
    vectors = deletion_vectors_from_puffin_file(puffin)
    found = {vector.referenced_data_file: vector.to_vector().to_pylist() for vector in vectors}
    assert found == {path: positions.tolist() for path, positions in rows.items()}


def test_a_byte_that_changed_is_noticed(tmp_path: Path) -> None:
    [delete] = map(described, vectors_at(tmp_path / "new.puffin", {"a": array(range(0, 5000, 3))}))
    for at in range(delete.size):
        damaged = bytearray(blob(delete))
        damaged[at] ^= 0x10
        with pytest.raises(BrokenDelete):
            decode_vector(damaged, delete)


@pytest.mark.parametrize("at_once", [7, 1024 * 1024])
def test_positions_are_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr(writing, "_ROWS_AT_ONCE", at_once)
    rows = array(frozenset({0, 1, 2, 77, 2**40}) | frozenset(range(100, 200)))
    path, data = tmp_path / "new.parquet", "s3://bucket/data é.parquet"
    sink = LocalStorage().create(str(path))
    written = write_positions(sink, data, rows)
    sink.close()
    delete = described(written)
    assert delete.file_size == path.stat().st_size
    assert read_positions(delete, path.read_bytes()).of(data).tolist() == rows.tolist()
    assert pq.read_table(path).to_pydict() == {"file_path": [data] * len(rows), "pos": rows.tolist()}
    file = pq.ParquetFile(path)
    assert [field.nullable for field in file.schema_arrow] == [False, False]
    assert file.metadata.metadata == {b"delete-type": b"position"}
    document = written.to_json(3, ("x",))
    assert (document["spec-id"], document["partition"]) == (3, ["x"])
    lower, upper = (dict(zip(*document[f"{side}-bounds"].values(), strict=True)) for side in ("lower", "upper"))
    assert lower[2147483546] == upper[2147483546] == data.encode().hex().upper()
    assert [int.from_bytes(bytes.fromhex(side[2147483545]), "little") for side in (lower, upper)] == [0, 2**40]


def test_what_says_nothing_is_not_written(tmp_path: Path) -> None:
    storage = LocalStorage()
    none = array(frozenset())
    for number, rows in enumerate(({}, {"a": none}, {"a": array(range(3)), "b": none})):
        with pytest.raises(ValueError, match="says nothing"):
            write_vectors(storage.create(str(tmp_path / str(number))), rows, created_by=BY)
    with pytest.raises(ValueError, match="says nothing"):
        write_positions(storage.create(str(tmp_path / "p")), "a", none)
