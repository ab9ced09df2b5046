"""The interface of every kind of storage, and its errors.

    StorageError                 something about a file, its path in front
    ├── FileMissing              there is no such file
    ├── FileDamaged              the file is not what the table says: another size, or changed under the reader
    ├── FileTaken                a file of that name exists already; it was left as it is
    ├── StorageRefused           the store said no: rights, credentials, settings
    │   └── StorageLacks         the store does not know this kind of request
    └── StorageUnavailable       no answer, or an overloaded store: trying again can help

Messages name paths and error codes, never keys, tokens or signed addresses.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from icepact.execute.storage.seekable import SeekableRange
from icepact.model.effort import Additive
from icepact.model.errors import IcepactError, PermanentError, TemporaryError

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

Bytes = bytes | bytearray | memoryview
"""What `append` is given; numpy arrays and Arrow buffers come as a memoryview."""


class StorageError(IcepactError):
    """A file could not be read or written."""


class FileMissing(StorageError, PermanentError):
    """There is no such file."""


class FileDamaged(StorageError, PermanentError):
    """The file is not what the table says."""


class FileTaken(StorageError, PermanentError):
    """A file of that name exists already."""


class StorageRefused(StorageError, PermanentError):
    """The store refused the request."""


class StorageLacks(StorageRefused):
    """The store does not know this kind of request."""


class StorageUnavailable(StorageError, TemporaryError):
    """The store did not answer."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Traffic(Additive):
    """Requests and bytes that one piece of work cost the storage."""

    requests: int = 0
    """HTTP requests, repeated ones included; 0 for local files."""
    bytes_read: int = 0
    """Bytes that came into this process."""
    bytes_written: int = 0
    """Bytes that left this process."""
    bytes_copied: int = 0
    """Bytes that the store or the kernel copied without passing them through this process."""
    writes: int = field(default=0, compare=False)
    """Requests that write, which stores charge more for."""


class Meter:
    """Adds traffic up, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._traffic = Traffic()

    def add(self, *, requests: int = 0, read: int = 0, written: int = 0, copied: int = 0, writes: int = 0) -> None:
        """Count something that happened; `writes` are among the requests."""
        more = Traffic(requests=requests, bytes_read=read, bytes_written=written, bytes_copied=copied, writes=writes)
        with self._lock:
            self._traffic += more

    @property
    def traffic(self) -> Traffic:
        """Everything so far."""
        with self._lock:
            return self._traffic


class Source(ABC):
    """One immutable file, open for reading, by one thread at a time. What reads a range can do all else."""

    path: str
    """As the table spells it."""
    size: int
    """Bytes in all."""
    far = True
    """True if each read is a request to somewhere else."""

    @abstractmethod
    def read(self, offset: int, length: int) -> memoryview:
        """Exactly these bytes, or an error."""

    def gather(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
        """Exactly these (offset, length) ranges as they are stored now, in few requests; nothing else is kept."""
        return [self.read(offset, length) for offset, length in ranges]

    def tail(self, length: int) -> memoryview:
        """The last bytes of the file."""
        return self.read(self.size - length, length)

    def preload(self, ranges: Sequence[tuple[int, int]]) -> None:
        """Fetch (offset, length) ranges into memory, in few requests, instead of what was preloaded before; nothing is
        done where requests cost no more than what they bring."""
        del ranges

    def arrow(self) -> SeekableRange:
        """The file as pyarrow takes it, seekable; reads go through `read`."""
        return SeekableRange(self.read, 0, self.size)

    @abstractmethod
    def close(self) -> None:
        """Let go of the file and of all memory."""


class Sink(Protocol):
    """One new file, written from front to back. It must be closed or aborted."""

    path: str
    position: int
    """Bytes so far."""

    @property
    def copies_server_side(self) -> bool:
        """Whether large copies stay inside the store as parts of their own.

        If so, small appends between copies are expensive: they make the start of the next copy travel.
        """

    def append(self, data: Bytes) -> None:
        """Write bytes at the end."""

    def copy(self, source: Source, offset: int, length: int) -> None:
        """Write a range of another file at the end. Close the source only when the sink has gone on."""

    def close(self) -> None:
        """Publish the file. An existing one of that name raises `FileTaken` and stays as it is."""

    def abort(self) -> None:
        """Leave nothing behind. May be called twice, and after a failed close; after a good one it does nothing."""


class Storage(ABC):
    """A store of files: local, S3 or another."""

    def __init__(self, meter: Meter | None) -> None:
        self._meter = meter or Meter()

    @property
    def traffic(self) -> Traffic:
        """Requests and bytes so far, as far as they are known."""
        return self._meter.traffic

    @abstractmethod
    def open(self, path: str, size: int) -> Source:
        """A file to read; its size as the manifest tells it."""

    @abstractmethod
    def create(self, path: str) -> Sink:
        """A new file."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Remove a file; an absent one is no error."""

    def unfinished(self, prefix: str, *, abort: bool, before: datetime | None = None) -> int:
        """How many uploads below a prefix were begun, before a moment if one is given, and not finished; they are given
        up if asked for. 0 where a file that is not finished is a file, or nobody can tell."""
        del prefix, abort, before
        return 0


def checked_range(source: Source, offset: int, length: int) -> None:
    """Refuse what lies outside the file: a damaged footer must not become a strange request."""
    if offset < 0 or length < 0 or offset + length > source.size:
        raise FileDamaged(f"{source.path}: bytes {offset} to {offset + length} are not within its {source.size} bytes")


_MEANING = {FileNotFoundError: FileMissing, FileExistsError: FileTaken, PermissionError: StorageRefused}


@contextmanager
def in_our_words(path: str, words: Callable[[OSError], str]) -> Iterator[None]:
    """Raise what goes wrong with a file as an error of ours, in words that may be told."""
    try:
        yield
    except OSError as error:
        kinds = (ours for theirs, ours in _MEANING.items() if isinstance(error, theirs))
        raise next(kinds, StorageError)(f"{path}: {words(error)}") from None


def as_bytes(data: Any) -> memoryview:
    """Anything with a buffer, seen as plain bytes; nothing is copied."""
    return memoryview(data).cast("B")
