"""What was counted in tables, and when their places were compacted, in a database."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import and_, delete, func, insert, select, update

from icepact.record.database import Database, batches, insert_if_absent
from icepact.record.tables import CLOCKS, LESSONS, RUNS, SHEETS

_LINGERING = timedelta(days=1)
"""How long sheets of manifests are kept that are not live: another branch may have them, or a rollback bring them."""


class Counted(Database):
    """The part of a store that speeds up the next look at a table."""

    # -- what was counted -------------------------------------------------------------------------

    def sheets(self, paths: Sequence[str]) -> Mapping[str, bytes]:
        """What is kept of these manifests."""
        found: dict[str, bytes] = {}
        with self._reading() as connection:
            if connection is None:
                return found
            for some in batches(paths):
                wanted = select(SHEETS.c.path, SHEETS.c.document).where(SHEETS.c.path.in_(some))
                found |= {row.path: bytes(row.document) for row in connection.execute(wanted)}
        return found

    def keep_sheets(self, uuid: str, sheets: Mapping[str, bytes], *, live: Collection[str], room: int) -> None:
        """Keep what was counted in manifests."""
        now = self.now()
        with self._writing() as connection:
            for some in batches(list(sheets)):
                connection.execute(delete(SHEETS).where(SHEETS.c.path.in_(some)))
            rows = [
                {"path": path, "uuid": uuid, "bytes": len(document), "kept_at": now, "document": document}
                for path, document in sheets.items()
            ]
            if rows:
                connection.execute(insert(SHEETS), rows)
            old = select(SHEETS.c.path).where((SHEETS.c.uuid == uuid) & (SHEETS.c.kept_at < now - _LINGERING))
            gone = [path for (path,) in connection.execute(old) if path not in live]
            total = connection.execute(select(func.sum(SHEETS.c.bytes))).scalar() or 0
            if total > room:
                for path, size in connection.execute(
                    select(SHEETS.c.path, SHEETS.c.bytes).order_by(SHEETS.c.kept_at, SHEETS.c.path)
                ).all():
                    if total <= room:
                        break
                    gone.append(path)
                    total -= size
            for some in batches(gone):
                connection.execute(delete(SHEETS).where(SHEETS.c.path.in_(some)))

    # -- clocks -----------------------------------------------------------------------------------

    def clocks(self, uuid: str, branch: str) -> Mapping[str, Mapping[str, datetime]]:
        """When places were last compacted."""
        wanted = select(CLOCKS.c.place, CLOCKS.c.tier, CLOCKS.c.at).where(
            (CLOCKS.c.uuid == uuid) & (CLOCKS.c.branch == branch)
        )
        found: dict[str, dict[str, datetime]] = {}
        with self._reading() as connection:
            for row in connection.execute(wanted).all() if connection else ():
                found.setdefault(row.place, {})[row.tier] = row.at
        return found

    def compacted(self, uuid: str, branch: str, tiers: Mapping[str, str], at: datetime) -> None:
        """Places were compacted."""
        with self._writing() as connection:
            for place, tier in tiers.items():
                mine = {"uuid": uuid, "branch": branch, "place": place, "tier": tier}
                insert_if_absent(connection, CLOCKS, {**mine, "at": at})
                here = and_(*(CLOCKS.c[name] == value for name, value in mine.items()))
                connection.execute(update(CLOCKS).where(here & (CLOCKS.c.at < at)).values(at=at))

    # -- what was learned -------------------------------------------------------------------------

    def forget_lessons(self, catalog: str, table: str) -> None:
        """From now on, only what later runs teach counts."""
        mine = (LESSONS.c.catalog == catalog) & (LESSONS.c.table_name == table)
        with self._writing() as connection:
            now = self.now()
            insert_if_absent(connection, LESSONS, {"catalog": catalog, "table_name": table, "since": now})
            connection.execute(update(LESSONS).where(mine).values(since=now))

    def lessons_since(self, catalog: str, table: str) -> datetime | None:
        """Since when what runs teach counts."""
        wanted = select(LESSONS.c.since).where(LESSONS.c.catalog == catalog, LESSONS.c.table_name == table)
        with self._reading() as connection:
            return connection.execute(wanted).scalar() if connection else None

    def rename_catalog(self, old: str, new: str, *, table: str, uuid: str) -> None:
        """Runs on a table are recorded under another name of its catalog."""
        theirs = (RUNS.c.catalog == old) & (RUNS.c.uuid == uuid)
        with self._writing() as connection:
            if connection.execute(update(RUNS).where(theirs).values(catalog=new)).rowcount:
                known = select(LESSONS.c.since).where(LESSONS.c.catalog == old, LESSONS.c.table_name == table)
                since = connection.execute(known).scalar()
                if since is not None:
                    insert_if_absent(connection, LESSONS, {"catalog": new, "table_name": table, "since": since})
