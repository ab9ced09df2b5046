"""Java as py4j shows it: of no type that Python knows."""

from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession


def jvm(spark: SparkSession) -> Any:
    """Packages and classes are its attributes."""
    return spark._jvm


def java_array(spark: SparkSession, kind: Any, values: Sequence[Any]) -> Any:
    """A Java array of a type."""
    gateway: Any = spark.sparkContext._gateway
    assert gateway is not None
    array = gateway.new_array(kind, len(values))
    for index, value in enumerate(values):
        array[index] = value
    return array
