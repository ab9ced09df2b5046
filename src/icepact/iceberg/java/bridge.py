"""Java through py4j, in bulk: streams over method handles, strings through a file, errors by class.

A py4j call costs a tenth of a millisecond, so nothing here is done file by file. A Java stream that
maps and filters with method handles runs inside the JVM and costs one call, whatever the table's size.
"""

import json
import logging
import os
import re
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property, wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import SparkSession

from icepact.iceberg.remedies import store_remedy
from icepact.model.errors import IcepactError, TemporaryError
from icepact.model.masking import masked

JavaError = (Py4JJavaError, CapturedException)
"""What a failed Java call raises, for `except`: PySpark turns some of Java's exceptions into its own, such as
IllegalArgumentException and UnsupportedOperationException with all that are derived from them."""


class _Packages:
    """Java's packages and classes by name, told apart by their first letter. py4j would ask Java about every part of a
    name, and Java would look for it in each of its many libraries."""

    def __init__(self, client: Any, prefix: str = "") -> None:
        self._client = client
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self._prefix}{name}"
        member = _Class(full, self._client) if name[0].isupper() else _Packages(self._client, f"{full}.")
        self.__dict__[name] = member
        return member


class _Class(JavaClass):  # type: ignore[misc]
    """A Java class that is asked once for each of its static members."""

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        self.__dict__[name] = member
        return member


class Java:
    """The JVM behind a gateway, and a Spark session in it, Java's own, if there is one yet."""

    def __init__(self, gateway: Any, session: Any = None) -> None:
        self.session = session
        self.gateway = gateway
        jvm: Any = _Packages(gateway._gateway_client)
        self.jvm = jvm
        self.iceberg: Any = jvm.org.apache.iceberg
        self._invoke: Any = jvm.java.lang.invoke
        self._lookup: Any = self._invoke.MethodHandles.publicLookup()
        self._classes: dict[str, Any] = {}
        self._methods: dict[tuple[str, str, tuple[str, ...]], Any] = {}
        self._shared: dict[tuple[str, tuple[int, ...]], tuple[Any, Any]] = {}
        """What was made of handles that are kept: by kind and the handles' identities, with those handles."""
        self._kept: set[int] = set()
        """Identities of handles that are kept as long as this object."""
        self._collectors: Any = jvm.java.util.stream.Collectors

    @cached_property
    def mapper(self) -> Any:
        """Iceberg's own JSON mapper."""
        return self.iceberg.util.JsonUtil.mapper()

    @contextmanager
    def active(self, session: SparkSession | None = None) -> Iterator[None]:
        """Make a session the active one of this thread: Spark and Iceberg look catalogs up there."""
        sessions = self.jvm.org.apache.spark.sql.classic.SparkSession
        before = sessions.getActiveSession()
        sessions.setActiveSession(self.session if session is None else session._jsparkSession)
        try:
            yield
        finally:
            if before.isDefined():
                sessions.setActiveSession(before.get())
            else:
                sessions.clearActiveSession()

    # -- method handles ---------------------------------------------------------------------------

    def class_of(self, name: str) -> Any:
        """A Java class, found where Spark finds Iceberg's."""
        if name == "boolean":
            return self.jvm.java.lang.Boolean.TYPE
        if name not in self._classes:
            loader = self.jvm.org.apache.spark.util.Utils.getContextOrSparkClassLoader()
            self._classes[name] = self.jvm.java.lang.Class.forName(name, True, loader)
        return self._classes[name]

    def method(self, owner: str, name: str, *arguments: str) -> Any:
        """A handle on a public method."""
        key = owner, name, arguments
        if key not in self._methods:
            types = self.gateway.new_array(self.jvm.java.lang.Class, len(arguments))
            for i, argument in enumerate(arguments):
                types[i] = self.class_of(argument)
            self._methods[key] = self._lookup.unreflect(self.class_of(owner).getMethod(name, types))
            self._kept.add(id(self._methods[key]))
        return self._methods[key]

    def _once(self, kind: str, handles: Sequence[Any], make: Callable[[], Any]) -> Any:
        """What is made of some handles, kept if they all are."""
        if not all(id(handle) in self._kept for handle in handles):
            return make()
        key = kind, tuple(map(id, handles))
        if key not in self._shared:
            made = make()
            self._shared[key] = made, handles
            self._kept.add(id(made))
        return self._shared[key][0]

    def chain(self, first: Any, *rest: Any) -> Any:
        """One handle that calls each with the answer of the one before."""
        return self._once("chain", (first, *rest), lambda: self._chained(first, *rest))

    def _chained(self, first: Any, *rest: Any) -> Any:
        handle = first
        for following in rest:
            wanted = self._invoke.MethodType.methodType(following.type().returnType(), handle.type().returnType())
            handle = self._invoke.MethodHandles.filterReturnValue(handle, following.asType(wanted))
        return handle

    def bind(self, handle: Any, position: int, value: Any) -> Any:
        """The same handle with one argument filled in."""
        values = self.gateway.new_array(self.jvm.java.lang.Object, 1)
        values[0] = value
        return self._invoke.MethodHandles.insertArguments(handle, position, values)

    def as_interface(self, interface: str, handle: Any) -> Any:
        """A handle as an instance of a one-method Java interface."""
        return self._once(
            interface,
            (handle,),
            lambda: self._invoke.MethodHandleProxies.asInterfaceInstance(self.class_of(interface), handle),
        )

    def as_function(self, handle: Any) -> Any:
        """A handle as a java.util.function.Function."""
        return self.as_interface("java.util.function.Function", handle)

    def as_predicate(self, handle: Any) -> Any:
        """A handle as a java.util.function.Predicate."""
        return self.as_interface("java.util.function.Predicate", handle)

    # -- collections ------------------------------------------------------------------------------

    def strings(self, values: Iterable[str]) -> Any:
        """A java.util.HashSet of strings, in one call."""
        return self.jvm.java.util.HashSet(self.from_json(list(values), "java.util.ArrayList"))

    def from_json(self, value: Any, java_type: str) -> Any:
        """Any JSON value as a Java collection of the given class."""
        return self.mapper.readValue(json.dumps(value), self.class_of(java_type))

    def mapping(self, java_map: Any) -> dict[str, str]:
        """A Java map of strings, in one call."""
        values: dict[str, str] = json.loads(self.mapper.writeValueAsString(java_map))
        return values

    def listed(self, iterable: Any) -> Any:
        """A Java iterable as a list."""
        return self.iceberg.relocated.com.google.common.collect.Lists.newArrayList(iterable)

    def stream(self, iterable: Any) -> Any:
        """A Java iterable as a stream, so that what is filtered out is never held."""
        items = self.jvm.java.util.Spliterators.spliteratorUnknownSize(iterable.iterator(), 0)
        return self.jvm.java.util.stream.StreamSupport.stream(items, False)

    def among(self, values: Any) -> Any:
        """A handle that tells whether its argument is in a java.util.HashSet."""
        return self.bind(self.method("java.util.HashSet", "contains", "java.lang.Object"), 0, values)

    def filtered(self, stream: Any, predicate: Any) -> Any:
        """The items of a Java stream that a predicate accepts, as a list."""
        return stream.filter(predicate).collect(self._collectors.toList())

    def mapped(self, items: Any, handle: Any) -> Any:
        """A method of every item of a Java list, as a list."""
        return items.stream().map(self.as_function(handle)).collect(self._collectors.toList())

    def sorted(self, items: Any, handle: Any) -> Any:
        """A Java list sorted by a comparable method of its items."""
        by = self.jvm.java.util.Comparator.comparing(self.as_function(handle))
        return items.stream().sorted(by).collect(self._collectors.toList())

    def grouped(self, items: Any, handle: Any) -> dict[Any, Any]:
        """A Java list cut into lists by the value of a method."""
        groups = items.stream().collect(self._collectors.groupingBy(self.as_function(handle)))
        return {key: groups[key] for key in self.keys(groups)}

    def items(self, collection: Any) -> list[Any]:
        """The items of a small Java collection.

        Not by iterating: the end of a Java iterator is an exception, and PySpark examines exceptions for 50 ms.
        """
        array = collection.toArray()
        return [array[i] for i in range(len(array))]

    def keys(self, mapping: Any) -> list[Any]:
        """The keys of a small Java map."""
        return self.items(mapping.keySet())

    def texts(self, items: Any, handle: Any) -> list[str]:
        """A method of every item as text without line breaks, in order, in one transfer."""
        text = self.method("java.lang.String", "valueOf", "java.lang.Object")
        function = self.as_function(self.chain(handle, text))
        joined = items.stream().map(function).collect(self._collectors.joining("\n"))
        return str(joined).split("\n") if joined else []

    def numbers(self, items: Any, handle: Any) -> list[int | None]:
        """A numeric method of every item, in order; `None` where Java says null."""
        return [None if text == "null" else int(text) for text in self.texts(items, handle)]

    def big_text(self, handle: Any, argument: Any) -> bytes:
        """The text that a handle makes of one argument, through a private file.

        Ten times faster than through the gateway's socket, which escapes and decodes every character.
        """
        arguments = self.jvm.java.util.ArrayList()
        arguments.add(argument)
        lines = self.mapped(arguments, handle)
        nothing = self.gateway.new_array(self.jvm.java.lang.String, 0)
        options = self.gateway.new_array(self.jvm.java.nio.file.OpenOption, 0)
        paths, files = self.jvm.java.nio.file.Paths, self.jvm.java.nio.file.Files
        return through_a_file(lambda path: files.write(paths.get(path, nothing), lines, options))


def through_a_file(write: Callable[[str], object]) -> bytes:
    """What Java writes to a file that only this user can read."""
    descriptor, path = tempfile.mkstemp(prefix="icepact-")
    try:
        with open(descriptor, "rb") as stream:
            write(path)
            return stream.read()
    finally:
        os.unlink(path)


P = ParamSpec("P")
R = TypeVar("R")
READ_ATTEMPTS = 5
"""How often a read is tried before it is given up."""
_FIRST_WAIT = 0.1
"""Seconds before the second attempt; doubles from there."""
_RETRY_WINDOW = 20.0
"""Seconds: a read that failed after so long is not tried again. Iceberg has tried again and again by itself, or
somebody does not answer at all."""
_MAX_CAUSES = 50
"""Causes of an error that are followed at most; they may go round in a circle."""
_JAVA_GONE = (*JavaError, Py4JError, OSError)
"""Raised by asking Java about an exception: Java may have ended since, or fail to make up the message."""
_TIMED_OUT = {"SocketTimeoutException", "SQLTimeoutException", "ConnectTimeoutException", "HttpTimeoutException"}
_TRANSIENT = {
    *("RuntimeIOException", "UncheckedIOException", "IOException", "SocketException", "SocketTimeoutException"),
    *("SdkClientException", "S3Exception", "ApiCallTimeoutException", "ConnectionClosedException", "EOFException"),
    *("ServiceFailureException", "ServiceUnavailableException", "HttpHostConnectException", "NoHttpResponseException"),
}
_MISSING = {"NotFoundException", "FileNotFoundException", "NoSuchFileException"}
_PERMANENT = _MISSING | {"NoSuchKeyException", "ForbiddenException"}
_VAGUE = {"RESTException", "UncheckedSQLException"}
"""Errors that say only that something failed; what it was is in their causes."""
_TABLE_DROPPED = 'TableOperations.current()" is null'
"""In what Java says of a table whose metadata is gone."""
_TABLE_REPLACED = "Table UUID does not match"
_FORBIDDEN = {"ForbiddenException", "AccessDeniedException", "AccessControlException"}


def retry_reads(read: Callable[P, R]) -> Callable[P, R]:
    """Decorator for what only reads, which tries again after transient errors: storage and catalogs fail now and then,
    and Iceberg does not try again when the answer breaks off."""

    @wraps(read)
    def again(*args: P.args, **kwargs: P.kwargs) -> R:
        for number in range(READ_ATTEMPTS - 1):
            began = time.monotonic()
            try:
                return read(*args, **kwargs)
            except JavaError as error:
                if not is_transient(error) or time.monotonic() - began > _RETRY_WINDOW:
                    raise
            time.sleep(_FIRST_WAIT * 2**number)
        return read(*args, **kwargs)

    return again


class _Cause(NamedTuple):
    """One of Java's exceptions."""

    kind: str
    """Simple name of its class."""
    message: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" if self.message else self.kind


def _causes(error: BaseException) -> Iterator[_Cause]:
    """An error of Java's and its causes; nothing if it is not Java's, or Java has ended."""
    thrown: Any = None
    if isinstance(error, Py4JJavaError):
        thrown = error.java_exception
    elif isinstance(error, CapturedException):
        thrown = error._origin
    try:
        for _ in range(_MAX_CAUSES):
            if thrown is None:
                return
            yield _Cause(str(thrown.getClass().getSimpleName()), str(thrown.getMessage() or ""))
            thrown = thrown.getCause()
    except _JAVA_GONE:
        return


def _kinds(error: BaseException) -> set[str]:
    return {cause.kind for cause in _causes(error)}


def all_messages(error: BaseException) -> list[str]:
    """The messages of an error, Java's or Python's, and of its causes."""
    return [_message(error), *(cause.message for cause in _causes(error))]


def passed_through(error: BaseException, methods: Iterable[str]) -> bool:
    """Whether an error of Java's, or a cause of it, was raised on the way through a method: `org.example.Class.method`,
    of which the end may be missing. What went wrong beside it does not count."""
    trace = str(error).partition("Suppressed: ")[0] if isinstance(error, Py4JJavaError) else ""
    return any(method in trace for method in methods)


def is_transient(error: BaseException) -> bool:
    """Whether an error of Java's may be gone when the same is tried again."""
    kinds = _kinds(error)
    return not kinds & _PERMANENT and bool(kinds & _TRANSIENT)


def is_missing(error: BaseException) -> bool:
    """Whether an error says that there is no such file or folder."""
    return not _MISSING.isdisjoint(_kinds(error))


def is_forbidden(error: BaseException) -> bool:
    """Whether storage knows who asks, and does not let them."""
    return any(cause.kind in _FORBIDDEN or "Status Code: 403" in cause.message for cause in _causes(error))


def timed_out(error: BaseException) -> bool:
    """Whether an error says that somebody did not answer in time. Drivers of databases say so in their own ways."""
    return any(cause.kind in _TIMED_OUT or "timed out" in cause.message for cause in _causes(error))


def error_class(error: BaseException) -> str:
    """The simple class name of an error, Java's or Python's: `CommitFailedException`."""
    return next((cause.kind for cause in _causes(error)), type(error).__name__)


def _message(error: BaseException) -> str:
    """The message of an error. Not always its own text: PySpark's and py4j's ask Java for it, and add the stack."""
    if isinstance(error, CapturedException):
        return str(error._desc or "")
    if isinstance(error, Py4JJavaError):
        return next((cause.message for cause in _causes(error)), "")
    return str(error)


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return masked(_DECORATION.sub("", lines[0])[:500].strip()) if lines else ""


def error_line(error: BaseException) -> str:
    """The first line of an error's message, Java's or Python's."""
    line = _first_line(_message(error))
    if not line:
        return error_class(error)
    if _TABLE_DROPPED in line:
        return "the table is not in its catalog any more: it was dropped, or has another name"
    if line.startswith(_TABLE_REPLACED):
        return "another table has its name by now: it was dropped or renamed, and the name was given again"
    return with_cause(error) if error_class(error) in _VAGUE else line


def describe_error(error: BaseException) -> str:
    """An error in one line, with its class, unless it is one of icepact's own."""
    line, kind = error_line(error), error_class(error)
    return line if isinstance(error, IcepactError) or line == kind else f"{kind}: {line}"


def root_cause(error: BaseException) -> str:
    """The last cause of a Java error, in one line: `ConnectException: Connection refused`."""
    causes = list(_causes(error))
    return _first_line(str(causes[-1])) if causes else error_line(error)


def with_cause(error: BaseException) -> str:
    """The message of an error, and in brackets its last cause, if that says something else."""
    line, causes = _first_line(_message(error)) or error_class(error), list(_causes(error))
    return line if len(causes) < 2 or causes[-1].message in line else f"{line} ({root_cause(error)})"


def cause_chain(error: BaseException) -> list[str]:
    """An error of Java's and its causes, each as `class: message`."""
    return [str(cause) for cause in _causes(error)]


def to_icepact_error(error: BaseException, near: str | None = None) -> IcepactError | None:
    """An error of Java, PySpark or py4j as one of icepact's; `None` if it is none of these. `near` is where the tables
    are, for errors of a store that do not tell."""
    if isinstance(error, JavaError):
        ours = TemporaryError if is_transient(error) or timed_out(error) else IcepactError
        if remedy := store_remedy(cause_chain(error), near):
            return ours(masked(remedy))
        kind, message = error_class(error), with_cause(error)
        hint = ": see whether the catalog is up, and answers in time" if kind in _VAGUE else ""
        return ours(f"{'' if message.startswith(kind) else f'{kind}: '}{message}{hint}")
    if isinstance(error, Py4JError) or (isinstance(error, OSError) and _on_the_way_to_java(error)):
        return IcepactError(f"Spark's Java has ended, or does not answer any more ({error_line(error)}): start again")
    return IcepactError(describe_error(error)) if isinstance(error, PySparkException) else None


def traceback_text(error: BaseException) -> str:
    """The traceback of an error, in Python and in Java, without what may be a secret."""
    trace = "".join(traceback.format_exception(error))
    return masked(f"{trace}{error._stackTrace}\n" if isinstance(error, CapturedException) else trace)


def _on_the_way_to_java(error: BaseException) -> bool:
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(str(frame.f_globals.get("__name__")).startswith("py4j.") for frame in frames)


def missing_module(error: BaseException) -> str | None:
    """The Python package that a worker lacks; `None` if that is not what happened."""
    text = "\n".join(all_messages(error))
    match = re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", text)
    return match[1] if match else None


_DECORATION = re.compile(r"^\[[A-Z_.]+\] | SQLSTATE: \w+.*$|Source: REDACTED \([^)]*\); ")
"""Spark's error class in front and its SQL state behind, and what Jackson does not tell: of no use to people."""


@contextmanager
def mute_pyspark_errors() -> Iterator[None]:
    """Keep PySpark from logging an error that we turn into one line."""
    logger = logging.getLogger("SQLQueryContextLogger")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before
