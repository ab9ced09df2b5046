"""Why a unit cannot be assembled."""


class NotAssembled(Exception):
    """The unit is beyond this method: another one must rewrite it. The message says why."""


def one_line(error: Exception) -> str:
    """The first line of what an error says."""
    return str(error).splitlines()[0] if str(error) else type(error).__name__
