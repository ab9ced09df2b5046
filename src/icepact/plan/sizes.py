"""Which sizes files will have once a plan is carried out."""

from collections.abc import Iterator, Sequence

from icepact.model.histogram import Histogram
from icepact.model.plan import RewriteFiles
from icepact.model.policy import Policy
from icepact.plan.pack import outputs_of
from icepact.stats.histogram import histogram_of


def sizes_after(before: Histogram, steps: Sequence[RewriteFiles], policy: Policy) -> Histogram:
    """The sizes of files that stay, and of those that are predicted."""
    gone = histogram_of(f.size for step in steps for unit in step.units for f in unit.files)
    return before.changed(gone=gone, new=histogram_of(s for step in steps for s in _outputs(step, policy)))


def _outputs(step: RewriteFiles, policy: Policy) -> Iterator[int]:
    """Predicted sizes of the files that a group leaves: as many as it predicts, with as many bytes."""
    if step.regroup:
        yield from _parts(step.predicted_bytes, step.predicted_files)
        return
    total, done, read = step.bytes, 0, 0
    for unit in step.units:
        read += unit.bytes
        until = step.predicted_bytes * read // total if total else 0
        yield from _parts(until - done, outputs_of(unit.predicted_bytes, policy))
        done = until


def _parts(size: int, count: int) -> Iterator[int]:
    """A size in equal parts."""
    for number in range(count):
        yield size * (number + 1) // count - size * number // count
