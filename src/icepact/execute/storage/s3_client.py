"""The only module that speaks to S3: one client per process and connection, every request counted.

Answers that the store gives are errors of `base`; nothing of botocore leaves this module.
"""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from boto3.session import Session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError, IncompleteReadError
from botocore.exceptions import ConnectionError as Unreachable

from icepact.execute.storage.base import (
    MIB,
    FileDamaged,
    FileMissing,
    FileTaken,
    Meter,
    StorageError,
    StorageLacks,
    StorageRefused,
    StorageUnavailable,
)
from icepact.execute.storage.s3_settings import Connection, S3WriteSettings
from icepact.model.errors import PermanentError, Unsupported

if TYPE_CHECKING:
    from mypy_boto3_s3.client import S3Client

THREADS = 8
"""Requests in the background at once, per process and connection."""
BODY_ATTEMPTS = 4
"""How often a body that breaks off is asked for; botocore repeats only what fails before the body."""
_BODY_STEP = MIB
_TOKEN = "icepact-write"
_WRITING = ("PUT", "POST")
_counting = threading.local()


class UploadGone(StorageError, PermanentError):
    """The upload exists no more: it was completed, or somebody aborted it."""


_BY_CODE: dict[str, type[StorageError]] = {
    "NoSuchUpload": UploadGone,
    "NotImplemented": StorageLacks,
    **dict.fromkeys(("SlowDown", "RequestTimeout", "Throttling", "ConditionalRequestConflict"), StorageUnavailable),
}
_BY_STATUS: dict[int, type[StorageError]] = {
    400: StorageRefused,
    401: StorageRefused,
    403: StorageRefused,
    404: FileMissing,
    405: StorageLacks,
    416: FileDamaged,
    429: StorageUnavailable,
    501: StorageLacks,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectAddress:
    """Address of one object."""

    path: str
    """As the table says it."""
    bucket: str
    """Its bucket."""
    key: str
    """Its key, literally."""

    @classmethod
    def of(cls, path: str) -> "ObjectAddress":
        """Take a path apart; nothing is decoded."""
        _, _, rest = path.partition("://")
        bucket, _, key = rest.partition("/")
        if not bucket or not key:
            raise Unsupported(f"{path}: not the path of an S3 object")
        if "?" in key or "#" in key:  # Iceberg cuts keys here, Hadoop does not: two readers, two objects
            raise Unsupported(f"{path}: ? and # in S3 paths do not mean the same to every reader")
        return cls(path=path, bucket=bucket, key=key)


class Client:
    """A connection to a store, and what was learned about that store."""

    def __init__(self, connection: Connection) -> None:
        session = Session(
            aws_access_key_id=connection.access_key,
            aws_secret_access_key=connection.secret_key,
            aws_session_token=connection.token,
            region_name=connection.region,
        )
        config = Config(
            s3={"addressing_style": "path" if connection.path_style else "auto"},
            retries={"mode": "standard", "total_max_attempts": 6},
            max_pool_connections=2 * THREADS,
            connect_timeout=10,
            read_timeout=60,
            # the newer default adds checksums that many S3-compatible stores refuse
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        region = session.region_name or ("us-east-1" if connection.endpoint else None)
        self.s3: S3Client = session.client("s3", endpoint_url=connection.endpoint, region_name=region, config=config)
        self.s3.meta.events.register("before-send.s3", _count)
        self.pool = ThreadPoolExecutor(THREADS, thread_name_prefix="icepact-s3")
        self.copying: dict[tuple[str, str], bool] = {}
        """Whether parts can be copied, by bucket of origin and target; absent: not tried yet."""
        self.conditional = True
        """Whether the store knows If-None-Match."""
        self.heads_first = connection.endpoint is not None
        """Whether a HEAD request comes before completing: other stores than Amazon's may ignore the condition there."""


_clients: dict[tuple[int, Connection], Client] = {}
_clients_lock = threading.Lock()


def client_for(connection: Connection) -> Client:
    """This process's client for a connection; one that was inherited by a fork is not used."""
    with _clients_lock:
        key = (os.getpid(), connection)
        if key not in _clients:
            try:
                _clients[key] = Client(connection)
            except (BotoCoreError, ValueError) as error:
                raise StorageRefused(f"no client for S3: {type(error).__name__}") from None
        return _clients[key]


class Calls:
    """The requests icepact makes, for one piece of work."""

    def __init__(self, client: Client, writing: S3WriteSettings, meter: Meter) -> None:
        self.client = client
        self.writing = writing
        self.meter = meter
        self._s3 = client.s3

    # -- reading ----------------------------------------------------------------------------------

    def fetch(
        self, address: ObjectAddress, offset: int, into: memoryview, *, size: int, etag: str | None
    ) -> str | None:
        """Fill memory with the bytes at an offset; returns the ETag. Bodies that break off are asked for again."""
        for attempt in range(BODY_ATTEMPTS):
            try:
                return self._fetch_once(address, offset, into, size, etag)
            except (HTTPClientError, IncompleteReadError) as error:
                if attempt + 1 == BODY_ATTEMPTS:
                    raise StorageUnavailable(f"{address.path}: the answer broke off: {type(error).__name__}") from None
                time.sleep(0.1 * 4**attempt)
        raise AssertionError("unreachable")

    def _fetch_once(
        self, address: ObjectAddress, offset: int, into: memoryview, size: int, etag: str | None
    ) -> str | None:
        whole = len(into) == size
        wanted: dict[str, Any] = {} if whole else {"Range": f"bytes={offset}-{offset + len(into) - 1}"}
        if etag is not None:
            wanted["IfMatch"] = etag
        with self._request(address, "reading", unless_matching=FileDamaged):
            answer = self._s3.get_object(Bucket=address.bucket, Key=address.key, **wanted)
        stream: Any = answer["Body"]  # its stub knows no memory to read into
        with closing(stream) as body:
            span = answer.get("ContentRange")
            if not whole and span is None:
                raise StorageLacks(f"{address.path}: the store does not answer for ranges")
            total = answer["ContentLength"] if span is None else int(span.rpartition("/")[2])
            if total != size:
                raise FileDamaged(f"{address.path}: has {total} bytes, the table says {size}")
            done = 0
            while done < len(into):
                count = body.readinto(into[done : done + _BODY_STEP])
                self.meter.add(read=count)
                done += count
        return answer.get("ETag")

    def head(self, address: ObjectAddress) -> tuple[int, str | None] | None:
        """Size of an object and the token of its writer; `None` if there is none."""
        try:
            with self._request(address, "looking at it"):
                answer = self._s3.head_object(Bucket=address.bucket, Key=address.key)
        except FileMissing:
            return None
        return answer["ContentLength"], answer.get("Metadata", {}).get(_TOKEN)

    # -- writing ----------------------------------------------------------------------------------

    def put(self, address: ObjectAddress, body: Any, token: str) -> None:
        """Create a small object from bytes, if there is none of that name."""
        with self._request(address, "writing", unless_matching=FileTaken):
            self._s3.put_object(
                Bucket=address.bucket, Key=address.key, Body=body, **self._new_object(token), **self._if_absent()
            )
        self.meter.add(written=len(body))

    def start(self, address: ObjectAddress, token: str) -> str:
        """Begin an upload in parts."""
        with self._request(address, "writing"):
            answer = self._s3.create_multipart_upload(Bucket=address.bucket, Key=address.key, **self._new_object(token))
        return answer["UploadId"]

    def upload_part(self, address: ObjectAddress, upload: str, number: int, body: Any, length: int) -> str:
        """Send one part, bytes or a file that can seek; returns its ETag."""
        with self._request(address, "writing"):
            answer = self._s3.upload_part(
                Bucket=address.bucket, Key=address.key, UploadId=upload, PartNumber=number, Body=body
            )
        self.meter.add(written=length)
        return answer["ETag"]

    def copy_part(
        self,
        address: ObjectAddress,
        upload: str,
        number: int,
        origin: ObjectAddress,
        span: tuple[int, int],
        etag: str | None,
    ) -> str:
        """Have the store copy (offset, length) of another object as one part; returns the part's ETag."""
        offset, length = span
        matching: dict[str, Any] = {} if etag is None else {"CopySourceIfMatch": etag}
        with self._request(origin, f"copying into {address.path}", unless_matching=FileDamaged):
            answer = self._s3.upload_part_copy(
                Bucket=address.bucket,
                Key=address.key,
                UploadId=upload,
                PartNumber=number,
                CopySource={"Bucket": origin.bucket, "Key": origin.key},
                CopySourceRange=f"bytes={offset}-{offset + length - 1}",
                **matching,
            )
        self.meter.add(copied=length)
        return answer["CopyPartResult"]["ETag"]

    def complete(self, address: ObjectAddress, upload: str, etags: Sequence[str]) -> None:
        """Make the parts one object, if there is none of that name."""
        with self._request(address, "writing", unless_matching=FileTaken):
            self._s3.complete_multipart_upload(
                Bucket=address.bucket,
                Key=address.key,
                UploadId=upload,
                MultipartUpload={"Parts": [{"PartNumber": n, "ETag": etag} for n, etag in enumerate(etags, 1)]},
                **self._if_absent(),
            )

    def drop_upload(self, address: ObjectAddress, upload: str) -> None:
        """Give up an upload and its parts; one that is gone is no error."""
        try:
            with self._request(address, "aborting"):
                self._s3.abort_multipart_upload(Bucket=address.bucket, Key=address.key, UploadId=upload)
        except (UploadGone, FileMissing):
            return

    def uploads(self, below: ObjectAddress, before: datetime | None = None) -> list[tuple[ObjectAddress, str]]:
        """Uploads that are under way below a prefix, or those begun before a moment; none where the store cannot
        tell."""
        uploads: list[tuple[ObjectAddress, str]] = []
        after: dict[str, Any] = {}
        while True:
            try:
                with self._request(below, "listing uploads"):
                    answer = self._s3.list_multipart_uploads(Bucket=below.bucket, Prefix=below.key, **after)
            except StorageLacks:
                return uploads
            for upload in answer.get("Uploads", []):
                key = upload["Key"]
                young = before is not None and upload.get("Initiated", before) >= before
                if key.startswith(below.key) and not young:  # some stores do not mind the prefix
                    path = f"{below.path[: -len(below.key)]}{key}"
                    uploads.append((ObjectAddress.of(path), upload["UploadId"]))
            if not answer.get("IsTruncated"):
                return uploads
            after = {"KeyMarker": answer["NextKeyMarker"], "UploadIdMarker": answer.get("NextUploadIdMarker", "")}

    def delete(self, address: ObjectAddress) -> None:
        """Delete an object, unless the table's owner forbids it."""
        if not self.writing.deletes:
            return
        try:
            with self._request(address, "deleting"):
                self._s3.delete_object(Bucket=address.bucket, Key=address.key)
        except FileMissing:
            return

    def _new_object(self, token: str) -> dict[str, Any]:
        wanted = {
            "ServerSideEncryption": self.writing.encryption,
            "SSEKMSKeyId": self.writing.encryption_key,
            "StorageClass": self.writing.storage_class,
            "ACL": self.writing.acl,
            "Tagging": self.writing.tags,
        }
        return {"Metadata": {_TOKEN: token}, **{key: value for key, value in wanted.items() if value is not None}}

    def _if_absent(self) -> dict[str, Any]:
        return {"IfNoneMatch": "*"} if self.client.conditional else {}

    @contextmanager
    def _request(
        self, address: ObjectAddress, doing: str, *, unless_matching: type[StorageError] = StorageError
    ) -> Iterator[None]:
        """Count the requests of this block for this work, and translate its failures into errors of `base`."""
        _counting.meter = self.meter
        try:
            yield
        except (ClientError, BotoCoreError) as error:
            # the chain of causes would travel to the driver's log, with whatever a store chose to say
            raise _translated(address.path, doing, error, unless_matching) from None
        finally:
            _counting.meter = None


def _count(request: Any = None, **_: object) -> None:
    """Called by botocore before each attempt to send, in the thread that sends."""
    if meter := getattr(_counting, "meter", None):
        meter.add(requests=1, writes=int(getattr(request, "method", "") in _WRITING))


def _translated(
    path: str, doing: str, error: ClientError | BotoCoreError, unless_matching: type[StorageError]
) -> StorageError:
    if not isinstance(error, ClientError):
        unreachable = isinstance(error, (HTTPClientError, Unreachable))
        kind: type[StorageError] = StorageUnavailable if unreachable else StorageRefused
        return kind(f"{path}: {doing} failed: {type(error).__name__}")
    code = str(error.response.get("Error", {}).get("Code", "unknown"))
    status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    return _kind(code, status, unless_matching)(f"{path}: {doing} failed: {code} (HTTP {status})")


def _kind(code: str, status: int, unless_matching: type[StorageError]) -> type[StorageError]:
    if code in _BY_CODE:
        return _BY_CODE[code]
    if status == 412:
        return unless_matching
    return _BY_STATUS.get(status, StorageUnavailable if status >= 500 else StorageError)
