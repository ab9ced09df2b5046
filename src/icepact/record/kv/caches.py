"""Caches over keys and values: statistics of manifests, when partition groups were last compacted, lessons forgotten.

How much room statistics take is counted in a key of its own, and what goes first is in an index by age.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from icepact.record.kv.base import KvBase
from icepact.record.kv.keys import ascending, below, key, parts_of
from icepact.record.kv.rows import moment_text
from icepact.record.kv.space import Change

LINGERING = timedelta(days=1)
"""How long statistics of manifests that are not live are kept: another branch may have them, or a rollback may bring
them back."""
STATS_TOTAL = "stat-bytes"
"""How much room statistics take."""
_KEYS_EACH = 8
"""Of a manifest: its statistics, what is known of them, two indexes, and those of before."""


class KvCaches(KvBase):
    """The part of a store that speeds up the next inspection of a table, or corrects what it learns from."""

    # -- manifest statistics ----------------------------------------------------------------------

    def stats_by_manifest(self, paths: Sequence[str]) -> Mapping[str, bytes]:
        """Statistics of these manifests, as far as they are kept."""
        found = self._space.get([key("stat", path) for path in paths])
        return {path: found[key("stat", path)] for path in paths if key("stat", path) in found}

    def keep_manifest_stats(
        self, uuid: str, stats_by_manifest: Mapping[str, bytes], *, live: Collection[str], room: int
    ) -> None:
        """Keep statistics of manifests."""
        now = self.now()
        for some in self._space.batches(stats_by_manifest, keys_each=_KEYS_EACH, beside=1):
            self._keep_stats(uuid, some, now)
        old = below("stat-of", uuid, before=ascending(now - LINGERING))
        gone = [path for name, _ in self._space.scan(old) if (path := parts_of(name)[-1]) not in live]
        total = self.stats_bytes()
        room = min(room, self._backend.cache_bytes)
        if total > room:
            for name, size in self._space.scan(below("stat-age")):
                if total <= room:
                    break
                gone.append(parts_of(name)[-1])
                total -= int(size)
        for some in self._space.batches(dict.fromkeys(gone, b""), keys_each=_KEYS_EACH, beside=1):
            self._keep_stats(uuid, dict.fromkeys(some), now)

    def stats_bytes(self) -> int:
        """How much room statistics take."""
        return int(self._space.one(STATS_TOTAL) or 0)

    def _keep_stats(self, uuid: str, documents: Mapping[str, bytes | None], now: datetime) -> None:
        """Keep statistics of manifests, or drop them where they are `None`."""
        known = {path: key("stat-meta", path) for path in documents}

        def decide(values: Mapping[str, bytes]) -> Change[None]:
            total = int(values.get(STATS_TOTAL) or 0)
            puts: dict[str, bytes] = {}
            deletes: list[str] = []
            for path, document in documents.items():
                if known[path] in values:
                    theirs, size, kept_at = json.loads(values[known[path]])
                    total -= size
                    deletes += stat_index(path, theirs, datetime.fromisoformat(kept_at))
                if document is None:
                    deletes += [key("stat", path), known[path]]
                    continue
                total += len(document)
                puts[key("stat", path)] = document
                puts[known[path]] = json.dumps([uuid, len(document), moment_text(now)]).encode()
                puts |= dict.fromkeys(stat_index(path, uuid, now), str(len(document)).encode())
            puts[STATS_TOTAL] = str(total).encode()
            return Change(result=None, puts=puts, deletes=deletes)

        self._space.change([*known.values(), STATS_TOTAL], decide, over=[key("stat", path) for path in documents])

    # -- last compacted ---------------------------------------------------------------------------

    def last_compacted(self, uuid: str, branch: str) -> Mapping[str, Mapping[str, datetime]]:
        """When partition groups were last compacted."""
        times: dict[str, dict[str, datetime]] = {}
        for name, at in self._space.scan(below("compacted", uuid, branch)):
            group, tier = parts_of(name)[-2:]
            times.setdefault(group, {})[tier] = datetime.fromisoformat(at.decode())
        return times

    def mark_compacted(self, uuid: str, branch: str, tiers: Mapping[str, str], at: datetime) -> None:
        """Remember that partition groups were compacted."""
        moment = moment_text(at).encode()
        marks = {key("compacted", uuid, branch, group, tier): moment for group, tier in tiers.items()}
        for some in self._space.batches(marks):

            def decide(values: Mapping[str, bytes], some: Mapping[str, bytes] = some) -> Change[None]:
                later = {
                    name: moment
                    for name in some
                    if name not in values or datetime.fromisoformat(values[name].decode()) < at
                }
                return Change(result=None, puts=later)

            self._space.change(list(some), decide)

    def forget_compacted(self, uuid: str, branch: str, groups: Collection[str]) -> None:
        """Forget that partition groups were compacted."""
        for group in groups:
            for name, _ in self._space.scan(below("compacted", uuid, branch, group)):
                self._space.remove(name)

    # -- lessons ----------------------------------------------------------------------------------

    def forget_lessons(self, catalog: str, table: str) -> None:
        """From now on, only what later runs teach counts."""
        name = key("lessons", catalog, table)
        moment = moment_text(self.now()).encode()
        self._space.change([name], lambda _: Change(result=None, puts={name: moment}))

    def lessons_since(self, catalog: str, table: str) -> datetime | None:
        """Since when what runs teach counts."""
        found = self._space.one(key("lessons", catalog, table))
        return None if found is None else datetime.fromisoformat(found.decode())


def stat_index(path: str, uuid: str, kept_at: datetime) -> list[str]:
    """The keys under which statistics are found when they are old."""
    age = ascending(kept_at)
    return [key("stat-of", uuid, age, path), key("stat-age", age, path)]
