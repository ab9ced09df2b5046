"""Jobs that wait for workers, and whose turn it is."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Both begin empty."""
    op.create_table(
        "jobs",
        sa.Column("job_id", sa.Text, primary_key=True),
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("table_name", sa.Text),
        sa.Column("holds_table", sa.Boolean, nullable=False),
        sa.Column("operation", sa.Text, nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("submitted_at", sa.String(40), nullable=False),
        sa.Column("due_at", sa.String(40), nullable=False),
        sa.Column("deadline", sa.String(40)),
        sa.Column("most_failures", sa.Integer, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("started_at", sa.String(40)),
        sa.Column("finished_at", sa.String(40)),
        sa.Column("worker", sa.Text),
        sa.Column("token", sa.Integer, nullable=False),
        sa.Column("expires_at", sa.String(40)),
        sa.Column("cancel_asked", sa.Boolean, nullable=False),
        sa.Column("progress", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text),
        sa.Column("result", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("error_type", sa.Text),
        sa.Column("idempotency_key", sa.Text),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("plan", sa.LargeBinary),
    )
    op.create_index("jobs_by_status", "jobs", ["catalog", "status", "due_at"])
    op.create_index("jobs_by_table", "jobs", ["catalog", "table_name", "operation", "job_id"])
    op.create_index("jobs_by_key", "jobs", ["catalog", "tenant", "idempotency_key"], unique=True)
    running = sa.text("status = 'running' AND holds_table")
    op.create_index(
        "one_job_holds_a_table",
        "jobs",
        ["catalog", "table_name"],
        unique=True,
        sqlite_where=running,
        postgresql_where=running,
    )
    op.create_table(
        "turns",
        sa.Column("catalog", sa.Text, primary_key=True),
        sa.Column("tenant", sa.Text, primary_key=True),
        sa.Column("taken_at", sa.String(40)),
    )
