"""What was spent for each tenant: the costs of its runs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from icepact.economics.report import costs_of
from icepact.model.costs import Costs
from icepact.model.outcome import Outcome
from icepact.record.store import RecordStore
from icepact.schedule.attribution import tenants_of_runs


def costs_by_tenant(
    store: RecordStore, catalog: str, *, since: datetime, table: str | None = None
) -> Mapping[str, Sequence[Costs]]:
    """Costs of the runs on a catalog that ended since a moment, or of those on one table, by tenant; `catalog` is its
    name in the record store."""
    runs = [run for run in store.recent(catalog=catalog, since=since) if table in (None, run.table)]
    tenants = tenants_of_runs(store, catalog, runs)
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    for run in runs:
        if run.outcome is not None:
            outcomes[tenants[run.run_id]].append(run.outcome)
    return {name: costs for name in sorted(outcomes) if (costs := costs_of(outcomes[name]))}
