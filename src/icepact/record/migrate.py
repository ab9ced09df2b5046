"""Bringing a database up to date with Alembic."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, text

from icepact.model.errors import StoreUnusable

_LOCK = 0x1CE9AC7
"""PostgreSQL's name for: somebody migrates icepact's tables."""


def scripts() -> Config:
    """Where the migrations are."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    return config


def upgrade(connection: Connection) -> None:
    """Apply what is missing, in the transaction that the connection is in."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    config = scripts()
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError:  # it does not know the migration that the database is at
        raise StoreUnusable("a later version of icepact has made this record store: use that version") from None
