"""Columns of delete files by field id, whatever the format."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc
import pyarrow.parquet as pq

from icepact.execute.deletes import avro
from icepact.execute.deletes.columns import in_dictionaries
from icepact.execute.deletes.errors import BrokenDelete, UnsupportedDelete
from icepact.model.files import DeleteFile

Bytes = bytes | bytearray | memoryview
"""What `fetch` returns; a pyarrow buffer will do too."""
Path = tuple[int, ...]
"""Indexes from a top-level column down through structs."""
_PARQUET_ID = b"PARQUET:field_id"
_ORC_ID = b"iceberg.id"
_READ_ERRORS = (pa.ArrowException, OSError, ValueError, KeyError, TypeError)


def read_columns(
    delete: DeleteFile, data: Bytes, ids: Collection[int], names: Mapping[int, str] | None = None
) -> dict[int, pa.ChunkedArray]:
    """The columns with these field ids, those that the file has.

    `names` says under which name a top-level column may be found that has no id. Other columns are not read.
    """
    view = memoryview(data)
    try:
        match delete.format:
            case "parquet":
                rows, columns = _parquet(view, ids, names or {})
            case "orc":
                rows, columns = _orc(view, ids, names or {})
            case "avro":
                rows, columns = _avro(view, ids, names or {})
            case other:
                raise UnsupportedDelete(f"{delete} is a {other} file, which does not hold delete rows")
    except MemoryError:
        raise
    except _READ_ERRORS as error:
        # which errors mean damage and which a missing feature is not to be told apart: another reader may try
        raise UnsupportedDelete(f"cannot read {delete}: {error}") from error
    except UnsupportedDelete as error:
        raise UnsupportedDelete(f"{delete}: {error}") from None
    if rows != delete.records:
        raise BrokenDelete(f"{delete} has {rows} rows, its manifest says {delete.records}")
    return columns


def column_batches(delete: DeleteFile, data: Bytes, ids: Collection[int]) -> Iterator[tuple[int, dict[int, Any]]]:
    """What `read_columns` reads, with its number of rows, row group after row group where a file has such."""
    if delete.format != "parquet":
        yield delete.records, read_columns(delete, data, ids)
        return
    rows = 0
    try:
        source = pa.BufferReader(pa.py_buffer(memoryview(data)))
        with pq.ParquetFile(source, coerce_int96_timestamp_unit="us") as file:
            schema = file.schema_arrow
            wanted = _top_names(schema.names, _wanted(field_paths(schema), schema.names, ids, {}))
            for group in range(file.num_row_groups):
                table = file.read_row_group(group, columns=wanted, use_threads=False)
                paths = _wanted(field_paths(table.schema), table.schema.names, ids, {}) if wanted else {}
                here = file.metadata.row_group(group).num_rows
                rows += here
                yield here, _extracted(table, paths)
    except MemoryError:
        raise
    except _READ_ERRORS as error:
        raise UnsupportedDelete(f"cannot read {delete}: {error}") from error
    except UnsupportedDelete as error:
        raise UnsupportedDelete(f"{delete}: {error}") from None
    if rows != delete.records:
        raise BrokenDelete(f"{delete} has {rows} rows, its manifest says {delete.records}")


def columns_by_id(table: pa.Table | pa.RecordBatch, ids: Collection[int]) -> dict[int, pa.Array | pa.ChunkedArray]:
    """The columns of a batch that was read from Parquet or ORC, by the field ids its schema carries."""
    return _extracted(table, _located(field_paths(table.schema), ids))


def field_paths(schema: Any) -> dict[int, Path | None]:
    """Where each field id of an Arrow schema is; `None` if it is inside a list or map."""
    paths: dict[int, Path | None] = {}

    def walk(field: pa.Field, path: Path | None) -> None:
        meta = field.metadata or {}
        own = meta.get(_PARQUET_ID) or meta.get(_ORC_ID)
        if own is not None:
            paths[int(own)] = path
        inside_struct = path is not None and pa.types.is_struct(field.type)
        for index in range(field.type.num_fields):
            walk(field.type.field(index), (*path, index) if path is not None and inside_struct else None)

    for index, field in enumerate(schema):
        walk(field, (index,))
    return paths


def _parquet(view: memoryview, ids: Collection[int], names: Mapping[int, str]) -> tuple[int, dict[int, Any]]:
    source = pa.BufferReader(pa.py_buffer(view))
    schema = pq.read_schema(source)
    wanted = _top_names(schema.names, _wanted(field_paths(schema), schema.names, ids, names))
    if not wanted:
        return pq.read_metadata(pa.BufferReader(pa.py_buffer(view))).num_rows, {}
    coded = [name for name in wanted if name in names.values()]
    table = _parquet_table(view, wanted, coded)
    if not all(map(in_dictionaries, table.columns)):  # they are damaged, or a dictionary has a text twice
        table = _parquet_table(view, wanted, [])
        if not all(map(in_dictionaries, table.columns)):
            raise pa.ArrowInvalid("an index is beyond its dictionary")
    return table.num_rows, _extracted(table, _wanted(field_paths(table.schema), table.schema.names, ids, names))


def _parquet_table(view: memoryview, columns: list[str], coded: list[str]) -> pa.Table:
    """Some columns; these of them in their dictionaries."""
    source = pa.BufferReader(pa.py_buffer(view))
    with pq.ParquetFile(source, read_dictionary=coded, coerce_int96_timestamp_unit="us") as file:
        # readers take "a.b" for a column of that name and for a path: both are read, ids tell which is meant
        return file.read(columns=columns, use_threads=False)


def _orc(view: memoryview, ids: Collection[int], names: Mapping[int, str]) -> tuple[int, dict[int, Any]]:
    file = orc.ORCFile(pa.BufferReader(pa.py_buffer(view)))
    wanted = _top_names(file.schema.names, _wanted(field_paths(file.schema), file.schema.names, ids, names))
    if not wanted:
        return file.nrows, {}
    table = file.read(columns=wanted)
    columns = _extracted(table, _wanted(field_paths(table.schema), table.schema.names, ids, names))
    # seconds before 1970 come out wrong by one, and years beyond 2262 wrap around
    if any(pa.types.is_timestamp(column.type) for column in columns.values()):
        raise UnsupportedDelete("timestamps in ORC files cannot be read exactly")
    return file.nrows, columns


def _avro(view: memoryview, ids: Collection[int], names: Mapping[int, str]) -> tuple[int, dict[int, Any]]:
    file = avro.open_avro(view.cast("B"))
    tops = [field["name"] for field in file.schema["fields"]]
    wanted = _wanted(avro.field_paths(file.schema), tops, ids, names)
    columns = sorted({path[0] for path in wanted.values()})
    if not columns or not file.rows:
        return file.rows, {field_id: pa.chunked_array([], pa.null()) for field_id in wanted}
    table = file.read([tops[index] for index in columns])
    moved = {field_id: (columns.index(path[0]), *path[1:]) for field_id, path in wanted.items()}
    if table.num_rows != file.rows:
        raise ValueError(f"{table.num_rows} of {file.rows} rows were read")
    return table.num_rows, _extracted(table, moved)


def _wanted(
    paths: Mapping[int, Path | None], tops: list[str], ids: Collection[int], names: Mapping[int, str]
) -> dict[int, Path]:
    """Where the wanted columns are, by id, else by name."""
    by_id = _located(paths, ids)
    by_name = {i: (tops.index(name),) for i, name in names.items() if i in ids and i not in by_id and name in tops}
    if not paths and not by_name:
        # without ids an absent column looks like a present one, and its null key would delete other rows
        raise UnsupportedDelete("its columns have no field ids")
    return by_id | by_name


def _located(paths: Mapping[int, Path | None], ids: Collection[int]) -> dict[int, Path]:
    located: dict[int, Path] = {}
    for field_id in ids:
        path = paths.get(field_id, ())
        if path is None:
            raise UnsupportedDelete(f"column {field_id} is inside a list or map")
        if path:
            located[field_id] = path
    return located


def _top_names(tops: list[str], wanted: Mapping[int, Path]) -> list[str]:
    return [tops[index] for index in sorted({path[0] for path in wanted.values()})]


def _extracted(table: Any, paths: Mapping[int, Path]) -> dict[int, Any]:
    """Columns at these paths; null where a struct around them is null."""
    columns: dict[int, Any] = {}
    for field_id, (top, *below) in paths.items():
        column = table.column(top)
        columns[field_id] = pc.struct_field(column, below) if below else column
    return columns
