"""Telling and hearing in a database that something about a job has changed: PostgreSQL's notifications."""

from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, closing
from typing import Any

from sqlalchemy import Connection, text

from icepact.record.database import Database
from icepact.record.hearing import TICK, Heard, Hearing

_CHANNEL = "icepact_jobs"
_NOTIFY = text(f"SELECT pg_notify('{_CHANNEL}', :job_id) WHERE pg_notification_queue_usage() < 0.5")
"""Sent when the transaction is committed. Once the server's queue is full, because somebody who listens does not read,
a transaction that notifies cannot be committed at all."""


class SqlHearing(Database):
    """The part of a store that tells who waits for jobs."""

    def watch(self, heard: Heard) -> AbstractContextManager[object]:
        """Have a function called with what transactions notify of; nobody is told of what is in a file."""
        return Hearing(self._listen, heard) if self._url.get_backend_name() == "postgresql" else ExitStack()

    def _listen(self, hearing: Hearing) -> Generator[str | None]:
        del hearing
        pooled = self._engine.raw_connection()
        line: Any = pooled.driver_connection
        pooled.detach()
        with closing(line):
            line.autocommit = True
            [real] = line.execute("SELECT pg_backend_pid()").fetchone()
            if real != line.info.backend_pid:
                raise ConnectionError("a pooler may give what is for us to somebody else")
            line.execute(f"LISTEN {_CHANNEL}")
            yield ""
            while True:
                for said in line.notifies(timeout=TICK):
                    yield said.payload
                yield None


def tell(connection: Connection, job_id: str) -> None:
    """Those who watch hear of a job once the transaction is committed."""
    if connection.dialect.name == "postgresql":
        connection.execute(_NOTIFY, {"job_id": job_id})
