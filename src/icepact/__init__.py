"""icepact: compaction of Apache Iceberg tables on Spark.

`from icepact import Compactor` is the library; beside it are the types of its answers. The exports are lazy, so that
Spark executors can import the parts they need without the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from icepact.economics.lessons import Lessons as Lessons
    from icepact.entrypoints.library import Compactor as Compactor
    from icepact.model.costs import Costs as Costs
    from icepact.model.decision import TableDecisions as TableDecisions
    from icepact.model.fleet import Fleet as Fleet
    from icepact.model.fleet import Round as Round
    from icepact.model.fleet import Visit as Visit
    from icepact.model.health import Health as Health
    from icepact.model.maintenance import MaintenanceOutcome as MaintenanceOutcome
    from icepact.model.outcome import Outcome as Outcome
    from icepact.model.plan import Plan as Plan
    from icepact.model.recovery import CleanupResult as CleanupResult
    from icepact.model.recovery import VerifyResult as VerifyResult
    from icepact.model.run import RunRecord as RunRecord
    from icepact.model.saved import SavedPlan as SavedPlan
    from icepact.model.status import Status as Status
    from icepact.policy.layers import Policies as Policies
    from icepact.policy.layers import Rule as Rule
    from icepact.policy.layers import TablePolicy as TablePolicy

_HOMES = {
    "CleanupResult": "model.recovery",
    "Compactor": "entrypoints.library",
    "Costs": "model.costs",
    "Fleet": "model.fleet",
    "Health": "model.health",
    "Lessons": "economics.lessons",
    "MaintenanceOutcome": "model.maintenance",
    "Outcome": "model.outcome",
    "Plan": "model.plan",
    "Policies": "policy.layers",
    "Round": "model.fleet",
    "Rule": "policy.layers",
    "RunRecord": "model.run",
    "SavedPlan": "model.saved",
    "Status": "model.status",
    "TableDecisions": "model.decision",
    "TablePolicy": "policy.layers",
    "VerifyResult": "model.recovery",
    "Visit": "model.fleet",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"icepact.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'icepact' has no attribute {name!r}")
