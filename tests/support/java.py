"""Java as py4j shows it: of no type that Python knows."""

from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

from icepact.iceberg.java.bridge import Java

_KNOWN: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""By gateway."""


def jvm(spark: SparkSession) -> Any:
    """Packages and classes are its attributes; Java is not asked which is which."""
    gateway: Any = spark.sparkContext._gateway
    if gateway not in _KNOWN:
        _KNOWN[gateway] = Java(gateway).jvm
    return _KNOWN[gateway]


def java_array(spark: SparkSession, kind: Any, values: Sequence[Any]) -> Any:
    """A Java array of a type."""
    gateway: Any = spark.sparkContext._gateway
    assert gateway is not None
    array = gateway.new_array(kind, len(values))
    for index, value in enumerate(values):
        array[index] = value
    return array


def int_array(spark: SparkSession, values: Sequence[int]) -> Any:
    """A Java array of numbers."""
    gateway: Any = spark.sparkContext._gateway
    return java_array(spark, gateway.jvm.int, values)


def items(java_list: Any) -> Iterator[Any]:
    """What is in a Java list. Python's own loop would end with an exception of Java's, which PySpark asks Java about at
    length."""
    return (java_list.get(n) for n in range(java_list.size()))
