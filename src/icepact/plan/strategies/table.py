"""All strategies."""

from collections.abc import Callable, Mapping
from datetime import datetime

from icepact.model.health import Place
from icepact.model.policy import Policy, Strategy
from icepact.plan.strategies.choice import Choice
from icepact.plan.strategies.deletes import deletes
from icepact.plan.strategies.small_files import small_files
from icepact.plan.strategies.time_series import time_series

STRATEGIES: Mapping[Strategy, Callable[[Place, Policy, datetime], Choice]] = {
    Strategy.SMALL_FILES: small_files,
    Strategy.DELETES: deletes,
    Strategy.TIME_SERIES: time_series,
}
