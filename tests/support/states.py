"""Table states, policies and files in one line each, for tests that need neither Spark nor a catalog."""

from collections.abc import Mapping, Sequence
from typing import Any

from icepact.model.files import DataFile, DeleteFile, DeleteKind, Partition, PartitionSpec, SpecField
from icepact.model.policy import Policy
from icepact.model.snapshot import LastRun, PinnedFiles
from icepact.policy.options import Options, options
from icepact.policy.resolve import resolve

MB = 1024**2
UNPARTITIONED = PartitionSpec(spec_id=0, fields=())
BY_DAY = PartitionSpec(spec_id=1, fields=(SpecField(name="day", transform="identity", source="day"),))
BY_REGION = PartitionSpec(spec_id=2, fields=(SpecField(name="region", transform="identity", source="region"),))
SPECS = {spec.spec_id: spec for spec in (UNPARTITIONED, BY_DAY, BY_REGION)}


def make_policy(**given: Any) -> Policy:
    """A policy from options as a user gives them."""
    return resolve(options(given), {}, Options())


def data_file(path: str, size: int, **given: Any) -> DataFile:
    """A data file; by default of day d1, with one row per byte."""
    facts: dict[str, Any] = {
        "rows": size,
        "spec_id": 1,
        "partition": ("d1",),
        "sequence_number": 1,
        "format": "parquet",
        "row_groups": (4,),
        "first_row_id": None,
        "deletes": (),
        **given,
    }
    return DataFile(path=path, size=size, **facts)


def delete_file(path: str, kind: DeleteKind, **given: Any) -> DeleteFile:
    """A delete file; by default of day d1, with ten records, newer than the default data file."""
    facts: dict[str, Any] = {
        "offset": 4 if kind is DeleteKind.DV else None,
        "size": 100,
        "records": 10,
        "spec_id": 1,
        "partition": ("d1",),
        "sequence_number": 2,
        "referenced": None,
        **given,
    }
    return DeleteFile(path=path, kind=kind, **facts)


def make_state(
    files: Sequence[DataFile],
    deletes: Sequence[DeleteFile] = (),
    *,
    specs: Mapping[int, PartitionSpec] = SPECS,
    spec_id: int = 1,
    format_version: int = 2,
    snapshot_id: int = 100,
    sequence_number: int = 10,
    last_run: LastRun | None = None,
    live_twice: frozenset[str] = frozenset(),
) -> PinnedFiles:
    """A pinned table."""
    return PinnedFiles(
        table="db.events",
        uuid="2b1f6f0e-0000-4000-8000-000000000000",
        format_version=format_version,
        branch="main",
        snapshot_id=snapshot_id,
        sequence_number=sequence_number,
        schema='{"type": "struct", "fields": []}',
        specs=specs,
        spec_id=spec_id,
        sort_order="unsorted",
        properties={},
        files=files,
        deletes=deletes,
        manifests=3,
        snapshots=7,
        last_runs=() if last_run is None else (last_run,),
        live_twice=live_twice,
    )


def applies(delete: DeleteFile, file: DataFile, specs: Mapping[int, PartitionSpec]) -> bool:
    """Whether a delete can apply to a data file: INVARIANTS 5 in other words than the code's."""
    here = (delete.spec_id, delete.partition) == (file.spec_id, file.partition)
    if delete.kind is DeleteKind.EQUALITY:
        anywhere = all(field.transform == "void" for field in specs[delete.spec_id].fields)
        return delete.sequence_number > file.sequence_number and (here or anywhere)
    bound_elsewhere = delete.referenced not in (None, file.path)
    return delete.sequence_number >= file.sequence_number and here and not bound_elsewhere


def attach(files: Sequence[DataFile], deletes: Sequence[DeleteFile]) -> list[DataFile]:
    """Files with the deletes that apply to them, as a scan would find them."""
    return [file._replace(deletes=tuple(i for i, d in enumerate(deletes) if applies(d, file, SPECS))) for file in files]


def in_partition(file: DataFile) -> tuple[int, Partition]:
    """Where a file is."""
    return file.spec_id, file.partition
