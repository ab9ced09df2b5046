"""Amoro's table properties, as our options: a table that Amoro maintained keeps its settings here."""

from collections.abc import Mapping

AMORO_PREFIX = "self-optimizing."
TRANSLATED = {
    "enabled": "enabled",
    "target-size": "target_file_size",
    "max-file-count": "max_files",
    "minor.trigger.file-count": "minor_trigger_files",
    "minor.trigger.interval": "minor_trigger_interval",
    "major.trigger.duplicate-ratio": "max_delete_ratio",
    "full.trigger.interval": "full_trigger_interval",
    "filter": "where",
}
"""What means the same there and here."""
_INTERVALS = ("minor.trigger.interval", "full.trigger.interval")
"""In milliseconds there."""
SHARE = "min-target-size-ratio"
"""The small-file threshold, which Amoro writes as a share of the target."""


def translate(properties: Mapping[str, str], target: int | None = None) -> dict[str, tuple[str, str]]:
    """By option: Amoro's property for it, and the value as we write it. Shares need the target, in bytes."""
    options = {}
    for name, option in TRANSLATED.items():
        key = AMORO_PREFIX + name
        if key in properties and not (name in _INTERVALS and properties[key] == "-1"):  # off
            value = properties[key]
            options[option] = (key, f"{int(value) / 1000:g}s" if name in _INTERVALS and value.isdigit() else value)
    if "minor_trigger_files" in options:  # also where no tier is asked for
        options["min_input_files"] = options["minor_trigger_files"]
    share = properties.get(AMORO_PREFIX + SHARE)
    if share is not None and target is not None:
        options["min_file_size"] = (AMORO_PREFIX + SHARE, _share_of(share, target))
    return options


def _share_of(share: str, target: int) -> str:
    """So much of the target in bytes; what is no share is passed on, to be refused in the words of sizes."""
    try:
        wanted = float(share)
    except ValueError:
        wanted = 0
    return str(max(1, int(wanted * target))) if 0 < wanted <= 1 else f"{share} of the target"
