"""New delete files: deletion vectors in a Puffin file, and position deletes of one data file as Parquet.

A Puffin file is a magic, blobs, and a footer: the magic again, a JSON payload that describes the blobs, its length and
flags, both little-endian, and the magic. Vectors are not compressed beyond what a bitmap is.

A position-delete file of ours speaks of one data file: both bounds of its paths are that path, by which Iceberg knows.
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from icepact.execute.deletes.bitmaps import PositionSet
from icepact.execute.deletes.positions import FILE_PATH_ID, POS_ID
from icepact.execute.deletes.vectors import encode_vector
from icepact.model.files import Partition

PUFFIN_MAGIC = b"PFA1"
_VECTOR = "deletion-vector-v1"
_ROWS_AT_ONCE = 1024 * 1024
_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(FILE_PATH_ID)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(POS_ID)}),
    ]
)


class ByteSink(Protocol):
    """A new file, written from front to back. Whoever opened it closes it."""

    path: str
    position: int

    def append(self, data: bytes | memoryview) -> None:
        """Write bytes at the end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenDelete:
    """A new delete of rows of one data file: a file, or a vector inside a Puffin file."""

    path: str
    file_size: int
    """Bytes of the whole file."""
    referenced: str
    """Path of the data file."""
    positions: int
    """Rows that it deletes."""
    last: int
    """The largest position."""
    first: int
    """The smallest position."""
    offset: int | None = None
    """Where the vector starts in its Puffin file; `None` for a file of position deletes."""
    size: int | None = None
    """Bytes of the vector."""

    def to_json(self, spec_id: int, partition: Partition) -> dict[str, Any]:
        """As Iceberg's JSON describes a delete file; spec and partition are those of the data file."""
        document = {
            "spec-id": spec_id,
            "content": "position-deletes",
            "file-path": self.path,
            "file-format": "parquet" if self.offset is None else "puffin",
            "partition": list(partition),
            "record-count": self.positions,
            "file-size-in-bytes": self.file_size,
            "referenced-data-file": self.referenced,
        }
        if self.offset is not None:
            return {**document, "content-offset": self.offset, "content-size-in-bytes": self.size}
        path = self.referenced.encode().hex().upper()
        first, last = (struct.pack("<q", position).hex().upper() for position in (self.first, self.last))
        counts = {"keys": [FILE_PATH_ID, POS_ID], "values": [self.positions, self.positions]}
        return {
            **document,
            "value-counts": counts,
            "null-value-counts": {**counts, "values": [0, 0]},
            "lower-bounds": {"keys": [FILE_PATH_ID, POS_ID], "values": [path, first]},
            "upper-bounds": {"keys": [FILE_PATH_ID, POS_ID], "values": [path, last]},
        }


def write_vectors(sink: ByteSink, vectors: Mapping[str, NDArray[np.int64]], *, created_by: str) -> list[WrittenDelete]:
    """A Puffin file with a deletion vector for each data file; `vectors` are positions, ascending, by its path."""
    if not vectors or not all(map(len, vectors.values())):
        raise ValueError("a vector without positions says nothing")
    sink.append(PUFFIN_MAGIC)
    blobs: list[dict[str, Any]] = []
    for path, positions in vectors.items():
        blob = encode_vector(PositionSet(positions))
        described = {"referenced-data-file": path, "cardinality": str(len(positions))}
        blobs.append(
            {
                **{"type": _VECTOR, "fields": [POS_ID], "snapshot-id": -1, "sequence-number": -1},
                **{"offset": sink.position, "length": len(blob), "properties": described},
            }
        )
        sink.append(blob)
    payload = json.dumps({"blobs": blobs, "properties": {"created-by": created_by}}).encode()
    sink.append(PUFFIN_MAGIC + payload + struct.pack("<ii", len(payload), 0) + PUFFIN_MAGIC)
    return [
        WrittenDelete(
            path=sink.path,
            file_size=sink.position,
            referenced=path,
            positions=len(positions),
            first=int(positions[0]),
            last=int(positions[-1]),
            offset=blob["offset"],
            size=blob["length"],
        )
        for (path, positions), blob in zip(vectors.items(), blobs, strict=True)
    ]


def write_positions(sink: ByteSink, referenced: str, positions: NDArray[np.int64]) -> WrittenDelete:
    """A file of position deletes of one data file; positions ascend, and each is given once."""
    if not len(positions):
        raise ValueError("a delete file without positions says nothing")
    writer = pq.ParquetWriter(
        pa.PythonFile(_Written(sink), mode="w"),
        _SCHEMA,
        compression="zstd",
        use_dictionary=["file_path"],
        store_schema=False,
        write_page_index=True,
    )
    with writer:
        for at in range(0, len(positions), _ROWS_AT_ONCE):
            some = pa.array(positions[at : at + _ROWS_AT_ONCE], pa.int64())
            writer.write_table(pa.table([pa.repeat(referenced, len(some)), some], schema=_SCHEMA))
        writer.add_key_value_metadata({"delete-type": "position"})
    return WrittenDelete(
        path=sink.path,
        file_size=sink.position,
        referenced=referenced,
        positions=len(positions),
        first=int(positions[0]),
        last=int(positions[-1]),
    )


class _Written:
    """A sink as Arrow takes a file."""

    closed = False

    def __init__(self, sink: ByteSink) -> None:
        self._sink = sink

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._sink.append(view)
        return len(view)

    def tell(self) -> int:
        return self._sink.position

    def flush(self) -> None:
        """Nothing waits here."""

    def close(self) -> None:
        """Whoever opened the sink closes it."""
