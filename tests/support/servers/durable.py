"""Servers of record stores that remember what they answered for when they are killed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers.etcd import EtcdServer, etcd_server
from tests.support.servers.postgres import Postgres, fresh_database, postgres
from tests.support.servers.redis import RedisServer, redis_server

KINDS = ("redis", "etcd", "postgresql")
Server = RedisServer | EtcdServer | Postgres


@contextmanager
def durable_server(kind: str, folder: Path) -> Iterator[Server]:
    """A new, empty one."""
    match kind:
        case "redis":
            with redis_server(folder, durable=True) as redis:
                yield redis
        case "etcd":
            with etcd_server(folder, durable=True) as etcd:
                yield etcd
        case _:
            home = folder / "restarted"
            home.mkdir(mode=0o711)
            with postgres(home) as database:
                yield database


def address_of(server: Server, port: int | None = None) -> str:
    """Where nothing is yet; by way of another port, if one is given."""
    if not isinstance(server, Postgres):
        return server.uri(port)
    address = fresh_database(server).replace(f":{server.port}/", f":{port or server.port}/")
    return f"{address}?sslmode=disable&gssencmode=disable"  # the proxy reads what is said
