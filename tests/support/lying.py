"""A table whose catalog does not say what it did."""

from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from icepact.iceberg.table.table import IcebergTable

_CLASSES: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""By gateway."""


def lying(table: IcebergTable, lie: str, *, times: int = 1) -> IcebergTable:
    """The same table; of its first commits the catalog says `unknown`, `failed`, `forbidden` or something else, and
    with `landed-` in front it has carried them out; with `renamed-`, columns mean something else by then."""
    java = table.java
    if java.gateway not in _CLASSES:
        compiler = java.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(java.jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader())
        compiler.cook(Path(__file__).with_name("LyingOperations.java").read_text())
        _CLASSES[java.gateway] = compiler.getClassLoader().loadClass("lying.LyingOperations")
    arguments = java.gateway.new_array(java.jvm.java.lang.Object, 3)
    arguments[0], arguments[1], arguments[2] = table.table.operations(), lie, times
    operations = _CLASSES[java.gateway].getConstructors()[0].newInstance(arguments)
    return IcebergTable(
        java=java,
        session=table.session,
        table=java.iceberg.BaseTable(operations, table.name),
        name=table.name,
        sql_name=table.sql_name,
    )
