"""Transactions leave marks, by which those whose answer was lost are found again."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """None are there yet."""
    op.create_table(
        "last_transactions",
        sa.Column("writer", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
    )
