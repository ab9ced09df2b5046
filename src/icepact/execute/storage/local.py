"""Files of the local file system, or of any that is mounted.

Paths are taken literally: Hadoop writes `a%2Fb` as it stands. Nothing is mapped into memory: mapped pages
count as resident memory of the process, and a task would seem to hold all it ever read.
"""

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress

import pyarrow as pa

from icepact.execute.storage.base import (
    MIB,
    Bytes,
    FileDamaged,
    Meter,
    Source,
    Storage,
    StorageError,
    StorageRefused,
    as_bytes,
    checked_range,
    in_our_words,
)
from icepact.model.errors import Unsupported

COPY_STEP = 256 * MIB
"""Bytes asked of the kernel at once; it may be interrupted between steps only."""
STREAM_STEP = 4 * MIB
"""Bytes held in memory while copying through this process."""
BUFFER = MIB
"""Small appends are gathered up to this size."""
_REFUSALS = {errno.EXDEV, errno.ENOSYS, errno.EINVAL, errno.EOPNOTSUPP, errno.EPERM, errno.EBADF, errno.ENOTSOCK}

CopyWay = Callable[[int, int, int, int], int]
"""(from, offset, to, length) -> bytes copied to the end of `to`; 0 at the end of the file."""


def by_copy_file_range(origin: int, offset: int, target: int, length: int) -> int:
    """Inside the file system; some share the blocks instead of copying them."""
    return os.copy_file_range(origin, target, length, offset_src=offset)


def by_sendfile(origin: int, offset: int, target: int, length: int) -> int:
    """Inside the kernel, between file systems."""
    return os.sendfile(target, origin, offset, length)


WAYS: tuple[CopyWay, ...] = (by_copy_file_range, by_sendfile)
"""Tried in this order; what no way can do is read and written."""


def local_path(path: str) -> str:
    """The path as the operating system knows it."""
    name = path
    if path.startswith("file:"):
        name = path.removeprefix("file:")
        if name.startswith("//"):
            host, slash, rest = name[2:].partition("/")
            name = f"{slash}{rest}" if host in {"", "localhost"} else ""
    if not name.startswith("/"):
        raise Unsupported(f"{path}: not an absolute local path")
    return name


class LocalStorage(Storage):
    """Storage on the local file system."""

    def __init__(self, meter: Meter | None = None, *, ways: Sequence[CopyWay] = WAYS) -> None:
        super().__init__(meter)
        self._ways = tuple(way for way in ways if hasattr(os, way.__name__.removeprefix("by_")))

    def open(self, path: str, size: int) -> "LocalSource":
        """A file to read."""
        return LocalSource(path, size, self._meter)

    def create(self, path: str) -> "LocalSink":
        """A new file, and the folders above it. Hadoop's `.name.crc` files are neither written nor read."""
        return LocalSink(path, self._meter, self._ways)

    def delete(self, path: str) -> None:
        """Remove a file; an absent one is no error."""
        with in_our_words(path, _words), suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(local_path(path))


class LocalSource(Source):
    """One local file."""

    far = False

    def __init__(self, path: str, size: int, meter: Meter) -> None:
        self.path = path
        self.size = size
        self._meter = meter
        with in_our_words(path, _words):
            self.handle = os.open(local_path(path), os.O_RDONLY | os.O_CLOEXEC)
        stored = os.fstat(self.handle).st_size
        if stored != size:
            self.close()
            raise FileDamaged(f"{path}: has {stored} bytes, the table says {size}")

    def read(self, offset: int, length: int) -> memoryview:
        """Exactly these bytes, in memory of Arrow's pool, which is used again and again."""
        checked_range(self, offset, length)
        data = as_bytes(pa.allocate_buffer(length)) if length else memoryview(bytearray())
        done = 0
        while done < length:
            with in_our_words(self.path, _words):
                count = os.preadv(self.handle, [data[done:]], offset + done)
            if not count:
                raise FileDamaged(f"{self.path}: ends at byte {offset + done}, the table says {self.size}")
            done += count
        self._meter.add(read=length)
        return data

    def close(self) -> None:
        """Close the file."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1


class LocalSink:
    """One new local file. It has its final name at once: nobody knows the name before it is committed."""

    copies_server_side = False

    def __init__(self, path: str, meter: Meter, ways: Sequence[CopyWay]) -> None:
        self.path = path
        self.position = 0
        self._name = local_path(path)
        self._meter = meter
        self._ways = list(ways)
        self._buffer = bytearray()
        self._published = False
        try:
            os.makedirs(os.path.dirname(self._name), exist_ok=True)
        except OSError as error:
            raise StorageRefused(f"{path}: no folder for it: {os.strerror(error.errno or 0)}") from None
        with in_our_words(path, _words):
            self._handle = os.open(self._name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def append(self, data: Bytes) -> None:
        """Write bytes at the end."""
        view = as_bytes(data)
        if len(self._buffer) + len(view) > BUFFER:
            self._flush()
        if len(view) > BUFFER:
            self._write(view)
        else:
            self._buffer += view
        self.position += len(view)

    def copy(self, source: Source, offset: int, length: int) -> None:
        """Write a range of another file at the end."""
        checked_range(source, offset, length)
        self._flush()
        done = self._copy_in_kernel(source, offset, length) if isinstance(source, LocalSource) else 0
        while done < length:
            step = min(STREAM_STEP, length - done)
            self._write(source.read(offset + done, step))
            done += step
        self.position += length

    def close(self) -> None:
        """Publish: the file is complete."""
        self._flush()
        handle, self._handle = self._handle, -1
        with in_our_words(self.path, _words):
            os.close(handle)
        self._published = True

    def abort(self) -> None:
        """Remove the file."""
        if self._handle >= 0:
            handle, self._handle = self._handle, -1
            with suppress(OSError):  # what could not be written is unwanted anyway
                os.close(handle)
        self._buffer.clear()
        if not self._published:
            with suppress(FileNotFoundError):
                os.unlink(self._name)

    def _flush(self) -> None:
        if self._handle < 0:
            raise StorageError(f"{self.path}: is closed already")
        if self._buffer:
            self._write(memoryview(self._buffer))
            self._buffer = bytearray()

    def _write(self, view: memoryview) -> None:
        done = 0
        with in_our_words(self.path, _words):
            while done < len(view):
                done += os.write(self._handle, view[done:])
        self._meter.add(written=done)

    def _copy_in_kernel(self, source: LocalSource, offset: int, length: int) -> int:
        """As much as the kernel copies; a way that is refused is not tried again for this file."""
        done = 0
        while self._ways and done < length:
            try:
                count = self._ways[0](source.handle, offset + done, self._handle, min(COPY_STEP, length - done))
            except OSError as error:
                if error.errno not in _REFUSALS:
                    with in_our_words(self.path, _words):
                        raise
                del self._ways[0]
                continue
            if not count:  # the end of the file, or a file system that cannot say no: reading will tell
                break
            done += count
        self._meter.add(copied=done)
        return done


def _words(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno else "failed"
