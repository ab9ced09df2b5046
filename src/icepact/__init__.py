"""icepact: compaction of Apache Iceberg tables on Spark.

`from icepact import Compactor` is the library; beside it are the types of its answers. The exports are lazy, so that
Spark executors can import the parts they need without the rest.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from icepact.economics.lessons import Lessons
    from icepact.economics.report import Costs
    from icepact.entrypoints.library import Compactor
    from icepact.model.decision import TableDecisions
    from icepact.model.fleet import Fleet, Round, Visit
    from icepact.model.health import Health
    from icepact.model.outcome import Outcome
    from icepact.model.plan import Plan
    from icepact.model.recovery import CleanupResult, VerifyResult
    from icepact.model.run import RunRecord
    from icepact.model.saved import SavedPlan
    from icepact.model.status import Status
    from icepact.policy.layers import Policies, Rule, TablePolicy

__all__ = [
    "CleanupResult",
    "Compactor",
    "Costs",
    "Fleet",
    "Health",
    "Lessons",
    "Outcome",
    "Plan",
    "Policies",
    "Round",
    "Rule",
    "RunRecord",
    "SavedPlan",
    "Status",
    "TableDecisions",
    "TablePolicy",
    "VerifyResult",
    "Visit",
]

_HOMES = {
    "CleanupResult": "model.recovery",
    "Compactor": "entrypoints.library",
    "Costs": "economics.report",
    "Fleet": "model.fleet",
    "Health": "model.health",
    "Lessons": "economics.lessons",
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


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"icepact.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'icepact' has no attribute {name!r}")
