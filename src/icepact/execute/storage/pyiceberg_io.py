"""Every other kind of storage (`gs:`, `abfs:`, `hdfs:`), through PyIceberg's FileIO, streamed both ways.

Untested against the real services; tests run it on local files only. PyIceberg looks whether a file exists
before it creates one, so between two writers of one name the last may win: names must be unique.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from icepact.execute.storage.base import (
    MIB,
    Bytes,
    FileDamaged,
    Meter,
    Source,
    Storage,
    StorageError,
    as_bytes,
    checked_range,
    in_our_words,
)
from icepact.model.errors import Unsupported

if TYPE_CHECKING:
    from pyiceberg.io import FileIO, OutputStream

STREAM_STEP = 8 * MIB
"""Bytes held in memory while copying."""


class PyIcebergStorage(Storage):
    """Files that PyIceberg can reach."""

    def __init__(self, properties: Mapping[str, str], example: str, meter: Meter | None = None) -> None:
        from pyiceberg.io import SCHEMA_TO_FILE_IO, load_file_io

        if example.partition(":")[0] not in SCHEMA_TO_FILE_IO:
            raise Unsupported(f"{example}: no way to reach it from Python")
        try:
            self._io = load_file_io(dict(properties), example)
        except (ImportError, ValueError) as error:
            raise Unsupported(f"{example}: no way to reach it from Python: {error}") from None
        super().__init__(meter)

    def open(self, path: str, size: int) -> "PyIcebergSource":
        """A file to read."""
        return PyIcebergSource(self._io, path, size, self._meter)

    def create(self, path: str) -> "PyIcebergSink":
        """A new file."""
        return PyIcebergSink(self._io, path, self._meter)

    def delete(self, path: str) -> None:
        """Remove a file; an absent one is no error."""
        with in_our_words(path, _words), suppress(FileNotFoundError):
            self._io.delete(path)


class PyIcebergSource(Source):
    """One file as a stream that can seek."""

    def __init__(self, io: "FileIO", path: str, size: int, meter: Meter) -> None:
        self.path = path
        self.size = size
        self._meter = meter
        with in_our_words(path, _words):
            self._stream = io.new_input(path).open(seekable=True)

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly these bytes."""
        checked_range(self, offset, length)
        pieces: list[bytes] = []
        left = length
        with in_our_words(self.path, _words):
            self._stream.seek(offset)
            while left:
                piece = self._stream.read(left)
                if not piece:
                    raise FileDamaged(f"{self.path}: ends early, the table says {self.size} bytes")
                pieces.append(piece)
                left -= len(piece)
        self._meter.add(read=length)
        return memoryview(pieces[0] if len(pieces) == 1 else b"".join(pieces))

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()


class PyIcebergSink:
    """One new file as a stream."""

    copies_server_side = False

    def __init__(self, io: "FileIO", path: str, meter: Meter) -> None:
        self.path = path
        self.position = 0
        self._io = io
        self._meter = meter
        self._done = False
        with in_our_words(path, _words):
            self._stream: OutputStream = io.new_output(path).create(overwrite=False)

    def append(self, data: Bytes) -> None:
        """Write bytes at the end."""
        if self._done:
            raise StorageError(f"{self.path}: is closed already")
        view = as_bytes(data)
        with in_our_words(self.path, _words):
            for start in range(0, len(view), STREAM_STEP):
                self._stream.write(bytes(view[start : start + STREAM_STEP]))
        self.position += len(view)
        self._meter.add(written=len(view))

    def copy(self, source: Source, offset: int, length: int) -> None:
        """Write a range of another file at the end."""
        checked_range(source, offset, length)
        for start in range(offset, offset + length, STREAM_STEP):
            self.append(source.read(start, min(STREAM_STEP, offset + length - start)))

    def close(self) -> None:
        """Publish the file."""
        if self._done:
            raise StorageError(f"{self.path}: is closed already")
        with in_our_words(self.path, _words):
            self._stream.close()
        self._done = True

    def abort(self) -> None:
        """Close the stream and remove the file. These streams know no other way to give up."""
        if self._done:
            return
        with suppress(OSError):
            self._stream.close()
        with suppress(FileNotFoundError):
            self._io.delete(self.path)
        self._done = True


_WORDS = {FileNotFoundError: "does not exist", FileExistsError: "exists already", PermissionError: "access denied"}


def _words(error: OSError) -> str:
    """What a service says in its own words may name more than we want to tell."""
    return next((said for kind, said in _WORDS.items() if isinstance(error, kind)), type(error).__name__)
