"""What was done and measured: the end of a run."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from icepact.model.run import Status


@dataclass(frozen=True, kw_only=True, slots=True)
class GroupOutcome:
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
    seconds: float
    """Work of all its units, added up."""
    method_reason: str = ""
    """Why this method; if it is not the planned one, why that could not do it."""
    units: int = 0
    """Of these the method's tasks were made."""
    predicted_files: int = 0
    predicted_bytes: int = 0
    predicted_rows: int | None = None
    """Rows that were expected to remain; null if nobody asked."""
    predicted_gain: float = 0.0
    """Seconds that a scan takes less."""
    features: Mapping[str, float] = field(default_factory=dict)
    """What was known about the place when the group was planned."""
    predicted_seconds: float = 0.0
    predicted_seconds_low: float = 0.0
    predicted_seconds_high: float = 0.0
    baseline_seconds: float = 0.0
    """Predicted from the start values alone."""
    planned_copied_bytes: int = 0
    planned_encoded_bytes: int = 0
    """Bytes of inputs, as the plan took them to be copied or encoded: what seconds were predicted from."""
    predicted_money: float = 0.0
    money: float = 0.0
    """Of the work that was measured; storage of the inputs until they expire only if they were replaced."""
    copied_bytes: int = 0
    """Bytes of row groups that were copied as they were."""
    encoded_bytes: int = 0
    """Bytes of row groups that were encoded anew."""
    requests: int = 0
    """Requests to an object store."""
    write_requests: int = 0
    """Those of them that write."""
    requests_counted: bool = False
    """False if the method or the store does not tell of all of them."""
    transferred_bytes: int = 0
    """Bytes that passed through the tasks, in either direction."""

    def to_dict(self) -> dict[str, Any]:
        """The group as it is printed with `--json`."""
        return {name: getattr(self, name) for name in self.__slots__} | {"features": dict(self.features)}


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What one run did to one table. Before and after speak of the table's branch."""

    run_id: str
    table: str
    branch: str
    status: Status
    snapshot_id: int | None
    """The snapshot that was committed; the pinned one if none was."""
    started_at: datetime
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
    snapshots: tuple[int, ...] = ()
    """All snapshots that were committed, in order."""
    copied_bytes: int = 0
    encoded_bytes: int = 0
    requests: int = 0
    write_requests: int = 0
    transferred_bytes: int = 0
    work_seconds: float = 0.0
    """Work of all groups, added up."""
    overhead_seconds: float = 0.0
    """What the run took besides its work, on the clock."""
    first_run: bool = False
    """True if its process had made no run before: then it paid for what is loaded and started once."""
    predicted_duration: float = 0.0
    """Seconds on the clock, of the whole plan."""
    predicted_duration_low: float = 0.0
    predicted_duration_high: float = 0.0
    output_files: int = 0
    output_bytes: int = 0
    predicted_files: int = 0
    """What the plan predicted, here and below, of the groups that were written."""
    predicted_bytes: int = 0
    predicted_seconds: float = 0.0
    predicted_seconds_low: float = 0.0
    predicted_seconds_high: float = 0.0
    predicted_money: float = 0.0
    money: float = 0.0
    currency: str = ""
    complete: bool = False
    """True if all that was due is part of the table: the same policy plans nothing until something is written."""
    layout: str = ""
    """Fingerprint of the policy; see `Policy.fingerprint`."""
    pinned_sequence_number: int = 0
    """Files and deletes up to here were judged."""
    planned_at: datetime | None = None
    """When it was judged what is due."""
    reason: str | None = None
    """Why there was nothing to do; null if there was something."""
    error: str | None = None
    resumed: "Outcome | None" = None
    """Of a run that had died, and was carried on with before this one; null if there was none."""
    kept_options: Mapping[str, Any] = field(default_factory=dict)
    """Of a run that was carried on with: options that it began with, where others are asked for now."""

    def __post_init__(self) -> None:
        if self.started_at.tzinfo is None:
            raise ValueError("started_at must carry its time zone")

    def to_dict(self) -> dict[str, Any]:
        """The document that `icepact compact --json` prints."""
        plain = {name: getattr(self, name) for name in self.__slots__}
        return {
            **plain,
            "status": self.status.value,
            "started_at": self.started_at.isoformat(),
            "planned_at": None if self.planned_at is None else self.planned_at.isoformat(),
            "seconds": round(self.seconds, 3),
            "methods": dict(self.methods),
            "snapshots": list(self.snapshots),
            "groups": [group.to_dict() for group in self.groups],
            "resumed": self.resumed.to_dict() if self.resumed else None,
            "kept_options": dict(self.kept_options),
        }
