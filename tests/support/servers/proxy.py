"""A door in front of a REST catalog: it asks for a token, hands out S3 keys with every table, and counts.

Iceberg's test server does neither; the catalogs that people pay for do both.
"""

import http.client
import json
import re
import secrets
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from tests.support.servers.process import LOOPBACK
from tests.support.servers.rest import RestCatalog


class Handing(StrEnum):
    """Where in the answer the keys are."""

    CONFIG = "config"
    CREDENTIALS = "storage-credentials"


class Request(StrEnum):
    """What a client asked for."""

    LOAD = "load"
    CREATE = "create"
    COMMIT = "commit"
    REFUSED = "refused"
    """Without the token."""
    OTHER = "other"


@dataclass(kw_only=True, slots=True)
class VendingCatalog:
    """A REST catalog whose clients have a token and nothing else."""

    uri: str
    token: str = field(repr=False)
    keys: Mapping[str, str] = field(repr=False)
    """What is handed out with a table; a test may change it."""
    handing: Handing
    behind: RestCatalog
    requests: Counter[Request] = field(default_factory=Counter)
    """Counted since the start, by kind."""

    @property
    def properties(self) -> dict[str, str]:
        """A client's configuration: no keys."""
        return {"type": "rest", "uri": self.uri, "token": self.token}

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must be seen nowhere."""
        return self.token, self.behind.s3.access_key, self.behind.s3.secret_key

    def answered(self, kind: Request, body: bytes) -> bytes:
        """The catalog's answer with the keys in it, if it is about one table."""
        if kind not in {Request.LOAD, Request.CREATE, Request.COMMIT}:
            return body
        result: dict[str, Any] = json.loads(body)
        if self.handing is Handing.CONFIG:
            result["config"] = {**result.get("config", {}), **self.keys}
        else:
            prefix = f"s3://{self.behind.s3.bucket}/"
            result["storage-credentials"] = [{"prefix": prefix, "config": dict(self.keys)}]
        return json.dumps(result).encode()


@contextmanager
def vending_catalog(behind: RestCatalog, handing: Handing) -> Iterator[VendingCatalog]:
    """A REST catalog with a token at its door; the same tables as behind it."""
    server: Any = ThreadingHTTPServer((LOOPBACK, 0), _Door)
    catalog = VendingCatalog(
        uri=f"http://{LOOPBACK}:{server.server_port}",
        token=secrets.token_urlsafe(24),
        keys=behind.s3.properties,
        handing=handing,
        behind=behind,
    )
    server.catalog = catalog
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield catalog
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


_ROUTES = (
    ("GET", re.compile(r"/v1/(?:[^/]+/)?namespaces/[^/]+/tables/[^/]+"), Request.LOAD),
    ("POST", re.compile(r"/v1/(?:[^/]+/)?namespaces/[^/]+/tables"), Request.CREATE),
    ("POST", re.compile(r"/v1/(?:[^/]+/)?namespaces/[^/]+/tables/[^/]+"), Request.COMMIT),
)
_REFUSAL = {"error": {"message": "Not authorized: unknown token", "type": "NotAuthorizedException", "code": 401}}
_NOT_PASSED_ON = {"host", "connection", "accept-encoding", "content-length", "transfer-encoding", "authorization"}


class _Door(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"  # clients keep their connections

    def _serve(self) -> None:
        server: Any = self.server
        catalog: VendingCatalog = server.catalog
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if not secrets.compare_digest(self.headers.get("Authorization") or "", f"Bearer {catalog.token}"):
            catalog.requests[Request.REFUSED] += 1
            self._send(401, "application/json", json.dumps(_REFUSAL).encode())
            return
        kind = self._kind()
        catalog.requests[kind] += 1
        status, content_type, answer = self._ask(catalog.behind.uri, body)
        self._send(status, content_type, catalog.answered(kind, answer) if status == 200 else answer)

    do_GET = do_HEAD = do_POST = do_DELETE = _serve

    def _kind(self) -> Request:
        path = urlsplit(self.path).path
        found = (kind for method, route, kind in _ROUTES if method == self.command and route.fullmatch(path))
        return next(found, Request.OTHER)

    def _ask(self, uri: str, body: bytes) -> tuple[int, str, bytes]:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _NOT_PASSED_ON}
        with closing(http.client.HTTPConnection(urlsplit(uri).netloc, timeout=60)) as connection:
            connection.request(self.command, self.path, body or None, headers)
            response = connection.getresponse()
            return response.status, response.headers.get("Content-Type") or "application/json", response.read()

    def _send(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status != 204:
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: requests are counted."""
