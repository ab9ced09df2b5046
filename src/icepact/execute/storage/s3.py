"""Objects on S3 and on stores that speak like it."""

from datetime import datetime

from icepact.execute.storage.base import Meter, Storage
from icepact.execute.storage.s3_client import Calls, ObjectAddress, client_for
from icepact.execute.storage.s3_limits import Limits
from icepact.execute.storage.s3_settings import Connection, S3WriteSettings
from icepact.execute.storage.s3_sink import S3Sink
from icepact.execute.storage.s3_source import S3Object, S3Source


class S3Storage(Storage):
    """Objects reached with one set of settings."""

    def __init__(
        self,
        connection: Connection,
        writing: S3WriteSettings | None = None,
        meter: Meter | None = None,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(meter)
        self._limits = limits or Limits()
        self._calls = Calls(client_for(connection), writing or S3WriteSettings(), self._meter)

    def open(self, path: str, size: int) -> S3Source:
        """An object to read. No request is made yet: a missing one is known at the first read."""
        return S3Source(S3Object(self._calls, ObjectAddress.of(path), size), self._limits)

    def create(self, path: str) -> S3Sink:
        """A new object. No request is made before there is a part to send."""
        return S3Sink(self._calls, ObjectAddress.of(path), self._limits)

    def delete(self, path: str) -> None:
        """Delete an object; an absent one is no error."""
        self._calls.delete(ObjectAddress.of(path))

    def unfinished(self, prefix: str, *, abort: bool, before: datetime | None = None) -> int:
        """Uploads in parts that were begun and not finished."""
        uploads = self._calls.uploads(ObjectAddress.of(prefix), before)
        if abort:
            for address, upload in uploads:
                self._calls.drop_upload(address, upload)
        return len(uploads)
