"""Where each run writes."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Of runs from before, it is where the table says it is by now."""
    op.add_column("runs", sa.Column("folder", sa.Text))
