"""Context of a table for workers that write its files themselves: plain values, read once per run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from icepact.iceberg.java.bridge import Java
from icepact.iceberg.table.table import NAME_MAPPING, IcebergTable

_VENDED = "org.apache.iceberg.io.SupportsStorageCredentials"
_HADOOP = "org.apache.iceberg.hadoop.HadoopFileIO"
_HADOOP_S3 = "fs.s3a."


@dataclass(frozen=True, kw_only=True, slots=True)
class WriteContext:
    """Schemas, properties and storage credentials of a table, for workers that write its files."""

    schema: str
    """Iceberg's JSON of the current schema."""
    schemas: Sequence[Mapping[str, Any]]
    """Every schema the table has had, oldest first, parsed."""
    identity: Mapping[int, Sequence[int | None]]
    """By spec id: for each partition field, the field id whose values it holds as they are; `None` for others."""
    properties: Mapping[str, str]
    name_mapping: str | None
    metrics_modes: Mapping[str, str]
    """By column name: none, counts, truncate(16), full."""
    io: Mapping[str, str] = field(repr=False)
    """Properties of the table's FileIO. Secrets: never shown."""
    credentials: Sequence[tuple[str, Mapping[str, str]]] = field(repr=False)
    """Vended ones by path prefix. Secrets: never shown."""


def write_context(table: IcebergTable, columns: Sequence[str]) -> WriteContext:
    """Read it from a table; `columns` are the names whose metrics modes are wanted."""
    java = table.java
    parser = java.iceberg.SchemaParser
    schemas = table.table.schemas()
    config = java.iceberg.MetricsConfig.forTable(table.table)
    properties = table.properties
    return WriteContext(
        schema=table.schema,
        schemas=[json.loads(str(parser.toJson(schemas[number]))) for number in sorted(java.keys(schemas))],
        identity={spec_id: _identity(json.loads(text)) for spec_id, text in table.spec_documents.items()},
        properties=properties,
        name_mapping=properties.get(NAME_MAPPING),
        metrics_modes={name: str(config.columnMode(name)) for name in columns},
        io=_io_properties(java, table),
        credentials=_credentials(java, table),
    )


def _identity(spec: Mapping[str, Any]) -> list[int | None]:
    return [field["source-id"] if field["transform"] == "identity" else None for field in spec["fields"]]


def _io_properties(java: Java, table: IcebergTable) -> dict[str, str]:
    io = table.table.io()
    properties = java.mapping(io.properties())
    if java.class_of(_HADOOP).isInstance(io):
        settings = java.mapping(io.getConf().getPropsWithPrefix(_HADOOP_S3))
        properties |= {_HADOOP_S3 + key: value for key, value in settings.items() if value}
    return properties


def _credentials(java: Java, table: IcebergTable) -> list[tuple[str, Mapping[str, str]]]:
    io = table.table.io()
    if not java.class_of(_VENDED).isInstance(io):
        return []
    return [(str(one.prefix()), java.mapping(one.config())) for one in java.items(io.credentials())]
