"""Keys and values in Redis: a hash for each key with its value and version, and a sorted set of all keys.

Scripts are atomic, so that compares and changes are one transaction. Each leaves its number under a name of its own for
an hour: one whose answer was lost is asked for before it is tried again, and one that arrives late is refused.
"""

import uuid
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from icepact.model.errors import BadInput, StoreUnusable
from icepact.record.clock import ServerClock
from icepact.record.hearing import TICK, Heard, Hearing
from icepact.record.kv.interface import Entry, Span
from icepact.record.retries import Patience
from icepact.record.slots import Slot, Slots

try:
    import redis
    from redis import exceptions as errors
except ImportError:
    raise StoreUnusable("the run history in Redis needs a package: pip install 'icepact[redis]'") from None

Result = TypeVar("Result")
_PREFIX = "icepact"
_TIMEOUT = 10.0
"""Seconds that one request may take."""
_SLOT_SECONDS = 3600

_READ = """\
local found = {}
for at = 1, #ARGV, 3 do
  local start, finish, limit = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local names
  if limit == 0 then names = {start}
  elseif limit < 0 then names = redis.call('ZRANGEBYLEX', KEYS[1], '[' .. start, '(' .. finish)
  else names = redis.call('ZRANGEBYLEX', KEYS[1], '[' .. start, '(' .. finish, 'LIMIT', 0, limit) end
  local some = {}
  for _, name in ipairs(names) do
    local pair = redis.call('HMGET', KEYS[1] .. ':' .. name, 'n', 'v')
    if pair[1] then
      some[#some + 1] = name
      some[#some + 1] = pair[1]
      some[#some + 1] = pair[2]
    end
  end
  found[#found + 1] = some
end
return found
"""
"""A limit of 0 stands for one key, -1 for none."""
_COMMIT = """\
local slot, number, seconds = KEYS[3], tonumber(ARGV[1]), ARGV[2]
local last = tonumber(redis.call('GET', slot) or '0')
if last == number then return 1 end
if last > number then return -1 end
local at = 3
local function count() at = at + 1; return tonumber(ARGV[at - 1]) end
local function word() at = at + 1; return ARGV[at - 1] end
for _ = 1, count() do
  local name, version = word(), word()
  if (redis.call('HGET', KEYS[1] .. ':' .. name, 'n') or '0') ~= version then return 0 end
end
local version = redis.call('INCR', KEYS[2])
for _ = 1, count() do
  local name, value = word(), word()
  redis.call('HSET', KEYS[1] .. ':' .. name, 'n', version, 'v', value)
  redis.call('ZADD', KEYS[1], 0, name)
end
for _ = 1, count() do
  local name = word()
  redis.call('DEL', KEYS[1] .. ':' .. name)
  redis.call('ZREM', KEYS[1], name)
end
for _ = 1, count() do
  local name = word()
  if redis.call('PERSIST', KEYS[1] .. ':' .. name) == 1 then redis.call('ZADD', KEYS[1], 0, name) end
end
redis.call('SET', slot, number, 'EX', seconds)
local channel, tells = word(), word()
if tells ~= '' then redis.pcall('PUBLISH', channel, tells) end
return 1
"""
"""Those who may not publish, as users of Redis 7 unless they are let, must commit all the same."""
_PARK = """\
redis.call('HSET', KEYS[1] .. ':' .. ARGV[1], 'n', redis.call('INCR', KEYS[2]), 'v', ARGV[2])
redis.call('EXPIRE', KEYS[1] .. ':' .. ARGV[1], ARGV[3])
"""


class Redis:
    """A Redis server, or whatever speaks like one, by its address."""

    most_keys = 10_000
    most_bytes = 16 << 20
    cache_bytes = 1 << 30

    def __init__(self, url: str) -> None:
        self._address, self._shown, prefix = _split(url)
        self._client: Any = _client(self._address)
        self._keys = [f"{{{prefix}}}:keys", f"{{{prefix}}}:version"]
        self._slot_prefix = f"{{{prefix}}}:done:"
        self._channel = f"{{{prefix}}}:jobs"
        self._scripts = {text: self._client.register_script(text) for text in (_READ, _COMMIT, _PARK)}
        self._patience = Patience(self._describe, _is_passing)
        self._slots = Slots(lambda: Slot(uuid.uuid4().hex))
        self._clock = ServerClock()

    def now(self) -> datetime:
        """The server's time."""
        if self._clock.is_stale:
            asked = self._clock.time()
            seconds, more = self._ask(self._client.time)
            theirs = datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=more)
            self._clock.heard(asked, theirs, theirs)
        return self._clock.now()

    def read(self, spans: Sequence[Span]) -> Sequence[Sequence[Entry]]:
        """What is in each of some spans."""
        words: list[Any] = []
        for span in spans:
            words += [span.start, span.end, 0 if span.single else -1 if span.limit is None else span.limit]
        found = self._ask(lambda: self._scripts[_READ](keys=self._keys[:1], args=words))
        return [
            [Entry(some[at].decode(), some[at + 2], int(some[at + 1])) for at in range(0, len(some), 3)]
            for some in found
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
        words: list[Any] = [slot.number, _SLOT_SECONDS, len(compares)]
        words += [word for name, version in compares.items() for word in (name, version)]
        words += [len(puts), *(word for pair in puts.items() for word in pair)]
        words += [len(deletes), *deletes, len(persists), *persists, self._channel, tells or ""]
        keys = [*self._keys, self._slot_prefix + slot.name]
        answer = int(self._ask(lambda: self._scripts[_COMMIT](keys=keys, args=words)))
        self._slots.give_back(slot)  # not after an error: that transaction may still be on its way
        return answer == 1

    def park(self, key: str, value: bytes, *, seconds: float) -> None:
        """Write a key that goes by itself unless a transaction makes it stay."""
        self._ask(lambda: self._scripts[_PARK](keys=self._keys, args=[key, value, max(1, int(seconds))]))

    def watch(self, heard: Heard) -> Hearing:
        """Have a function called with what scripts publish."""
        return Hearing(self._listen, heard)

    def _listen(self, hearing: Hearing) -> Generator[str | None]:
        del hearing
        with closing(_client(self._address)) as client, closing(client.pubsub()) as line:
            line.subscribe(self._channel)
            while True:
                said = line.get_message(timeout=TICK)
                if said is None:
                    yield None
                else:  # that the driver has subscribed, again perhaps, or what somebody has published
                    yield said["data"].decode() if said["type"] == "message" else ""

    def concerns(self) -> Sequence[str]:
        """What of the server's settings can lose what it has answered for."""
        found = []
        persistence: dict[str, Any] = self._ask(lambda: self._client.info("persistence"))
        memory: dict[str, Any] = self._ask(lambda: self._client.info("memory"))
        if not persistence.get("aof_enabled"):
            found.append("appendonly is off: when Redis is restarted, it forgets what came after its last snapshot")
        else:
            try:
                asked: dict[str, Any] = self._ask(lambda: self._client.config_get("appendfsync"))
                fsync = asked.get("appendfsync", "always")
            except StoreUnusable:  # managed servers do not tell
                fsync = "always"
            if fsync != "always":
                found.append(f"appendfsync is {fsync}: when its machine dies, Redis forgets what it wrote last")
        policy = memory.get("maxmemory_policy", "noeviction")
        if policy != "noeviction" and memory.get("maxmemory"):
            found.append(f"maxmemory-policy is {policy}: when memory is short, Redis throws away what it is to keep")
        return found

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def _ask(self, ask: Callable[[], Result]) -> Result:
        return self._patience(ask, (errors.RedisError, OSError))

    def _describe(self, error: BaseException) -> str:
        why = (str(error) or type(error).__name__).strip().splitlines()[0]
        return f"the run history {self._shown} cannot be used ({why}): see `store` in icepact.yaml"


def _split(url: str) -> tuple[str, str, str]:
    """The address for the driver, the address without secrets, and the prefix of keys."""
    try:
        parts = urlsplit(url)
        host = f"{parts.hostname or 'localhost'}:{parts.port or 6379}"
    except ValueError:
        raise BadInput("the record store's address is none: write redis://host:6379/0") from None
    options = dict(parse_qsl(parts.query))
    prefix = options.pop("prefix", _PREFIX)
    if "{" in prefix or "}" in prefix:
        raise BadInput("the record store's prefix must not have braces in it")
    address = urlunsplit(parts._replace(query=urlencode(options)))
    return address, f"{parts.scheme}://{host}{parts.path}", prefix


def _client(address: str) -> Any:
    given: dict[str, Any] = {
        "socket_timeout": _TIMEOUT,
        "socket_connect_timeout": _TIMEOUT / 2,
        "socket_keepalive": True,
        "health_check_interval": 30,
        "protocol": 2,
        "retry": None,
        "retry_on_error": [],
    }
    try:
        return redis.Redis.from_url(address, **given)
    except (ValueError, TypeError) as error:
        why = str(error).splitlines()[0]
        raise BadInput(f"the record store's address cannot be used ({why}): write redis://host:6379/0") from None


_PASSING = ("LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "UNBLOCKED", "NOREPLICAS")


def _is_passing(error: BaseException) -> bool:
    """Whether the server may answer in a while: it starts, or another one takes over."""
    if isinstance(error, errors.AuthenticationError | errors.NoPermissionError | errors.AuthorizationError):
        return False
    if isinstance(error, errors.ConnectionError | errors.TimeoutError | errors.ReadOnlyError | OSError):
        return True
    return str(error).startswith(_PASSING)
