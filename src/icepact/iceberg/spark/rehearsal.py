"""A commit in memory while Spark starts: Java has loaded and compiled what the first plan and the first run need.

Spark's start keeps one core busy, and whatever of Iceberg is used for the first time takes many times as long as later.
"""

import os
from contextlib import suppress
from threading import Thread
from typing import Any

_PROPERTIES = {
    "uri": "jdbc:sqlite::memory:",
    "warehouse": "memory:/rehearsal",
    "io-impl": "org.apache.iceberg.inmemory.InMemoryFileIO",
    "jdbc.schema-version": "V1",
    "clients": "1",
}


def start_rehearsal(gateway: Any) -> None:
    """In a thread of its own, if there is a core for it. What goes wrong there is of no interest to anybody."""

    def alone() -> None:
        with suppress(Exception):
            rehearse(gateway)

    if (os.cpu_count() or 1) > 1:
        Thread(target=alone, name="icepact-rehearsal", daemon=True).start()


def rehearse(gateway: Any) -> list[str]:
    """Make a table, append, plan and replace, without touching a disk; the operations that its snapshots tell."""
    jvm, iceberg = gateway.jvm, gateway.jvm.org.apache.iceberg
    properties = jvm.java.util.HashMap()
    for key, value in _PROPERTIES.items():
        properties.put(key, value)
    catalog = iceberg.jdbc.JdbcCatalog()
    catalog.initialize("rehearsal", properties)
    try:
        name = _identifier(gateway, "rehearsal", "table")
        catalog.createNamespace(name.namespace())
        catalog.createTable(name, _schema(jvm))
        table = catalog.loadTable(name)
        old = [_file(iceberg, table, path) for path in ("a", "b")]
        table.newFastAppend().appendFile(old[0]).appendFile(old[1]).commit()
        _plan(table)
        rewrite = table.newRewrite()
        for file in old:
            rewrite.deleteFile(file)
        rewrite.addFile(_file(iceberg, table, "c")).commit()
        table.refresh()
        return [str(snapshot.operation()) for snapshot in table.snapshots()]
    finally:
        catalog.close()


def _identifier(gateway: Any, namespace: str, table: str) -> Any:
    levels = gateway.new_array(gateway.jvm.java.lang.String, 1)
    levels[0] = namespace
    catalog = gateway.jvm.org.apache.iceberg.catalog
    return catalog.TableIdentifier.of(catalog.Namespace.of(levels), table)


def _schema(jvm: Any) -> Any:
    types = jvm.org.apache.iceberg.types.Types
    fields = jvm.java.util.ArrayList()
    fields.add(types.NestedField.required(1, "id", types.LongType.get()))
    return jvm.org.apache.iceberg.Schema(fields)


def _file(iceberg: Any, table: Any, name: str) -> Any:
    file = iceberg.DataFiles.builder(table.spec()).withPath(f"memory:/rehearsal/{name}.parquet")
    return file.withFileSizeInBytes(1).withRecordCount(1).build()


def _plan(table: Any) -> None:
    planned = table.newScan().planFiles()
    for task in planned.iterator():
        task.file()
    planned.close()
