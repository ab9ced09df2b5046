"""Why a unit cannot be assembled, or was not assembled well."""

from icepact.model.errors import ProofFailed


class NotAssembled(Exception):
    """The unit is beyond this method: another one must rewrite it. The message says why."""


class CopyDiffers(ProofFailed):
    """Bytes that were copied are not those of their source."""


def one_line(error: Exception) -> str:
    """The first line of what an error says."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
