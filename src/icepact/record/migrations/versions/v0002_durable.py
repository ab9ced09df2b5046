"""Runs that survive: owners, commits under way, plans, checkpoints, leases, failures."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Runs from before were of processes that are long gone: they can be cleaned up, not resumed."""
    for column in (
        sa.Column("uuid", sa.Text, nullable=False, server_default=""),
        sa.Column("owner", sa.Text),
        sa.Column("epoch", sa.Integer, nullable=False, server_default="0"),
        sa.Column("attempt", sa.Text),
        sa.Column("landed", sa.Text, nullable=False, server_default="[]"),
        sa.Column("cancel_asked", sa.Boolean, nullable=False, server_default=sa.false()),
        sa.Column("swept_at", sa.String(40)),
        sa.Column("plan", sa.LargeBinary),
    ):
        op.add_column("runs", column)
    op.create_table(
        "checkpoints",
        sa.Column("run_id", sa.Text, primary_key=True),
        sa.Column("unit_id", sa.Text, primary_key=True),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "leases",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("token", sa.Integer, nullable=False),
        sa.Column("held", sa.Boolean, nullable=False),
        sa.Column("since", sa.String(40), nullable=False),
        sa.Column("expires_at", sa.String(40), nullable=False),
    )
    op.create_table(
        "failures",
        sa.Column("uuid", sa.Text, primary_key=True),
        sa.Column("signature", sa.Text, primary_key=True),
        sa.Column("partition", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("last_at", sa.String(40), nullable=False),
    )
