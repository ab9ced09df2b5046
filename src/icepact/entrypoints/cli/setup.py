"""`icepact setup`: jars into the cache, byte code, and a class-data archive that halves every later start."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import icepact
from icepact.iceberg.spark.jars import ensure_jars
from icepact.iceberg.spark.jvm import archive_path, find_java
from icepact.iceberg.spark.session import build_session


def prepare() -> dict[str, Any]:
    """Everything a later start can use; safe to run again."""
    _, version = find_java()
    jars = ensure_jars()
    keep_byte_code()
    archive = archive_path(version, jars)
    if not archive.is_file():
        _build(archive)
    return {"jars": len(jars), "java": version, "archive": archive.is_file()}


def keep_byte_code(package: str = icepact.__name__) -> None:
    """Load a package and all that it needs once, in a process that keeps the byte code of what it loads.

    Installers may not have made it, and containers often forbid Python to keep it: then every start would compile all
    modules. Where the place is not writable, nothing is kept.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", _LOAD, package], check=False, capture_output=True, env=kept)


_LOAD = """
import importlib, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
    importlib.import_module(module.name)
"""


def _build(archive: Path) -> None:
    """A short session writes, plans and rewrites a table once; Java notes the classes as it ends."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    part = archive.with_suffix(f".{os.getpid()}.part")
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([sys.executable, "-m", __name__, work, str(part)], check=False, capture_output=True)
    if part.is_file():
        part.replace(archive)


def _whole_run(warehouse: str, archive: str) -> None:
    from icepact.entrypoints.wiring import build_application
    from icepact.policy.options import Options

    build_session({"spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={archive}"})
    application = build_application(warehouse=warehouse)
    spark = application.spark
    spark.sql("CREATE NAMESPACE warm")
    spark.sql(
        "CREATE TABLE warm.up (id bigint, day date, text string) USING iceberg PARTITIONED BY (day)"
        " TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
    )
    for _ in range(2):
        spark.range(100).selectExpr("id", "date '2026-01-01' day", "uuid() text").writeTo("warm.up").append()
    spark.sql("DELETE FROM warm.up WHERE id % 7 = 0")
    application.tables()
    application.health("warm.up", Options())
    application.compact("warm.up", Options())
    spark.sql("SELECT count(*) FROM warm.up").collect()


if __name__ == "__main__":
    _whole_run(sys.argv[1], sys.argv[2])
