"""A small run in memory while Spark starts: Java has loaded and compiled what the first plan and the first run need.

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
_NAME = "rehearsal"
_PATHS = ["memory:/rehearsal/a.parquet", "memory:/rehearsal/b.parquet"]
_NEW_PATH = "memory:/rehearsal/c.parquet"


def start_rehearsal(gateway: Any, *, look_only: bool) -> None:
    """In a thread of its own, if there is a core for it. What goes wrong there is of no interest to anybody."""

    def alone() -> None:
        with suppress(Exception):
            rehearse(gateway, look_only=look_only)

    if (os.cpu_count() or 1) > 1:
        Thread(target=alone, name="icepact-rehearsal", daemon=True).start()


def rehearse(gateway: Any, *, look_only: bool = False) -> list[str]:
    """Make a table, append and look at it, and unless that is all, replace its files, without touching a disk; the
    operations that its snapshots tell."""
    from icepact.iceberg.java.bridge import Java  # all of this is about to be loaded anyway
    from icepact.iceberg.table.stats_reader import read_file_stats
    from icepact.iceberg.table.table import IcebergTable

    java, session = Java(gateway), None
    catalog = java.iceberg.jdbc.JdbcCatalog()
    catalog.initialize(_NAME, java.from_json(_PROPERTIES, "java.util.HashMap"))
    try:
        name = java.iceberg.catalog.TableIdentifier.parse(f"{_NAME}.{_NAME}")
        catalog.createNamespace(name.namespace())
        catalog.createTable(name, _schema(java))
        table = IcebergTable(
            java=java,
            session=session,  # type: ignore[arg-type]  # Spark is not there yet
            table=catalog.loadTable(name),
            name=_NAME,
            sql_name=_NAME,
        )
        append = table.table.newFastAppend()
        for path in _PATHS:
            append.appendFile(_file(table, path))
        append.commit()
        pin = table.pinned("main")
        read_file_stats(table, pin, known=lambda _: {}, keep=lambda *_: None)
        table.timeline(pin.snapshot_id)
        if not look_only:
            _replace(table, pin.snapshot_id)
        table.refresh()
        return [str(snapshot.operation()) for snapshot in java.items(table.table.snapshots())]
    finally:
        catalog.close()


def _replace(table: Any, snapshot_id: Any) -> None:
    from icepact.iceberg.commit.replace import COMMIT_ID, replace_files
    from icepact.iceberg.table.staging import Staging
    from icepact.iceberg.table.write_context import write_context

    Staging(table, snapshot_id=snapshot_id, run_id=_NAME, unit_of=dict.fromkeys(_PATHS, _NAME), properties={})
    write_context(table, ["id"])
    outputs = table.java.jvm.java.util.HashSet()
    outputs.add(_file(table, _NEW_PATH))
    replace_files(
        table,
        table.view("main", _PATHS),
        table.new_commit(),
        branch="main",
        inputs=_PATHS,
        outputs=outputs,
        added_deletes=table.java.jvm.java.util.HashSet(),
        written=[_NEW_PATH],
        dangling=[],
        moved=None,
        sequence=None,
        facts={COMMIT_ID: _NAME},
        in_time=lambda: True,
    )


def _schema(java: Any) -> Any:
    types = java.iceberg.types.Types
    fields = java.jvm.java.util.ArrayList()
    fields.add(types.NestedField.required(1, "id", types.LongType.get()))
    return java.iceberg.Schema(fields)


def _file(table: Any, path: str) -> Any:
    file = table.java.iceberg.DataFiles.builder(table.table.spec()).withPath(path)
    return file.withFileSizeInBytes(1).withRecordCount(1).build()
