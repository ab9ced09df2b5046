"""A plan at a newer head: which groups still fit it, and of which finished units use can be made."""

import base64
import hashlib
import json
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from icepact.commit.judge import InputAtPin, Verdict, pinned_inputs
from icepact.execute.units import unit_ids
from icepact.iceberg.table.table import HeadView, IcebergTable
from icepact.maintain.losses import changed_by_loss, left_of, superseded
from icepact.model.files import DataFile, DeleteFile, DeleteKind
from icepact.model.plan import Plan, RewriteFiles, Unit


class ReadInputs(NamedTuple):
    """Files of a unit or a group, and what applied to them when they were read."""

    files: Sequence[DataFile]
    """Their deletes are positions in `deletes`."""
    deletes: Sequence[DeleteFile]

    @property
    def at_pin(self) -> list[InputAtPin]:
        """As they are judged."""
        return pinned_inputs(self.files, self.deletes)

    @staticmethod
    def together(parts: Iterable["ReadInputs"]) -> "ReadInputs":
        """Those of several units, which may have been read at different times."""
        files: list[DataFile] = []
        deletes: dict[tuple[str, int | None], tuple[int, DeleteFile]] = {}
        for part in parts:
            for file in part.files:
                attached = [part.deletes[index] for index in file.deletes]
                at = [deletes.setdefault(delete.key, (len(deletes), delete))[0] for delete in attached]
                files.append(file._replace(deletes=tuple(at)))
        return ReadInputs(files, [delete for _, delete in deletes.values()])

    def to_text(self) -> str:
        """What has to be known later: the numbers of the files, and the deletes that applied to them."""
        own = ReadInputs.together([self])
        document = {
            "files": [[f.path, f.sequence_number, f.first_row_id, list(f.deletes)] for f in own.files],
            "deletes": [[d.path, d.offset, d.kind.value, d.records] for d in own.deletes],
        }
        return base64.b64encode(zlib.compress(json.dumps(document).encode())).decode()

    @staticmethod
    def of_text(text: str, now: "ReadInputs") -> "ReadInputs | None":
        """As they were, by how they are now; `None` if they are not these files, or another version wrote it."""
        try:
            document = json.loads(zlib.decompress(base64.b64decode(text)))
            was = {path: (number, row_id, attached) for path, number, row_id, attached in document["files"]}
            deletes = [_delete(*delete) for delete in document["deletes"]]
            if len(was) != len(now.files):
                return None
            return ReadInputs([_as_it_was(file, *was[file.path]) for file in now.files], deletes)
        except (KeyError, TypeError, ValueError, zlib.error):
            return None


def _as_it_was(file: DataFile, number: int, row_id: int | None, deletes: Sequence[int]) -> DataFile:
    return file._replace(sequence_number=number, first_row_id=row_id, deletes=tuple(deletes))


def _delete(path: str, offset: int | None, kind: str, records: int) -> DeleteFile:
    """A delete of which only that is known which says what it deleted, and how much."""
    return DeleteFile(
        path=path,
        offset=offset,
        kind=DeleteKind(kind),
        size=0,
        records=records,
        spec_id=0,
        partition=(),
        sequence_number=0,
        referenced=None,
    )


def how_it_is_read(plan: Plan, table: IcebergTable) -> dict[str, str]:
    """Of every unit, its files, the columns that are written and how they are found, as one word: another one if any of
    it changes. A unit is good for another pin only if that reads the same. What deletes apply is not part of it."""
    how = table.interpretation
    return {
        unit_id: f"{plan.format_version}-{how}-{_numbers(unit)}" + ("-carried" if step.carries else "")
        for step in plan.rewrites
        for unit_id, unit in zip(unit_ids(step), step.units, strict=True)
    }


def _numbers(unit: Unit) -> str:
    """Paths, sequence numbers and row ids of a unit's files: rows inherit them."""
    numbers = json.dumps([(file.path, file.sequence_number, file.first_row_id) for file in unit.files])
    return hashlib.sha256(numbers.encode()).hexdigest()[:16]


@dataclass(frozen=True, kw_only=True, slots=True)
class Rebased:
    """A plan at a newer head, with the groups that still fit it."""

    plan: Plan
    changed: frozenset[str]
    """Units of which what was written is of no use any more: their inputs are not all there, or are read in another
    way."""
    fallen: frozenset[str]
    """Names that no unit has any more, of groups that go on."""
    overtaken: Mapping[str, ReadInputs]
    """Units to whose inputs other deletes apply than when they were read: what was written is of use if these are taken
    along."""
    given_up: Mapping[str, Verdict]


def rebase(
    plan: Plan,
    group_ids: Collection[str],
    view: HeadView,
    *,
    applied: Collection[str] = (),
    read: Mapping[str, ReadInputs] | None = None,
) -> Rebased:
    """The same files, as they are at a newer head, without those that are gone; groups of which nothing is left that
    would be worth the work are superseded. Deletes of groups that are `applied` are not carried any more. `read` are
    units that were read before the plan's pin."""
    live: dict[str, DataFile] = {file.path: file for file in view.files}
    steps: list[RewriteFiles] = []
    changed: set[str] = set()
    fallen: set[str] = set()
    overtaken: dict[str, ReadInputs] = {}
    given_up: dict[str, Verdict] = {}
    for step in plan.rewrites:
        if step.group_id not in group_ids:
            continue
        gone = [f.path for f in step.files if f.path not in live]
        if gone:
            changed.update(changed_by_loss(step, live))
            units = tuple(left for unit in step.units if (left := left_of(step, unit, live)) is not None)
            if not units:
                given_up[step.group_id] = superseded(gone)
                continue
            before_loss, step = step, replace(step, units=units)
            fallen |= {*unit_ids(before_loss)} - {*unit_ids(step)}
        units = tuple(replace(unit, files=tuple(live[f.path] for f in unit.files)) for unit in step.units)
        apply = step.carries and step.group_id in applied
        if apply:
            step = replace(step, carries=False, deletes_reason="they could not be carried")
        steps.append(replace(step, units=units))
        for unit_id, before, now in zip(unit_ids(step), step.units, units, strict=True):
            if unit_id in changed:
                continue
            then = (read or {}).get(unit_id) or ReadInputs(before.files, plan.deletes)
            if apply or plan.format_version != view.format_version or _numbers(before) != _numbers(now):
                changed.add(unit_id)
            elif then.at_pin != pinned_inputs(now.files, view.deletes):
                overtaken[unit_id] = then
    again = replace(
        plan,
        snapshot_id=view.snapshot_id,
        sequence_number=view.sequence_number,
        format_version=view.format_version,
        steps=tuple(steps),
        deletes=view.deletes,
    )
    return Rebased(
        plan=again, changed=frozenset(changed), fallen=frozenset(fallen), overtaken=overtaken, given_up=given_up
    )
