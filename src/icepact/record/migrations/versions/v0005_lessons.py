"""Since when what runs teach about a table counts."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """What was learned is found in outcomes; only that it was forgotten has to be remembered."""
    op.create_table(
        "lessons",
        sa.Column("catalog", sa.Text, primary_key=True),
        sa.Column("table_name", sa.Text, primary_key=True),
        sa.Column("since", sa.String(40), nullable=False),
    )
