"""Getting this package to executors that do not have it."""

import atexit
import shutil
import tempfile
import zipfile
from pathlib import Path
from threading import Lock
from typing import Any

_PACKAGE = Path(__file__).parents[2]
_lock = Lock()
_shipped: set[str] = set()


def ship_package(spark: Any) -> None:
    """Send the package along with the application, once; in local mode the workers have it already."""
    with _lock:
        if str(spark.master).startswith("local") or spark.applicationId in _shipped:
            return
        folder = tempfile.mkdtemp(prefix="icepact-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)  # executors fetch it as long as the driver lives
        archive = Path(folder) / "icepact-package.zip"
        pack(archive)
        spark.addPyFile(str(archive))
        _shipped.add(spark.applicationId)


def pack(archive: Path) -> None:
    """The package as a zip file that Python can import from."""
    root = _PACKAGE
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for path in sorted(root.rglob("*.py")):
            zipped.write(path, Path(root.name) / path.relative_to(root))
