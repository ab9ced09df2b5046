"""A JDBC driver that says that something failed although it did not: for catalogs without a connection to cut.

It is compiled by the compiler that Spark brings along, into a folder that must be on the class path when Java starts.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import SparkSession

from tests.support.java import jvm

PREFIX = "jdbc:lossy:"
"""In place of `jdbc:` in a catalog's address."""
REPEATED = ("08000", "08003", "08006", "08007", "40001", "transient", "timeout")
"""SQLSTATEs, and kinds of exceptions, after which Iceberg connects anew and sends the same once more."""
NOT_REPEATED = ("08001", "57P01")

Rule = Callable[[str, str], str | None]
"""Asked with `before` or `after`, and a statement; answers with an SQLSTATE, or None if all is well."""


def calm(when: str, statement: str) -> None:
    """Nothing goes wrong."""


class Lossy:
    """The driver in a Spark application; `folder` is on its class path."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.rule: Rule = calm
        """May be changed at any time; asked from any thread."""
        self.faults: Counter[str] = Counter()
        """That were put in, by kind."""
        self._java = jvm(spark)
        _compile(self._java, folder)
        ensure_callback_server_started(spark.sparkContext._gateway)
        self._java.lossy.Lossy.ruled(_Asked(self))

    def judge(self, told: str) -> str | None:
        """What happens to a statement, counted."""
        when, _, statement = told.partition(" ")
        state = self.rule(when, statement)
        if state is not None:
            self.faults[f"{state} {when}"] += 1
        return state

    def calm(self) -> None:
        """Nothing goes wrong any more."""
        self.rule = calm


class _Asked:
    def __init__(self, lossy: Lossy) -> None:
        self._lossy = lossy

    def apply(self, told: str) -> str | None:
        """Called by Java."""
        return self._lossy.judge(told)

    class Java:
        """What py4j needs to present this class to Java."""

        implements = ("java.util.function.Function",)


def _compile(java: Any, folder: Path) -> None:
    compiler = java.org.codehaus.janino.SimpleCompiler()
    compiler.cook(Path(__file__).with_name("Lossy.java").read_text())
    classes = compiler.getBytecodes()
    for name in list(classes.keySet()):
        path = folder / f"{name.replace('.', '/')}.class"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(classes.get(name)))
    java.java.lang.Class.forName("lossy.Lossy")  # registers itself
