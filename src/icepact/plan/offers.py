"""Of what could be done with a place, what is best; or why nothing is worth it."""

import math
from collections.abc import Iterable, Sequence

from icepact.model.health import Place
from icepact.model.outlook import Outlook
from icepact.model.policy import Policy
from icepact.plan.prospect import Prospect
from icepact.plan.strategies.table import STRATEGIES
from icepact.plan.worth import SPLIT, scan_tasks


def best_offer(offers: Sequence[Prospect], outlook: Outlook, policy: Policy) -> int | str:
    """The number of the one that leaves most of its saving, or the reason why none is worth it. Where a strategy does
    not ask what work is worth, it is the first."""
    ask = STRATEGIES[policy.strategy].worth
    if ask is None or policy.rewrite_all:
        return 0
    verdicts = [ask(offer, outlook, policy) for offer in offers]
    good = [at for at, verdict in enumerate(verdicts) if verdict.worth]
    if good:
        return max(good, key=lambda at: verdicts[at].net)
    best = max(range(len(offers)), key=lambda at: verdicts[at].net)
    return f"{verdicts[best].reason} ({offers[best].choice.reason})"


def asks_for_worth(policy: Policy) -> bool:
    """Whether work is refused that is not worth it."""
    return STRATEGIES[policy.strategy].worth is not None and not policy.rewrite_all


def tasks_of(places: Iterable[Place]) -> int:
    """Tasks of a scan of a whole table once it is compact."""
    return sum(scan_tasks(0, place.facts.bytes) for place in places)


def other_tasks(tasks: int, place: Place, size: int) -> int:
    """Those of them that read something else than so many bytes of a place."""
    return tasks - scan_tasks(0, place.facts.bytes) + math.ceil((place.facts.bytes - size) / SPLIT)
