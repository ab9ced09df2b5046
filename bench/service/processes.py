"""Processes that are measured: `icepact serve` and the library, on one catalog of small tables."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import psutil

_PATIENCE = 120.0
"""Seconds for a process to come up or to end."""
_LOOK = 0.005

_LIBRARY = """
import json, sys, time
from icepact import Compactor
compactor = Compactor(config=sys.argv[1], warehouse=sys.argv[2])
compactor.spark
print("ready", flush=True)
for line in sys.stdin:
    began = time.perf_counter()
    outcome = compactor.compact(line.strip())
    seconds = time.perf_counter() - began
    print(json.dumps([seconds, outcome.status.value, outcome.files_before, outcome.files_after]), flush=True)
"""

_MAKE = """
import sys
from icepact import Compactor
spark = Compactor(config=sys.argv[1], warehouse=sys.argv[2]).spark
spark.sql("CREATE NAMESPACE bench")
filled, empty = int(sys.argv[3]), int(sys.argv[4])
for n in range(filled):
    spark.sql(f"CREATE TABLE bench.t{n} (id bigint, text string, x double) USING iceberg")
    rows = spark.range(0, 100000, 1, 20).selectExpr("id", "concat(uuid(), uuid()) text", "rand() x")
    rows.writeTo(f"bench.t{n}").append()
for n in range(empty):
    spark.sql(f"CREATE TABLE bench.e{n} (id bigint, text string) USING iceberg")
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A catalog in a folder, with its configuration."""

    folder: Path

    @property
    def warehouse(self) -> Path:
        """The folder of the embedded catalog."""
        return self.folder / "warehouse"

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.folder / "icepact.yaml"

    def configure(self, *, store: str | None = None, conf: str = "") -> None:
        """Write the configuration: without a limit of requests, for one key asks for all; `store` is its address,
        SQLite in the folder if not given."""
        lines = [f"state: {self.folder}/state", "service: {requests_per_second: 1000000}", conf]
        lines += [f"store: {store}"] if store else []
        self.config.write_text("\n".join(line for line in lines if line) + "\n")

    def make(self, *, filled: int = 0, empty: int = 0) -> None:
        """Make tables: `bench.t0` and so on of 20 files and 5 MB in all, `bench.e0` and so on without rows."""
        run([sys.executable, "-c", _MAKE, str(self.config), str(self.warehouse), str(filled), str(empty)])

    def new_key(self) -> str:
        """A new key of the service; from then on everybody needs one."""
        made = run([*self._icepact("keys", "create"), "--role", "admin", "--json"])
        return str(json.loads(made)["secret"])

    def serve_command(self, *more: str) -> list[str]:
        """`icepact serve` on this catalog."""
        return self._icepact("serve", *more)

    def _icepact(self, *words: str) -> list[str]:
        icepact = str(Path(sys.executable).parent / "icepact")
        return [icepact, *words, "--config", str(self.config), "--warehouse", str(self.warehouse)]


class Serve:
    """A running `icepact serve`."""

    def __init__(self, place: Place, *, workers: int, log: Path, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        began = time.perf_counter()
        with log.open("a") as out:
            self._process = subprocess.Popen(
                place.serve_command("--port", str(port), "--workers", str(workers)),
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self._log = log
        try:
            self.until_alive = self._await_alive(began)
            """Seconds until it answered for the first time."""
        except BaseException:  # nobody else knows of the process yet
            self.end()
            raise

    @property
    def pid(self) -> int:
        """Its process."""
        return self._process.pid

    def processes(self) -> dict[str, psutil.Process]:
        """Itself, and its workers with their JVMs, by what they are."""
        found = {"API": psutil.Process(self.pid)}
        for child in found["API"].children():
            found[f"worker {child.pid}"] = child
            for java in child.children(recursive=True):
                with suppress(psutil.Error):
                    if "java" in java.name():
                        found[f"JVM {child.pid}"] = java
        return found

    def end(self) -> None:
        """Ask it to end, and wait until it has."""
        self._process.terminate()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def _await_alive(self, began: float) -> float:
        while time.perf_counter() - began < _PATIENCE:
            if self._process.poll() is not None:
                break
            with suppress(OSError), urlopen(f"{self.url}/healthz", timeout=5) as answer:
                assert answer.status == 200
                return time.perf_counter() - began
            time.sleep(_LOOK)
        raise RuntimeError(f"icepact serve does not answer: {self._log.read_text()[-2000:]}")


class Library:
    """A process with a `Compactor` that has been asked before."""

    def __init__(self, place: Place, log: Path) -> None:
        with log.open("a") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _LIBRARY, str(place.config), str(place.warehouse)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=out,
                text=True,
            )
        self._line()

    def compact(self, table: str) -> float:
        """Compact a table; returns what the call took in seconds."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{table}\n")
        self._process.stdin.flush()
        seconds, status, before, after = json.loads(self._line())
        assert (status, before, after < before) == ("committed", 20, True), (status, before, after)
        return float(seconds)

    def end(self) -> None:
        """Let it end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(_PATIENCE)

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the library's process has ended"
        return line


def run(command: Sequence[str]) -> str:
    """What a command prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr[-2000:]}")
    return str(done.stdout)
