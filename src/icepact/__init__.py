"""icepact: compaction of Apache Iceberg tables on Spark.

`from icepact import Compactor` is the library. The export is lazy, so that Spark executors
can import the parts they need without the rest.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from icepact.entrypoints.library import Compactor

__all__ = ["Compactor"]


def __getattr__(name: str) -> Any:
    if name == "Compactor":
        from icepact.entrypoints.library import Compactor

        return Compactor
    raise AttributeError(f"module 'icepact' has no attribute {name!r}")
