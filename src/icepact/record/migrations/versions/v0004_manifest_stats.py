"""Statistics by manifest (`sheets`), and when partition groups were last compacted (`clocks`)."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Both begin empty."""
    op.create_table(
        "sheets",
        sa.Column("path", sa.Text, primary_key=True),
        sa.Column("uuid", sa.Text, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("kept_at", sa.String(40), nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
    )
    op.create_index("sheets_by_table", "sheets", ["uuid", "kept_at"])
    op.create_table(
        "clocks",
        sa.Column("uuid", sa.Text, primary_key=True),
        sa.Column("branch", sa.Text, primary_key=True),
        sa.Column("place", sa.Text, primary_key=True),
        sa.Column("tier", sa.Text, primary_key=True),
        sa.Column("at", sa.String(40), nullable=False),
    )
