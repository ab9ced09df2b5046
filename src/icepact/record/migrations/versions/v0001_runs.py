"""Runs and how they ended."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the table; a history from before there were migrations has it already."""
    if sa.inspect(op.get_bind()).has_table("runs"):
        return
    op.create_table(
        "runs",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("catalog", sa.Text, nullable=False),
        sa.Column("table_name", sa.Text, nullable=False),
        sa.Column("branch", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("started_at", sa.String(40), nullable=False),
        sa.Column("finished_at", sa.String(40)),
        sa.Column("outcome", sa.Text),
    )
    op.create_index("runs_by_table", "runs", ["catalog", "table_name", "started_at"])
