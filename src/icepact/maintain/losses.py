"""Groups of which others have taken inputs: what is left of them, and whether that is worth the work."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from icepact.commit.judge import Answer, Verdict
from icepact.execute.units import unit_ids
from icepact.model.files import DataFile
from icepact.model.plan import RewriteFiles, Unit
from icepact.model.policy import Tier


def superseded(gone: Sequence[str]) -> Verdict:
    """The verdict on a group of which these inputs are gone."""
    return Verdict(answer=Answer.SUPERSEDED, reason=f"{len(gone)} inputs are gone, first {gone[0]}")


def lost_inputs(steps: Sequence[RewriteFiles], live: Collection[str]) -> dict[str, Verdict]:
    """The verdicts on groups of which inputs are gone, by id."""
    gone = {step.group_id: [f.path for f in step.files if f.path not in live] for step in steps}
    return {group: superseded(paths) for group, paths in gone.items() if paths}


def left_of(step: RewriteFiles, unit: Unit, live: Mapping[str, DataFile]) -> Unit | None:
    """A unit with the files that are still there; `None` if rewriting these alone would be for nothing."""
    files = tuple(f for f in unit.files if f.path in live)
    if len(files) == len(unit.files):
        return unit
    worth = len(files) > 1 or step.tier is Tier.FULL or step.regroup or any(live[f.path].deletes for f in files)
    return replace(unit, files=files, predicted=None) if files and worth else None


def changed_by_loss(step: RewriteFiles, live: Mapping[str, DataFile]) -> Iterator[str]:
    """Units of a group that lost files; if one falls away, all that come after it get other names."""
    fell = False
    for unit_id, unit in zip(unit_ids(step), step.units, strict=True):
        left = left_of(step, unit, live)
        fell = fell or left is None
        if fell or left is not unit:
            yield unit_id
