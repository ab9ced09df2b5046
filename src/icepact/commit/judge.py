"""Judging a group at the head: may its outputs replace its inputs? Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from icepact.model.table import DataFile, DeleteFile, DeleteKind

DeleteKeys = frozenset[tuple[str, int | None]]


class Answer(StrEnum):
    """What the judgement says about a group."""

    CLEAN = "clean"
    LATE = "late"
    REPLAN = "re-plan"
    SUPERSEDED = "superseded"
    REFUSED = "refused"


@dataclass(frozen=True, kw_only=True, slots=True)
class Pinned:
    """One input as it was when its rows were read."""

    path: str
    deletes: DeleteKeys
    """What applied to it then."""
    has_row_ids: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """An answer, and why."""

    answer: Answer
    reason: str = ""


def pinned_inputs(files: Sequence[DataFile], deletes: Sequence[DeleteFile]) -> list[Pinned]:
    """Inputs with what applied to them, independent of list positions."""
    return [
        Pinned(
            path=f.path,
            deletes=frozenset(deletes[i].key for i in f.deletes),
            has_row_ids=f.first_row_id is not None,
        )
        for f in files
    ]


def judge(
    inputs: Sequence[Pinned],
    *,
    pinned_version: int,
    head_version: int,
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
    if pinned_version != head_version:
        return Verdict(answer=Answer.REPLAN, reason=f"the table went from format {pinned_version} to {head_version}")
    now = {f.path: f for f in head_files if f.path in wanted}
    return _worst(_judge_input(i, now[i.path], head_deletes) for i in inputs)


def _judge_input(then: Pinned, now: DataFile, deletes: Sequence[DeleteFile]) -> Verdict:
    if then.has_row_ids != (now.first_row_id is not None):
        return Verdict(answer=Answer.REPLAN, reason=f"row lineage of {then.path} changed")
    attached: Mapping[tuple[str, int | None], DeleteFile] = {deletes[i].key: deletes[i] for i in now.deletes}
    if attached.keys() == then.deletes:
        return Verdict(answer=Answer.CLEAN)
    missing = then.deletes - attached.keys()
    news = [attached[key] for key in attached.keys() - then.deletes]
    if not missing and all(d.kind is DeleteKind.EQUALITY for d in news):
        return Verdict(answer=Answer.LATE, reason=f"{len(news)} new equality deletes apply to {then.path}")
    return Verdict(answer=Answer.REPLAN, reason=f"the deletes that apply to {then.path} changed")


def _worst(verdicts: Iterable[Verdict]) -> Verdict:
    order = (Answer.CLEAN, Answer.LATE, Answer.REPLAN)
    worst = Verdict(answer=Answer.CLEAN)
    for verdict in verdicts:
        if order.index(verdict.answer) > order.index(worst.answer):
            worst = verdict
    return worst
