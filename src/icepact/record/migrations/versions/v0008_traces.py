"""Jobs are parts of traces."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Those that are there are of none."""
    op.add_column("jobs", sa.Column("trace", sa.Text))
