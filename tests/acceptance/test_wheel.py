"""The wheel, installed somewhere that knows nothing of this repository."""

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from icepact.iceberg.spark.jars import ensure_jars

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")

_COMPACT = """
import sys
from pathlib import Path
import icepact
import psycopg  # the extra
from icepact.entrypoints.cli.start import run
assert Path(icepact.__file__).is_relative_to(sys.prefix), icepact.__file__
compactor = icepact.Compactor()
spark = compactor.spark
spark.sql("CREATE NAMESPACE shop")
spark.sql("CREATE TABLE shop.orders (id bigint) USING iceberg")
for start in range(3):
    spark.range(start, start + 1).writeTo("shop.orders").append()
print(compactor.compact("shop.orders").status, flush=True)
sys.argv = ["icepact", "health", "shop.orders", "--html", "report.html"]
run()
"""


def _try(*command: str | Path, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """In an environment without anything of ours, nor a path to the repository."""
    ours = ("ICEPACT_", "PYTHON", "VIRTUAL_ENV", "JDK_JAVA_OPTIONS")  # of the last, what makes Java frugal in tests
    clean = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    return subprocess.run(command, cwd=cwd, env={**clean, **more}, capture_output=True, text=True, check=False)


def _run(*command: str | Path, cwd: Path, **more: str) -> str:
    done = _try(*command, cwd=cwd, **more)
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A fresh environment with the wheel and its extra, in the locked versions that `make setup` left in uv's cache."""
    _run("make", "wheel", f"WHEELS={tmp_path}", cwd=ROOT)
    [wheel] = tmp_path.glob("*.whl")
    _run(UV, "venv", "--quiet", "--python", sys.executable, tmp_path / "venv", cwd=tmp_path)
    wanted = ("--quiet", "--python", tmp_path / "venv" / "bin" / "python", "--constraint", ROOT / "requirements.txt")
    install = (UV, "pip", "install", *wanted, f"{wheel}[postgres]")
    if _try(*install, "--offline", cwd=tmp_path).returncode != 0:
        _run(*install, cwd=tmp_path)
    (tmp_path / "cache" / "icepact").mkdir(parents=True)
    (tmp_path / "cache" / "icepact" / "jars").symlink_to(ensure_jars()[0].parent)
    yield tmp_path
    shutil.rmtree(tmp_path / "cache")  # hundreds of megabytes
    shutil.rmtree(tmp_path / "venv")


def test_the_wheel_has_every_file_of_the_package(tmp_path: Path) -> None:
    """Java sources, styles and migrations, too."""
    _run("make", "wheel", f"WHEELS={tmp_path}", cwd=ROOT)
    [wheel] = tmp_path.glob("*.whl")
    package = ROOT / "src"
    ours = {str(p.relative_to(package)) for p in package.rglob("*") if p.is_file() and p.suffix != ".pyc"}
    assert {Path(name).suffix for name in ours} >= {".java", ".css", ".py"}
    assert ours - set(ZipFile(wheel).namelist()) == set()


@pytest.mark.timeout(1800)
def test_the_wheel_works_elsewhere(place: Path) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    folders = {"XDG_STATE_HOME": str(place / "state"), "XDG_CACHE_HOME": str(place / "cache")}
    installed = place / "venv" / "bin"
    assert _run(installed / "icepact", "--version", cwd=place) == f"icepact {version}\n"
    assert "compact" in _run(installed / "icepact", "--help", cwd=place)
    assert "3 libraries, fast starts on" in _run(installed / "icepact", "setup", cwd=place, **folders)
    told = _run(installed / "python", "-c", _COMPACT, cwd=place, **folders)
    assert told.startswith("committed\n")
    assert "<style>" in (place / "report.html").read_text()
