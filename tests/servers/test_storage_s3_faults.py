"""A store that cuts, loses, refuses and fails, in front of a real one: files end right or leave nothing."""

import http.client
import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pytest

from icepact.execute.storage.base import (
    KIB,
    MIB,
    FileTaken,
    Sink,
    Storage,
    StorageError,
    StorageRefused,
    StorageUnavailable,
    Traffic,
)
from icepact.execute.storage.open import storage_for
from tests.support.servers.s3 import S3Server
from tests.unit.execute.storage.test_verbs import noise

LARGE = 9_000_000
_names = itertools.count(1)


class Fault(Enum):
    """What can happen to a request that is passed on."""

    CUT = auto()
    """Half of the body comes back, then the line is dead."""
    LOSE = auto()
    """It is carried out, but nothing comes back."""


@dataclass(frozen=True)
class Refuse:
    """The request is answered here and never reaches the store."""

    status: int
    code: str


@dataclass(frozen=True)
class Seen:
    """One request that came to the gate."""

    method: str
    query: str
    headers: dict[str, str]

    @property
    def kind(self) -> str:
        """In the words of S3."""
        if self.method == "PUT" and "partNumber" in self.query:
            return "UploadPartCopy" if "x-amz-copy-source" in self.headers else "UploadPart"
        if self.method == "POST":
            return "CompleteMultipartUpload" if "uploadId" in self.query else "CreateMultipartUpload"
        if self.method == "DELETE" and "uploadId" in self.query:
            return "AbortMultipartUpload"
        return {"GET": "GetObject", "HEAD": "HeadObject", "PUT": "PutObject", "DELETE": "DeleteObject"}[self.method]


Rule = Callable[[Seen], Fault | Refuse | None]


@dataclass
class Gate:
    """A store of its own to clients: it has its own address, so nothing learned about it counts for others."""

    server: S3Server
    port: int
    rule: Rule = lambda seen: None
    seen: list[Seen] = field(default_factory=list)
    under_way: set[int] = field(default_factory=set)
    """Threads that are serving a request."""

    @property
    def storage(self) -> Storage:
        """Storage that goes through this gate."""
        return storage_for({**self.server.properties, "s3.endpoint": f"http://127.0.0.1:{self.port}"})

    def kinds(self) -> list[str]:
        """What was asked for, in order."""
        return [seen.kind for seen in self.seen]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _serve(self) -> None:
        server: Any = self.server
        gate: Gate = server.gate
        gate.under_way.add(threading.get_ident())
        try:
            self._pass_on(gate)
        finally:
            gate.under_way.discard(threading.get_ident())

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve

    def _pass_on(self, gate: Gate) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items() if name.lower() != "expect"}
        seen = Seen(self.command, urlsplit(self.path).query, headers)
        gate.seen.append(seen)
        fault = gate.rule(seen)
        if isinstance(fault, Refuse):
            self._answer(fault.status, [], f"<Error><Code>{fault.code}</Code><Message>no</Message></Error>".encode())
            return
        with closing(http.client.HTTPConnection(urlsplit(gate.server.endpoint).netloc, timeout=60)) as connection:
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            content = response.read()
        if fault is Fault.LOSE:
            self.close_connection = True
        else:
            self._answer(response.status, response.getheaders(), content, cut=fault is Fault.CUT)

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes, cut: bool = False) -> None:
        self.send_response(status)
        lengths = [value for name, value in headers if name.lower() == "content-length"]
        for name, value in headers:
            if name.lower() not in {"content-length", "transfer-encoding", "connection", "date", "server"}:
                self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", lengths[0] if lengths else str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if cut else content)
        self.close_connection = self.close_connection or cut

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: requests are kept."""


@pytest.fixture
def gate(s3_server: S3Server) -> Iterator[Gate]:
    """A gate that lets everything through, until it is given a rule."""
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    gate = Gate(s3_server, server.server_port)
    server.gate = gate
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    yield gate
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def folder(s3_server: S3Server) -> Iterator[str]:
    """A prefix of its own; at the end no upload may be unfinished."""
    yield f"s3://{s3_server.bucket}/faults-{next(_names)}"
    assert s3_server.unfinished_uploads() == set()


def put(server: S3Server, path: str, content: bytes) -> str:
    """An object that somebody else wrote."""
    server.client.put_object(Bucket=server.bucket, Key=path.removeprefix(f"s3://{server.bucket}/"), Body=content)
    return path


def left(server: S3Server, folder: str) -> set[str]:
    """What is below a folder."""
    return {path.rpartition("/")[2] for path in server.objects(folder.removeprefix(f"s3://{server.bucket}/") + "/")}


def only(kind: str, fault: Fault | Refuse, first: int = 0, count: int = 1_000) -> Rule:
    """A rule for the requests of one kind, from the n-th on, for a number of them."""
    lock, numbers = threading.Lock(), itertools.count()

    def rule(seen: Seen) -> Fault | Refuse | None:
        if seen.kind != kind:
            return None
        with lock:
            return fault if first <= next(numbers) < first + count else None

    return rule


def write(sink: Sink, pieces: list[bytes]) -> None:
    """A whole file, closed."""
    for piece in pieces:
        sink.append(piece)
    sink.close()


def spliced(gate: Gate, folder: str, storage: Storage, files: int = 3) -> tuple[Sink, bytes]:
    """A sink with some files copied into it and a footer, not closed; and what it must hold."""
    contents = [noise(LARGE, seed) for seed in range(files)]
    sink = storage.create(f"{folder}/out")
    for number, content in enumerate(contents):
        source = storage.open(put(gate.server, f"{folder}/in-{number}", content), LARGE)
        sink.copy(source, 0, LARGE)
        source.close()
    sink.append(b"footer")
    return sink, b"".join(contents) + b"footer"


# -- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [100_000, LARGE])
def test_a_body_that_breaks_off_is_asked_for_again(gate: Gate, folder: str, size: int) -> None:
    path = put(gate.server, f"{folder}/in", noise(size))
    gate.rule = only("GetObject", Fault.CUT, count=2)
    storage = gate.storage
    assert storage.open(path, size).tail(1_000) == noise(size)[-1_000:]
    assert storage.traffic.requests == 3


def test_a_store_that_always_breaks_off_is_unavailable(gate: Gate, folder: str) -> None:
    path = put(gate.server, f"{folder}/in", noise(1_000))
    gate.rule = only("GetObject", Fault.CUT)
    with pytest.raises(StorageUnavailable, match=f"{folder}/in: the answer broke off"):
        gate.storage.open(path, 1_000).tail(8)
    assert gate.kinds() == ["GetObject"] * 4


def test_repeated_requests_are_counted(gate: Gate, folder: str) -> None:
    path = put(gate.server, f"{folder}/in", noise(1_000))
    gate.rule = only("GetObject", Refuse(503, "SlowDown"), count=2)
    storage = gate.storage
    assert storage.open(path, 1_000).tail(8) == noise(1_000)[-8:]
    assert storage.traffic == Traffic(requests=3, bytes_read=1_000)


# -- copies that are refused ----------------------------------------------------------------------

REFUSALS = [
    Refuse(501, "NotImplemented"),
    Refuse(405, "MethodNotAllowed"),
    Refuse(403, "AccessDenied"),
    Refuse(400, "InvalidRequest"),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.code)
def test_a_store_that_copies_no_parts_is_streamed_to_from_then_on(gate: Gate, folder: str, refusal: Refuse) -> None:
    gate.rule = only("UploadPartCopy", refusal)
    storage = gate.storage
    sink, expected = spliced(gate, folder, storage)
    assert not sink.copies_server_side
    sink.close()
    assert gate.server.content(f"{folder}/out") == expected
    assert gate.kinds().count("UploadPartCopy") == 1
    assert storage.traffic.bytes_copied == 0
    assert not gate.storage.create(f"{folder}/next").copies_server_side


def test_copies_that_are_refused_later_are_sent_as_they_are(gate: Gate, folder: str) -> None:
    """The second and third are under way in the background already; after that nothing is tried again."""
    gate.rule = only("UploadPartCopy", Refuse(403, "AccessDenied"), first=1)
    storage = gate.storage
    sink, expected = spliced(gate, folder, storage)
    sink.close()
    assert gate.server.content(f"{folder}/out") == expected
    assert storage.traffic.bytes_copied == LARGE
    assert storage.traffic.bytes_written == 2 * LARGE + 6
    assert not gate.storage.create(f"{folder}/next").copies_server_side


def test_other_failures_of_a_copy_are_no_reason_to_stream(gate: Gate, folder: str) -> None:
    gate.rule = only("UploadPartCopy", Refuse(404, "NoSuchBucket"))
    sink = gate.storage.create(f"{folder}/out")
    storage = gate.storage
    source = storage.open(put(gate.server, f"{folder}/in", noise(LARGE)), LARGE)
    sink.copy(source, 0, LARGE)
    with pytest.raises(StorageError, match="NoSuchBucket"):
        sink.close()
    sink.abort()
    assert left(gate.server, folder) == {"in"}


# -- parts that fail ------------------------------------------------------------------------------


def test_a_part_that_fails_in_the_background_fails_the_file(gate: Gate, folder: str) -> None:
    gate.rule = only("UploadPart", Refuse(403, "AccessDenied"), first=1, count=1)
    sink = gate.storage.create(f"{folder}/out")
    with pytest.raises(StorageRefused, match=f"{folder}/out: writing failed: AccessDenied"):
        write(sink, [noise(8 * MIB)] * 12)
    assert gate.kinds().count("UploadPart") <= 4  # of six: it is noticed when the fifth wants to go
    with pytest.raises(StorageRefused, match="AccessDenied"):
        sink.close()
    assert "CompleteMultipartUpload" not in gate.kinds()
    sink.abort()
    assert left(gate.server, folder) == set()


def test_an_abort_waits_for_parts_under_way(gate: Gate, folder: str) -> None:
    """A part that arrives after the abort would stay in the store for ever."""
    arrived = threading.Event()
    others: list[int] = []

    def rule(seen: Seen) -> None:
        if seen.kind == "UploadPart":
            arrived.set()
        if seen.kind == "AbortMultipartUpload":
            others.append(len(gate.under_way) - 1)

    gate.rule = rule
    sink = gate.storage.create(f"{folder}/out")
    sink.append(noise(48 * MIB))
    assert arrived.wait(60)
    sink.abort()
    assert others == [0]
    assert left(gate.server, folder) == set()


# -- publishing -----------------------------------------------------------------------------------


def test_a_completion_whose_answer_is_lost_is_recognised(gate: Gate, folder: str) -> None:
    gate.rule = only("CompleteMultipartUpload", Fault.LOSE, count=1)
    sink, expected = spliced(gate, folder, gate.storage)
    sink.close()
    sink.abort()
    assert gate.server.content(f"{folder}/out") == expected
    assert gate.kinds()[-3:] == ["CompleteMultipartUpload", "CompleteMultipartUpload", "HeadObject"]


def test_a_small_file_whose_answer_is_lost_is_recognised(gate: Gate, folder: str) -> None:
    gate.rule = only("PutObject", Fault.LOSE, count=1)
    sink = gate.storage.create(f"{folder}/out")
    sink.append(b"small")
    sink.close()
    assert gate.server.content(f"{folder}/out") == b"small"
    assert gate.kinds() == ["PutObject", "PutObject", "HeadObject"]


@pytest.mark.parametrize("size", [10, 20 * MIB])
def test_an_object_that_was_published_by_a_failed_close_is_removed(gate: Gate, folder: str, size: int) -> None:
    """Nobody can say whether it landed, and the looking fails too: only the abort finds out."""
    publish = "PutObject" if size == 10 else "CompleteMultipartUpload"
    looks = only("HeadObject", Refuse(403, "AccessDenied"), first=0 if size == 10 else 1)
    loses = only(publish, Fault.LOSE, count=1)
    gate.rule = lambda seen: looks(seen) or loses(seen)
    sink = gate.storage.create(f"{folder}/out")
    sink.append(noise(size))
    with pytest.raises(FileTaken):
        sink.close()
    assert left(gate.server, folder) == {"out"}
    gate.rule = lambda seen: None
    sink.abort()
    assert left(gate.server, folder) == set()


def test_whoever_comes_between_looking_and_completing_wins(gate: Gate, folder: str) -> None:
    def rule(seen: Seen) -> None:
        if seen.kind == "CompleteMultipartUpload":
            put(gate.server, f"{folder}/out", b"precious")

    gate.rule = rule
    sink = gate.storage.create(f"{folder}/out")
    sink.append(noise(20 * MIB))
    with pytest.raises(FileTaken, match="PreconditionFailed"):
        sink.close()
    sink.abort()
    assert gate.server.content(f"{folder}/out") == b"precious"


def test_a_store_that_may_ignore_the_condition_is_looked_at_before_completing(gate: Gate, folder: str) -> None:
    sink = gate.storage.create(put(gate.server, f"{folder}/out", b"precious"))
    sink.append(noise(20 * MIB))
    with pytest.raises(FileTaken):
        sink.close()
    assert "CompleteMultipartUpload" not in gate.kinds()
    sink.abort()
    assert gate.server.content(f"{folder}/out") == b"precious"


@pytest.mark.parametrize("size", [10, 20 * MIB])
def test_a_store_without_conditions_is_looked_at_instead(gate: Gate, folder: str, size: int) -> None:
    def rule(seen: Seen) -> Refuse | None:
        return Refuse(501, "NotImplemented") if "if-none-match" in seen.headers else None

    gate.rule = rule
    for name in ("one", "two"):
        sink = gate.storage.create(f"{folder}/{name}")
        sink.append(noise(size))
        sink.close()
        assert gate.server.content(f"{folder}/{name}") == noise(size)
    assert len([seen for seen in gate.seen if "if-none-match" in seen.headers]) == 1
    again = gate.storage.create(f"{folder}/one")
    again.append(b"other")
    with pytest.raises(FileTaken, match="exists already"):
        again.close()
    again.abort()
    assert gate.server.content(f"{folder}/one") == noise(size)


# -- what is asked for ----------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "kind"), [(10, "PutObject"), (20 * MIB, "CreateMultipartUpload")])
def test_encryption_is_asked_for(gate: Gate, folder: str, size: int, kind: str) -> None:
    gate.rule = only(kind, Refuse(403, "AccessDenied"))
    properties = {**gate.server.properties, "s3.endpoint": f"http://127.0.0.1:{gate.port}"}
    sink = storage_for({**properties, "s3.sse.type": "kms", "s3.sse.key": "key-1"}).create(f"{folder}/out")
    with pytest.raises(StorageRefused, match="AccessDenied"):
        write(sink, [noise(size)])
    sink.abort()
    asked = gate.seen[0].headers
    assert gate.seen[0].kind == kind
    assert asked["x-amz-server-side-encryption"] == "aws:kms"
    assert asked["x-amz-server-side-encryption-aws-kms-key-id"] == "key-1"


def test_copies_are_bound_to_what_was_read(gate: Gate, folder: str) -> None:
    storage = gate.storage
    source = storage.open(put(gate.server, f"{folder}/in", noise(LARGE)), LARGE)
    source.tail(64 * KIB)
    sink = storage.create(f"{folder}/out")
    sink.copy(source, 0, LARGE)
    sink.close()
    copies = [seen.headers for seen in gate.seen if seen.kind == "UploadPartCopy"]
    head = gate.server.client.head_object(
        Bucket=gate.server.bucket, Key=f"{folder}/in".removeprefix(f"s3://{gate.server.bucket}/")
    )
    assert [headers["x-amz-copy-source-if-match"] for headers in copies] == [head["ETag"]]
