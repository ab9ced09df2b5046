"""The tables of SQL stores, as the newest migration leaves them."""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    false,
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
