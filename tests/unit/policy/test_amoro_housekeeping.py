"""Amoro's properties for data TTL and tags, in our words."""

import pytest

from icepact.policy.amoro_housekeeping import automatic_tags, cleans_orphans, data_ttl, expiry, notes


def values(found: dict[str, tuple[str, str | None]]) -> dict[str, str | None]:
    return {name: value for name, (_, value) in found.items()}


def test_nothing_is_asked_for_unless_it_is_enabled() -> None:
    assert data_ttl({"data-expire.field": "day", "data-expire.retention-time": "1d"}) == {}
    assert automatic_tags({"tag.auto-create.tag-format": "yyyyMMdd"}) == {}
    assert notes({}) == []


def test_defaults_are_amoros() -> None:
    assert values(data_ttl({"data-expire.enabled": "true"})) == {"level": "partition", "since": "last-commit"}
    assert values(data_ttl({"data-expire.enabled": "true"}, "string"))["pattern"] == "yyyy-MM-dd"
    assert values(data_ttl({"data-expire.enabled": "true"}, "long"))["pattern"] == "epoch-ms"
    assert values(automatic_tags({"tag.auto-create.enabled": "true"})) == {
        "period": "daily",
        "offset": "0m",
        "max_delay": "60m",
        "max_age": None,
    }


def test_everything_that_amoro_knows_is_understood() -> None:
    properties = {
        "data-expire.enabled": "TRUE",
        "data-expire.field": "at",
        "data-expire.level": "FILE",
        "data-expire.retention-time": "90 d",
        "data-expire.base-on-rule": "current_time",
        "data-expire.since": "LATEST_SNAPSHOT",
        "data-expire.datetime-string-pattern": "yyyyMMddHH",
        "data-expire.datetime-number-format": "TIMESTAMP_S",
        "tag.auto-create.enabled": "true",
        "tag.auto-create.trigger.period": "HOURLY",
        "tag.auto-create.trigger.offset.minutes": "15",
        "tag.auto-create.trigger.max-delay.minutes": "0",
        "tag.auto-create.tag-format": "'h-'yyyyMMddHH",
        "tag.auto-create.max-age-ms": "3600500",
    }
    assert data_ttl(properties, "string") == {
        "level": ("data-expire.level", "file"),
        "since": ("data-expire.base-on-rule", "now"),
        "column": ("data-expire.field", "at"),
        "keep": ("data-expire.retention-time", "7776000s"),
        "pattern": ("data-expire.datetime-string-pattern", "yyyyMMddHH"),
    }
    assert values(data_ttl(properties, "long"))["pattern"] == "epoch-s"
    assert "pattern" not in data_ttl(properties, "date")
    assert automatic_tags(properties) == {
        "period": ("tag.auto-create.trigger.period", "hourly"),
        "offset": ("tag.auto-create.trigger.offset.minutes", "15m"),
        "max_delay": ("tag.auto-create.trigger.max-delay.minutes", None),
        "pattern": ("tag.auto-create.tag-format", "'h-'yyyyMMddHH"),
        "max_age": ("tag.auto-create.max-age-ms", "3600.5s"),
    }


def test_the_older_name_of_the_rule() -> None:
    properties = {"data-expire.enabled": "true", "data-expire.since": "CURRENT_TIMESTAMP"}
    assert data_ttl(properties)["since"] == ("data-expire.since", "now")


@pytest.mark.parametrize(
    ("text", "ours"),
    [("1d", "86400s"), ("2h", "7200s"), ("30min", "1800s"), ("45 s", "45s"), ("1500", "1.5s"), ("7ms", "0.007s")],
)
def test_lengths_of_time(text: str, ours: str) -> None:
    properties = {"data-expire.enabled": "true", "data-expire.retention-time": text}
    assert data_ttl(properties)["keep"][1] == ours


def test_what_amoro_would_refuse_is_passed_on_to_be_refused() -> None:
    properties = {
        "data-expire.enabled": "true",
        "data-expire.retention-time": "soon",
        "data-expire.base-on-rule": "NEVER",
        "data-expire.datetime-number-format": "TIMESTAMP_NS",
        "tag.auto-create.enabled": "true",
        "tag.auto-create.trigger.offset.minutes": "five",
    }
    found = values(data_ttl(properties, "long"))
    assert (found["keep"], found["since"], found["pattern"]) == ("soon", "NEVER", "TIMESTAMP_NS")
    assert values(automatic_tags(properties))["offset"] == "five"


def test_what_does_not_mean_the_same_is_said() -> None:
    properties = {"change.data.ttl.minutes": "10080", "data-expire.enabled": "true", "gc.enabled": "false"}
    assert data_ttl(properties) == {}
    assert len(notes(properties)) == 3
    assert "change store of Amoro's mixed tables" in notes(properties)[0]


def test_expiry_and_orphans_as_amoro_has_them() -> None:
    assert expiry({}) == {}
    assert expiry({"table.expire.enabled": "False", "snapshot.keep.duration": "720min"}) == {
        "enabled": ("table.expire.enabled", "false"),
        "older_than": ("snapshot.keep.duration", "43200s"),
    }
    assert expiry({"snapshot.keep.min-count": "3"}) == {"retain_last": ("snapshot.keep.min-count", "3")}
    assert [cleans_orphans({"clean-orphan-file.enabled": value}) for value in ("true", "false")] == [True, False]
    assert cleans_orphans({}) is None
