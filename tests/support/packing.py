"""Files packed by their sizes, as a plan packs those of one partition that are all alike."""

import math
from collections.abc import Sequence

from icepact.model.files import DataFile
from icepact.model.plan import Unit
from icepact.model.policy import Policy
from icepact.plan.pack import pack_sizes, reading_order


def pack(files: Sequence[DataFile], policy: Policy, ratio: float = 1.0) -> tuple[Unit, ...]:
    """Units, largest first; of what is encoded anew, this share remains."""
    sized = sorted(((math.ceil(f.size * ratio), f) for f in files), key=lambda pair: (-pair[0], pair[1].path))
    return tuple(
        Unit(
            files=tuple(sorted((sized[at][1] for at in unit), key=reading_order)),
            predicted=None if ratio == 1.0 else sum(sized[at][0] for at in unit),
        )
        for unit in pack_sizes([size for size, _ in sized], policy, ratio)
    )
