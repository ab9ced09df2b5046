"""Speaking Java in bulk: streams over method handles, strings through a file, errors by class.

A py4j call costs a tenth of a millisecond, so nothing here is done file by file. A Java stream that
maps and filters with method handles runs inside the JVM and costs one call, whatever the table's size.
"""

import json
import logging
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property, wraps
from typing import Any, ParamSpec, TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

JavaError = Py4JJavaError
"""What a failed Java call raises."""


class Java:
    """The JVM behind a Spark session."""

    def __init__(self, session: SparkSession) -> None:
        self.session: Any = session._jsparkSession
        self.gateway: Any = session.sparkContext._gateway
        jvm: Any = session.sparkContext._jvm
        self.jvm = jvm
        self.iceberg: Any = jvm.org.apache.iceberg
        self._invoke: Any = jvm.java.lang.invoke
        self._lookup: Any = self._invoke.MethodHandles.publicLookup()
        self._classes: dict[str, Any] = {}
        self._methods: dict[tuple[str, str, tuple[str, ...]], Any] = {}
        self._collectors: Any = jvm.java.util.stream.Collectors

    # py4j asks Java for every part of a name, each time it is said

    @cached_property
    def _sessions(self) -> Any:
        return self.jvm.org.apache.spark.sql.classic.SparkSession

    @cached_property
    def mapper(self) -> Any:
        """Iceberg's own JSON."""
        return self.iceberg.util.JsonUtil.mapper()

    @contextmanager
    def active(self, session: SparkSession | None = None) -> Iterator[None]:
        """Make a session the active one of this thread: Spark and Iceberg look catalogs up there."""
        sessions = self._sessions
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
        return self._methods[key]

    def chain(self, first: Any, *rest: Any) -> Any:
        """One handle that calls each with the answer of the one before."""
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
        return self._invoke.MethodHandleProxies.asInterfaceInstance(self.class_of(interface), handle)

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
        found: dict[str, str] = json.loads(self.mapper.writeValueAsString(java_map))
        return found

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
        """A numeric method of every item, in order; null where Java says null."""
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
LOOKS = 5
"""How often something is read before it is given up."""
_FIRST_WAIT = 0.1
"""Seconds before the second look; doubles from there."""
_WORTH_ANOTHER_LOOK = {
    *("RuntimeIOException", "UncheckedIOException", "IOException", "SocketException", "SocketTimeoutException"),
    *("SdkClientException", "S3Exception", "ApiCallTimeoutException", "ConnectionClosedException", "EOFException"),
    *("ServiceFailureException", "ServiceUnavailableException", "HttpHostConnectException", "NoHttpResponseException"),
}
_IN_VAIN = {
    "NotFoundException",
    "FileNotFoundException",
    "NoSuchFileException",
    "NoSuchKeyException",
    "ForbiddenException",
}


def patient(read: Callable[P, R]) -> Callable[P, R]:
    """For what only reads: storage and catalogs fail now and then, and Iceberg does not try again when the answer
    breaks off."""

    @wraps(read)
    def again(*args: P.args, **kwargs: P.kwargs) -> R:
        for number in range(LOOKS - 1):
            try:
                return read(*args, **kwargs)
            except Py4JJavaError as error:
                causes = set(_causes(error))
                if causes & _IN_VAIN or not causes & _WORTH_ANOTHER_LOOK:
                    raise
            time.sleep(_FIRST_WAIT * 2**number)
        return read(*args, **kwargs)

    return again


def _causes(error: Py4JJavaError) -> Iterator[str]:
    """Simple class names of an error and of all that lies below it."""
    cause = error.java_exception
    while cause is not None:
        yield str(cause.getClass().getSimpleName())
        cause = cause.getCause()


def is_missing(error: Py4JJavaError) -> bool:
    """Whether an error only says that there is no such file or folder."""
    return not _MISSING.isdisjoint(_causes(error))


def is_forbidden(error: Py4JJavaError) -> bool:
    """Whether storage knows who asks, and does not let them."""
    return not _FORBIDDEN.isdisjoint(_causes(error)) or "Status Code: 403" in str(error.java_exception)


_FORBIDDEN = {"ForbiddenException", "AccessDeniedException", "AccessControlException"}
_MISSING = {"NotFoundException", "FileNotFoundException", "NoSuchFileException"}


def error_class(error: Py4JJavaError) -> str:
    """The simple class name of a Java error: `CommitFailedException`."""
    return str(error.java_exception.getClass().getSimpleName())


def error_line(error: BaseException) -> str:
    """The first line of an error's message, Java's or Python's."""
    if isinstance(error, Py4JJavaError):
        text = str(error.java_exception.getMessage() or error_class(error))
    else:
        text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return masked(_DECORATION.sub("", lines[0])[:500].strip()) if lines else type(error).__name__


def root_cause(error: BaseException) -> str:
    """What lies at the bottom of a Java error, in one line: `Connection refused`."""
    if not isinstance(error, Py4JJavaError):
        return error_line(error)
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return masked(f"{cause.getClass().getSimpleName()}: {cause.getMessage()}".splitlines()[0][:300])


def missing_module(error: BaseException) -> str | None:
    """The Python package that a worker looked for in vain; null if that is not what happened."""
    found = re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", str(error))
    return found[1] if found else None


def masked(text: str) -> str:
    """A message without what may be a secret: passwords in URLs, and values of keys that sound like one."""
    return _SECRET_VALUE.sub(r"\1=***", _SECRET_IN_URL.sub("//***@", text))


_SECRET_IN_URL = re.compile(r"//[^/\s@]+@")
_SECRET_VALUE = re.compile(
    r"([\w.-]*(?:password|passwd|pwd|secret|token|credential|access-key|signature)[\w.-]*)=[^&;,\s]+", re.I
)


_DECORATION = re.compile(r"^\[[A-Z_.]+\] | SQLSTATE: \w+.*$")
"""Spark's error class in front and its SQL state behind: nothing for people."""


@contextmanager
def quiet() -> Iterator[None]:
    """Keep PySpark from logging an error that we turn into one line."""
    logger = logging.getLogger("SQLQueryContextLogger")
    before = logger.disabled
    logger.disabled = True
    try:
        yield
    finally:
        logger.disabled = before
