"""The rewriting kernel without Spark: local files in, local files out."""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from icepact.execute.assemble.messages import Compared, InputFile, TaskContext, UnitReport, UnitWork, WriteSettings
from icepact.execute.assemble.metrics import MetricsMode, metrics_columns
from icepact.execute.assemble.task import run_units
from icepact.execute.deletes.bitmaps import PositionSet
from icepact.execute.deletes.vectors import encode_vector
from icepact.model.files import DeleteFile, DeleteKind
from icepact.model.schema import every_field
from tests.support.states import delete_file

ROW_ID, LAST_UPDATED = 2147483540, 2147483539
COPY: Mapping[str, Any] = {"copy_floor": 1}
"""Whatever may be copied is copied; without it, tiny files are encoded anew."""
_FILE_PATH, _POSITION = 2147483546, 2147483545
_WRITING: Mapping[str, Any] = {
    "codec": "zstd",
    "level": 3,
    "level_of_numbers": 1,
    "recode": False,
    "row_group_bytes": 128 * 1024**2,
    "page_bytes": 1024**2,
    "page_rows": 20_000,
    "dictionary_bytes": 2 * 1024**2,
    "blooms": {},
    "bloom_bytes": 1024**2,
    "copy_floor": 8 * 1024**2,
    "row_group_rows": 32 * 1024**2,
    "fewest_page_rows": 2000,
    "batch_rows": 32 * 1024**2,
    "task_memory": 1024**3,
}
_runs = itertools.count()


# -- schemas ----------------------------------------------------------------------------------------


def column(field_id: int, name: str, kind: Any, *, required: bool = False, default: Any = None) -> dict[str, Any]:
    """A column as Iceberg's JSON describes it."""
    more = {} if default is None else {"initial-default": default}
    return {"id": field_id, "name": name, "required": required, "type": kind, **more}


def struct(*columns: dict[str, Any]) -> dict[str, Any]:
    """A struct, or a whole schema."""
    return {"type": "struct", "schema-id": 0, "fields": list(columns)}


def list_of(element_id: int, kind: Any, *, required: bool = False) -> dict[str, Any]:
    """A list."""
    return {"type": "list", "element-id": element_id, "element-required": required, "element": kind}


def map_of(key_id: int, key: str, value_id: int, value: Any) -> dict[str, Any]:
    """A map."""
    parts = {"key-id": key_id, "key": key, "value-id": value_id, "value": value, "value-required": False}
    return {"type": "map", **parts}


def stored(field_id: int, name: str, kind: pa.DataType, *, required: bool = False) -> pa.Field:
    """A column as a file holds it, with its id."""
    return pa.field(name, kind, nullable=not required, metadata={"PARQUET:field_id": str(field_id)})


def rows_of(columns: Mapping[pa.Field, Sequence[Any] | NDArray[Any]]) -> pa.Table:
    """Rows by their columns."""
    arrays = [pa.array(values, described.type) for described, values in columns.items()]
    return pa.Table.from_arrays(arrays, schema=pa.schema(list(columns)))


# -- a unit -----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """One table without a catalog, and what its tasks are told."""

    folder: Path
    schema: Mapping[str, Any]
    older: Sequence[Mapping[str, Any]] = ()
    """Schemas that the table had before: deletes may speak of their columns."""
    lineage: bool = False
    name_mapping: Sequence[Mapping[str, Any]] | None = None
    identity: Sequence[int | None] = ()
    """For each partition field, the column whose values it holds."""
    writing: Mapping[str, Any] = field(default_factory=dict)
    """What is not as usual about writing."""
    compared: Compared = Compared.SAMPLE
    lanes: int = 1
    max_file_size: int = 2**40
    carries: bool = False

    @property
    def context(self) -> TaskContext:
        """What all units of a run have in common; each is a run of its own."""
        fields = {i: f for schema in (*self.older, self.schema) for i, f in every_field(schema).items()}
        return TaskContext(
            run_id=f"run-{next(_runs)}",
            schema=json.dumps(self.schema),
            types={i: f.kind for i, f in fields.items()},
            parents={i: f.parents for i, f in fields.items()},
            defaults={i: f.default for i, f in fields.items() if f.default is not None},
            identity={0: self.identity},
            name_mapping=None if self.name_mapping is None else json.dumps(self.name_mapping),
            lineage=self.lineage,
            metrics=metrics_columns(self.schema, lambda _: MetricsMode.of("truncate(16)")),
            writing=WriteSettings(**{**_WRITING, **self.writing}),
            created_by="icepact version 0",
            properties={},
            credentials=(),
            inline_deletes={},
            compared=self.compared,
        )

    def file(self, name: str, table: pa.Table, **options: Any) -> Path:
        """Write a file as pyarrow would, with its options."""
        path = self.folder / f"{name}.parquet"
        pq.write_table(table, path, **{"store_schema": False, **options})
        return path

    def equality_delete(self, name: str, table: pa.Table) -> DeleteFile:
        """A delete of all rows with one of these keys."""
        path = self.file(name, table)
        ids = tuple(int(described.metadata[b"PARQUET:field_id"]) for described in table.schema)
        return _delete(path, DeleteKind.EQUALITY, table.num_rows, ids)

    def position_delete(self, name: str, of: Path, positions: Sequence[int]) -> DeleteFile:
        """A delete of some rows of a file."""
        where = stored(_FILE_PATH, "file_path", pa.string(), required=True)
        which = stored(_POSITION, "pos", pa.int64(), required=True)
        path = self.file(name, rows_of({where: [str(of)] * len(positions), which: positions}))
        return _delete(path, DeleteKind.POSITION, len(positions))

    def vector(self, name: str, of: Path, positions: Sequence[int]) -> DeleteFile:
        """A deletion vector of a file, in a file of its own."""
        blob = encode_vector(PositionSet(np.array(sorted(positions), dtype=np.int64)))
        path = self.folder / f"{name}.puffin"
        path.write_bytes(blob)
        size = len(blob)
        facts = {"size": size, "file_size": size, "records": len(positions), "offset": 0, "format": "puffin"}
        return delete_file(str(path), DeleteKind.DV, referenced=str(of), **facts)

    def run(self, *inputs: InputFile | Path) -> UnitReport:
        """Rewrite files as one unit, the way a task does."""
        files = tuple(given(i) if isinstance(i, Path) else i for i in inputs)
        context = self.context
        stem = str(self.folder / f"out-of-{context.run_id}")
        work = UnitWork(
            unit_id="u",
            inputs=files,
            output=stem,
            max_file_size=self.max_file_size,
            lanes=self.lanes,
            carries=self.carries,
        )
        [report] = run_units([work], context, "0", last=True)
        return report

    def rewritten(self, *inputs: InputFile | Path) -> pa.Table:
        """Rewrite files as one unit, and see that it was done; returns what readers find in the output."""
        report = self.run(*inputs)
        assert (report.refused, report.failed) == (None, None)
        found = pq.read_table(output(report))
        found.validate(full=True)
        assert found.num_rows == report.rows_read - report.rows_deleted
        return found


def given(path: Path, *, deletes: Sequence[DeleteFile] = (), **more: Any) -> InputFile:
    """A file as a task is told of it."""
    told: dict[str, Any] = {"spec_id": 0, "partition": (), "sequence_number": 1, "first_row_id": None, **more}
    rows = told.pop("rows") if "rows" in told else pq.read_metadata(path).num_rows
    return InputFile(path=str(path), size=path.stat().st_size, rows=rows, deletes=tuple(deletes), **told)


def output(report: UnitReport) -> Path:
    """The only output of a unit."""
    [written] = report.outputs
    return Path(written.path)


def _delete(path: Path, kind: DeleteKind, records: int, ids: tuple[int, ...] = ()) -> DeleteFile:
    size = path.stat().st_size
    return delete_file(str(path), kind, size=size, file_size=size, records=records, equality_ids=ids)
