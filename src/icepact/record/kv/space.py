"""Transactions over a backend: read, decide, and write if nothing that was read has changed meanwhile.

A value that is too large for one is kept in parts. They are parked before the transaction that makes them stay, so that
what a process leaves behind when it dies goes by itself.
"""

import json
import random
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from icepact.model.errors import StoreUnusable
from icepact.record.kv.interface import Entry, KeyValue, Span
from icepact.record.kv.keys import key

Result = TypeVar("Result")

_INLINE, _PARTED = b"v", b"p"
"""First byte of a value, and of the list of its parts."""
_PARKED_SECONDS = 3600.0
_PAGE = 100
_PATIENCE = 60.0
"""Seconds for which a transaction is tried again while others are faster."""
_LONGEST_WAIT = 0.05


@dataclass(frozen=True, kw_only=True)
class Change(Generic[Result]):
    """What a transaction writes, and what its caller is told."""

    result: Result
    puts: Mapping[str, bytes] = field(default_factory=dict)
    deletes: Collection[str] = ()
    tells: str | None = None
    """The job about which those who watch are told."""


class Space:
    """The keys of a backend, whose values may have any size."""

    def __init__(self, backend: KeyValue) -> None:
        self.backend = backend
        self._most_inline = max(1, backend.most_bytes // 8)
        self._part = max(1, backend.most_bytes // 2)

    # -- reading ----------------------------------------------------------------------------------

    def get(self, names: Sequence[str]) -> dict[str, bytes]:
        """Values of keys, as far as there are any; those of a hundred or so are of one moment."""
        found: dict[str, bytes] = {}
        for at in range(0, len(names), self._batch):
            found |= self.values(names[at : at + self._batch])[0]
        return found

    def one(self, name: str) -> bytes | None:
        """The value of one key."""
        return self.get([name]).get(name)

    def read(self, spans: Sequence[Span]) -> list[list[Entry]]:
        """What is in each of some spans, all of one moment; their values are small."""
        return [[Entry(one.key, one.value[1:], one.version) for one in some] for some in self.backend.read(spans)]

    def scan(self, span: tuple[str, str], *, page: int = _PAGE) -> Iterator[tuple[str, bytes]]:
        """All that is between two keys, so many at a time."""
        start, end = span
        while True:
            [found] = self.backend.read([Span(start, end, page)])
            whole = self._whole(found)
            yield from ((entry.key, whole[entry.key]) for entry in found if entry.key in whole)
            if len(found) < page:
                return
            start = found[-1].key + "\0"

    def names(self, span: tuple[str, str]) -> Iterator[str]:
        """Names of all keys between two, page by page."""
        start, end = span
        while True:
            [page] = self.backend.read([Span(start, end, _PAGE)])
            yield from (entry.key for entry in page)
            if len(page) < _PAGE:
                return
            start = page[-1].key + "\0"

    @property
    def _batch(self) -> int:
        return min(_PAGE, self.backend.most_keys)

    def values(self, names: Sequence[str], lazily: Collection[str] = ()) -> tuple[dict[str, bytes], dict[str, Entry]]:
        """Values and raw entries of some keys; of those in `lazily` only the entries."""
        entries = {name: some[0] for name, some in zip(names, self._raw(names), strict=True) if some}
        return self._whole([entry for name, entry in entries.items() if name not in lazily]), entries

    def _raw(self, names: Sequence[str]) -> Sequence[Sequence[Entry]]:
        return self.backend.read([Span.of(name) for name in names]) if names else []

    def _whole(self, entries: Sequence[Entry]) -> dict[str, bytes]:
        whole: dict[str, bytes] = {}
        for entry in entries:
            seen: Entry | None = entry
            while seen is not None and seen.value[:1] == _PARTED:
                pieces = [some[0].value if some else None for some in self._raw(_parts(seen))]
                if None not in pieces:
                    whole[entry.key] = b"".join(piece for piece in pieces if piece is not None)
                    break
                seen = self._seen_again(seen)
            else:
                if seen is not None:
                    whole[entry.key] = seen.value[1:]
        return whole

    def _seen_again(self, seen: Entry) -> Entry | None:
        """A key whose parts are gone: it must have changed."""
        [again] = self._raw([seen.key])
        if again and again[0].version == seen.version:
            raise StoreUnusable("the record store has lost a part of a value: what it says cannot be relied on")
        return again[0] if again else None

    # -- writing ----------------------------------------------------------------------------------

    def change(
        self,
        names: Sequence[str],
        decide: Callable[[Mapping[str, bytes]], Change[Result]],
        *,
        over: Collection[str] = (),
    ) -> Result:
        """Write what `decide` makes of the values of some keys, unless one of them has changed meanwhile: then it is
        asked again. `over` are keys that may be large, and are written over or deleted without being looked at."""
        deadline = time.monotonic() + _PATIENCE
        wait = 0.001
        while True:
            values, entries = self.values([*names, *over], lazily=over)
            change = decide(values)
            if not change.puts and not change.deletes:
                return change.result
            versions = {name: entries[name].version if name in entries else 0 for name in names}
            if self.commit(versions, change.puts, change.deletes, over=entries, tells=change.tells):
                return change.result
            if time.monotonic() > deadline:
                raise StoreUnusable("the record store changes too fast: others were always quicker for a minute")
            time.sleep(random.uniform(0, wait))
            wait = min(2 * wait, _LONGEST_WAIT)

    def remove(self, name: str) -> bool:
        """Delete a key; false if there is none."""
        return self.change([name], lambda values: Change(result=name in values, deletes=[name] if values else []))

    def commit(
        self,
        versions: Mapping[str, int],
        puts: Mapping[str, bytes],
        deletes: Collection[str] = (),
        *,
        over: Mapping[str, Entry] | None = None,
        tells: str | None = None,
    ) -> bool:
        """Write, if all compared keys have these versions; `over` is what was in keys that may have parts."""
        written, parts = self._parted(puts)
        gone = [name for name in deletes if name not in puts]
        outdated = [part for name in {*puts, *gone} for part in _parts((over or {}).get(name))]
        return self.backend.commit(versions, written, [*gone, *outdated], persists=parts, tells=tells)

    def _parted(self, puts: Mapping[str, bytes]) -> tuple[dict[str, bytes], list[str]]:
        """Values as they are written, and the parts that were parked for them."""
        written, parked = {}, list[str]()
        for name, value in puts.items():
            if len(value) <= self._most_inline:
                written[name] = _INLINE + value
                continue
            whole = uuid.uuid4().hex
            parts = [key("part", whole, str(at)) for at in range(-(-len(value) // self._part))]
            for at, part in enumerate(parts):
                piece = value[at * self._part : (at + 1) * self._part]
                self.backend.park(part, piece, seconds=_PARKED_SECONDS)
            written[name] = _PARTED + json.dumps([whole, len(parts)]).encode()
            parked += parts
        return written, parked

    # -- bounds -----------------------------------------------------------------------------------

    def batches(self, puts: Mapping[str, bytes], *, keys_each: int = 1, beside: int = 0) -> Iterator[dict[str, bytes]]:
        """Values, as many at a time as a transaction takes; each with so many keys, and others beside them all."""
        batch: dict[str, bytes] = {}
        room, most = self.backend.most_bytes // 2, max(1, (self.backend.most_keys - beside) // keys_each)
        for name, value in puts.items():
            size = min(len(value), self._most_inline) + len(name.encode()) * keys_each + 100
            if batch and (size > room or len(batch) == most):
                yield batch
                batch, room = {}, self.backend.most_bytes // 2
            batch[name] = value
            room -= size
        if batch:
            yield batch


def _parts(entry: Entry | None) -> list[str]:
    """Names of the parts of a value; none if it is in one."""
    if entry is None or entry.value[:1] != _PARTED:
        return []
    whole, number = json.loads(entry.value[1:])
    return [key("part", whole, str(at)) for at in range(number)]
