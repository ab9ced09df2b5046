"""Judging a group at the head: may its outputs replace its inputs? Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from icepact.model.files import DataFile, DeleteFile, DeleteKind

DeleteKey = tuple[str, int | None]
DeleteKeys = frozenset[DeleteKey]


class Answer(StrEnum):
    """What may happen to a group at the head."""

    CLEAN = "clean"
    ONLY_NEW_EQUALITY_DELETES = "late"
    NEW_POSITION_DELETES = "new position deletes"
    NEW_DELETES_OF_BOTH_KINDS = "late, with new position deletes"
    DELETES_TO_RESOLVE = "new deletes, to be resolved to positions"
    OVERTAKEN = "re-plan: others were always first"
    REPLAN = "re-plan"
    NOT_CARRIED = "re-plan: its deletes are applied"
    VANISHED = "its new files vanished"
    SUPERSEDED = "superseded"
    REFUSED = "refused"


@dataclass(frozen=True, kw_only=True, slots=True)
class InputAtPin:
    """One input as it was when its rows were read."""

    path: str
    deletes: DeleteKeys
    """What applied to it then."""
    sequence_number: int
    """Data sequence number: after a rollback and a cherry-pick, the same file has another one."""
    first_row_id: int | None


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadPoint:
    """The snapshot at which the inputs of a commit were read, and the columns of its outputs."""

    sequence_number: int
    """Of the snapshot that was read."""
    version: int
    """The table's format version then."""
    interpretation: str | None
    """`IcebergTable.interpretation` when the inputs were read; `None` if it was not the same for all of them."""
    columns: frozenset[int]
    """Field ids that the outputs hold."""
    in_history: bool
    """Whether the head was reached from that snapshot, and not around it by a rollback."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """An answer, and why."""

    answer: Answer
    reason: str = ""
    missing: frozenset[str] = frozenset()
    """Outputs that are not on storage any more."""
    useless: frozenset[str] = frozenset()
    """Outputs that have to be written again because deletes cannot be taken along to them; others can be kept."""


def pinned_inputs(files: Sequence[DataFile], deletes: Sequence[DeleteFile]) -> list[InputAtPin]:
    """Inputs with what applied to them, independent of list positions."""
    return [
        InputAtPin(
            path=f.path,
            deletes=frozenset(deletes[i].key for i in f.deletes),
            sequence_number=f.sequence_number,
            first_row_id=f.first_row_id,
        )
        for f in files
    ]


def with_moved(inputs: Sequence[InputAtPin], moved: Mapping[DeleteKey, DeleteKey]) -> list[InputAtPin]:
    """The same inputs, where deletes that apply to them are known by another key by now."""
    if not moved:
        return list(inputs)
    return [replace(i, deletes=frozenset(moved.get(key, key) for key in i.deletes)) for i in inputs]


def moved_on(known: Mapping[DeleteKey, DeleteKey], more: Mapping[DeleteKey, DeleteKey]) -> dict[DeleteKey, DeleteKey]:
    """By which keys deletes are known that were moved, some of them once more."""
    return {old: more.get(new, new) for old, new in known.items()} | dict(more)


def judge(
    inputs: Sequence[InputAtPin],
    pin: ReadPoint,
    *,
    head_version: int,
    head_interpretation: str,
    head_files: Sequence[DataFile],
    head_deletes: Sequence[DeleteFile],
) -> Verdict:
    """Compare a group's inputs at the head with what they were at the pin; the worst answer wins."""
    wanted = {i.path for i in inputs}
    live = Counter(f.path for f in head_files if f.path in wanted)
    gone = sorted(wanted - set(live))
    if gone:
        return Verdict(answer=Answer.SUPERSEDED, reason=f"{len(gone)} inputs are gone, first {gone[0]}")
    twice = sorted(path for path, count in live.items() if count > 1)
    if twice:
        return Verdict(answer=Answer.REFUSED, reason=f"{twice[0]} is live more than once")
    if pin.version != head_version:
        return Verdict(answer=Answer.REPLAN, reason=f"the table went from format {pin.version} to {head_version}")
    if pin.interpretation != head_interpretation:
        return Verdict(answer=Answer.REPLAN, reason="the table's columns, name mapping or partition specs changed")
    now = {f.path: f for f in head_files if f.path in wanted}
    return _worst(_judge_input(i, now[i.path], pin, head_deletes) for i in inputs)


def _judge_input(then: InputAtPin, now: DataFile, pin: ReadPoint, deletes: Sequence[DeleteFile]) -> Verdict:
    if then.first_row_id != now.first_row_id:
        return Verdict(answer=Answer.REPLAN, reason=f"row lineage of {then.path} changed")
    if then.sequence_number != now.sequence_number:
        return Verdict(answer=Answer.REPLAN, reason=f"{then.path} was taken out of the table and is back")
    return _judge_deletes(then, {deletes[i].key: deletes[i] for i in now.deletes}, pin)


def _judge_deletes(then: InputAtPin, attached: Mapping[tuple[str, int | None], DeleteFile], pin: ReadPoint) -> Verdict:
    """Compare the deletes that apply to an input now with those that did."""
    if attached.keys() == then.deletes:
        return Verdict(answer=Answer.CLEAN)
    missing = then.deletes - attached.keys()
    news = [attached[key] for key in attached.keys() - then.deletes]
    by_key = [d for d in news if d.kind is DeleteKind.EQUALITY]
    by_position = [d for d in news if d.kind is not DeleteKind.EQUALITY]
    changed = f"the deletes that apply to {then.path} changed"
    if not news or (by_position and not pin.in_history):
        return Verdict(answer=Answer.REPLAN, reason=changed)
    if missing and any(d.kind is DeleteKind.EQUALITY for d in attached.values()):
        # A delete may be missing because another one replaced it: then the positions of all rows that are deleted now
        # tell whether every row that was deleted still is. What an equality delete hits nobody knows here.
        return Verdict(answer=Answer.DELETES_TO_RESOLVE, reason=f"{changed}: some do not apply any more")
    why = _why_not_late(by_key, pin) if by_key else None
    if why is not None:
        reason = f"new equality deletes apply to {then.path}, and {why}"
        return Verdict(answer=Answer.DELETES_TO_RESOLVE, reason=reason)
    if not by_position:
        reason = f"{len(by_key)} new equality deletes apply to {then.path}"
        return Verdict(answer=Answer.ONLY_NEW_EQUALITY_DELETES, reason=reason)
    reason = f"{changed}: {len(by_position)} of positions are new"
    return Verdict(answer=Answer.NEW_DELETES_OF_BOTH_KINDS if by_key else Answer.NEW_POSITION_DELETES, reason=reason)


def _why_not_late(news: Sequence[DeleteFile], pin: ReadPoint) -> str | None:
    """Why equality deletes would not do to the outputs, with the pin's sequence number, what they do to the inputs."""
    if not pin.in_history:
        return "what was read is not part of the branch's history any more"
    if any(d.sequence_number <= pin.sequence_number for d in news):
        return "one is not newer than the snapshot that was planned"
    if not all(pin.columns.issuperset(d.equality_ids) for d in news):
        return "one asks for a column that the new files do not hold"
    return None


def _worst(verdicts: Iterable[Verdict]) -> Verdict:
    known = list(verdicts)
    worst = max(known, key=lambda verdict: _ORDER.index(verdict.answer), default=Verdict(answer=Answer.CLEAN))
    late = any(verdict.answer is Answer.ONLY_NEW_EQUALITY_DELETES for verdict in known)
    if worst.answer is Answer.NEW_POSITION_DELETES and late:
        return Verdict(answer=Answer.NEW_DELETES_OF_BOTH_KINDS, reason=worst.reason)
    return worst  # the first of equals


_ORDER = (
    Answer.CLEAN,
    Answer.ONLY_NEW_EQUALITY_DELETES,
    Answer.NEW_POSITION_DELETES,
    Answer.NEW_DELETES_OF_BOTH_KINDS,
    Answer.DELETES_TO_RESOLVE,
    Answer.REPLAN,
)
"""From the best on."""
