"""Spark sessions: icepact starts one, or adopts the user's own. Spark's log goes nowhere unless it is asked for."""

import atexit
import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from pyspark import RDD, SparkConf, SparkContext
from pyspark.sql import SparkSession

from icepact.iceberg.spark.jars import cache_dir, ensure_jars
from icepact.iceberg.spark.jvm import archive_path, find_java, launch_command
from icepact.iceberg.spark.local_files import use_own_local_files
from icepact.iceberg.spark.rehearsal import start_rehearsal
from icepact.model.errors import BadInput, SetupMissing, Unsupported

MINIMUM_ICEBERG = (1, 12, 0)
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"

_MAKING_SESSIONS = threading.Lock()
_JVMS: list[subprocess.Popen[bytes]] = []
"""Every JVM that this process has started."""
_SECONDS_TO_END = 5.0
"""For a JVM that is asked to end, before it is killed."""
_LAUNCHER_SETTINGS = ("spark.master", "spark.driver.", "spark.jars", "spark.submit.")
"""Settings that must be known before Java starts. All others, and so all secrets, stay off the command line."""

_ARCHIVES = "-XX:ArchiveClassesAtExit"
_LATE_COMPILATION = [
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
]
"""Ten times Java's defaults: its second compiler takes hot loops as before, and does not spend a start on what is hot
only then."""

_QUIET_LOGGING = """\
status = error
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""


def build_session(
    settings: Mapping[str, str],
    *,
    verbose: bool = False,
    short: bool = False,
    on_context: Callable[[SparkContext], None] | None = None,
) -> SparkSession:
    """A session of our own: local unless the settings name a master. `on_context` is called as soon as Spark can run
    jobs, which is well before there is a session.

    If this process already runs Spark, the session is a fresh one on the same context, so that two
    compactors with different catalogs do not see each other's configuration.
    """
    if SparkContext._active_spark_context is None:
        _start_context(settings, verbose=verbose, short=short, look_only=on_context is None)
    if on_context is not None and SparkContext._active_spark_context is not None:
        on_context(SparkContext._active_spark_context)
    session = SparkSession.builder.getOrCreate()
    check_session(session)
    return session_of(session.sparkContext, session._jsparkSession.newSession())


def session_of(context: SparkContext, java_session: Any) -> SparkSession:
    """A Python session for one of Java's, without what PySpark does on the side: binding every RDD's `toDF` to it."""
    with _MAKING_SESSIONS:
        before = getattr(RDD, "toDF", None)
        session = SparkSession(context, java_session)
        if before is not None:
            RDD.toDF = before  # type: ignore[method-assign]
    return session


def check_session(session: SparkSession) -> None:
    """Refuse, in one line, sessions that cannot work: Connect, no Iceberg, an old Iceberg."""
    if not hasattr(session, "_jsparkSession"):
        raise Unsupported("Spark Connect sessions are not supported: pass a classic SparkSession")
    jvm = session.sparkContext._jvm
    assert jvm is not None
    if EXTENSIONS not in str(session.sparkContext._conf.get("spark.sql.extensions", "")):
        raise BadInput(f"the Spark session lacks Iceberg: set spark.sql.extensions={EXTENSIONS} and add its runtime")
    try:
        version = str(jvm.org.apache.iceberg.IcebergBuild.version())
    except Exception:
        raise BadInput("the Spark session has no Iceberg runtime on its class path") from None
    digits = tuple(int(part) for part in version.split("-")[0].split(".")[:3] if part.isdigit())
    if digits < MINIMUM_ICEBERG:
        raise Unsupported(f"Iceberg {version} is too old: icepact needs 1.12.0 or newer")


def is_well(session: SparkSession) -> bool:
    """Whether Spark still works: its Java answers, and it was not stopped."""
    try:
        return not session.sparkContext._jsc.sc().isStopped()
    except Exception:  # whatever it is, nothing can be asked any more
        return False


def context_settings(extra: Mapping[str, str], *, short: bool = False) -> dict[str, str]:
    """What a SparkContext of ours is started with."""
    jars = ensure_jars()
    _, java_version = find_java()
    master = extra.get("spark.master", "local[*,4]")
    archive = archive_path(java_version, jars)
    options = ["-Djava.net.preferIPv4Stack=true", f"-Dlog4j2.configurationFile={_logging_file()}"]
    if archive.is_file():
        options += [
            f"-XX:SharedArchiveFile={archive}",
            "-Xshare:auto",
            "-Xlog:cds=off",
            "-Xlog:cds+dynamic=off",
        ]
    options += ["-XX:TieredStopAtLevel=1"] if short else _LATE_COMPILATION
    settings = {
        "spark.app.name": "icepact",
        "spark.master": master,
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.extensions": EXTENSIONS,
    }
    if master.startswith("local"):
        settings |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    else:
        settings["spark.jars"] = ",".join(map(str, jars))
    settings |= extra
    given = extra.get("spark.driver.extraJavaOptions", "")
    more = [path for path in [extra.get("spark.driver.extraClassPath")] if path]
    settings["spark.driver.extraClassPath"] = os.pathsep.join([*map(str, jars), *more])
    settings["spark.driver.extraJavaOptions"] = " ".join([*options, given]).strip()
    return settings


def _logging_file() -> Path:
    """Log4j settings that keep Spark to errors; written once."""
    path = cache_dir() / "log4j2.properties"
    text = _QUIET_LOGGING.format(level="error")
    if not path.is_file() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return path


def _start_context(extra: Mapping[str, str], *, verbose: bool, short: bool, look_only: bool) -> None:
    from pyspark.java_gateway import launch_gateway

    settings = context_settings(extra, short=short)
    early = {key: value for key, value in settings.items() if key.startswith(_LAUNCHER_SETTINGS)}
    process, port, secret = _launch(launch_command(early), verbose=verbose)
    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = str(port), secret
    try:
        gateway = launch_gateway()
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    gateway.proc = process
    start_rehearsal(gateway, look_only=look_only)
    conf = SparkConf(loadDefaults=True, _jvm=gateway.jvm)  # what spark-submit settled, such as resolved packages
    for key, value in settings.items():
        conf.set(key, value)
    with _keeping_ctrl_c():
        context = SparkContext(conf=conf, gateway=gateway)
    if settings["spark.master"].startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable  # workers run what this process runs, not the first python3 on the PATH
    if not look_only:
        use_own_local_files(gateway, context._jsc.hadoopConfiguration())
    context.setLogLevel("WARN" if verbose else "ERROR")
    if not verbose:  # both would tell at length when Java is killed, before whoever asks it next is told
        logging.getLogger().addFilter(_not_gateway_shutdown)
        vars(context._accumulatorServer)["handle_error"] = lambda *_: None
    alone = settings["spark.master"].startswith("local") and os.getpid() != 1  # whose end is the end of a container
    awaited = verbose or not alone or _ARCHIVES in settings["spark.driver.extraJavaOptions"]
    atexit.register(_stop, process, awaited=awaited)


@contextlib.contextmanager
def _keeping_ctrl_c() -> Iterator[None]:
    """Leave Ctrl-C to whoever hears it: SparkContext takes it over, and calls Java from wherever Python is then."""
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread() and before is not None:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _ctrl_c_later() -> Iterator[None]:
    """Ctrl-C waits until a process that is being started is known: else nobody could end it."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    pressed: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda *arguments: pressed.append(arguments))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    for press in pressed:
        before(*press)


def end_java(*, at_once: bool = False) -> None:
    """End the JVMs of this process, also from within a signal handler; Spark is of no use afterwards."""
    atexit.unregister(_stop)
    for process in _JVMS:
        process.kill() if at_once else process.terminate()
    for process in _JVMS:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_SECONDS_TO_END)
        process.kill()  # no harm if it is gone


def _stop(process: subprocess.Popen[bytes], *, awaited: bool) -> None:
    """Let go of the JVM: when its input ends it stops Spark, removes its temporary files and ends by itself.

    Nobody waits for that, which takes a second, unless it has something to say or to write until its end, a cluster
    knows it, or nobody would be left to end it.
    """
    logging.getLogger().addFilter(_not_gateway_shutdown)
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    if not awaited:
        return
    try:
        process.wait(timeout=120)  # long only when the class-data archive is written at exit
    except subprocess.TimeoutExpired:
        process.kill()


def _not_gateway_shutdown(entry: logging.LogRecord) -> bool:
    """py4j frees Java objects from a thread of its own, and complains on the root logger when Java is gone already."""
    return entry.msg != "Exception while sending command."


def _launch(command: list[str], *, verbose: bool) -> tuple[subprocess.Popen[bytes], int, str]:
    """Start the JVM and wait until its gateway says where it listens."""
    from pyspark.serializers import UTF8Deserializer, read_int

    folder = Path(tempfile.mkdtemp(prefix="icepact-"))
    try:
        info, log = folder / "connection", folder / "spark.log"
        with log.open("wb") as sink, _ctrl_c_later():
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=None if verbose else sink,
                stderr=None if verbose else sink,
                env={**os.environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(info)},
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
            )
            _JVMS.append(process)
        while process.poll() is None and not info.is_file():
            time.sleep(0.02)
        if not info.is_file():
            raise SetupMissing(f"Spark did not start: {_complaint(log.read_text(errors='replace'))}")
        with info.open("rb") as stream:
            return process, read_int(stream), UTF8Deserializer().loads(stream)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _complaint(log: str) -> str:
    """The line of a log that says what went wrong, rather than where."""
    lines = [line.strip() for line in log.splitlines() if line.strip() and not line.startswith("\tat ")]
    telling = [line for line in lines if "Exception" in line or "Error" in line]
    return (telling or lines or ["no output"])[0][:300]
