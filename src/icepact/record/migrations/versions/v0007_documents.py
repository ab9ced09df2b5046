"""Small documents of the service, by kind and key."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """It begins empty."""
    op.create_table(
        "documents",
        sa.Column("kind", sa.Text, primary_key=True),
        sa.Column("key", sa.Text().with_variant(sa.Text(collation="C"), "postgresql"), primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("changed_at", sa.String(40), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
    )
