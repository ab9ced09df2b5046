"""Budget of a run: money and time that it may still spend, held against what its finished work really took."""

from icepact.model.limits import Resource
from icepact.model.plan import Plan, RewriteFiles, Unit

_LEEWAY = 1 + 1e-9
"""For sums of many small amounts."""


class RunBudget:
    """Admits the groups of a run one by one, as long as money and time last; what is begun is finished.

    The first group may always be begun: the plan found that it fits. Work that takes longer than predicted makes all
    that is still to come dearer by as much. It knows no clock.
    """

    def __init__(self, plan: Plan) -> None:
        money = [limit for limit in plan.budget if limit.resource is Resource.MONEY]
        time = [limit for limit in plan.budget if limit.resource is Resource.SECONDS]
        self._money = min(money, key=lambda limit: limit.amount, default=None)
        self._time = min(time, key=lambda limit: limit.amount, default=None)
        self._longest = plan.policy.max_duration
        self._cores = plan.predicted.cores
        self._besides = plan.predicted.overhead
        """Seconds on the clock that are still to come besides the work: what is over when the first group is begun is
        over."""
        self._begun: dict[str, RewriteFiles] = {}
        self._refused: dict[str, str] = {}
        self._finished: set[str] = set()
        self._open_seconds = self._open_money = 0.0
        """Predicted for what is begun and not finished."""
        self._predicted = self._measured = self._spent = 0.0
        """Of what is finished: seconds as predicted, seconds as measured, and money by those."""

    def admit(self, step: RewriteFiles, elapsed: float) -> str | None:
        """Admit a group so many seconds after the start of the run, and return `None`; or return why it may not be
        begun. What was said of a group once is said of it again."""
        if step.group_id in self._begun:
            return None
        name = self._short_of(step, elapsed) if self._begun else None
        if step.group_id not in self._refused and name is not None:
            self._refused[step.group_id] = f"the budget is spent ({name})"
        if step.group_id in self._refused:
            return self._refused[step.group_id]
        if not self._begun:
            self._besides = max(0.0, self._besides - elapsed)
        self._begun[step.group_id] = step
        self._open_seconds += step.cost.seconds.likely
        self._open_money += step.cost.money.likely
        return None

    def _short_of(self, step: RewriteFiles, elapsed: float) -> str | None:
        """The limit that a run would come to be above with one group more, as things go; `None` if there is none."""
        slower = max(1.0, self._measured / self._predicted) if self._predicted > 0 else 1.0
        money = self._spent + (self._open_money + step.cost.money.likely) * slower
        if self._money is not None and money > self._money.amount * _LEEWAY:
            return self._money.name
        if self._time is not None and self._longest is not None:
            work = (self._open_seconds + step.cost.seconds.likely) * slower
            if elapsed + work / self._cores + self._besides > self._longest:
                return self._time.name
        return None

    def finished(self, group_id: str, unit_id: str, unit: Unit, seconds: float) -> None:
        """A unit took so many seconds."""
        step = self._begun.get(group_id)
        if step is None or unit_id in self._finished:
            return  # of an earlier process, or done once more
        self._finished.add(unit_id)
        share = unit.bytes / max(1, step.bytes)
        predicted, money = step.cost.seconds.likely * share, step.cost.money.likely * share
        self._open_seconds -= predicted
        self._open_money -= money
        self._predicted += predicted
        self._measured += seconds
        self._spent += money * (max(1.0, seconds / predicted) if predicted > 0 else 1.0)
