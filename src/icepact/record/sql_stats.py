"""Caches in a database: statistics of manifests, when partition groups were last compacted, and lessons forgotten."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import and_, delete, func, insert, select, update

from icepact.record.database import Database, batches, insert_if_absent
from icepact.record.tables import LAST_COMPACTED, LESSONS, MANIFEST_STATS, RUNS

_LINGERING = timedelta(days=1)
"""How long statistics of manifests that are not live are kept: another branch may have them, or a rollback may bring
them back."""


class SqlStats(Database):
    """The part of a store that speeds up the next inspection of a table, or corrects what it learns from."""

    # -- manifest statistics ----------------------------------------------------------------------

    def stats_by_manifest(self, paths: Sequence[str]) -> Mapping[str, bytes]:
        """Statistics of these manifests, as far as they are kept."""
        wanted = select(MANIFEST_STATS.c.path, MANIFEST_STATS.c.document)
        found = [self._rows(wanted.where(MANIFEST_STATS.c.path.in_(some))) for some in batches(paths)]
        return {row.path: bytes(row.document) for rows in found for row in rows}

    def keep_manifest_stats(
        self, uuid: str, stats_by_manifest: Mapping[str, bytes], *, live: Collection[str], room: int
    ) -> None:
        """Keep statistics of manifests."""
        now = self.now()
        with self._writing() as connection:
            for some in batches(list(stats_by_manifest)):
                connection.execute(delete(MANIFEST_STATS).where(MANIFEST_STATS.c.path.in_(some)))
            rows = [
                {"path": path, "uuid": uuid, "bytes": len(document), "kept_at": now, "document": document}
                for path, document in stats_by_manifest.items()
            ]
            if rows:
                connection.execute(insert(MANIFEST_STATS), rows)
            old = select(MANIFEST_STATS.c.path).where(
                (MANIFEST_STATS.c.uuid == uuid) & (MANIFEST_STATS.c.kept_at < now - _LINGERING)
            )
            gone = [path for (path,) in connection.execute(old) if path not in live]
            total = connection.execute(select(func.sum(MANIFEST_STATS.c.bytes))).scalar() or 0
            if total > room:
                for path, size in connection.execute(
                    select(MANIFEST_STATS.c.path, MANIFEST_STATS.c.bytes).order_by(
                        MANIFEST_STATS.c.kept_at, MANIFEST_STATS.c.path
                    )
                ).all():
                    if total <= room:
                        break
                    gone.append(path)
                    total -= size
            for some in batches(gone):
                connection.execute(delete(MANIFEST_STATS).where(MANIFEST_STATS.c.path.in_(some)))

    # -- last compacted ---------------------------------------------------------------------------

    def last_compacted(self, uuid: str, branch: str) -> Mapping[str, Mapping[str, datetime]]:
        """When partition groups were last compacted."""
        wanted = select(LAST_COMPACTED.c["place"], LAST_COMPACTED.c.tier, LAST_COMPACTED.c.at).where(
            (LAST_COMPACTED.c.uuid == uuid) & (LAST_COMPACTED.c.branch == branch)
        )
        times: dict[str, dict[str, datetime]] = {}
        for group, tier, at in self._rows(wanted):
            times.setdefault(group, {})[tier] = at
        return times

    def mark_compacted(self, uuid: str, branch: str, tiers: Mapping[str, str], at: datetime) -> None:
        """Remember that partition groups were compacted."""
        with self._writing() as connection:
            for group, tier in tiers.items():
                mine = {"uuid": uuid, "branch": branch, "place": group, "tier": tier}
                insert_if_absent(connection, LAST_COMPACTED, {**mine, "at": at})
                here = and_(*(LAST_COMPACTED.c[name] == value for name, value in mine.items()))
                connection.execute(update(LAST_COMPACTED).where(here & (LAST_COMPACTED.c.at < at)).values(at=at))

    def forget_compacted(self, uuid: str, branch: str, groups: Collection[str]) -> None:
        """Forget that partition groups were compacted."""
        mine = (LAST_COMPACTED.c.uuid == uuid) & (LAST_COMPACTED.c.branch == branch)
        with self._writing() as connection:
            for group in groups:
                connection.execute(delete(LAST_COMPACTED).where(mine & (LAST_COMPACTED.c["place"] == group)))

    # -- lessons ---------------------------------------------------------------------------------

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
        return next((row.since for row in self._rows(wanted)), None)

    def rename_catalog(self, old: str, new: str, *, table: str, uuid: str) -> None:
        """Runs on a table are recorded under another name of its catalog."""
        theirs = (RUNS.c.catalog == old) & (RUNS.c.uuid == uuid)
        with self._writing() as connection:
            if connection.execute(update(RUNS).where(theirs).values(catalog=new)).rowcount:
                known = select(LESSONS.c.since).where(LESSONS.c.catalog == old, LESSONS.c.table_name == table)
                since = connection.execute(known).scalar()
                if since is not None:
                    insert_if_absent(connection, LESSONS, {"catalog": new, "table_name": table, "since": since})
