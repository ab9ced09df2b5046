"""What is started before it is needed: Python workers, kept apart from the user's, and Iceberg in Java."""

import threading
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from icepact.execute.rewriters import job
from icepact.execute.rewriters.job import ENVIRONMENT, in_workers, start_workers
from icepact.iceberg.java.bridge import Java
from icepact.iceberg.spark.rehearsal import rehearse
from icepact.iceberg.spark.session import build_session, context_settings


def _look(parts: Iterable[int]) -> Iterator[tuple[str, str, bool]]:
    """In a worker: whether it is ours, what forked it, and whether that had loaded modules before."""
    import gc
    import os
    from pathlib import Path

    del parts
    parent = Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\0")
    yield os.environ.get("ICEPACT_WORKERS", ""), parent[2], gc.get_freeze_count() > 0


@pytest.fixture
def pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers do not know the tests: functions of this module travel as they are."""
    monkeypatch.setattr(_look, "__module__", "__main__")


@pytest.mark.usefixtures("pickled")
def test_our_workers_have_loaded_the_kernel_and_others_are_left_alone(spark: SparkSession) -> None:
    context = spark.sparkContext
    before = dict(context.environment)
    ours = in_workers(context, [0, 1], _look).collect()
    assert set(ours) == {("1", "icepact.execute.rewriters.daemon", True)}
    assert context.environment == before
    assert not before.keys() & ENVIRONMENT.keys()
    [theirs] = context.parallelize([0], 1).mapPartitions(_look).collect()
    assert theirs[0] == ""
    assert theirs[2] is False


def test_workers_are_started_once_in_the_background(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    context = spark.sparkContext
    jobs = context.statusTracker().getJobIdsForGroup
    monkeypatch.setattr(job, "_KEPT_FOR", -1.0)  # as if the last ones had idled for too long
    before = set(jobs())
    start_workers(context)
    for thread in [thread for thread in threading.enumerate() if thread.name == "icepact-workers"]:
        thread.join()
    started = set(jobs()) - before
    assert len(started) == 1
    monkeypatch.undo()
    start_workers(context)
    assert not any(thread.name == "icepact-workers" for thread in threading.enumerate())
    assert set(jobs()) - before == started


def test_java_does_not_spend_its_start_on_compiling(spark: SparkSession) -> None:
    works, looks = (context_settings({}, short=short)["spark.driver.extraJavaOptions"] for short in (False, True))
    assert "-XX:Tier4InvocationThreshold=50000" in works
    assert "-XX:TieredStopAtLevel=1" not in works  # which is for commands that only look
    assert "-XX:TieredStopAtLevel=1" in looks
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    words = list(jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments())
    # whichever this Java was started for: tests of servers that were here before may have started it
    assert {*works.split()} <= {*words} or {*looks.split()} <= {*words}


def test_a_run_is_rehearsed_in_memory(spark: SparkSession) -> None:
    """To its end, which nobody would notice otherwise; twice, for each has a table of its own."""
    for _ in range(2):
        assert rehearse(spark.sparkContext._gateway) == ["append", "replace"]
    assert rehearse(spark.sparkContext._gateway, look_only=True) == ["append"]


def test_java_is_not_asked_about_the_parts_of_a_name(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    java = Java(spark.sparkContext._gateway)
    client = java.gateway._gateway_client
    asked: list[str] = []
    send = client.send_command

    def noted(command: str, *rest: Any, **more: Any) -> Any:
        asked.append(command)
        return send(command, *rest, **more)

    monkeypatch.setattr(client, "send_command", noted)
    assert java.iceberg.util.LocationUtil.stripTrailingSlash("x/") == "x"
    # the method, and its call; `m` lets go of what others have left
    assert [word for command in asked if (word := command.split("\n")[0]) != "m"] == ["r", "c"]


def test_workers_are_asked_for_before_there_is_a_session(spark: SparkSession) -> None:
    seen: list[SparkContext] = []
    session = build_session({}, on_context=seen.append)
    assert seen == [spark.sparkContext]
    assert session.sparkContext is seen[0]
