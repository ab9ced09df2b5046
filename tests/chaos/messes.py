"""Tables of a row of trials: before each one they are made messy once more, quickly, on disks and in buckets."""

import random
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from tests.chaos.streaming import Put, Stream

DAYS = 3
TRIALS_PER_TABLE = 10
"""Then there is a new table."""
LARGE = 9_000_000
"""Bytes of a file that is uploaded, and copied, in parts."""


class MessyTable:
    """One table of a row of trials, in a catalog called `lake`."""

    def __init__(
        self, spark: SparkSession, put: Put, name: str, version: int, properties: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.messes = 0
        self._spark = spark
        self._put = put
        self._next = 0
        wishes = {"format-version": str(version), "write.delete.mode": "merge-on-read", **(properties or {})}
        listed = ", ".join(f"'{key}' = '{value}'" for key, value in wishes.items())
        spark.sql(
            f"CREATE TABLE {name} (id bigint, day int, text string, bytes binary) USING iceberg PARTITIONED BY (day)"
            f" TBLPROPERTIES ({listed})"
        )

    def stream(self, dice: random.Random) -> Stream:
        """A writer."""
        return Stream(self._spark, f"lake.{self.name}", dice, self._put)

    def mess(self, dice: random.Random, *, large: bool = False) -> None:
        """Small files in every partition, deletes of both kinds, and perhaps two large files."""
        stream = self.stream(dice)
        key = stream.columns()[0]
        batches = [(f"day={day}", self._rows(day, 40, 40)) for day in range(DAYS) for _ in range(2)]
        if large:
            batches += [("day=0", self._rows(0, 3, LARGE // 3, dice)) for _ in range(2)]
        stream.append(batches)
        [first] = batches[0][1][:1]
        stream.delete(key, [first[key.id]], "day=0")
        self._spark.sql(f"REFRESH TABLE {self.name}")
        self._spark.sql(f"DELETE FROM {self.name} WHERE id % 37 = {self.messes}")
        self.messes += 1

    def _rows(self, day: int, count: int, length: int, dice: random.Random | None = None) -> list[dict[int, Any]]:
        rows = []
        for _ in range(count):
            rows.append(row_of(self._next * DAYS + day, day, length, dice))
            self._next += 1
        return rows


def row_of(number: int, day: int, length: int = 40, dice: random.Random | None = None) -> dict[int, Any]:
    """One row, by field id."""
    content = dice.randbytes(length) if dice else str(number).encode() * (length // 8)
    return {1: number, 2: day, 3: f"row {number}", 4: content}
