"""Whether statistics are stale, and which columns can have any: decided from the history of a branch alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from icepact.model.errors import BadInput
from icepact.model.formatting import plural
from icepact.model.housekeeping import Kept
from icepact.model.schema import every_field
from icepact.model.statistics import StatisticsAge, StatisticsWork

_WITH_SKETCHES = frozenset(
    [
        *("boolean", "int", "long", "float", "double", "date", "timestamp", "timestamptz"),
        *("string", "uuid", "binary"),
    ]
)
_PARAMETRIC = ("decimal(", "fixed[")
"""Types that Iceberg's sketches know: it has others that count as primitive, and fails on them."""
_UNQUOTABLE = (".", "`")
"""Iceberg passes names on to Spark without quoting them."""


class Event(NamedTuple):
    """One snapshot of a branch, as far as it changed rows and files."""

    snapshot_id: int
    at: datetime
    rows_changed: int | None
    """At most; 0 if files were only replaced by others with the same rows; `None` if its summary does not tell."""
    files_changed: int | None
    rows: int | None
    """In all live data files."""
    files: int | None
    """Live data and delete files."""
    bytes: int | None
    """Of these."""


def event_of(document: Mapping[str, Any]) -> Event:
    """From Iceberg's JSON of a snapshot."""
    summary = document.get("summary") or {}
    counts = {key: int(value) for key, value in summary.items() if str(value).isdecimal()}
    known = "total-records" in counts
    data_files, delete_files = counts.get("total-data-files"), counts.get("total-delete-files", 0)
    changed = ("added-data-files", "deleted-data-files", "added-delete-files", "removed-delete-files")
    same_rows = summary.get("operation") == "replace"
    return Event(
        snapshot_id=document["snapshot-id"],
        at=datetime.fromtimestamp(document["timestamp-ms"] / 1000, UTC),
        rows_changed=0 if same_rows else _rows_changed(counts) if known else None,
        files_changed=sum(counts.get(name, 0) for name in changed) if known else None,
        rows=counts.get("total-records"),
        files=None if data_files is None else data_files + delete_files,
        bytes=counts.get("total-files-size"),
    )


def _rows_changed(counts: Mapping[str, int]) -> int:
    """At most: an overwrite counts every row of the files that it replaces. A deletion vector that follows another
    names the rows of that one again, so those that went count against those that came."""
    positions = counts.get("added-position-deletes", 0) - counts.get("removed-position-deletes", 0)
    whole = ("added-records", "deleted-records", "added-equality-deletes")
    return sum(counts.get(name, 0) for name in whole) + max(0, positions)


def age_of(history: Sequence[Event], registered: Mapping[int, frozenset[int]]) -> StatisticsAge | None:
    """Of the newest statistics in a history, which is newest first; `None` if there are none in it. `registered` are
    all statistics there are: by snapshot, those that they were computed from."""
    position = {event.snapshot_id: at for at, event in enumerate(history)}
    newest = next((event.snapshot_id for event in history if event.snapshot_id in registered), None)
    if newest is None:
        return None
    sources = registered[newest] or frozenset([newest])
    expired = sorted(sources - position.keys())
    source = expired[0] if expired else max(sources, key=lambda snapshot_id: position[snapshot_id])
    since = None if expired else history[: position[source]]
    there = None if expired else history[position[source]]
    after = history[: position[newest]]
    return StatisticsAge(
        snapshot_id=newest,
        computed_from=source,
        computed_at=there and there.at,
        snapshots=position[newest],
        rows_changed=None if since is None else _sum([event.rows_changed for event in since]),
        files_changed=None if since is None else _sum([event.files_changed for event in since]),
        rows=there and there.rows,
        files=there and there.files,
        same_rows=_sum([event.rows_changed for event in after]) == 0,
    )


def _sum(numbers: Sequence[int | None]) -> int | None:
    """`None` as soon as one is not known."""
    known = [number for number in numbers if number is not None]
    return sum(known) if len(known) == len(numbers) else None


class Verdict(NamedTuple):
    """What is to be done about one kind of statistics, and why."""

    work: StatisticsWork
    why: str


def judge_sketches(
    age: StatisticsAge | None, *, head: int, missing: Sequence[str], strays: int, stale_after: float
) -> Verdict:
    """What is to be done about sketches. `missing` are wanted columns without one, `strays` the sketches of columns
    that the table has no more."""
    if age is None:
        return Verdict("compute", "there are no sketches of distinct values")
    if missing:
        return Verdict("compute", f"there is no sketch of {', '.join(missing[:3])}{', ...' if missing[3:] else ''}")
    if age.snapshot_id == head:
        if strays:
            return Verdict("carry over", f"the table has lost {plural(strays, 'column')} that there are sketches of")
        return Verdict("keep", "the sketches are those of the head")
    return _judge_change(age, stale_after)


def _judge_change(age: StatisticsAge, stale_after: float) -> Verdict:
    if age.same_rows and age.rows_share is None:
        return Verdict("carry over", "no row has changed since the sketches were registered")
    if age.rows_share is None:
        return Verdict("compute", _not_known(age))
    if age.rows_share > stale_after:
        return Verdict("compute", _changed(age.rows_share, "rows"))
    little = ", which is little" if age.rows_share else ""
    return Verdict("carry over", f"{_changed(age.rows_share, 'rows')}{little}")


def judge_partitions(age: StatisticsAge | None, *, head: int, stale_after: float) -> Verdict:
    """What is to be done about partition statistics, which count files as well as rows."""
    if age is None:
        return Verdict("compute", "there are no partition statistics")
    if age.snapshot_id == head:
        return Verdict("keep", "the partition statistics are those of the head")
    if age.rows_share is None or age.files_share is None:
        return Verdict("compute", _not_known(age))
    for share, what in ((age.rows_share, "rows"), (age.files_share, "files")):
        if share > stale_after:
            return Verdict("compute", _changed(share, what))
    return Verdict("keep", f"{_changed(max(age.rows_share, age.files_share), 'rows and files')}, which is little")


def _changed(share: float, what: str) -> str:
    percent = 100 * share
    shown = f"{percent:.0f}%" if percent >= 1 or percent == 0 else "less than 1%"
    return f"{shown} of the {what} changed since"


def _not_known(age: StatisticsAge) -> str:
    return f"the history does not tell how much has changed since snapshot {age.computed_from}"


def checked_share(share: float) -> float:
    """A share of the rows, or one line that says why it is none."""
    if not 0 <= share <= 1:
        raise BadInput(f"stale_after is {share:g}: give a share of the rows from 0 to 1, such as 0.1")
    return share


class Sketchable(NamedTuple):
    """Columns that can have sketches, by their names in the snapshot, and those that cannot."""

    names: dict[int, str]
    """By field id."""
    kept: tuple[Kept, ...]


def sketchable(
    table: str, schema: Mapping[str, Any], of_snapshot: Mapping[str, Any], wanted: Sequence[str] | None
) -> Sketchable:
    """Columns that are wanted and can have sketches: top-level ones of types that Iceberg computes them for. The
    snapshot may have them under other names, or not at all. `wanted` are names of today, `None` for all."""
    fields = {field["id"]: field for field in schema["fields"]}
    chosen = list(fields) if wanted is None else _ids_of(table, schema, wanted)
    then = {field["id"]: field["name"] for field in of_snapshot["fields"]}
    same_word = Counter(name.casefold() for name in then.values())
    names, kept = dict[int, str](), list[Kept]()
    for number in chosen:
        why = _why_not(fields[number]["type"], then.get(number), same_word)
        if why is None:
            names[number] = then[number]
        elif wanted is not None and number in then:
            raise BadInput(f"column {fields[number]['name']!r} of {table} can have no statistics: {why}")
        else:
            kept.append(Kept(what=f"column {fields[number]['name']}", why=why))
    return Sketchable(names, tuple(kept))


def _ids_of(table: str, schema: Mapping[str, Any], wanted: Sequence[str]) -> list[int]:
    top = {field["name"]: field["id"] for field in schema["fields"]}
    inside = {field.name for field in every_field(schema).values()} - top.keys()
    for name in wanted:
        if name in inside:
            raise BadInput(f"column {name!r} of {table} is nested: there are statistics of top-level columns only")
        if name not in top:
            raise BadInput(f"{table} has no column {name!r}; there is: {', '.join(top)}")
    if not wanted:
        raise BadInput("no columns are named: leave columns out for all that can have statistics")
    return list(dict.fromkeys(top[name] for name in wanted))


def _why_not(kind: Any, name: str | None, same_word: Mapping[str, int]) -> str | None:
    if not isinstance(kind, str):
        return f"it is a {kind['type']}: there are statistics of primitive columns only"
    if kind not in _WITH_SKETCHES and not kind.startswith(_PARAMETRIC):
        return f"Iceberg computes none for type {kind}"
    if name is None:
        return "it was added after the snapshot: no row has it yet"
    if any(mark in name for mark in _UNQUOTABLE):
        return "Iceberg cannot find a column with this name in Spark"
    if same_word[name.casefold()] > 1:
        return "Spark cannot tell it from another column that is written alike"
    return None
