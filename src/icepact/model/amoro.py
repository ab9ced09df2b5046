"""Amoro's table properties, in our own words: a table that Amoro looked after keeps its wishes here."""

from collections.abc import Mapping

AMORO_PREFIX = "self-optimizing."
TRANSLATED = {
    "enabled": "enabled",
    "target-size": "target_file_size",
    "max-file-count": "max_files",
    "minor.trigger.file-count": "min_input_files",
    "major.trigger.duplicate-ratio": "max_delete_ratio",
    "filter": "where",
}
"""What means the same there and here."""
SHARE = "min-target-size-ratio"
"""The small-file threshold, which Amoro writes as a share of the target."""
NO_EFFECT = (
    *("allow-partial-commit", "evaluation.fallback-interval", "execute.num-retries", "fragment-ratio"),
    *("full.rewrite-all-files", "group", "max-task-size-bytes", "min-plan-interval", "quota"),
    *("refresh-event.identifier",),
)
"""Properties about how Amoro itself works. `fragment-ratio` is among them: here one threshold says what is small."""


def translated(properties: Mapping[str, str], target: int | None = None) -> dict[str, tuple[str, str]]:
    """By option: Amoro's property for it, and the value as we write it. Shares need the target, in bytes."""
    found = {}
    for name, option in TRANSLATED.items():
        key = AMORO_PREFIX + name
        if key in properties:
            found[option] = (key, properties[key])
    share = properties.get(AMORO_PREFIX + SHARE)
    if share is not None and target is not None:
        found["min_file_size"] = (AMORO_PREFIX + SHARE, _share_of(share, target))
    return found


def _share_of(share: str, target: int) -> str:
    """So much of the target in bytes; what is no share is passed on, to be refused in the words of sizes."""
    try:
        wanted = float(share)
    except ValueError:
        wanted = 0
    return str(max(1, int(wanted * target))) if 0 < wanted <= 1 else f"{share} of the target"
