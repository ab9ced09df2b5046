"""What is remembered between looks at tables, within bounds: sheets of manifests, and what was said last."""

import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import Lock

from icepact.model.census import Sheet
from icepact.model.errors import IcepactError
from icepact.model.looked import Looked
from icepact.model.names import Names
from icepact.plan.decide import Decided
from icepact.record.store import RecordStore

_log = logging.getLogger("icepact")
_FILES = 4_000_000
"""Files in all sheets in memory: some 300 MB."""
_NAMES = 256 * 1024**2
"""Bytes of names in memory: of two million files or more."""
_TABLES = 100
_ROOM = 1024**3
"""Bytes of sheets in the record store."""


class Memory:
    """Of one process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._sheets: OrderedDict[str, Sheet] = OrderedDict()
        self._files = 0
        self._names: OrderedDict[str, Names] = OrderedDict()
        self._named = 0
        self._looks: OrderedDict[tuple[str, str], tuple[Looked, Decided]] = OrderedDict()

    def sheets(self, paths: Sequence[str], store: RecordStore) -> Mapping[str, Sheet]:
        """What is known of these manifests."""
        with self._lock:
            found = {path: self._sheets[path] for path in paths if path in self._sheets}
            for path in found:
                self._sheets.move_to_end(path)
        missing = [path for path in paths if path not in found]
        kept = store.sheets(missing) if missing else {}
        fresh = {path: sheet for path, document in kept.items() if (sheet := Sheet.from_bytes(document)) is not None}
        self._remember(fresh)
        return {**found, **fresh}

    def keep(self, uuid: str, sheets: Mapping[str, Sheet], live: Sequence[str], store: RecordStore) -> None:
        """Manifests were read."""
        self._remember(sheets)
        documents = {path: sheet.to_bytes() for path, sheet in sheets.items()}
        try:
            store.keep_sheets(uuid, documents, live=frozenset(live), room=_ROOM)
        except (
            IcepactError
        ) as error:  # somebody else keeps the same, or nothing can be kept: it is read again next time
            _log.debug("what was counted in manifests could not be kept: %s", error)

    def _remember(self, sheets: Mapping[str, Sheet]) -> None:
        with self._lock:
            for path, sheet in sheets.items():
                before = self._sheets.pop(path, None)
                self._files += len(sheet) - (0 if before is None else len(before))
                self._sheets[path] = sheet
            while self._files > _FILES and len(self._sheets) > 1:
                self._files -= len(self._sheets.popitem(last=False)[1])

    def names(self, paths: Sequence[str]) -> Mapping[str, Names]:
        """What is known of the files of these manifests."""
        with self._lock:
            found = {path: self._names[path] for path in paths if path in self._names}
            for path in found:
                self._names.move_to_end(path)
        return found

    def keep_names(self, names: Mapping[str, Names]) -> None:
        """Names were read."""
        with self._lock:
            for path, told in names.items():
                before = self._names.pop(path, None)
                self._named += told.bytes - (0 if before is None else before.bytes)
                self._names[path] = told
            while self._named > _NAMES and len(self._names) > 1:
                self._named -= self._names.popitem(last=False)[1].bytes

    def last(self, uuid: str, branch: str) -> tuple[Looked | None, Decided | None]:
        """The last look at a table, and what was decided."""
        with self._lock:
            return self._looks.get((uuid, branch), (None, None))

    def looked(self, uuid: str, branch: str, look: Looked, decided: Decided) -> None:
        """A table was looked at."""
        with self._lock:
            self._looks[uuid, branch] = (look, decided)
            self._looks.move_to_end((uuid, branch))
            while len(self._looks) > _TABLES or (len(self._looks) > 1 and self._seen() > _FILES):
                self._looks.popitem(last=False)

    def _seen(self) -> int:
        return sum(look.health.facts.data_files for look, _ in self._looks.values())
