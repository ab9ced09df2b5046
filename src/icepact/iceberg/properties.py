"""Table properties that a commit of Iceberg's stumbles over, in the middle, where nobody can tell how far it got."""

import re

from icepact.iceberg.table import IcebergTable
from icepact.model.errors import BadInput

_NUMBERS = (
    *(f"commit.retry.{what}" for what in ("num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms")),
    *(f"commit.status-check.{what}" for what in ("num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms")),
    "commit.manifest.min-count-to-merge",
    "write.metadata.previous-versions-max",
    "write.summary.partition-limit",
)
_CODEC = "write.metadata.compression-codec"
_CODECS = ("none", "gzip")


def refuse_odd_properties(table: IcebergTable) -> None:
    """BadInput, if nobody could commit to the table as it is."""
    properties = table.properties
    for name in _NUMBERS:
        told = properties.get(name, "0")
        if not re.fullmatch(r"[+-]?\d{1,10}", told) or not -(2**31) <= int(told) < 2**31:
            raise BadInput(
                f"{table.name} has {name}={told}, which is not a number for Iceberg: mend the table property"
            )
    codec = properties.get(_CODEC, _CODECS[0])
    if codec.lower() not in _CODECS:
        raise BadInput(f"{table.name} has {_CODEC}={codec}; there is: {', '.join(_CODECS)}: mend the table property")
