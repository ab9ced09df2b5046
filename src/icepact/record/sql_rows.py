"""All rows of a database, to be copied."""

from collections.abc import Iterator, Sequence

from sqlalchemy import and_, func, select, tuple_

from icepact.record.database import Database, insert_if_absent
from icepact.record.rows import KEYS, Row
from icepact.record.tables import METADATA, TURNS

_PAGE = 200


class SqlRows(Database):
    """The part of a store that is copied to others."""

    def count_rows(self, table: str) -> int:
        """How many rows of a table there are."""
        wanted = select(func.count()).select_from(METADATA.tables[table])
        found = self._rows(wanted.where(TURNS.c.taken_at.is_not(None)) if table == TURNS.name else wanted)
        return int(found[0][0]) if found else 0

    def rows(self, table: str) -> Iterator[Row]:
        """All rows of a table."""
        source = METADATA.tables[table]
        keys = [source.c[name] for name in KEYS[table]]
        last = None
        while True:
            wanted = select(source).order_by(*keys).limit(_PAGE)
            if last is not None:
                wanted = wanted.where(tuple_(*keys) > tuple_(*last))
            page = self._rows(wanted)
            yield from (dict(row._mapping) for row in page if table != TURNS.name or row.taken_at is not None)
            if len(page) < _PAGE:
                return
            last = [page[-1]._mapping[name] for name in KEYS[table]]

    def put_rows(self, table: str, rows: Sequence[Row], *, replace: bool) -> int:
        """Write rows; those whose keys are there already only if they are to be replaced. Returns how many."""
        target = METADATA.tables[table]
        written = 0
        with self._writing() as connection:
            for row in rows:
                if replace:
                    same = and_(*(target.c[name] == row[name] for name in KEYS[table]))
                    connection.execute(target.delete().where(same))
                written += insert_if_absent(connection, target, row)
        return written

    def concerns(self) -> Sequence[str]:
        """None: databases wait for the disk."""
        return ()
