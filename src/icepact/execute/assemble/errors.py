"""Why a unit cannot be assembled."""


class NotAssembled(Exception):
    """The unit is beyond this method: another one must rewrite it. The message says why."""
