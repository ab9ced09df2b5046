"""Prometheus and its promtool: Debian's package, fetched once by apt into the user's cache, and unpacked there.

Where there is no such package, promtool and Prometheus of the same version are built from their source.
"""

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from icepact.iceberg.spark.jars import cache_dir
from tests.support.servers.process import LOOPBACK, ServerFailed, free_ports, serving

_VERSION = "2.42.0+ds-5+deb12u1"
_SHA256 = "81d59a24fce84f7fbe97a45a4f2914b6a5881b5cd1db2a6a0e129e515e1a5f55"
"""Of the package for amd64."""
_SOURCE = "github.com/prometheus/prometheus"
_RELEASE = "v0.42.0"
_PROGRAMS = ("prometheus", "promtool")


def program(name: str) -> Path:
    """One of the two programs."""
    folder = cache_dir() / "servers" / f"prometheus-{_VERSION}"
    if not (folder / name).is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as work:
            made = Path(work, "made")
            made.mkdir()
            if (not_fetched := _by_apt(Path(work), made)) and (not_built := _by_go(made)):
                raise ServerFailed(f"Prometheus could not be fetched: {not_fetched}; nor built: {not_built}")
            if not folder.exists():
                made.replace(folder)  # at once: another run may be doing the same
    return folder / name


def promtool(*arguments: str, given: str | bytes = b"") -> subprocess.CompletedProcess[str]:
    """What promtool says."""
    text = given if isinstance(given, str) else given.decode()
    command = [str(program("promtool")), *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def _by_apt(work: Path, made: Path) -> str:
    """Why it is not there; empty if it is."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return "this is no Debian"
    lists = work / "lists"
    (lists / "partial").mkdir(parents=True)
    lists.chmod(0o755)
    own = ["-o", f"Dir::State::Lists={lists}", "-o", f"Dir::Cache={work}", "-o", "APT::Sandbox::User=root"]
    wanted = f"prometheus={_VERSION}"
    said = ""
    for commands in ([["download", wanted]], [[*own, "update"], [*own, "download", wanted]]):  # without being root
        for arguments in commands:
            done = subprocess.run(["apt-get", "-q", *arguments], cwd=work, capture_output=True, text=True, check=False)
            said = done.stderr
        for package in work.glob("prometheus_*.deb"):
            digest = hashlib.sha256(package.read_bytes()).hexdigest()
            if digest != _SHA256:
                return f"{package.name} is not what was pinned (sha256 {digest})"
            subprocess.run(["dpkg-deb", "-x", str(package), str(work / "unpacked")], check=True)
            for name in _PROGRAMS:
                (work / "unpacked" / "usr" / "bin" / name).replace(made / name)
            return ""
    return said.strip()[-500:] or "apt has no such package"


def _by_go(made: Path) -> str:
    if shutil.which("go") is None:
        return "there is neither such a package nor Go"
    fetched = subprocess.run(
        ["go", "mod", "download", "-json", f"{_SOURCE}@{_RELEASE}"], capture_output=True, text=True, check=False
    )
    if fetched.returncode:
        return (fetched.stderr or fetched.stdout).strip()[-500:]
    source = json.loads(fetched.stdout)["Dir"]  # as Go's own sums of it say
    programs = [f"./cmd/{name}" for name in _PROGRAMS]
    build = ["go", "build", "-o", f"{made}/", *programs]
    done = subprocess.run(build, cwd=source, capture_output=True, text=True, check=False)
    return done.stderr.strip()[-500:] if done.returncode else ""


class Prometheus:
    """A server that scrapes."""

    def __init__(self, port: int) -> None:
        self._address = f"http://{LOOPBACK}:{port}/api/v1"

    def ask(self, path: str, **parameters: str) -> Any:
        """What it answers."""
        with urlopen(f"{self._address}/{path}?{urlencode(parameters)}", timeout=5) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[Any]:
        """Samples of an expression, now."""
        found: list[Any] = self.ask("query", query=expression)["result"]
        return found

    def has_scraped(self) -> bool | None:
        """True once it has done so some times."""
        try:
            return bool(self.query("count_over_time(up[1m]) > 5")) or None
        except OSError:
            return None


@contextmanager
def prometheus(folder: Path, target: str, rules: Path) -> Iterator[Prometheus]:
    """A Prometheus that scrapes one target ten times a second, once it has done so several times."""
    home = folder / "prometheus"
    home.mkdir()
    [port] = free_ports(1)
    scrape = {"job_name": "icepact", "static_configs": [{"targets": [target]}]}
    every = {"scrape_interval": "100ms", "scrape_timeout": "100ms", "evaluation_interval": "1s"}
    settings = {"global": every, "rule_files": [str(rules)], "scrape_configs": [scrape]}
    (home / "prometheus.yml").write_text(json.dumps(settings))  # which is YAML, too
    command = [
        *(str(program("prometheus")), f"--config.file={home}/prometheus.yml", f"--storage.tsdb.path={home}/data"),
        *(f"--web.listen-address={LOOPBACK}:{port}", "--log.level=warn"),
    ]
    with serving("prometheus", command, folder=home) as running:
        server = Prometheus(port)
        running.wait_until(server.has_scraped)
        yield server
