"""What was done and measured: the end of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

from pydantic import Discriminator

from icepact.model.delete_files import ConvertDeletesResult
from icepact.model.documents import Document, Flat, FlatEffort, FlatEstimate, Moment, from_json
from icepact.model.effort import NO_EFFORT, NO_ESTIMATE, Effort
from icepact.model.expiry import ExpireResult
from icepact.model.manifests import ManifestsResult
from icepact.model.orphans import OrphansResult
from icepact.model.statistics import StatisticsResult
from icepact.model.status import Status
from icepact.model.tags import TagsResult
from icepact.model.ttl import ExpireDataResult


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupOutcome(Document):
    """What became of one group."""

    group_id: str
    partition: str
    committed: bool
    reason: str
    """Why it was given up; empty if it was committed."""
    method: str
    input_files: int
    output_files: int
    rows_in: int
    """Records in the inputs, deleted ones included."""
    rows_out: int
    bytes_in: int
    bytes_out: int
    effort: FlatEffort = NO_EFFORT
    """Of all its units; only the seconds of those that were finished, if not all of them were."""
    method_reason: str = ""
    """Why this method; if it is not the planned one, why that could not do it."""
    units: int = 0
    """Of these the method's tasks were made."""
    predicted_files: int = 0
    predicted_bytes: int = 0
    predicted_rows: int | None = None
    """Rows that were expected to remain; `None` if nobody asked."""
    predicted_gain: float = 0.0
    """Seconds that a scan takes less."""
    features: Mapping[str, float] = field(default_factory=dict)
    """What was known about the partition group when this was planned."""
    predicted_seconds: FlatEstimate = NO_ESTIMATE
    planned_copied_bytes: int = 0
    planned_encoded_bytes: int = 0
    """Bytes of inputs, as the plan took them to be copied or encoded: what seconds were predicted from."""
    predicted_money: float = 0.0
    money: float = 0.0
    """Of the work that was measured; storage of the inputs until they expire only if they were replaced."""
    requests_counted: bool = False
    """False if the method or the store does not tell of all requests."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StepCost(Document):
    """What one step of housekeeping took, next to what was predicted of it."""

    kind: str
    """Of the step."""
    finished: bool
    """False if it failed on the way: then nobody knows its requests."""
    effort: FlatEffort = NO_EFFORT
    """Seconds as they were measured; requests as they follow from what was done."""
    predicted_seconds: FlatEstimate = NO_ESTIMATE
    predicted_money: float = 0.0
    money: float = 0.0


ChoreResult: TypeAlias = Annotated[
    ConvertDeletesResult
    | ExpireResult
    | OrphansResult
    | ManifestsResult
    | ExpireDataResult
    | TagsResult
    | StatisticsResult,
    Discriminator("kind"),
]
"""What one step of housekeeping did; one type for each kind of step."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome(Document):
    """What one run did to one table. Before and after speak of the table's branch."""

    run_id: str
    table: str
    branch: str
    status: Status
    snapshot_id: int | None
    """The snapshot that was committed; the pinned one if none was."""
    started_at: Moment
    seconds: float
    files_before: int
    files_after: int
    rows_before: int
    """Records in data files, deleted ones included."""
    rows_after: int
    rows_deleted: int
    """Rows that deletes had marked and that are now really gone; before - deleted = after."""
    bytes_before: int
    bytes_after: int
    delete_files_removed: int
    proof: str
    """What was compared before the commit."""
    methods: Mapping[str, int]
    """Groups by method."""
    groups: tuple[GroupOutcome, ...]
    deletes_carried: int = 0
    """Rows of the new files that readers do not see: the commits delete them."""
    late_deletes: int = 0
    """Those of them that were deleted while these files were written."""
    snapshots: tuple[int, ...] = ()
    """All snapshots that were committed, in order."""
    effort: Annotated[Effort, Flat(seconds="work_seconds")] = NO_EFFORT
    """Of all groups and steps."""
    overhead_seconds: float = 0.0
    """What the run took besides its work, on the clock."""
    waited_seconds: float = 0.0
    """What it waited with commits that were ready, for other writers."""
    wait_reason: str = ""
    """Why it waited, and why no longer; or why it did not. Empty if it was not to wait at all."""
    first_run: bool = False
    """True if its process had made no run before: then it paid for what is loaded and started once."""
    predicted_duration: FlatEstimate = NO_ESTIMATE
    """Seconds on the clock, of the whole plan."""
    output_files: int = 0
    output_bytes: int = 0
    predicted_files: int = 0
    """What the plan predicted, here and below, of the groups that were written and the steps that were begun."""
    predicted_bytes: int = 0
    predicted_seconds: FlatEstimate = NO_ESTIMATE
    predicted_money: float = 0.0
    money: float = 0.0
    currency: str = ""
    complete: bool = False
    """True if all that was due is part of the table: the same policy plans nothing until something is written."""
    layout: str = ""
    """Fingerprint of the policy; see `Policy.fingerprint`."""
    pinned_sequence_number: int = 0
    """Files and deletes up to here were judged."""
    planned_at: Moment | None = None
    """When it was judged what is due."""
    reason: str | None = None
    """Why there was nothing to do; `None` if there was something."""
    error: str | None = None
    operation: str = "compact"
    """What was asked for."""
    steps: tuple[ChoreResult, ...] = ()
    """What the steps of housekeeping did."""
    step_costs: tuple[StepCost, ...] = ()
    """What they took: those that failed included."""
    dry_run: bool = False
    """True if nothing was done: the steps say what would have been."""
    resumed: "Outcome | None" = None
    """Of a run that had died, and was carried on with before this one; `None` if there was none."""
    kept_options: Mapping[str, Any] = field(default_factory=dict)
    """Of a run that was carried on with: options that it began with, where others are asked for now."""

    def __post_init__(self) -> None:
        if self.started_at.tzinfo is None:
            raise ValueError("started_at must carry its time zone")

    @staticmethod
    def from_json(document: str | bytes) -> "Outcome":
        """An outcome as a store keeps it; what an earlier version did not tell is as if it was not known."""
        return from_json(Outcome, document)
