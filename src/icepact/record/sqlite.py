"""The embedded store: one SQLite file, shared by processes on one machine."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from icepact.model.errors import BadInput
from icepact.model.outcome import Outcome, RunRecord, Status

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    run_id TEXT PRIMARY KEY,
    catalog TEXT NOT NULL,
    table_name TEXT NOT NULL,
    branch TEXT NOT NULL,
    status TEXT NOT NULL,
    started_at TEXT NOT NULL,
    finished_at TEXT,
    outcome TEXT
);
CREATE INDEX IF NOT EXISTS runs_by_table ON runs (catalog, table_name, started_at);
"""


class SqliteStore:
    """Runs in a SQLite file; it is made on the first write."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def begin(self, record: RunRecord) -> None:
        """Record the intent."""
        with self._connect() as connection:
            connection.execute(
                "INSERT INTO runs (run_id, catalog, table_name, branch, status, started_at) VALUES (?, ?, ?, ?, ?, ?)",
                (
                    *(record.run_id, record.catalog, record.table, record.branch),
                    *(record.status.value, _stamp(record.started_at)),
                ),
            )

    def finish(self, outcome: Outcome) -> None:
        """Record how a run ended."""
        finished = outcome.started_at + timedelta(seconds=outcome.seconds)
        with self._connect() as connection:
            connection.execute(
                "UPDATE runs SET status = ?, finished_at = ?, outcome = ? WHERE run_id = ?",
                (outcome.status.value, _stamp(finished), json.dumps(outcome.to_dict()), outcome.run_id),
            )

    def runs(self, *, catalog: str, table: str | None = None, limit: int = 100) -> Sequence[RunRecord]:
        """The newest runs first."""
        if not self._path.is_file():
            return []
        with self._connect() as connection:
            rows = connection.execute(
                "SELECT run_id, catalog, table_name, branch, status, started_at, finished_at, outcome"
                " FROM runs WHERE catalog = ? AND (? IS NULL OR table_name = ?)"
                " ORDER BY started_at DESC, run_id DESC LIMIT ?",
                (catalog, table, table, limit),
            ).fetchall()
        return [_record(row) for row in rows]

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=30)) as connection:
                connection.executescript(_SCHEMA)
                with connection:
                    yield connection
        except (OSError, sqlite3.Error) as error:
            raise BadInput(f"the run history {self._path} cannot be used ({error}): set ICEPACT_STATE") from None


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


def _record(row: Sequence[Any]) -> RunRecord:
    run_id, catalog, table, branch, status, started, finished, outcome = row
    return RunRecord(
        run_id=run_id,
        catalog=catalog,
        table=table,
        branch=branch,
        status=Status(status),
        started_at=datetime.fromisoformat(started),
        finished_at=datetime.fromisoformat(finished) if finished else None,
        outcome=json.loads(outcome) if outcome else None,
    )
