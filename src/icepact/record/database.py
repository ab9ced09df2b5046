"""A database behind a store: connecting, transactions, and tables that are made or brought up to date on first use."""

import os
import shutil
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from tempfile import mkdtemp
from threading import Lock
from typing import Any

from sqlalchemy import Connection, Engine, Executable, Table, UpdateBase, create_engine, event, inspect, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError, SQLAlchemyError

from icepact.model.errors import FULL, BadInput, StoreUnusable, is_full
from icepact.record.clock import ServerClock, utc_now
from icepact.record.marks import Marks
from icepact.record.retries import Away, Patience
from icepact.record.slots import Slot
from icepact.record.tables import METADATA

SCHEMA_VERSION = "0010"
"""The newest migration; a test holds it against the folder."""
_ONLY_READING = "icepact_only_reading"
_MAX_NAMES = 500
"""Parameters of one statement: databases take only so many."""
_TIMEOUTS = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""For PostgreSQL, unless the address says otherwise: a server that does not answer must not keep a run for ever."""
_TRANSACTION_TIMEOUTS = "SET LOCAL statement_timeout = 60000; SET LOCAL lock_timeout = 30000"
"""Timeouts of each transaction; poolers do not take them as an option of the connection."""


_CANNOT_WRITE = ("disk i/o error", "unable to open database file", "readonly database", "read-only")
_AWAY = ("08", "57P0", "53300", "25006")
"""PostgreSQL's codes for: the line is cut, it starts or ends, it has too many clients, it is a standby now."""
_LEAST_FREE_BYTES = 64 * 1024
"""With less, the disk is taken for full: SQLite does not always say that it is for want of room."""


class Database:
    """SQLite in a file, or PostgreSQL."""

    def __init__(self, url: str, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._clock = clock
        self._server_clock = ServerClock(clock)
        self.patience = Patience(str, lambda _: True)
        self._marks = Marks()
        self._lock = Lock()
        self._ready = False
        self._readable_copy: tuple[list[tuple[str, int, int]], Database] | None = None
        """State of the file when it was copied, and the copy to read from."""
        try:
            self._url = make_url(url)
        except ArgumentError:
            raise BadInput("the record store's address is none: write postgresql://user@host/database") from None
        if self._url.drivername == "postgresql":
            self._url = self._url.set(drivername="postgresql+psycopg")
        self._made: Engine | None = None

    def close(self) -> None:
        """Close all connections; the store can be used again."""
        with self._lock:
            if self._made is not None:
                self._made.dispose()

    def now(self) -> datetime:
        """The time, by the clock of the database server if there is one: all who share it go by the same."""
        if self._clock is utc_now and self._url.get_backend_name() != "sqlite":
            if self._server_clock.is_stale:
                self._compare_clocks()
            return self._server_clock.now()
        return self._clock()

    def _compare_clocks(self) -> None:
        with self._guarded(), self._engine.connect() as connection:
            asked = self._server_clock.time()
            server_time: datetime = connection.execute(text("SELECT clock_timestamp()")).scalar_one()
            self._server_clock.heard(asked, server_time, server_time)

    # -- connecting -------------------------------------------------------------------------------

    @contextmanager
    def _writing(self, *, only_reading: bool = False) -> Iterator[Connection]:
        with self._guarded():
            if not self._ready:
                self._prepare()
            mark = None
            try:
                with self._engine.connect() as connection:
                    connection = connection.execution_options(**{_ONLY_READING: only_reading})
                    with connection.begin():
                        yield connection
                        if not only_reading and connection.dialect.name == "postgresql":
                            mark = self._marks.leave(connection)
            except DBAPIError as error:
                if mark is None or not _is_away(error) or not self._landed(mark):
                    raise
            if mark is not None:
                self._marks.give_back(mark)

    def _landed(self, mark: Slot) -> bool:
        """Whether a transaction was committed whose end nobody heard; asked until the server knows."""

        def ask() -> bool:
            with self._guarded(), self._engine.begin() as connection:
                return self._marks.is_there(connection, mark)

        return self.patience(ask, (Away,))

    @contextmanager
    def _reading(self) -> Iterator[Connection | None]:
        """A connection; `None` if there is nothing to read yet."""
        file = self._file
        if file is not None and not file.is_file():
            yield None
            return
        with (self if self._is_usable() else self._copy())._writing(only_reading=True) as connection:
            yield connection

    def _rows(self, wanted: Executable) -> Sequence[Any]:
        """What a query finds; nothing if there is nothing to read yet."""
        with self._reading() as connection:
            return connection.execute(wanted).all() if connection else []

    def _changed(self, change: UpdateBase) -> int:
        """Carry out one change; returns how many rows it was."""
        with self._writing() as connection:
            return connection.execute(change).rowcount

    def _is_usable(self) -> bool:
        """False if a file cannot even be read where it is: SQLite wants to write beside it, and there is no room."""
        if self._ready or self._file is None:
            return True
        try:
            self._prepare()
        except OperationalError as error:
            why = str(error.orig)  # SQLite writes even to read
            return not is_full(why) and not any(word in why.lower() for word in _CANNOT_WRITE)
        except (OSError, SQLAlchemyError, ImportError):
            return True  # whoever uses it will see
        return True

    def _copy(self) -> "Database":
        """The file as it is now, on the disk of temporary files, where it can be read."""
        assert self._file is not None
        files = [path for path in (self._file, Path(f"{self._file}-wal")) if path.is_file()]
        state = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
        if self._readable_copy is None or self._readable_copy[0] != state:
            with self._guarded():
                folder = Path(mkdtemp(prefix="icepact-"))
                weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
                for path in files:
                    shutil.copy2(path, folder)
            self._readable_copy = state, Database(f"sqlite:///{folder / self._file.name}", clock=self._clock)
        return self._readable_copy[1]

    @property
    def _file(self) -> Path | None:
        in_file = self._url.get_backend_name() == "sqlite" and self._url.database
        return Path(self._url.database or "") if in_file else None

    @property
    def _engine(self) -> Engine:
        with self._lock:
            if self._made is None:
                url = (
                    _immutable_url(self._file)
                    if self._file is not None and _in_read_only_folder(self._file)
                    else self._url
                )
                self._made = _engine(url)
            return self._made

    def _prepare(self) -> None:
        """Bring the tables up to date; what does that is imported only if they are not."""
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._engine.begin() as connection:
            if _is_new(connection):
                _make_tables(connection)
            elif not _is_current(connection):
                from icepact.record.migrate import upgrade

                upgrade(connection)
        self._ready = True

    def _secrets(self) -> list[str]:
        """Parts of the address that no message may contain."""
        values = [
            value for option in self._url.query.values() for value in ([option] if isinstance(option, str) else option)
        ]
        return [text for text in (str(self._url.password or ""), *values) if len(text) > 3]

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except (OSError, SQLAlchemyError, ImportError) as error:
            where = self._file or self._url.set(query={}).render_as_string(hide_password=True)
            why = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            for secret in self._secrets():
                why = why.replace(secret, "***")
            hint = "set ICEPACT_STATE" if self._file else "see `store` in icepact.yaml"
            if self._file and self._file.parent.is_dir() and not os.access(self._file.parent, os.W_OK):
                hint = f"{self._file.parent} is read-only; set ICEPACT_STATE to a folder that can be written"
            if self._file and (is_full(why) or _has_no_room(self._file.parent)):
                why = why if is_full(why) else FULL
                hint = f"free some space on the disk of {self._file.parent}: `icepact cleanup --yes`"
            if isinstance(error, ImportError):
                hint = "pip install 'icepact[postgres]'"
            away = self._file is None and isinstance(error, DBAPIError) and _is_away(error)
            kind = Away if away else StoreUnusable
            raise kind(f"the run history {where} cannot be used ({why}): {hint}") from None


def _is_away(error: DBAPIError) -> bool:
    """Whether a server may answer in a while: the line is cut, it starts or ends, or another one takes over."""
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    state = getattr(error.orig, "sqlstate", None)
    return error.connection_invalidated or state is None or state.startswith(_AWAY)


def _has_no_room(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < _LEAST_FREE_BYTES
    except OSError:
        return False


def batches(names: Sequence[str]) -> Iterator[list[str]]:
    for at in range(0, len(names), _MAX_NAMES):
        yield list(names[at : at + _MAX_NAMES])


def _is_new(connection: Connection) -> bool:
    """Whether nobody has made tables yet, nor can before this transaction ends: that is certain of SQLite only."""
    return connection.dialect.name == "sqlite" and not inspect(connection).get_table_names()


def _make_tables(connection: Connection) -> None:
    """All tables as they are now, and Alembic's, as it would leave them: loading Alembic takes as long as a small
    run."""
    METADATA.create_all(connection)
    connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY)"))
    connection.execute(text("INSERT INTO alembic_version VALUES (:version)"), {"version": SCHEMA_VERSION})


def _is_current(connection: Connection) -> bool:
    if not inspect(connection).has_table("alembic_version"):
        return False
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == SCHEMA_VERSION


def _in_read_only_folder(file: Path) -> bool:
    """Whether nothing can be written beside a file that nobody has open: SQLite wants to, even to read it."""
    folder, log = file.parent, file.with_name(f"{file.name}-wal")
    return file.is_file() and not os.access(folder, os.W_OK) and not log.exists()


def _immutable_url(file: Path) -> URL:
    """The address of a file that SQLite must take as it is, and only read."""
    query = {"mode": "ro", "immutable": "1", "uri": "true"}
    return URL.create("sqlite", database=file.absolute().as_uri(), query=query)


def _engine(url: Any) -> Engine:
    if url.get_backend_name() != "sqlite":
        chosen = {name: value for name, value in _TIMEOUTS.items() if name not in url.query}
        engine = create_engine(url, pool_pre_ping=True, connect_args=chosen)

        @event.listens_for(engine, "begin")
        def _limit_waiting(connection: Connection) -> None:
            connection.exec_driver_sql(_TRANSACTION_TIMEOUTS)

        return engine
    arguments = {"timeout": 30, "check_same_thread": False}
    engine = create_engine(url, connect_args=arguments)

    # Python's driver begins transactions by itself, and too late: what is read before a change must be locked too
    @event.listens_for(engine, "connect")
    def _no_begin(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        if "immutable" not in url.query:
            connection.execute("PRAGMA journal_mode = WAL")  # readers and a writer do not wait for each other

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        reading = connection.get_execution_options().get(_ONLY_READING)
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")

    return engine


def insert_if_absent(connection: Connection, table: Table, values: Mapping[str, Any]) -> int:
    """Insert a row, unless one stands in its way; returns how many were inserted."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    insert = dialect.insert(table).values(values).on_conflict_do_nothing().execution_options(preserve_rowcount=True)
    return connection.execute(insert).rowcount
