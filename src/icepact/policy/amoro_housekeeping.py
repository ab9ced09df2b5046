"""Amoro's table properties for expiry, orphans, data TTL and automatic tags, as parameters of ours.

Values are written as we write them; what Amoro would not understand either is passed on as it stands, to be refused in
our own words.
"""

import re
from collections.abc import Mapping

DATA_EXPIRE = "data-expire."
AUTO_TAGS = "tag.auto-create."
CHANGE_TTL = "change.data.ttl.minutes"
ORPHANS = "clean-orphan-file.enabled"
_EXPIRY = {
    "enabled": ("table-expire.enabled", "table.expire.enabled"),
    "older_than": ("snapshot.keep.duration",),
    "retain_last": ("snapshot.keep.min-count",),
}
_GC = "gc.enabled"
_RULES = {
    "LAST_COMMIT_TIME": "last-commit",
    "CURRENT_TIME": "now",
    "LATEST_SNAPSHOT": "last-commit",
    "CURRENT_TIMESTAMP": "now",
}
"""From when age is measured; the latter two are of Amoro's older `data-expire.since`."""
_NUMBERS = {"TIMESTAMP_MS": "epoch-ms", "TIMESTAMP_S": "epoch-s"}
_UNITS = {
    **dict.fromkeys(("d", "day", "days"), 86_400_000),
    **dict.fromkeys(("h", "hour", "hours"), 3_600_000),
    **dict.fromkeys(("min", "m", "minute", "minutes"), 60_000),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1_000),
    **dict.fromkeys(("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1),
}
"""Milliseconds; a number alone counts them."""
_DURATION = re.compile(r"\s*(\d+)\s*([a-z]*)\s*")

Translated = dict[str, tuple[str, str | None]]
"""By parameter: Amoro's property for it, and the value as we write it; `None` where Amoro says that there is none."""


def data_ttl(properties: Mapping[str, str], column_kind: str | None = None) -> Translated:
    """Parameters of data TTL, if Amoro would expire data of a table. `column_kind` is Iceberg's type of the column,
    which says what a pattern means."""
    if not _on(properties, DATA_EXPIRE) or properties.get(_GC, "true").lower() == "false":
        return {}
    rule = "base-on-rule" if f"{DATA_EXPIRE}base-on-rule" in properties else "since"
    since = _value(properties, rule, "LAST_COMMIT_TIME")
    found: Translated = {
        "level": (f"{DATA_EXPIRE}level", _value(properties, "level", "partition").lower()),
        "since": (f"{DATA_EXPIRE}{rule}", _RULES.get(since.upper(), since)),
    }
    for parameter, name in (("column", "field"), ("keep", "retention-time")):
        if f"{DATA_EXPIRE}{name}" in properties:
            value = _value(properties, name)
            found[parameter] = (f"{DATA_EXPIRE}{name}", _duration(value) if parameter == "keep" else value)
    if column_kind == "string":
        name = "datetime-string-pattern"
        found["pattern"] = (f"{DATA_EXPIRE}{name}", _value(properties, name, "yyyy-MM-dd"))
    if column_kind == "long":
        name = "datetime-number-format"
        number = _value(properties, name, "TIMESTAMP_MS")
        found["pattern"] = (f"{DATA_EXPIRE}{name}", _NUMBERS.get(number, number))
    return found


def expiry(properties: Mapping[str, str]) -> Translated:
    """Whether Amoro expires snapshots, how old they become, and how many are kept; what is not said is left out."""
    found: Translated = {}
    for parameter, names in _EXPIRY.items():
        key = next((name for name in names if name in properties), None)
        if key is not None:
            value = properties[key].strip()
            found[parameter] = (key, _duration(value) if parameter == "older_than" else value.lower())
    return found


def cleans_orphans(properties: Mapping[str, str]) -> bool | None:
    """Whether Amoro removes orphans; `None` if nobody says."""
    value = properties.get(ORPHANS)
    return None if value is None else value.strip().lower() == "true"


def automatic_tags(properties: Mapping[str, str]) -> Translated:
    """Parameters of automatic tags, if Amoro would make them for a table."""
    if not _on(properties, AUTO_TAGS):
        return {}
    found: Translated = {}
    for parameter, name, default in (
        ("period", "trigger.period", "daily"),
        ("offset", "trigger.offset.minutes", "0"),
        ("max_delay", "trigger.max-delay.minutes", "60"),
        ("pattern", "tag-format", None),
        ("max_age", "max-age-ms", "-1"),
    ):
        key = f"{AUTO_TAGS}{name}"
        value = properties.get(key, default)
        if value is not None:
            found[parameter] = (key, _tag_value(parameter, value.strip()))
    return found


def notes(properties: Mapping[str, str]) -> list[str]:
    """What of these properties does not mean here what it means in Amoro."""
    lines = []
    if CHANGE_TTL in properties:
        lines.append(
            f"{CHANGE_TTL} is about the change store of Amoro's mixed tables, which plain Iceberg tables do not have:"
            " it is left alone"
        )
    if _on(properties, DATA_EXPIRE) and properties.get(_GC, "true").lower() == "false":
        lines.append(f"{DATA_EXPIRE}enabled does nothing as long as {_GC} is false, as in Amoro")
    if _on(properties, DATA_EXPIRE) or _on(properties, AUTO_TAGS):
        lines.append("Amoro takes texts and tags by the zone of its server; here it is UTC unless a zone is given")
    return lines


def _on(properties: Mapping[str, str], prefix: str) -> bool:
    return properties.get(f"{prefix}enabled", "false").strip().lower() == "true"


def _value(properties: Mapping[str, str], name: str, default: str = "") -> str:
    return properties.get(f"{DATA_EXPIRE}{name}", default).strip()


def _duration(text: str) -> str:
    """A length of time of Amoro's as we write it."""
    match = _DURATION.fullmatch(text.lower())
    if match is None or match[2] not in _UNITS:
        return text
    return f"{int(match[1]) * _UNITS[match[2]] / 1000:.15g}s"


def _tag_value(parameter: str, value: str) -> str | None:
    if parameter == "period":
        return value.lower()
    if parameter == "pattern" or not re.fullmatch(r"-?\d+", value):
        return value
    if parameter == "offset":
        return f"{int(value)}m"
    if int(value) <= 0:  # no limit
        return None
    return f"{int(value)}m" if parameter == "max_delay" else f"{int(value) / 1000:.15g}s"
