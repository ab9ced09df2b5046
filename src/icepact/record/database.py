"""A database behind a store: connecting, transactions, and tables that are made or brought up to date on first use."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any

from sqlalchemy import Connection, Engine, Table, create_engine, event, inspect, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from icepact.model.errors import BadInput

SCHEMA_VERSION = "0005"
"""The newest migration; a test holds it against the folder."""
_ONLY_READING = "icepact_only_reading"
_AT_ONCE = 500
"""Names in one statement: databases take only so many."""
_TIMEOUTS = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""For PostgreSQL, unless the address says otherwise: a server that does not answer must not keep a run for ever."""
_PATIENCE = "SET LOCAL statement_timeout = 60000; SET LOCAL lock_timeout = 30000"
"""The same for each transaction; poolers do not take it as an option of the connection."""


def utc_now() -> datetime:
    return datetime.now(UTC)


class Database:
    """SQLite in memory or in a file, or PostgreSQL."""

    def __init__(self, url: str, *, clock: Callable[[], datetime] = utc_now) -> None:
        self._clock = clock
        self._lock = Lock()
        self._ready = False
        try:
            self._url = make_url(url)
        except ArgumentError:
            raise BadInput("the record store's address is none: write postgresql://user@host/database") from None
        if self._url.drivername == "postgresql":
            self._url = self._url.set(drivername="postgresql+psycopg")
        self._made: Engine | None = None
        in_memory = self._url.get_backend_name() == "sqlite" and not self._url.database
        self._in_turn: AbstractContextManager[Any] = Lock() if in_memory else nullcontext()
        """Memory is one connection for all threads."""

    def close(self) -> None:
        """Let go of all connections; the store can be used again."""
        with self._lock:
            if self._made is not None:
                self._made.dispose()

    # -- connecting -------------------------------------------------------------------------------

    @contextmanager
    def _writing(self, *, only_reading: bool = False) -> Iterator[Connection]:
        with self._guarded():
            if not self._ready:
                self._prepare()
            with self._in_turn, self._engine.connect() as connection:
                connection = connection.execution_options(**{_ONLY_READING: only_reading})
                with connection.begin():
                    yield connection

    @contextmanager
    def _reading(self) -> Iterator[Connection | None]:
        """A connection; null if there is nothing to read yet."""
        file = self._file
        if file is not None and not file.is_file():
            yield None
            return
        with self._writing(only_reading=True) as connection:
            yield connection

    @property
    def _file(self) -> Path | None:
        in_file = self._url.get_backend_name() == "sqlite" and self._url.database
        return Path(self._url.database or "") if in_file else None

    @property
    def _engine(self) -> Engine:
        with self._lock:
            if self._made is None:
                self._made = _engine(self._url, in_memory=self._url.get_backend_name() == "sqlite" and not self._file)
            return self._made

    def _prepare(self) -> None:
        """Bring the tables up to date; what does that is imported only if they are not."""
        if self._file is not None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._engine.begin() as connection:
            if not _is_current(connection):
                from icepact.record.migrate import upgrade

                upgrade(connection)
        self._ready = True

    def _secrets(self) -> list[str]:
        """What must not be told of the address."""
        values = [value for told in self._url.query.values() for value in ([told] if isinstance(told, str) else told)]
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
            if isinstance(error, ImportError):
                hint = "pip install 'icepact[postgres]'"
            raise BadInput(f"the run history {where} cannot be used ({why}): {hint}") from None


def batches(names: Sequence[str]) -> Iterator[list[str]]:
    for at in range(0, len(names), _AT_ONCE):
        yield list(names[at : at + _AT_ONCE])


def _is_current(connection: Connection) -> bool:
    if not inspect(connection).has_table("alembic_version"):
        return False
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar() == SCHEMA_VERSION


def _engine(url: Any, *, in_memory: bool) -> Engine:
    if url.get_backend_name() != "sqlite":
        chosen = {name: value for name, value in _TIMEOUTS.items() if name not in url.query}
        engine = create_engine(url, pool_pre_ping=True, connect_args=chosen)

        @event.listens_for(engine, "begin")
        def _with_patience(connection: Connection) -> None:
            connection.exec_driver_sql(_PATIENCE)

        return engine
    arguments = {"timeout": 30, "check_same_thread": False}
    engine = create_engine(url, connect_args=arguments, **({"poolclass": StaticPool} if in_memory else {}))

    # Python's driver begins transactions by itself, and too late: what is read before a change must be locked too
    @event.listens_for(engine, "connect")
    def _no_begin(connection: Any, _: Any) -> None:
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode = WAL")  # readers and a writer do not wait for each other

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        reading = connection.get_execution_options().get(_ONLY_READING)
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")

    return engine


def insert_if_absent(connection: Connection, table: Table, values: Mapping[str, Any]) -> None:
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    connection.execute(dialect.insert(table).values(values).on_conflict_do_nothing())
