"""The Java libraries icepact runs with: resolved once by Spark's own Ivy, checked, then used from a cache."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from icepact.model.errors import SetupMissing


class Jar(NamedTuple):
    """One library, pinned by version and content."""

    coordinates: str
    sha256: str

    @property
    def file_name(self) -> str:
        """As Ivy names it: group_artifact-version.jar."""
        group, artifact, version = self.coordinates.split(":")
        return f"{group}_{artifact}-{version}.jar"


JARS = (
    Jar(
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
        "3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
    ),
    Jar(
        "org.apache.iceberg:iceberg-aws-bundle:1.12.0",
        "dd7e49ffa4ac9b215bed846581991259e3aec9bb2fa08d6cec029c46cd66d957",
    ),
    Jar(
        "org.xerial:sqlite-jdbc:3.53.4.0",
        "bcb1f51e36f940867e83342f9efbf5968ac44a6bef4d397bb4af7b17b45cd2fb",
    ),
)


def cache_dir() -> Path:
    """Where jars and the class-data archive are kept between starts."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "icepact"


def keep(path: Path, content: bytes) -> None:
    """Write a file of the cache, whole or not at all: several processes may do it at once. Only this user can read
    it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, part = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
    os.replace(part, path)


def ensure_jars() -> list[Path]:
    """Paths of all jars; downloads them on first use."""
    folder = cache_dir() / "jars"
    paths = [folder / jar.file_name for jar in JARS]
    if not all(path.is_file() for path in paths):
        _resolve(folder)
    return paths


def _resolve(folder: Path) -> None:
    """Let Spark's Ivy fetch everything, check the content, and move it into place at once."""
    from pyspark.find_spark_home import _find_spark_home

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        nothing = Path(work) / "nothing.py"
        nothing.write_text("")
        result = subprocess.run(
            [
                str(Path(_find_spark_home()) / "bin" / "spark-submit"),
                *("--packages", ",".join(jar.coordinates for jar in JARS)),
                *("--conf", f"spark.jars.ivy={work}/ivy"),
                *("--master", "local[1]"),
                str(nothing),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        for jar in JARS:
            found = Path(work) / "ivy" / "jars" / jar.file_name
            if not found.is_file():
                raise SetupMissing(
                    f"could not download {jar.coordinates} from Maven Central: "
                    f"check the network and run `icepact setup` again ({_last_line(result.stderr)})"
                )
            digest = hashlib.sha256(found.read_bytes()).hexdigest()
            if digest != jar.sha256:
                raise SetupMissing(f"{jar.coordinates} is not what was pinned (sha256 {digest}): not used")
            part = folder / f"{jar.file_name}.{os.getpid()}.part"
            shutil.move(found, part)
            part.replace(folder / jar.file_name)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no output"
