"""The tables of SQL stores, as the newest migration leaves them."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    false,
    text,
)
from sqlalchemy.engine import Dialect


class UtcTimestamp(TypeDecorator[datetime]):
    """A moment as ISO text in UTC: the same in every database, readable, and sorted by time."""

    impl = String(40)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> str | None:
        """To the database."""
        del dialect
        return None if value is None else value.astimezone(UTC).isoformat()

    def process_result_value(self, value: Any | None, dialect: Dialect) -> datetime | None:
        """From the database."""
        del dialect
        return None if value is None else datetime.fromisoformat(str(value))


METADATA = MetaData()

RUNS = Table(
    "runs",
    METADATA,
    Column("run_id", Text, primary_key=True),
    Column("catalog", Text, nullable=False),
    Column("table_name", Text, nullable=False),
    Column("branch", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("started_at", UtcTimestamp, nullable=False),
    Column("finished_at", UtcTimestamp),
    Column("outcome", Text),
    Column("uuid", Text, nullable=False, server_default=""),
    Column("owner", Text),
    Column("epoch", Integer, nullable=False, server_default="0"),
    Column("attempt", Text),
    Column("landed", Text, nullable=False, server_default="[]"),
    Column("cancel_asked", Boolean, nullable=False, server_default=false()),
    Column("swept_at", UtcTimestamp),
    Column("folder", Text),
    Column("plan", LargeBinary),
    Index("runs_by_table", "catalog", "table_name", "started_at"),
)

CHECKPOINTS = Table(
    "checkpoints",
    METADATA,
    Column("run_id", Text, primary_key=True),
    Column("unit_id", Text, primary_key=True),
    Column("document", LargeBinary, nullable=False),
)

LEASES = Table(
    "leases",
    METADATA,
    Column("key", Text, primary_key=True),
    Column("run_id", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("token", Integer, nullable=False),
    Column("held", Boolean, nullable=False),
    Column("since", UtcTimestamp, nullable=False),
    Column("expires_at", UtcTimestamp, nullable=False),
)

LESSONS = Table(
    "lessons",
    METADATA,
    Column("catalog", Text, primary_key=True),
    Column("table_name", Text, primary_key=True),
    Column("since", UtcTimestamp, nullable=False),
)

FAILURES = Table(
    "failures",
    METADATA,
    Column("uuid", Text, primary_key=True),
    Column("signature", Text, primary_key=True),
    Column("partition", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("count", Integer, nullable=False),
    Column("last_at", UtcTimestamp, nullable=False),
)

MANIFEST_STATS = Table(
    "sheets",
    METADATA,
    Column("path", Text, primary_key=True),
    Column("uuid", Text, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("kept_at", UtcTimestamp, nullable=False),
    Column("document", LargeBinary, nullable=False),
    Index("sheets_by_table", "uuid", "kept_at"),
)
"""Statistics of manifests, by the path of the manifest."""

LAST_COMPACTED = Table(
    "clocks",
    METADATA,
    Column("uuid", Text, primary_key=True),
    Column("branch", Text, primary_key=True),
    Column("place", Text, primary_key=True),
    Column("tier", Text, primary_key=True),
    Column("at", UtcTimestamp, nullable=False),
)
"""When partition groups, whose names are in `place`, were last compacted, by tier."""

_RUNNING_ON_A_TABLE = text("status = 'running' AND holds_table")
JOBS = Table(
    "jobs",
    METADATA,
    Column("job_id", Text, primary_key=True),
    Column("catalog", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("table_name", Text),
    Column("holds_table", Boolean, nullable=False),
    Column("operation", Text, nullable=False),
    Column("request", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("submitted_at", UtcTimestamp, nullable=False),
    Column("due_at", UtcTimestamp, nullable=False),
    Column("deadline", UtcTimestamp),
    Column("most_failures", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("started_at", UtcTimestamp),
    Column("finished_at", UtcTimestamp),
    Column("worker", Text),
    Column("token", Integer, nullable=False),
    Column("expires_at", UtcTimestamp),
    Column("cancel_asked", Boolean, nullable=False),
    Column("progress", Text, nullable=False),
    Column("run_id", Text),
    Column("result", Text),
    Column("error", Text),
    Column("error_type", Text),
    Column("idempotency_key", Text),
    Column("fingerprint", Text, nullable=False),
    Column("plan", LargeBinary),
    Column("trace", Text),
    Index("jobs_by_status", "catalog", "status", "tenant", "job_id", "due_at"),
    Index("jobs_by_tenant", "catalog", "tenant", "job_id"),
    Index("jobs_by_table", "catalog", "table_name", "tenant", "job_id"),
    Index("jobs_by_end", "finished_at"),
    Index("jobs_by_key", "catalog", "tenant", "idempotency_key", unique=True),
    Index(
        "one_job_holds_a_table",
        "catalog",
        "table_name",
        unique=True,
        sqlite_where=_RUNNING_ON_A_TABLE,
        postgresql_where=_RUNNING_ON_A_TABLE,
    ),
)
"""Jobs; `plan` is the saved plan that one applies, if it does."""

TURNS = Table(
    "turns",
    METADATA,
    Column("catalog", Text, primary_key=True),
    Column("tenant", Text, primary_key=True),
    Column("taken_at", UtcTimestamp),
)
"""When a job of each tenant was last taken. Whoever takes one locks these rows: one worker at a time."""

DOCUMENTS = Table(
    "documents",
    METADATA,
    Column("kind", Text, primary_key=True),
    Column("key", Text().with_variant(Text(collation="C"), "postgresql"), primary_key=True),
    Column("version", Integer, nullable=False),
    Column("changed_at", UtcTimestamp, nullable=False),
    Column("body", Text, nullable=False),
)
"""Their keys are sorted as bytes, in every database."""

LAST_TRANSACTIONS = Table(
    "last_transactions",
    METADATA,
    Column("writer", Text, primary_key=True),
    Column("number", BigInteger, nullable=False),
    Column("at", DateTime(timezone=True), nullable=False),
)
"""Marks of transactions in PostgreSQL; no part of what a store keeps, and not copied."""
