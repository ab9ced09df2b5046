"""Cache of decoded deletes in a worker process, so that each is fetched and decoded once."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from icepact.execute.deletes.claims import check_keys, check_paths
from icepact.execute.deletes.columns import KeyColumn
from icepact.execute.deletes.equality import KeySet, read_key_batches, read_key_rows
from icepact.execute.deletes.errors import UnsupportedDelete
from icepact.execute.deletes.files import Bytes
from icepact.execute.deletes.kinds import Comparable, comparable
from icepact.execute.deletes.positions import PositionIndex, deleted_positions, read_positions
from icepact.execute.deletes.vectors import decode_vector
from icepact.model.files import DeleteFile, DeleteKind, ManifestBounds

DEFAULT_LIMIT = 512 * 1024**2
"""Bytes of decoded deletes that a process keeps."""


class _Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


T = TypeVar("T", bound=_Sized)


@dataclass(frozen=True, kw_only=True, slots=True)
class _KeyRows:
    """Key columns of one delete file."""

    columns: tuple[KeyColumn, ...]

    @property
    def nbytes(self) -> int:
        return sum(column.nbytes for column in self.columns)


class DeleteCache:
    """Decoded deletes of one process, least recently used out first; thread-safe.

    `fetch` returns the bytes of a delete file; of a deletion vector only its own range in the Puffin file.
    What was used longest ago is dropped when there are more than `limit` bytes. With `bounds`, delete files that hold
    what their manifest rules out are refused: readers have been passing them over where they should apply.
    """

    def __init__(
        self,
        fetch: Callable[[DeleteFile], Bytes],
        *,
        limit: int = DEFAULT_LIMIT,
        bounds: Mapping[str, ManifestBounds] | None = None,
    ) -> None:
        """`bounds` are what manifests say of delete files, by path."""
        self._fetch = fetch
        self._cache = _LruCache(limit)
        self._bounds = bounds or {}

    @property
    def nbytes(self) -> int:
        """Bytes in the cache now, estimated."""
        return self._cache.nbytes

    def positions(self, deletes: Iterable[DeleteFile], data_path: str) -> NDArray[np.int64]:
        """Rows of a data file that its position deletes or deletion vector remove, ascending; read-only.

        `deletes` are the deletes that apply to it; equality deletes among them are passed over.
        """
        return deleted_positions(deletes, data_path, vector=self._vector, index=self._index)

    def key_sets(
        self, deletes: Iterable[DeleteFile], types: Mapping[int, str], constants: Mapping[int, Any] | None = None
    ) -> list[KeySet]:
        """One set for each choice of key columns among the equality deletes that apply to a data file.

        `types` are the wanted types by field id, those of dropped columns included. `constants` stand for key
        columns that a delete file lacks, as `kinds.comparable` takes them; null if not given.
        """
        groups: dict[tuple[int, ...], dict[str, DeleteFile]] = {}
        for delete in deletes:
            if delete.kind is DeleteKind.EQUALITY:
                groups.setdefault(tuple(sorted(set(delete.equality_ids))), {})[delete.path] = delete
        return [self._key_set(group, ids, types, constants or {}) for ids, group in sorted(groups.items())]

    def check_keys(self, deletes: Iterable[DeleteFile], types: Mapping[int, str]) -> None:
        """Read equality deletes and refuse what contradicts itself or its manifest; no key is kept."""
        for delete in deletes:
            wanted = _key_types(delete.equality_ids, types, delete.path)
            for columns in read_key_batches(delete, self._fetch(delete), wanted, {}):
                if delete.path in self._bounds:
                    check_keys(delete, wanted, columns, self._bounds[delete.path])

    def _key_set(
        self,
        group: Mapping[str, DeleteFile],
        ids: tuple[int, ...],
        types: Mapping[int, str],
        constants: Mapping[int, Any],
    ) -> KeySet:
        wanted = _key_types(ids, types, ", ".join(group))
        fixed = {i: comparable(types[i], constants.get(i)) for i in ids}
        about = (tuple(wanted.items()), tuple(fixed.items()))

        def build() -> KeySet:
            return KeySet(wanted, [self._key_rows(delete, wanted, fixed, about).columns for delete in group.values()])

        return self._cache.get(("set", about, frozenset(group)), build)

    def _key_rows(
        self, delete: DeleteFile, types: Mapping[int, str], constants: Mapping[int, Comparable], about: Hashable
    ) -> _KeyRows:
        def build() -> _KeyRows:
            columns = read_key_rows(delete, self._fetch(delete), types, constants)
            if delete.path in self._bounds:
                check_keys(delete, types, columns, self._bounds[delete.path])
            return _KeyRows(columns=tuple(columns))

        return self._cache.get(("rows", about, delete.path), build)

    def _vector(self, delete: DeleteFile) -> NDArray[np.int64]:
        return self._cache.get(("vector", delete.key), lambda: decode_vector(self._fetch(delete), delete))

    def _index(self, delete: DeleteFile) -> PositionIndex:
        def build() -> PositionIndex:
            index = read_positions(delete, self._fetch(delete))
            if delete.path in self._bounds:
                check_paths(delete, index.slices, self._bounds[delete.path])
            return index

        return self._cache.get(("index", delete.key), build)


def _key_types(ids: Iterable[int], types: Mapping[int, str], whose: str) -> dict[int, str]:
    """Types of key columns, in the order of their field ids."""
    ids = sorted(set(ids))
    if unknown := [i for i in ids if i not in types]:
        raise UnsupportedDelete(f"the types of key columns {unknown} are not known ({whose})")
    return {i: types[i] for i in ids}


class _LruCache:
    """Values by key, least recently used out first. A value is built by one thread while others wait for it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._building: dict[Hashable, Future[Any]] = {}
        self.nbytes = 0

    def get(self, key: Hashable, build: Callable[[], T]) -> T:
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
                return cast(T, self._entries[key][0])
            waiting = self._building.get(key)
            mine: Future[Any] = Future()
            if waiting is None:
                self._building[key] = mine
        if waiting is not None:
            return cast(T, waiting.result())
        try:
            value = build()
        except BaseException as error:
            # forgotten, so that the next one to ask tries again
            with self._lock:
                del self._building[key]
            mine.set_exception(error)
            raise
        with self._lock:
            del self._building[key]
            self._keep(key, value, value.nbytes)
        mine.set_result(value)
        return value

    def _keep(self, key: Hashable, value: Any, size: int) -> None:
        """Keep a value if it fits at all; values that were used longest ago make room."""
        if size > self._limit:
            return
        self._entries[key] = (value, size)
        self.nbytes += size
        while self.nbytes > self._limit:
            _, (_, freed) = self._entries.popitem(last=False)
            self.nbytes -= freed
