"""Table properties whose values make Iceberg fail in the middle of a commit, where nobody can tell how far it got."""

import re

from icepact.iceberg.table.table import IcebergTable
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
    """Raise BadInput if a property would make every commit to the table fail."""
    properties = table.properties
    for name in _NUMBERS:
        value = properties.get(name, "0")
        if not re.fullmatch(r"[+-]?\d{1,10}", value) or not -(2**31) <= int(value) < 2**31:
            raise BadInput(
                f"{table.name} has {name}={value}, which is not a number for Iceberg: mend the table property"
            )
    codec = properties.get(_CODEC, _CODECS[0])
    if codec.lower() not in _CODECS:
        raise BadInput(f"{table.name} has {_CODEC}={codec}; there is: {', '.join(_CODECS)}: mend the table property")
