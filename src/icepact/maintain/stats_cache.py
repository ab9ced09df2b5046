"""Cache of what inspections of tables can use again, within bounds: statistics and paths of manifests, and the last
inspection and decisions of each table."""

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock

from icepact.assess.inspection import Inspection
from icepact.model.errors import IcepactError
from icepact.plan.decide import DecisionMemo
from icepact.record.store import StatsStore
from icepact.stats.manifest import ManifestStats
from icepact.stats.paths import ManifestPaths

_log = logging.getLogger("icepact")
_FILES = 4_000_000
"""Files in all manifest statistics in memory: some 300 MB."""
_NAMES = 256 * 1024**2
"""Bytes of paths in memory: of two million files or more."""
_TABLES = 100
"""Whose last inspection is kept."""
_ROOM = 1024**3
"""Bytes of manifest statistics in the record store."""


class StatsCache:
    """Statistics of manifests (4M files at most), paths of their files, and inspections of tables, for one process.

    Statistics are also kept in the record store, where the next process finds them.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._stats: OrderedDict[str, ManifestStats] = OrderedDict()
        self._files = 0
        self._names: OrderedDict[str, ManifestPaths] = OrderedDict()
        self._named = 0
        self._inspections: OrderedDict[tuple[str, str], tuple[Inspection, DecisionMemo | None]] = OrderedDict()

    def stats_by_manifest(self, paths: Sequence[str], store: StatsStore) -> Mapping[str, ManifestStats]:
        """The statistics of those of these manifests that are in memory or in the record store."""
        with self._lock:
            found = {path: self._stats[path] for path in paths if path in self._stats}
            for path in found:
                self._stats.move_to_end(path)
        missing = [path for path in paths if path not in found]
        kept = store.stats_by_manifest(missing) if missing else {}
        fresh = {
            path: manifest_stats
            for path, document in kept.items()
            if (manifest_stats := ManifestStats.from_bytes(document)) is not None
        }
        self._remember(fresh)
        return {**found, **fresh}

    def keep(
        self, uuid: str, stats_by_manifest: Mapping[str, ManifestStats], live: Sequence[str], store: StatsStore
    ) -> None:
        """Keep the statistics of manifests that were read, in memory and in the record store; `live` are all manifests
        that the table has now."""
        self._remember(stats_by_manifest)
        documents = {path: manifest_stats.to_bytes() for path, manifest_stats in stats_by_manifest.items()}
        try:
            store.keep_manifest_stats(uuid, documents, live=frozenset(live), room=_ROOM)
        except IcepactError as error:
            # somebody else keeps the same, or nothing can be kept: it is read again next time
            _log.debug("what was counted in manifests could not be kept: %s", error)

    def _remember(self, stats_by_manifest: Mapping[str, ManifestStats]) -> None:
        with self._lock:
            for path, manifest_stats in stats_by_manifest.items():
                before = self._stats.pop(path, None)
                self._files += len(manifest_stats) - (0 if before is None else len(before))
                self._stats[path] = manifest_stats
            while self._files > _FILES and len(self._stats) > 1:
                self._files -= len(self._stats.popitem(last=False)[1])

    def names(self, paths: Sequence[str]) -> Mapping[str, ManifestPaths]:
        """The paths of those of these manifests that are in memory."""
        with self._lock:
            found = {path: self._names[path] for path in paths if path in self._names}
            for path in found:
                self._names.move_to_end(path)
        return found

    def keep_names(self, names: Mapping[str, ManifestPaths]) -> None:
        """Keep paths that were read, in memory."""
        with self._lock:
            for path, manifest_paths in names.items():
                before = self._names.pop(path, None)
                self._named += manifest_paths.bytes - (0 if before is None else before.bytes)
                self._names[path] = manifest_paths
            while self._named > _NAMES and len(self._names) > 1:
                self._named -= self._names.popitem(last=False)[1].bytes

    def last(self, uuid: str, branch: str) -> tuple[Inspection | None, DecisionMemo | None]:
        """The last inspection of a table, and what was decided last; `None` for what there was not."""
        with self._lock:
            return self._inspections.get((uuid, branch), (None, None))

    def keep_inspection(self, uuid: str, branch: str, inspection: Inspection, decided: DecisionMemo | None) -> None:
        """Keep an inspection of a table and what was decided last, in memory."""
        with self._lock:
            self._inspections[uuid, branch] = (inspection, decided)
            self._inspections.move_to_end((uuid, branch))
            while len(self._inspections) > _TABLES or (len(self._inspections) > 1 and self._inspected_files() > _FILES):
                self._inspections.popitem(last=False)

    def _inspected_files(self) -> int:
        return sum(inspection.health.facts.data_files for inspection, _ in self._inspections.values())
