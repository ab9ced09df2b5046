"""Keys and values in etcd, by its HTTP gateway.

Each transaction also writes its number under a name of its own, which a lease of the process takes away an hour after
its end: one whose answer was lost finds it there when it is tried again, and one that arrives late finds another
version of it and is refused.
"""

import json
import ssl
import time
import uuid
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from socket import SHUT_RDWR, socket
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from icepact.model.errors import BadInput, StoreUnusable
from icepact.record.clock import ServerClock
from icepact.record.hearing import SILENCE, Heard, Hearing
from icepact.record.kv.interface import Entry, Span
from icepact.record.retries import Patience
from icepact.record.slots import Slot, Slots

try:
    import httpx
except ImportError:
    raise StoreUnusable("the run history in etcd needs a package: pip install 'icepact[etcd]'") from None

Result = TypeVar("Result")
_PREFIX = "icepact"
_TIMEOUT = 10.0
"""Seconds that one request may take."""
_LEASE_SECONDS = 3600
_NUMBERS_EACH = 2
"""Of 128 operations that etcd takes at a time, some are ours."""
_UNAUTHENTICATED, _UNAVAILABLE, _NOT_FOUND, _EXHAUSTED = 16, 14, 5, 8
_LOSES_WRITES = ("3.5.0", "3.5.1", "3.5.2")


class _Refused(Exception):
    """etcd answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Etcd:
    """An etcd cluster, by the addresses of its members."""

    most_keys = 128 - _NUMBERS_EACH
    most_bytes = 1 << 20
    cache_bytes = 256 << 20

    def __init__(self, url: str) -> None:
        self._endpoints, self._user, options = _split(url)
        self._prefix = options.get("prefix", _PREFIX) + "/"
        self._slot_prefix = options.get("prefix", _PREFIX) + ":done/"
        self._bell = _text(f"{self._slot_prefix}bell".encode())
        """The key of the job that was told of last; whoever may write our other keys may write it."""
        self._shown = ",".join(self._endpoints)
        self._authority: str | None = options.get("ca")
        self._http = self._new_client()
        self._lock = Lock()
        self._token: str | None = None
        self._lease: tuple[str, float] | None = None
        """Its id, and when it was last renewed."""
        self._patience = Patience(self._describe, _is_passing)
        self._slots = Slots(lambda: Slot(uuid.uuid4().hex))
        self._clock = ServerClock()

    def now(self) -> datetime:
        """The time by the clock of whichever member answers."""
        if self._clock.is_stale:
            self.read([Span.of("")])
        return self._clock.now()

    def read(self, spans: Sequence[Span]) -> Sequence[Sequence[Entry]]:
        """What is in each of some spans."""
        asked = [{"request_range": self._range(span)} for span in spans]
        answer = self._ask(lambda: self._call("kv/txn", {"success": asked}))
        return [
            [self._entry(one) for one in some["response_range"].get("kvs", ())] for some in answer.get("responses", ())
        ]

    def commit(
        self,
        compares: Mapping[str, int],
        puts: Mapping[str, bytes],
        deletes: Collection[str] = (),
        *,
        persists: Collection[str] = (),
        tells: str | None = None,
    ) -> bool:
        """Change keys, if all compared ones have these versions."""
        slot = self._slots.take()
        slot.number += 1
        done = self._ask(lambda: self._commit(slot, compares, puts, deletes, persists, tells))
        self._slots.give_back(slot)  # not after an error: that transaction may still be on its way
        return done

    def _commit(
        self,
        slot: Slot,
        compares: Mapping[str, int],
        puts: Mapping[str, bytes],
        deletes: Collection[str],
        persists: Collection[str],
        tells: str | None,
    ) -> bool:
        ours, number = _text((self._slot_prefix + slot.name).encode()), str(slot.number).encode()
        changes: list[dict[str, Any]] = [
            {"request_put": {"key": ours, "value": _text(number), "lease": self._kept_lease()}},
            *({"request_put": {"key": self._key(name), "value": _text(value)}} for name, value in puts.items()),
            *({"request_delete_range": {"key": self._key(name)}} for name in deletes),
            *({"request_put": {"key": self._key(name), "ignore_value": True}} for name in persists),
        ]
        if tells is not None:
            changes.append({"request_put": {"key": self._bell, "value": _text(tells.encode())}})
        compared = [*((self._key(name), version) for name, version in compares.items()), (ours, slot.version)]
        asked = {
            "compare": [
                {"key": name, "target": "MOD", "result": "EQUAL", "mod_revision": str(version)}
                for name, version in compared
            ],
            "success": changes,
            "failure": [{"request_range": {"key": ours}}],
        }
        try:
            answer = self._call("kv/txn", asked)
        except _Refused as error:
            if error.code == _NOT_FOUND:
                self._lease = None  # it was away for more than an hour
                raise _Refused(_UNAVAILABLE, str(error)) from None
            raise
        if answer.get("succeeded"):
            slot.version = int(answer["header"]["revision"])
            return True
        [found] = answer["responses"]
        left = found["response_range"].get("kvs", ())
        version = int(left[0]["mod_revision"]) if left else 0
        if left and b64decode(left[0]["value"]) == number:
            slot.version = version  # it was heard the first time
            return True
        if version != slot.version:
            slot.version = version
            raise _Refused(_UNAVAILABLE, "the lease of this process has expired")  # and once more
        return False

    def park(self, key: str, value: bytes, *, seconds: float) -> None:
        """Write a key that goes by itself unless a transaction makes it stay."""

        def ask() -> None:
            lease = self._call("lease/grant", {"TTL": str(max(1, int(seconds)))})["ID"]
            self._call("kv/put", {"key": self._key(key), "value": _text(value), "lease": lease})

        self._ask(ask)

    def watch(self, heard: Heard) -> Hearing:
        """Have a function called with what transactions write under one key."""
        return Hearing(self._listen, heard)

    def _listen(self, hearing: Hearing) -> Generator[str | None]:
        try:
            yield from self._watched(hearing)
        except httpx.ReadTimeout:
            yield None  # nothing was told for so long
        except (httpx.HTTPError, OSError):
            self._try_another()
            raise
        except _Refused:
            self._token = None  # it may have expired
            raise

    def _watched(self, hearing: Hearing) -> Generator[str | None]:
        def opened(event: str, about: Mapping[str, Any]) -> None:
            if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
                line = about["return_value"].get_extra_info("socket")
                hearing.wakes(partial(socket.shutdown, line, SHUT_RDWR))

        asked: dict[str, Any] = {
            "json": {"create_request": {"key": self._bell}},
            "headers": self._headers(),
            "timeout": httpx.Timeout(_TIMEOUT, connect=_TIMEOUT / 2, read=SILENCE),
            "extensions": {"trace": opened},
        }
        with self._new_client() as http, http.stream("POST", f"{self._endpoints[0]}/v3/watch", **asked) as answer:
            if answer.status_code != 200:
                answer.read()
                raise _refusal(answer)
            for text in answer.iter_lines():
                said = json.loads(text).get("result", {"canceled": True})
                if said.get("canceled"):
                    raise _Refused(_UNAVAILABLE, "the watch has ended")
                if said.get("created"):
                    yield ""
                for event in said.get("events", ()):
                    yield b64decode(event["kv"].get("value", "")).decode()

    def concerns(self) -> Sequence[str]:
        """What is known of the server's version, and of the room it has."""
        version = self._ask(lambda: self._call("maintenance/status", {}))["version"]
        if version in _LOSES_WRITES:
            return [f"etcd {version} can lose what it wrote last when it is killed: use 3.5.3 or a later one"]
        return []

    def close(self) -> None:
        """Close all connections; the next call opens new ones."""
        http, self._http = self._http, self._new_client()
        http.close()

    def _new_client(self) -> httpx.Client:
        verify = True if self._authority is None else ssl.create_default_context(cafile=self._authority)
        return httpx.Client(timeout=httpx.Timeout(_TIMEOUT, connect=_TIMEOUT / 2), verify=verify)

    # -- requests ---------------------------------------------------------------------------------

    def _ask(self, ask: Callable[[], Result]) -> Result:
        return self._patience(ask, (httpx.HTTPError, OSError, _Refused))

    def _call(self, method: str, asked: Mapping[str, Any], *, login: bool = True) -> dict[str, Any]:
        headers = self._headers() if login else {}
        before = self._clock.time()
        try:
            answer = self._http.post(f"{self._endpoints[0]}/v3/{method}", json=asked, headers=headers)
        except (httpx.HTTPError, OSError):
            self._try_another()
            raise
        self._hear_time(before, answer)
        if answer.status_code == 200:
            return dict(answer.json())
        error = _refusal(answer)
        if error.code == _UNAUTHENTICATED and login and self._user is not None:
            self._token = None  # it has expired
            raise _Refused(_UNAVAILABLE, str(error))
        if error.code == _UNAVAILABLE:
            self._try_another()
        raise error

    def _headers(self) -> dict[str, str]:
        """With a token, if the cluster asks for one."""
        if self._user is not None and self._token is None:
            self._log_in()
        return {"Authorization": self._token} if self._token else {}

    def _log_in(self) -> None:
        assert self._user is not None
        name, password = self._user
        self._token = str(self._call("auth/authenticate", {"name": name, "password": password}, login=False)["token"])

    def _try_another(self) -> None:
        with self._lock:
            self._endpoints.append(self._endpoints.pop(0))

    def _hear_time(self, asked: datetime, answer: httpx.Response) -> None:
        """Every answer says in which second it was given."""
        try:
            theirs = parsedate_to_datetime(answer.headers["Date"])
        except (KeyError, ValueError):
            return
        self._clock.heard(asked, theirs, theirs + timedelta(seconds=1))

    def _kept_lease(self) -> str:
        """The lease of this process; renewed now and then."""
        with self._lock:
            known = self._lease
        if known is not None and time.monotonic() - known[1] < _LEASE_SECONDS / 4:
            return known[0]
        if known is not None:
            renewed = self._call("lease/keepalive", {"ID": known[0]}).get("result", {})
            if int(renewed.get("TTL", 0)) > 0:
                self._lease = known[0], time.monotonic()
                return known[0]
        granted = str(self._call("lease/grant", {"TTL": str(_LEASE_SECONDS)})["ID"])
        self._lease = granted, time.monotonic()
        return granted

    # -- keys -------------------------------------------------------------------------------------

    def _key(self, name: str) -> str:
        return _text((self._prefix + name).encode())

    def _range(self, span: Span) -> dict[str, Any]:
        if span.single:
            return {"key": self._key(span.start)}
        limit = {} if span.limit is None else {"limit": str(span.limit)}
        return {"key": self._key(span.start), "range_end": self._key(span.end), **limit}

    def _entry(self, found: Mapping[str, Any]) -> Entry:
        name = b64decode(found["key"]).decode().removeprefix(self._prefix)
        return Entry(name, b64decode(found.get("value", "")), int(found["mod_revision"]))

    def _describe(self, error: BaseException) -> str:
        why = (str(error) or type(error).__name__).strip().splitlines()[0]
        if isinstance(error, _Refused) and error.code == _EXHAUSTED:
            why = f"{why}; raise its --quota-backend-bytes, compact and defragment it"
        return f"the run history {self._shown} cannot be used ({why}): see `store` in icepact.yaml"


def _split(url: str) -> tuple[list[str], tuple[str, str] | None, dict[str, str]]:
    """Addresses of the members, user and password if there are any, and options."""
    try:
        parts = urlsplit(url)
        who, _, hosts = parts.netloc.rpartition("@")
        scheme = "https" if parts.scheme == "etcds" else "http"
        named = [host.strip() for host in hosts.split(",") if host.strip()]
        members = [f"{scheme}://{host if urlsplit(f'//{host}').port else host + ':2379'}" for host in named]
    except ValueError:
        members = []
    if not members:
        raise BadInput("the record store's address is none: write etcd://host:2379")
    name, _, password = who.partition(":")
    return members, (unquote(name), unquote(password)) if name else None, dict(parse_qsl(parts.query))


def _refusal(answer: httpx.Response) -> _Refused:
    try:
        said = answer.json()
        return _Refused(int(said.get("code", 0)), str(said.get("message") or said.get("error")))
    except (ValueError, AttributeError):
        return _Refused(_UNAVAILABLE if answer.status_code >= 500 else 0, f"HTTP {answer.status_code}")


def _text(value: bytes) -> str:
    return b64encode(value).decode()


def _is_passing(error: BaseException) -> bool:
    """Whether the cluster may answer in a while."""
    if isinstance(error, _Refused):
        return error.code in (_UNAVAILABLE, 4)  # and what took too long
    return not isinstance(error, httpx.UnsupportedProtocol | httpx.InvalidURL)
