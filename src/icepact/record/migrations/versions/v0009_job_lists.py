"""Indexes from which lists of jobs are read in their order, however many have ended."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Others than before."""
    op.drop_index("jobs_by_status", "jobs")
    op.drop_index("jobs_by_table", "jobs")
    op.create_index("jobs_by_status", "jobs", ["catalog", "status", "tenant", "job_id", "due_at"])
    op.create_index("jobs_by_tenant", "jobs", ["catalog", "tenant", "job_id"])
    op.create_index("jobs_by_table", "jobs", ["catalog", "table_name", "tenant", "job_id"])
    op.create_index("jobs_by_end", "jobs", ["finished_at"])
