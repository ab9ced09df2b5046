"""What is worked on: the run, the job and the tenant, for whatever is logged or measured meanwhile."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_NONE: Mapping[str, str] = {}
_IDS: ContextVar[Mapping[str, str]] = ContextVar("icepact_ids", default=_NONE)


@contextmanager
def about(**ids: str | None) -> Iterator[None]:
    """From here to the end of the block everything is about these: `run`, `job`, `tenant`, `request`. `None` changes
    nothing."""
    token = _IDS.set({**_IDS.get(), **{name: value for name, value in ids.items() if value is not None}})
    try:
        yield
    finally:
        _IDS.reset(token)


def ids() -> Mapping[str, str]:
    """What is worked on here."""
    return _IDS.get()
