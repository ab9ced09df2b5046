"""Where the tables of housekeeping's benchmark are: folders of this machine, or an S3 server."""

import hashlib
import hmac
import http.client
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, urlsplit

from tests.support.servers.faulty import faulty
from tests.support.servers.s3 import S3Server, s3_server
from tests.support.servers.trial import configuration

from bench.session import neutral_compactor
from icepact import Compactor

LONG_AGO = time.time() - 30 * 86400
"""When files that are put here were written, where a store believes it."""
_AT_ONCE, _THREADS = 500, 6


class Store(Protocol):
    """Storage with tables on it."""

    @property
    def name(self) -> str:
        """For people."""

    @property
    def dated(self) -> bool:
        """Whether files are as old as they are said to be."""

    def open(self) -> Compactor:
        """A compactor whose tables are here, with a neutral session."""

    def files(self, folder: str) -> set[str]:
        """Paths of all files below a folder."""

    def get(self, path: str) -> bytes:
        """What is in a file."""

    def put(self, files: Mapping[str, bytes]) -> None:
        """Write files, each as one of long ago."""

    def remove(self, path: str) -> None:
        """Delete a file."""


@dataclass(frozen=True)
class LocalStore:
    """A folder."""

    folder: Path
    name: str = "local"
    dated: bool = True

    def open(self) -> Compactor:
        """A compactor on the embedded catalog."""
        return neutral_compactor(self.folder)

    def files(self, folder: str) -> set[str]:
        """Checksums of Hadoop's aside."""
        found: set[str] = set()
        for path, _, names in os.walk(folder):
            found.update(f"{path}/{name}" for name in names if not name.endswith(".crc"))
        return found

    def get(self, path: str) -> bytes:
        """What is in a file."""
        return Path(path).read_bytes()

    def put(self, files: Mapping[str, bytes]) -> None:
        """Write files, each as one of long ago."""
        for folder in {path.rsplit("/", 1)[0] for path in files}:
            os.makedirs(folder, exist_ok=True)
        for path, content in files.items():
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.write(handle, content)
            os.close(handle)
            os.utime(path, (LONG_AGO, LONG_AGO))

    def remove(self, path: str) -> None:
        """Delete a file."""
        os.unlink(path)


@dataclass(frozen=True)
class S3Store:
    """A bucket of a real server."""

    folder: Path
    server: S3Server
    endpoint: str
    """For clients that are measured: the server's own, or one that counts."""
    name: str = "S3"
    dated: bool = False

    def open(self) -> Compactor:
        """A compactor on a JDBC catalog."""
        catalog = {
            "type": "jdbc",
            "uri": f"jdbc:sqlite:{self.folder}/catalog.db",
            "jdbc.schema-version": "V1",
            "warehouse": f"s3://{self.server.bucket}/wh",
            "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            **self.server.properties,
            "s3.endpoint": self.endpoint,
        }
        return Compactor(config=configuration(self.folder / "s3-config", catalog, master="local[*]"))

    def files(self, folder: str) -> set[str]:
        """Paths of all objects below a folder."""
        return self.server.objects(folder.removeprefix(f"s3://{self.server.bucket}/"))

    def get(self, path: str) -> bytes:
        """What is in an object."""
        return self.server.content(path)

    def put(self, files: Mapping[str, bytes]) -> None:
        """Signed by hand: boto3 would take minutes."""
        with ThreadPoolExecutor(_THREADS) as pool:
            entries = list(files.items())
            parts = [entries[start : start + _AT_ONCE] for start in range(0, len(entries), _AT_ONCE)]
            list(pool.map(self._put_some, parts))

    def remove(self, path: str) -> None:
        """Delete an object."""
        self.server.client.delete_object(
            Bucket=self.server.bucket, Key=path.removeprefix(f"s3://{self.server.bucket}/")
        )

    def _put_some(self, files: Sequence[tuple[str, bytes]]) -> None:
        host = urlsplit(self.server.endpoint).netloc
        connection = http.client.HTTPConnection(host, timeout=60)
        for path, content in files:
            target = f"/{self.server.bucket}/{quote(path.removeprefix(f's3://{self.server.bucket}/'), safe='/-_.~')}"
            connection.request("PUT", target, content, _signed(self.server, host, target))
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise OSError(f"{answer.status} for {path}")
        connection.close()


def _signed(server: S3Server, host: str, target: str) -> dict[str, str]:
    """Headers of a PUT, with Amazon's signature, version 4."""
    now = time.gmtime()
    stamp, day = time.strftime("%Y%m%dT%H%M%SZ", now), time.strftime("%Y%m%d", now)
    names, payload, scope = "host;x-amz-content-sha256;x-amz-date", "UNSIGNED-PAYLOAD", f"{day}/{server.region}/s3"
    lines = ["PUT", target, "", f"host:{host}", f"x-amz-content-sha256:{payload}", f"x-amz-date:{stamp}", "", names]
    asked = hashlib.sha256("\n".join([*lines, payload]).encode()).hexdigest()
    key = f"AWS4{server.secret_key}".encode()
    for part in (day, server.region, "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}/aws4_request\n{asked}"
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    return {
        "x-amz-date": stamp,
        "x-amz-content-sha256": payload,
        "Authorization": f"AWS4-HMAC-SHA256 Credential={server.access_key}/{scope}/aws4_request, "
        f"SignedHeaders={names}, Signature={signature}",
    }


class Requests:
    """Requests that delete, as a proxy in front of an S3 server saw them."""

    def __init__(self) -> None:
        self.bulk = 0
        """Each of them deletes up to 1,000 objects."""
        self.single = 0
        self.refused = 0
        """Answers that a client tries again after."""

    def see(self, method: str, path: str, status: int) -> None:
        """Count one."""
        query = urlsplit(path).query.split("&")
        self.bulk += method == "POST" and any(part.partition("=")[0] == "delete" for part in query)
        self.single += method == "DELETE" and not any(part.startswith("uploadId") for part in query)
        self.refused += status >= 500


@contextmanager
def s3_store(folder: Path) -> Iterator[S3Store]:
    """A server of its own."""
    with s3_server(folder) as server:
        yield S3Store(folder, server, server.endpoint)


@contextmanager
def counted(store: S3Store) -> Iterator[tuple[S3Store, Requests]]:
    """The same store behind a proxy that counts."""
    requests = Requests()
    with faulty(store.server.endpoint) as proxy:
        proxy.answered = lambda asked, status: requests.see(asked.method, asked.path, status)
        yield S3Store(store.folder, store.server, proxy.endpoint), requests
