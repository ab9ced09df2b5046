"""New objects on S3: what is written here travels in parts, what is copied stays inside the store.

Nothing is visible before `close`. Every object carries a token of its writer, because an answer can get
lost: when a repeated request says that the object exists, the token tells whether it is our own.
"""

import io
import uuid
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass

from icepact.execute.storage.base import (
    Bytes,
    FileTaken,
    Source,
    StorageError,
    StorageLacks,
    StorageRefused,
    as_bytes,
    checked_range,
)
from icepact.execute.storage.s3_client import Calls, ObjectAddress
from icepact.execute.storage.s3_limits import LEAST_PART, MOST_PARTS, Limits
from icepact.execute.storage.s3_source import S3Object, S3Source
from icepact.execute.storage.seekable import SeekableRange

COPIES_IN_FLIGHT = 16
"""Part copies of one sink that may be under way."""


@dataclass(kw_only=True, slots=True)
class _Waiting:
    """A copy that may still grow by its neighbour."""

    source: S3Source
    offset: int
    length: int


class S3Sink:
    """One new object."""

    def __init__(self, calls: Calls, address: ObjectAddress, limits: Limits) -> None:
        self.path = address.path
        self.position = 0
        self._calls = calls
        self._address = address
        self._limits = limits
        self._token = uuid.uuid4().hex
        self._buffer = bytearray()
        self._waiting: _Waiting | None = None
        self._upload: str | None = None
        self._parts: list[Future[str]] = []
        self._sending: list[Future[str]] = []
        self._copying: list[Future[str]] = []
        self._publishing = False
        self._done = False

    @property
    def copies_server_side(self) -> bool:
        """Whether the store copies parts, as far as is known."""
        return self._calls.client.copying.get((self._address.bucket, self._address.bucket), True)

    def append(self, data: Bytes) -> None:
        """Write bytes at the end."""
        self._check()
        self._flush_copies()
        view = as_bytes(data)
        self._fill(view)
        self.position += len(view)

    def copy(self, source: Source, offset: int, length: int) -> None:
        """Write a range of another file at the end, inside the store if it is there and large enough."""
        self._check()
        checked_range(source, offset, length)
        waiting = self._waiting
        if waiting and source is waiting.source and offset == waiting.offset + waiting.length:
            waiting.length += length
        else:
            self._flush_copies()
            if isinstance(source, S3Source) and self._can_copy(source.origin):
                self._waiting = _Waiting(source=source, offset=offset, length=length)
            else:
                self._stream(source, offset, length)
        self.position += length

    def close(self) -> None:
        """Publish the object."""
        self._check()
        self._flush_copies()
        if self._upload is None:
            self._publish(None)
        else:
            if self._buffer:
                self._send()
            self._publish([part.result() for part in self._parts])
        self._done = True

    def abort(self) -> None:
        """Drop all parts, and the object itself if a failed close left it behind."""
        if self._done:
            return
        self._buffer = bytearray()
        self._waiting = None
        for part in self._parts:
            part.cancel()
        wait(self._parts)  # a part that arrives after the abort would stay for ever
        if self._upload is not None:
            self._calls.drop_upload(self._address, self._upload)
        if self._publishing and self._is_ours():
            self._calls.delete(self._address)
        self._done = True

    # -- what goes where --------------------------------------------------------------------------

    def _check(self) -> None:
        """Raise what went wrong in the background."""
        if self._done or self._publishing:
            raise StorageError(f"{self.path}: is closed already")
        for part in (*self._sending, *self._copying):
            if part.done():
                part.result()

    def _flush_copies(self) -> None:
        """Carry out the copy that waits: as parts of its own, or through this process."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        source, offset, length = waiting.source, waiting.offset, waiting.length
        least = LEAST_PART * self._scale
        lacking = max(least - len(self._buffer), 0) if self._buffer else 0
        if not self._can_copy(source.origin) or length - lacking < least:
            self._stream(source, offset, length)
            return
        self._stream(source, offset, lacking)  # only the last part may be small
        if self._buffer:
            self._send()
        self._splice(source, offset + lacking, length - lacking)

    def _stream(self, source: Source, offset: int, length: int) -> None:
        for start in range(offset, offset + length, self._limits.step):
            self._fill(source.read(start, min(self._limits.step, offset + length - start)))

    def _fill(self, view: memoryview) -> None:
        while view:
            size = self._limits.part * self._scale
            room = size - len(self._buffer)
            self._buffer += view[:room]
            view = view[room:]
            if len(self._buffer) >= size:
                self._send()

    def _splice(self, source: S3Source, offset: int, length: int) -> None:
        count = -(-length // self._limits.copy)
        for n in range(count):
            start, end = offset + length * n // count, offset + length * (n + 1) // count
            if not self._copy_part(source.origin, start, end - start):
                self._stream(source, start, offset + length - start)
                return

    # -- parts ------------------------------------------------------------------------------------

    @property
    def _scale(self) -> int:
        """Parts grow with their number, so that there are always enough of them."""
        return int(2 ** (len(self._parts) // self._limits.parts_per_size))

    def _can_copy(self, origin: S3Object) -> bool:
        return origin.calls.client is self._calls.client and self._calls.client.copying.get(self._pair(origin), True)

    def _pair(self, origin: S3Object) -> tuple[str, str]:
        return origin.address.bucket, self._address.bucket

    def _send(self) -> None:
        """Send the buffer in the background; waits if too much is under way."""
        body, self._buffer = self._buffer, bytearray()
        upload, number = self._next_part()
        _make_room(self._sending, self._limits.in_flight)
        part = self._calls.client.pool.submit(self._calls.upload_part, self._address, upload, number, body, len(body))
        self._sending.append(part)
        self._parts.append(part)

    def _copy_part(self, origin: S3Object, offset: int, length: int) -> bool:
        """Have the store copy a part; false if it refuses.

        The first copy between two buckets is waited for, so that a store that cannot do it is known
        before anything depends on it.
        """
        client, pair = self._calls.client, self._pair(origin)
        if not self._can_copy(origin):
            return False
        upload, number = self._next_part()
        if pair in client.copying:
            _make_room(self._copying, COPIES_IN_FLIGHT)
            part = client.pool.submit(self._copy_or_relay, upload, number, origin, offset, length)
            self._copying.append(part)
        else:
            part = Future()
            try:
                part.set_result(self._copied(upload, number, origin, offset, length))
            except StorageRefused:
                client.copying[pair] = False
                return False
            client.copying[pair] = True
        self._parts.append(part)
        return True

    def _copied(self, upload: str, number: int, origin: S3Object, offset: int, length: int) -> str:
        return self._calls.copy_part(self._address, upload, number, origin.address, (offset, length), origin.etag)

    def _copy_or_relay(self, upload: str, number: int, origin: S3Object, offset: int, length: int) -> str:
        """A copy in the background. Its number is given away already, so a refused one is sent as one part."""
        try:
            return self._copied(upload, number, origin, offset, length)
        except StorageRefused:
            self._calls.client.copying[self._pair(origin)] = False
        with io.BufferedReader(SeekableRange(origin.fetch, offset, length), self._limits.step) as body:
            return self._calls.upload_part(self._address, upload, number, body, length)

    def _next_part(self) -> tuple[str, int]:
        """The upload, begun if need be, and the number of its next part."""
        if self._upload is None:
            self._upload = self._calls.start(self._address, self._token)
        if len(self._parts) == MOST_PARTS:
            raise StorageError(f"{self.path}: has more parts than S3 allows")
        return self._upload, len(self._parts) + 1

    # -- publishing -------------------------------------------------------------------------------

    def _publish(self, etags: list[str] | None) -> None:
        client = self._calls.client
        self._publishing = True
        try:
            if not client.conditional or (client.heads_first and etags is not None):
                self._check_absent()
            try:
                self._make_visible(etags)
            except StorageLacks:
                if not client.conditional:
                    raise
                client.conditional = False
                self._check_absent()
                self._make_visible(etags)
        except StorageError:
            with suppress(StorageError):
                if self._is_ours():  # an earlier attempt went through, only its answer was lost
                    return
            raise

    def _make_visible(self, etags: list[str] | None) -> None:
        if self._upload is None or etags is None:
            self._calls.put(self._address, self._buffer, self._token)
        else:
            self._calls.complete(self._address, self._upload, etags)

    def _check_absent(self) -> None:
        if self._calls.head(self._address) is not None:
            raise FileTaken(f"{self.path}: exists already")

    def _is_ours(self) -> bool:
        return self._calls.head(self._address) == (self.position, self._token)


def _make_room(lane: list[Future[str]], limit: int) -> None:
    """Wait until fewer than `limit` parts are under way; what failed is raised."""
    while len(lane) >= limit:
        lane.pop(0).result()
