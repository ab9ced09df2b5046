"""Errors of Java's, as they arrive in Python: raw, turned into PySpark's own, and after Java has ended."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError, get_return_value
from pyspark.errors.exceptions import captured

from icepact.iceberg.java import bridge as java
from icepact.iceberg.java.bridge import (
    JavaError,
    describe_error,
    error_class,
    error_line,
    is_forbidden,
    is_missing,
    missing_module,
    retry_reads,
    root_cause,
    timed_out,
    to_icepact_error,
    with_cause,
)
from icepact.iceberg.properties import refuse_odd_properties
from icepact.iceberg.spark.jvm import find_java, spark_home
from icepact.model.errors import BadInput, IcepactError, TemporaryError
from tests.support.servers.process import serving


def thrown(*kinds_and_messages: tuple[str, str | None]) -> Any:
    """One of Java's exceptions, and what lies below it."""
    cause = None
    for kind, message in reversed(kinds_and_messages):
        cause = SimpleNamespace(
            getClass=lambda kind=kind: SimpleNamespace(getSimpleName=lambda: kind),
            getMessage=lambda message=message: message,
            getCause=lambda cause=cause: cause,
        )
    return cause


def raw(*chain: tuple[str, str | None]) -> Py4JJavaError:
    """As py4j raises it."""
    error = Py4JJavaError.__new__(Py4JJavaError)
    error.java_exception = thrown(*chain)
    return error


def converted(*chain: tuple[str, str | None], kind: type[BaseException] = captured.IllegalArgumentException) -> Any:
    """As PySpark does."""
    error: Any = kind.__new__(kind)
    error._desc, error._origin = chain[0][1] or "", thrown(*chain)
    return error


BOTH = pytest.mark.parametrize("make", [raw, converted], ids=["raw", "converted"])


@BOTH
def test_both_are_caught_and_told_alike(make: Any) -> None:
    chain = (("NumberFormatException", "For input string: x\nand more"), ("IOException", "Connection refused"))
    with pytest.raises(JavaError) as caught:
        raise make(*chain)
    error = caught.value
    assert error_class(error) == "NumberFormatException"
    assert error_line(error) == "For input string: x"
    assert describe_error(error) == "NumberFormatException: For input string: x"
    assert root_cause(error) == "IOException: Connection refused"
    assert with_cause(error) == "For input string: x (IOException: Connection refused)"


@BOTH
def test_an_error_without_a_message_is_told_by_its_class(make: Any) -> None:
    error = make(("UnsupportedOperationException", None))
    assert error_line(error) == describe_error(error) == with_cause(error) == "UnsupportedOperationException"


@BOTH
def test_kinds_are_known_at_any_depth(make: Any) -> None:
    assert is_missing(make(("RuntimeIOException", "x"), ("FileNotFoundException", "y")))
    assert not is_missing(make(("RuntimeIOException", "x")))
    assert is_forbidden(make(("S3Exception", "x (Status Code: 403)")))
    assert is_forbidden(make(("X", "x"), ("AccessControlException", "y")))
    assert timed_out(make(("RESTException", "x"), ("SocketTimeoutException", "x")))
    assert timed_out(make(("UncheckedSQLException", "x"), ("PSQLException", "Connection attempt timed out.")))
    assert not timed_out(make(("UncheckedSQLException", "x"), ("PSQLException", "This connection has been closed.")))
    assert missing_module(make(("SparkException", "a\nModuleNotFoundError: No module named 'polars'\nb"))) == "polars"


@BOTH
def test_what_says_little_is_told_with_its_cause(make: Any) -> None:
    error = make(("RESTException", "Error occurred while processing GET request"), ("ConnectException", "refused"))
    assert error_line(error) == "Error occurred while processing GET request (ConnectException: refused)"


def test_causes_that_go_round_in_a_circle_come_to_an_end() -> None:
    error = raw(("A", "a"))
    error.java_exception.getCause = lambda: error.java_exception
    assert root_cause(error) == "A: a"


@BOTH
def test_what_may_pass_is_looked_at_again(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_FIRST_WAIT", 0.0)
    looks: list[int] = []

    @retry_reads
    def look(*chain: tuple[str, str | None]) -> None:
        looks.append(1)
        raise make(*chain)

    def tried(*chain: tuple[str, str | None]) -> int:
        looks.clear()
        with pytest.raises(JavaError):
            look(*chain)
        return len(looks)

    assert tried(("IllegalArgumentException", "x"), ("SocketException", "y")) == java.READ_ATTEMPTS
    assert tried(("IllegalArgumentException", "x")) == 1
    assert tried(("RuntimeIOException", "x"), ("FileNotFoundException", "y")) == 1
    monkeypatch.setattr(java, "_RETRY_WINDOW", -1.0)
    assert tried(("RuntimeIOException", "x")) == 1, "whoever took so long has looked again and again"


# -- as icepact's own -----------------------------------------------------------------------------


@BOTH
def test_what_leaves_the_library_is_one_line_of_ours(make: Any) -> None:
    chain = (("UncheckedSQLException", "Failed to connect: jdbc:postgresql://h/db?user=u&password=hush"), ("X", "y\nz"))
    ours = to_icepact_error(make(*chain))
    assert type(ours) is IcepactError
    assert str(ours) == (
        "UncheckedSQLException: Failed to connect: jdbc:postgresql://h/db (X: y): "
        "see whether the catalog is up, and answers in time"
    )
    passing = to_icepact_error(make(("RESTException", "x"), ("SocketTimeoutException", "Read timed out")))
    assert type(passing) is TemporaryError


def test_other_errors_are_left_alone() -> None:
    assert to_icepact_error(ValueError("x")) is None
    assert describe_error(ValueError("x")) == "ValueError: x"
    assert describe_error(BadInput("x")) == "x"
    assert describe_error(KeyboardInterrupt()) == "KeyboardInterrupt"


# -- after the end --------------------------------------------------------------------------------


class Ended:
    """An exception of a Java that has ended."""

    def __getattr__(self, name: str) -> Any:
        raise Py4JNetworkError("Error while sending or receiving")


def test_a_converted_error_outlives_its_java() -> None:
    error = converted(("X", "the message"))
    error._origin = Ended()
    assert error_line(error) == "the message"
    assert describe_error(error) == "IllegalArgumentException: the message"
    assert not is_missing(error)


def test_an_error_of_a_python_worker_has_no_java_behind_it() -> None:
    error = converted(("X", "ModuleNotFoundError: No module named 'polars'"), kind=captured.PythonException)
    error._origin = None
    assert missing_module(error) == "polars"
    assert error_class(error) == "PythonException"


@contextmanager
def another_java(folder: Path) -> Iterator[JavaGateway]:
    """Without Spark."""
    [jar] = (spark_home() / "jars").glob("py4j-*.jar")
    command = [str(find_java()[0]), "-cp", str(jar), "py4j.GatewayServer", "--enable-auth", "0"]
    with serving("java", command, folder=folder, polite=signal.SIGKILL) as server:
        told = server.wait_until(lambda: re.search(r"^(\d+)\n(\S+)\n", server.log.read_text(), re.M))
        yield JavaGateway(gateway_parameters=GatewayParameters(port=int(told[1]), auth_token=told[2]))


def test_a_raw_error_outlives_its_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # where a session was begun before, PySpark would ask its own Java about the errors of this one
    monkeypatch.setattr("py4j.java_gateway.get_return_value", get_return_value)
    with another_java(tmp_path) as gateway:
        with pytest.raises(JavaError) as caught:
            gateway.jvm.java.lang.Integer.parseInt("x")
        error = caught.value
        assert describe_error(error) == 'NumberFormatException: For input string: "x"'
    assert describe_error(error) == error_line(error) == root_cause(error) == "Py4JJavaError"
    assert not is_missing(error)
    for _ in range(2):  # by a line that was cut, and by a new one
        with pytest.raises((Py4JError, OSError)) as ended:
            gateway.jvm.java.lang.Integer.parseInt("x")
        assert str(to_icepact_error(ended.value)).startswith("Spark's Java has ended, or does not answer any more (")
    assert to_icepact_error(ConnectionRefusedError("by somebody else")) is None
    gateway.close()


# -- properties that Java would stumble over ------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "odd"),
    [
        ("commit.retry.num-retries", "many", True),
        ("commit.retry.num-retries", "", True),
        ("commit.retry.num-retries", "1.5", True),
        ("commit.retry.num-retries", "+4", False),
        ("commit.retry.total-timeout-ms", str(2**31), True),
        ("commit.retry.total-timeout-ms", str(2**31 - 1), False),
        ("write.metadata.previous-versions-max", "a lot", True),
        ("write.metadata.compression-codec", "frob", True),
        ("write.metadata.compression-codec", "GZIP", False),
        ("write.parquet.compression-codec", "frob", False),
    ],
)
def test_properties_that_make_commits_impossible(name: str, value: str, odd: bool) -> None:
    table: Any = SimpleNamespace(name="db.t", properties={name: value})
    if not odd:
        refuse_odd_properties(table)
        return
    with pytest.raises(BadInput, match=rf"^db\.t has {name}=.*: mend the table property$"):
        refuse_odd_properties(table)
