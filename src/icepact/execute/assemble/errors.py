"""Why a unit cannot be assembled, or was not assembled well."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from icepact.model.errors import ProofFailed


class NotAssembled(Exception):
    """The unit is beyond this method: another one must rewrite it. The message says why."""


class CopyDiffers(ProofFailed):
    """Bytes that were copied are not those of their source."""


@contextmanager
def errors_named(path: str) -> Iterator[None]:
    """What pyarrow cannot read of a file is told in one line: another method may, or say why not."""
    try:
        yield
    except pa.ArrowMemoryError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise NotAssembled(f"{path}: {one_line(error)}") from error


def too_few_rows(path: str, found: int, rows: int) -> NotAssembled:
    """A row group has not as many rows as it says: of a page that is short, pyarrow gives what there is."""
    return NotAssembled(f"{path}: {found} rows of a row group of {rows} can be read")


def one_line(error: Exception) -> str:
    """The first line of what an error says."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
