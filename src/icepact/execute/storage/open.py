"""Which storage serves a path: by its scheme, with the credentials of its longest prefix."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from icepact.execute.storage.base import Sink, Source, Storage
from icepact.execute.storage.local import LocalStorage
from icepact.execute.storage.s3_settings import (
    connection_of,
    for_bucket,
    refused_settings,
    with_credential,
    writing_of,
)
from icepact.model.errors import SetupMissing

Credentials = Sequence[tuple[str, Mapping[str, str]]]
"""Properties that a catalog vended, each with the prefix of the paths they are for."""
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):")
_S3 = {"s3", "s3a", "s3n"}


def refusal(properties: Mapping[str, str], credentials: Credentials = ()) -> str | None:
    """Why files that are configured like this cannot be served here, in one line; `None` if they can."""
    for settings in [properties, *(with_credential(properties, vended) for _, vended in credentials)]:
        if reason := refused_settings(settings):
            return reason
    return None


def storage_for(properties: Mapping[str, str], credentials: Credentials = ()) -> Storage:
    """All storage a table can reach, with the properties of its FileIO."""
    return TableStorage(properties, credentials)


class TableStorage(Storage):
    """Every path of one table, each served by what its scheme asks for; traffic is counted together."""

    def __init__(self, properties: Mapping[str, str], credentials: Credentials) -> None:
        super().__init__(None)
        self._properties = properties
        self._credentials = credentials
        self._local = LocalStorage(self._meter)
        self._known: dict[tuple[str, str], Storage] = {}

    def open(self, path: str, size: int) -> Source:
        """A file to read."""
        return self._storage(path).open(path, size)

    def create(self, path: str) -> Sink:
        """A new file."""
        return self._storage(path).create(path)

    def delete(self, path: str) -> None:
        """Remove a file; an absent one is no error."""
        self._storage(path).delete(path)

    def unfinished(self, prefix: str, *, abort: bool, before: datetime | None = None) -> int:
        """Uploads below a prefix that were begun and not finished."""
        return self._storage(prefix).unfinished(prefix, abort=abort, before=before)

    def _storage(self, path: str) -> Storage:
        match = _SCHEME.match(path)
        scheme = match.group(1).lower() if match else "file"
        if scheme == "file":
            return self._local
        prefix, vended = longest(path, self._credentials)
        bucket = path.partition("://")[2].partition("/")[0]
        key = (f"{scheme}://{bucket}", prefix)
        if key not in self._known:
            properties = with_credential(self._properties, vended)
            self._known[key] = self._s3(properties, bucket) if scheme in _S3 else self._pyiceberg(properties, path)
        return self._known[key]

    def _s3(self, properties: Mapping[str, str], bucket: str) -> Storage:
        try:
            from icepact.execute.storage.s3 import S3Storage
        except ImportError as error:
            raise SetupMissing(f"S3 needs the package boto3 where tasks run: {error}") from None
        settings = for_bucket(properties, bucket)
        return S3Storage(connection_of(settings), writing_of(settings), self._meter)

    def _pyiceberg(self, properties: Mapping[str, str], path: str) -> Storage:
        try:
            from icepact.execute.storage.pyiceberg_io import PyIcebergStorage

            return PyIcebergStorage(properties, path, self._meter)
        except ImportError as error:
            raise SetupMissing(f"{path}: needs the package pyiceberg where tasks run: {error}") from None


def longest(path: str, credentials: Credentials) -> tuple[str, Mapping[str, str]]:
    """The vended properties whose prefix fits a path best; `s3a:` and `s3n:` are `s3:`."""
    fitting = [item for item in credentials if _plain(path).startswith(_plain(item[0]))]
    return max(fitting, key=lambda item: len(_plain(item[0])), default=("", {}))


def _plain(path: str) -> str:
    return re.sub(r"^s3[an]:", "s3:", path)
