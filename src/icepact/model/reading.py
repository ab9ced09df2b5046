"""Values from the documents that `--json` and the service print of them; as far as these tell, they are the same."""

import json
import re
from collections.abc import Mapping
from typing import Any

from icepact.model.documents import from_json
from icepact.model.health import Facts, Health, Overlap, PartitionHealth, Priority, Score
from icepact.model.histogram import Histogram, SizeClass
from icepact.model.housekeeping import Waiting
from icepact.model.job import Job
from icepact.model.run import RunRecord
from icepact.model.snapshot import SnapshotInfo

Json = Mapping[str, Any]
_OWNER = re.compile(r"process (\d+) on (.*)")


def job_of(document: Json) -> Job:
    """A job."""
    return from_json(Job, json.dumps({**document, "worker": _owner(document.get("worker"))}))


def run_of(document: Json) -> RunRecord:
    """A run."""
    known = {name: value for name, value in document.items() if name not in ("snapshots", "dead")}
    return from_json(RunRecord, json.dumps({**known, "owner": _owner(document.get("owner"))}))


def _owner(text: str | None) -> dict[str, Any] | None:
    match = _OWNER.fullmatch(text or "")
    return {"host": match[2], "pid": int(match[1]), "born": 0} if match else None


def health_of(document: Json) -> Health:
    """The health of a table; its partition groups are not told."""
    dangling = document.get("dangling_delete_files", 0)
    return Health(
        table=document["table"],
        branch=document["branch"],
        snapshot_id=document["snapshot_id"],
        format_version=document["format_version"],
        threshold=document["small_file_threshold"],
        target=document["target_file_size"],
        facts=_facts(document),
        score=_score(document),
        dangling={(0, ()): dangling} if dangling else {},
        manifests=document["manifests"],
        snapshots=document["snapshots"],
        partitions=tuple(_partition(each) for each in document["partitions"]),
        partition_groups=(),
        histogram=_histogram(document.get("histogram", ())),
        timeline=tuple(from_json(SnapshotInfo, json.dumps(each)) for each in document.get("timeline", ())),
        waiting=from_json(Waiting, json.dumps(document["waiting"])) if "waiting" in document else Waiting(),
        notes=tuple(document.get("notes", ())),
    )


def _partition(document: Json) -> PartitionHealth:
    return PartitionHealth(
        spec_id=document["spec_id"],
        partition=(),
        name=document["partition"],
        facts=_facts(document),
        score=_score(document),
        priority=Priority(value=document["priority"], rank=document["priority_rank"]),
    )


def _facts(document: Json) -> Facts:
    average, deepest = document["overlap_depth"], document["max_overlap_depth"]
    return Facts(
        data_files=document["data_files"],
        small_files=document["small_files"],
        mergeable_files=document["mergeable_files"],
        bytes=document["bytes"],
        rows=document["rows"],
        row_groups=document["row_groups"],
        delete_files=document["delete_files_by_kind"],
        delete_records=document["delete_records_by_kind"],
        overlap=None if average is None else Overlap(average, deepest or 0, document["data_files"]),
    )


def _score(document: Json) -> Score:
    return Score(value=document["score"], parts=document["score_parts"])


def _histogram(classes: Any) -> Histogram:
    return Histogram(classes=tuple(SizeClass(each["at_least"], each["files"], each["bytes"]) for each in classes))
