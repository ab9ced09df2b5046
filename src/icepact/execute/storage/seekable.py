"""A source as a seekable file, for pyarrow and for request bodies."""

import io
from collections.abc import Callable
from typing import Any


class SeekableRange(io.RawIOBase):
    """A range of something readable by position.

    pyarrow calls `read_buffer` where it exists and keeps what it gets without copying it.
    """

    def __init__(self, read: Callable[[int, int], memoryview], offset: int, length: int) -> None:
        super().__init__()
        self._read = read
        self._offset = offset
        self._length = length
        self._position = 0

    def readable(self) -> bool:
        """True: the range can be read."""
        return True

    def seekable(self) -> bool:
        """True: the range can be read from any position."""
        return True

    def tell(self) -> int:
        """The position within the range."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move; nothing is read."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._length}[whence]
        if start + offset < 0:
            raise ValueError(f"negative position {start + offset}")
        self._position = start + offset
        return self._position

    def read_buffer(self, size: int | None = -1) -> memoryview:
        """The next bytes, fewer only at the end."""
        left = max(self._length - self._position, 0)
        count = left if size is None or size < 0 else min(size, left)
        data = self._read(self._offset + self._position, count)
        self._position += count
        return data

    def readinto(self, into: Any) -> int:
        """The next bytes, for readers that bring their own memory."""
        view = memoryview(into).cast("B")
        data = self.read_buffer(len(view))
        view[: len(data)] = data
        return len(data)
