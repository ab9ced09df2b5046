"""Finding Java, and starting it fast: the class-data archive and the launch command, both cached.

The archive is tied to one Java and one class path, so its name is made from both; where none fits,
Java starts without it, only slower.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from icepact.iceberg.spark.jars import cache_dir, keep
from icepact.model.errors import SetupMissing

SUPPORTED = (17, 21)
HOW_TO_GET = "install a JDK 17 or 21 (Debian: apt-get install openjdk-17-jre-headless; macOS: brew install openjdk@17)"


def find_java() -> tuple[Path, str]:
    """The Java that Spark will use, and its full version."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if found is None or not Path(found).is_file():
        where = f"JAVA_HOME={home} has no bin/java" if home else "no java on the PATH"
        raise SetupMissing(f"Java is missing ({where}): {HOW_TO_GET}")
    java = Path(found).resolve()
    version = _version(java)
    major = int(version.split(".")[0]) if version.split(".")[0].isdigit() else 0
    if major not in SUPPORTED:
        raise SetupMissing(f"Java {version or 'of unknown version'} does not fit: {HOW_TO_GET}")
    return java, version


def _version(java: Path) -> str:
    """From the release file beside it, which spares starting Java only to ask."""
    release = java.parent.parent / "release"
    text = release.read_text() if release.is_file() else ""
    match = re.search(r'JAVA_VERSION="([^"]+)"', text)
    if match is None:
        try:
            result = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False)
        except OSError:  # not a program at all
            return ""
        match = re.search(r'version "([^"]+)"', result.stderr)
    return match[1] if match else ""


def spark_home() -> Path:
    """Where PySpark keeps Spark itself."""
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home())


def archive_path(java_version: str, jars: list[Path]) -> Path:
    """Where the class-data archive for this Java and this class path belongs."""
    from pyspark import __version__ as spark_version

    facts = [java_version, spark_version, str(spark_home()), *map(str, jars)]
    return cache_dir() / "cds" / f"{_digest(facts)}.jsa"


def launch_command(conf: Mapping[str, str]) -> list[str]:
    """The command that starts Spark's gateway, as Spark's own launcher builds it.

    The launcher is a Java program that takes half a second only to print this command, and prints the
    same for the same settings: its answer is kept.
    """
    args = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    java, version = find_java()
    facts = [str(java), version, str(spark_home()), *args, *_launcher_environment()]
    cached = cache_dir() / "launch" / f"{_digest(facts)}.json"
    if cached.is_file():
        command = json.loads(cached.read_text())
        if isinstance(command, list) and Path(command[0]).is_file():
            return [str(word) for word in command]
    command = _ask_launcher(java, args)
    keep(cached, json.dumps(command).encode())
    return command


def _ask_launcher(java: Path, args: list[str]) -> list[str]:
    home = spark_home()
    result = subprocess.run(
        [
            *("bash", "-c", '. "$SPARK_HOME/bin/load-spark-env.sh"; exec "$@"', "bash"),
            *(str(java), "-Xmx128m", "-cp", f"{home / 'jars'}/*", "org.apache.spark.launcher.Main"),
            *("org.apache.spark.deploy.SparkSubmit", *args, "pyspark-shell"),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SPARK_HOME": str(home)},
    )
    words = result.stdout.lstrip("\n").lstrip("\0").lstrip("\n").split("\0")
    command = [word for word in words if word]
    if result.returncode != 0 or "org.apache.spark.deploy.SparkSubmit" not in command:
        raise SetupMissing(f"Spark's launcher failed: {(result.stderr or result.stdout).strip()[:300]}")
    return command


def _launcher_environment() -> list[str]:
    """What the launcher's command depends on besides its arguments: environment variables, and Spark's own files."""
    variables = [f"{k}={v}" for k, v in sorted(os.environ.items()) if k.startswith(("SPARK_", "JAVA_", "PYSPARK_"))]
    folder = Path(os.environ.get("SPARK_CONF_DIR") or spark_home() / "conf")
    files = [folder / "spark-defaults.conf", folder / "spark-env.sh", folder / "java-opts"]
    return variables + [file.read_text(errors="replace") for file in files if file.is_file()]


def _digest(facts: list[str]) -> str:
    return hashlib.sha256("\0".join(facts).encode()).hexdigest()[:16]
