"""A Spark standalone cluster: a master and two workers, whose Python knows everything but icepact."""

import json
import os
import signal
import subprocess
import sys
import sysconfig
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from icepact.iceberg.spark.jvm import find_java, spark_home
from tests.support.servers.process import LOOPBACK, Server, ServerFailed, free_ports, serving

WORKERS = 2
CORES = 1
MEMORY_MB = 1536


@dataclass(frozen=True, kw_only=True, slots=True)
class SparkCluster:
    """A running cluster."""

    master: str
    """For spark.master."""
    python: Path
    """For the executors' Python workers: PYSPARK_PYTHON."""

    @property
    def settings(self) -> dict[str, str]:
        """What a driver on this machine is configured with; every executor is there before the first task."""
        return {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.memory": "1g",
            "spark.executor.cores": str(CORES),
            "spark.executor.memory": "1g",
            "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",  # tests are short
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
            "spark.pyspark.python": str(self.python),
        }


@contextmanager
def spark_cluster(folder: Path) -> Iterator[SparkCluster]:
    """Master and workers on loopback, ready to take an application."""
    port, page = free_ports(2)
    url = f"spark://{LOOPBACK}:{port}"
    with ExitStack() as running:
        master = running.enter_context(
            _daemon("master.Master", "--port", str(port), "--webui-port", str(page), folder=folder, name="spark-master")
        )
        python = foreign_python(folder / "executor-python")
        master.wait_until(lambda: _workers(page))
        for number in range(WORKERS):
            work = folder / f"spark-work-{number}"
            words = ["--webui-port", "0", "--cores", str(CORES), "--memory", f"{MEMORY_MB}M", "--work-dir", str(work)]
            name = f"spark-worker-{number}"
            running.enter_context(_daemon("worker.Worker", *words, url, folder=folder, name=name))
        master.wait_until(lambda: _workers(page) == WORKERS or None)
        yield SparkCluster(master=url, python=python)


@contextmanager
def _daemon(kind: str, *words: str, folder: Path, name: str) -> Iterator[Server]:
    home = spark_home()
    command = [
        *(str(find_java()[0]), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        *("-Djava.net.preferIPv4Stack=true", "-Dspark.master.rest.enabled=false"),
        *("-cp", f"{home / 'jars'}/*", f"org.apache.spark.deploy.{kind}", "--host", LOOPBACK, *words),
    ]
    [core] = (home / "jars").glob("spark-core_*.jar")
    scala = core.name.removeprefix("spark-core_").split("-")[0]  # workers start no executor without it
    env = {"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": scala, "SPARK_LOCAL_IP": LOOPBACK, "PYTHONPATH": ""}
    logs = "spark-work-*/app-*/*/stderr" if "Master" in kind else ""  # of the executors, once
    # Killed at the end: there is nothing to save, and the executors are killed with their worker.
    with serving(name, command, folder=folder, env=env, polite=signal.SIGKILL, more_logs=logs) as server:
        yield server


def _workers(page: int) -> int | None:
    """How many workers the master knows; None until it answers as it should.

    Its server takes requests before all its pages are attached: until then, "/" answers, as HTML, for "/json/".
    """
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{page}/json/", timeout=5) as response:
            return int(json.load(response)["aliveworkers"])
    except (OSError, json.JSONDecodeError):
        return None


def foreign_python(folder: Path) -> Path:
    """An interpreter as a cluster has it: with every library of ours, without icepact.

    A `.pth` file names our site-packages; the `.pth` file in there that makes icepact importable is not read,
    because Python reads such files only in site folders of its own.
    """
    venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    ours = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (folder / "lib" / version / "site-packages" / "libraries.pth").write_text("\n".join(sorted(ours)) + "\n")
    python = folder / "bin" / "python"
    program = (
        "import importlib.util, boto3, numpy, polars, pyarrow, pyiceberg, pyroaring, pyspark\n"
        "assert importlib.util.find_spec('icepact') is None, 'icepact can be imported'"
    )
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([str(python), "-c", program], capture_output=True, text=True, cwd=folder, env=clean)
    if done.returncode != 0:
        raise ServerFailed(f"the executors' Python is not as it should be: {done.stderr}")
    return python
