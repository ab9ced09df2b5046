"""What holds for a table: precedence over all levels, and the most specific rule first."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from icepact.model.errors import BadInput
from icepact.model.policy import Policy, Strategy
from icepact.policy.amoro import AMORO_PREFIX
from icepact.policy.file.documents import ScheduleOptions
from icepact.policy.file.parse import parse_policies
from icepact.policy.layers import Policies, TablePolicy, unmatched
from icepact.policy.options import Options, options
from icepact.policy.patterns import Reach, parse_pattern
from icepact.policy.resolve import resolve
from tests.support.states import MB

EVENTS = ("db", "events")


def settled(text: str, table: tuple[str, ...] = EVENTS, /, **properties: str) -> TablePolicy:
    """What holds for a table by a policy file alone."""
    return parse_policies(text, "lake.yaml").resolve(Options(), properties, "prod", table)


# -- precedence -----------------------------------------------------------------------------------

LAYERS = {
    "request": "request",
    "property": "table property",
    "amoro": "table property self-optimizing.minor.trigger.file-count",
    "table": "policy file lake.yaml:10 (rule db.events)",
    "its policy": "policy file lake.yaml:4 (policy own, rule db.events)",
    "its parent": "policy file lake.yaml:5 (policy parent, rule db.events)",
    "namespace": "policy file lake.yaml:12 (rule db.*)",
    "catalog": "policy file lake.yaml:14 (rule prod.*)",
    "all": "policy file lake.yaml:8 (rule *)",
    "defaults": "policy file lake.yaml:2 (defaults)",
    "profile": "profile production",
    "configuration": "configuration",
}
"""From most to least: who wishes, and what the source is then."""


def with_levels(wishes: dict[str, int]) -> Policy:
    """A policy of which every level in `wishes` has the number of small files that it names."""

    def said(layer: str, wrapped: str) -> str:
        return (
            wrapped.replace("N", f"min_input_files: {wishes[layer]}") if layer in wishes else wrapped.replace("N", "")
        )

    text = f"""\
profile: {"production" if "profile" in wishes else "null"}
defaults: {said("defaults", "{N}")}
policies:
  own: {{extends: parent{said("its policy", ", N") if "its policy" in wishes else ""}}}
  parent: {said("its parent", "{N}")}
rules:
  - match: "*"
    options: {said("all", "{N}")}
  - match: db.events
    options: {said("table", "{N}")}
    policy: own
  - {{match: db.*, options: {said("namespace", "{N}")}}}
  - match: prod.*
    options: {said("catalog", "{N}")}
"""
    properties = {
        "icepact.min-input-files": wishes.get("property"),
        "self-optimizing.minor.trigger.file-count": wishes.get("amoro"),
    }
    policies = parse_policies(text, "lake.yaml")
    return resolve(
        options({"min_input_files": wishes.get("request")}),
        {key: str(value) for key, value in properties.items() if value is not None},
        options({"min_input_files": wishes.get("configuration")}, "configuration"),
        policies.layers("prod", EVENTS),
    )


@given(st.frozensets(st.sampled_from(list(LAYERS))))
def test_the_nearest_level_wins_whatever_is_below(present: frozenset[str]) -> None:
    wishes = {layer: 30 + at for at, layer in enumerate(LAYERS) if layer in present}
    if "profile" in wishes:
        wishes["profile"] = 20  # what the profile says, not we
    policy = with_levels(wishes)
    first = next((layer for layer in LAYERS if layer in present), None)
    assert policy.min_input_files == (5 if first is None else wishes[first])
    assert policy.sources["min_input_files"] == ("default" if first is None else LAYERS[first])


def sample(name: str) -> Any:
    """A value that an option takes."""
    size = "7GB" if name == "max_file_size" else "7MB"
    for value in (
        size,
        7,
        0.5,
        True,
        "zstd",
        "auto",
        "full",
        "deletes",
        "oldest",
        "1h",
        "1,1,1,1",
        "file",
        "last-commit",
        "daily",
        "expire",
        "quiet",
        "x",
    ):
        try:
            Options.model_validate({name: value})
        except ValidationError:
            continue
        return value
    raise AssertionError(f"no sample fits {name}")


@pytest.mark.parametrize("name", list(Options.model_fields))
def test_every_option_can_come_from_every_level(name: str) -> None:
    value = sample(name)
    expected = getattr(options({name: value}), name)
    said = f"{name}: {json.dumps(value)}"
    dashed = f"icepact.{name.replace('_', '-')}"
    sources = {
        "request": resolve(options({name: value}), {}, Options()),
        "table property": resolve(Options(), {dashed: str(value)}, Options()),
        "policy file lake.yaml:1 (rule db.*)": settled(f"rules: [{{match: db.*, options: {{{said}}}}}]").policy,
        "policy file lake.yaml:1 (policy p, rule db.*)": settled(
            f"policies: {{p: {{{said}}}}}\nrules: [{{match: db.*, policy: p}}]"
        ).policy,
        "policy file lake.yaml:1 (defaults)": settled(f"defaults: {{{said}}}").policy,
        "configuration": resolve(Options(), {}, options({name: value})),
    }
    for source, policy in sources.items():
        assert (getattr(policy, name), policy.sources[name]) == (expected, source)


def test_options_are_settled_one_by_one() -> None:
    found = settled(
        """
rules:
  - {match: db.events, options: {max_files: 7}}
  - {match: db.*, options: {max_files: 8, max_bytes: 1GB}, schedule: 6h}
  - {match: "*", options: {max_bytes: 2GB, branch: audit}, check_interval: 9}
"""
    )
    assert (found.policy.max_files, found.policy.max_bytes, found.policy.branch) == (7, 1024 * MB, "audit")
    assert found.schedule is not None
    assert (found.schedule.text, found.check_interval) == ("6h", 9)
    assert found.sources["schedule"] == "policy file lake.yaml:4 (rule db.*)"
    assert found.sources["resources"] == "default"


# -- specificity ----------------------------------------------------------------------------------

PATTERNS = ("*", "prod.*", "prod.*.*", "db.*", "d*.events", "*.events", "db.e*", "db.*s", "prod.db.*", "db.events")


@st.composite
def rules(draw: st.DrawFn) -> list[tuple[str, dict[str, int]]]:
    """Rules with patterns and numbers of their own."""
    chosen = draw(st.lists(st.sampled_from(PATTERNS), unique=True, max_size=6))
    keys = st.sampled_from(["max_files", "min_input_files", "max_group_files"])
    return [(pattern, dict.fromkeys(draw(st.sets(keys)), 100 + at)) for at, pattern in enumerate(chosen)]


def written(found: list[tuple[str, dict[str, int]]]) -> Policies:
    """A policy file with these rules."""
    return parse_policies(f"rules: {[{'match': match, 'options': given} for match, given in found]}", "lake.yaml")


@given(rules())
def test_per_key_the_most_specific_rule_wins_and_of_equal_ones_the_later(
    found: list[tuple[str, dict[str, int]]],
) -> None:
    policy = written(found).resolve(Options(), {}, "prod", EVENTS).policy
    for key in ("max_files", "min_input_files", "max_group_files"):
        best: tuple[tuple[int, int], int] | None = None
        for match, given_options in found:
            if key in given_options:
                weight = parse_pattern(match).specificity(EVENTS)
                if best is None or weight >= best[0]:
                    best = (weight, given_options[key])
        if best is not None:
            assert getattr(policy, key) == best[1]


@given(rules(), st.randoms(use_true_random=False))
def test_order_matters_only_between_equals(found: list[tuple[str, dict[str, int]]], random: Any) -> None:
    weights = [parse_pattern(match).specificity(EVENTS) for match, _ in found]
    if len(set(weights)) < len(weights):
        return
    shuffled = list(found)
    random.shuffle(shuffled)
    one, other = (written(order).resolve(Options(), {}, "prod", EVENTS).policy for order in (found, shuffled))
    assert all(getattr(one, name) == getattr(other, name) for name in Options.model_fields)


@given(rules())
def test_a_rule_for_everything_changes_only_what_nobody_else_says(found: list[tuple[str, dict[str, int]]]) -> None:
    specific = [rule for rule in found if rule[0] != "*"]
    without = written(specific).resolve(Options(), {}, "prod", EVENTS).policy
    added = written([*specific, ("*", {"max_files": 999})]).resolve(Options(), {}, "prod", EVENTS).policy
    assert added.max_files == (999 if without.max_files is None else without.max_files)


def test_rules_of_other_tables_say_nothing() -> None:
    policies = parse_policies("rules: [{match: shop.*, options: {max_files: 7}}]", "lake.yaml")
    assert policies.rules_for("prod", EVENTS) == []
    assert policies.resolve(Options(), {}, "prod", ("shop", "orders")).policy.max_files == 7
    assert policies.resolve(Options(), {}, "prod", EVENTS).policy == resolve(Options(), {}, Options())


def test_rules_that_match_nothing_are_found() -> None:
    text = "rules: [{match: db.*}, {match: dbb.*}, {match: prod.shop.*}, {match: test.shop.*}]"
    policies = parse_policies(text, "lake.yaml")
    idle = unmatched(policies, "prod", [EVENTS, ("shop", "orders")])
    assert [rule.pattern.text for rule in idle] == ["dbb.*", "test.shop.*"]
    assert [rule.pattern.text for rule in unmatched(policies, "prod", [])] == [
        rule.pattern.text for rule in policies.rules
    ]


# -- profiles and built-in policies ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("profile", "interval", "files"), [("development", 5, 3), ("staging", 75, 15), ("production", 100, 20)]
)
def test_profiles(profile: str, interval: int, files: int) -> None:
    found = settled(f"profile: {profile}")
    assert (found.check_interval, found.policy.min_input_files) == (interval, files)
    assert found.sources["check_interval"] == found.sources["min_input_files"] == f"profile {profile}"


def test_built_in_policies() -> None:
    by_size = settled("rules: [{match: db.*, policy: size-based}]")
    assert by_size.policy.strategy is Strategy.SMALL_FILES
    assert by_size.policy.sources["strategy"] == "built-in policy size-based (rule db.*)"
    by_time = settled("policies: {mine: {extends: time-based, max_files: 3}}\nrules: [{match: db.*, policy: mine}]")
    assert by_time.schedule is not None
    assert (by_time.schedule.text, by_time.policy.max_files) == ("1h", 3)
    assert by_time.sources["schedule"] == "built-in policy time-based (rule db.*)"
    by_cost = settled("rules: [{match: db.*, policy: cost-optimized}]")
    assert by_cost.policy.sources["strategy"] == "built-in policy cost-optimized (rule db.*)"


def test_suspended_tables_are_not_enabled() -> None:
    found = settled("rules:\n- match: db.*\n  suspend: true\n")
    assert (found.policy.enabled, found.sources["enabled"]) == (False, "policy file lake.yaml:3 (rule db.*)")
    asked = parse_policies("rules: [{match: db.*, suspend: true}]", "lake.yaml")
    assert asked.resolve(options({"enabled": True}), {}, "prod", EVENTS).policy.enabled is True


def test_a_table_may_say_itself_when_it_is_looked_at() -> None:
    own = {"icepact.schedule": "@daily", "icepact.check-interval": "3", "icepact.max-files": "7"}
    found = settled("rules: [{match: db.*, schedule: 6h, check_interval: 9}]", **own)
    assert found.schedule is not None
    assert (found.schedule.text, found.check_interval, found.policy.max_files) == ("@daily", 3, 7)
    assert found.sources["schedule"] == found.sources["check_interval"] == "table property"
    with pytest.raises(BadInput) as refused:
        settled("", **{"icepact.schedule": "0 0 30 2 *"})
    assert str(refused.value) == (
        "schedule: '0 0 30 2 *' never fires: there is no such day in these months (table property)"
    )


# -- Amoro's properties ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "option", "expected"),
    [
        ("enabled", "false", "enabled", False),
        ("target-size", str(64 * MB), "target_file_size", 64 * MB),
        ("max-file-count", "500", "max_files", 500),
        ("minor.trigger.file-count", "15", "minor_trigger_files", 15),
        ("minor.trigger.interval", "90000", "minor_trigger_interval", 90),
        ("full.trigger.interval", "86400000", "full_trigger_interval", 86400),
        ("major.trigger.duplicate-ratio", "0.3", "max_delete_ratio", 0.3),
        ("filter", "day > 5", "where", "day > 5"),
        ("min-target-size-ratio", "0.5", "min_file_size", 256 * MB),
    ],
)
def test_what_amoro_calls_otherwise(key: str, value: str, option: str, expected: Any) -> None:
    theirs = {AMORO_PREFIX + key: value}
    policy = resolve(Options(), theirs, options({option: sample(option)}, "configuration"))
    assert getattr(policy, option) == expected
    assert policy.sources[option] == f"table property self-optimizing.{key}"
    own = resolve(Options(), {**theirs, f"icepact.{option.replace('_', '-')}": str(sample(option))}, Options())
    assert own.sources[option] == "table property"
    assert getattr(own, option) == getattr(options({option: sample(option)}), option)


def test_a_share_follows_the_target_wherever_that_comes_from() -> None:
    theirs = {"self-optimizing.min-target-size-ratio": "0.25", "self-optimizing.target-size": str(100 * MB)}
    assert resolve(Options(), theirs, Options()).min_file_size == 25 * MB
    assert resolve(options({"target_file_size": "40MB"}), theirs, Options()).min_file_size == 10 * MB


def test_what_is_about_amoro_itself_changes_nothing() -> None:
    """`fragment-ratio` is among it: here one threshold says what is small."""
    names: tuple[str, ...] = (
        "allow-partial-commit",
        "evaluation.fallback-interval",
        "execute.num-retries",
        "fragment-ratio",
    )
    names += ("full.rewrite-all-files", "group", "max-task-size-bytes", "min-plan-interval", "quota")
    names += ("refresh-event.identifier", "something.new")
    theirs = {AMORO_PREFIX + name: "7" for name in names}
    assert resolve(Options(), theirs, Options()) == resolve(Options(), {}, Options())


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("target-size", "big", "target_file_size: 'big' is not a size"),
        ("max-file-count", "-1", "max_files: it must be at least 1"),
        ("min-target-size-ratio", "2", "min_file_size: '2 of the target' is not a size"),
        ("min-target-size-ratio", "half", "min_file_size: 'half of the target' is not a size"),
    ],
)
def test_a_broken_property_of_amoro_is_named(key: str, value: str, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        resolve(Options(), {AMORO_PREFIX + key: value}, Options())
    assert str(refused.value).startswith(message)
    assert str(refused.value).endswith(f"(table property self-optimizing.{key})")


# -- sizes that clash between levels --------------------------------------------------------------


def test_sizes_that_clash_only_for_one_table_name_both_places() -> None:
    text = """
rules:
  - {match: db.*, options: {min_file_size: 300MB}}
  - {match: db.events, options: {target_file_size: 128MB}}
"""
    assert settled(text, ("db", "other")).policy.min_file_size == 300 * MB
    with pytest.raises(BadInput) as refused:
        settled(text)
    assert str(refused.value) == (
        "min_file_size 300 MB is above the target 128 MB (min_file_size by policy file lake.yaml:3 (rule db.*),"
        " target_file_size by policy file lake.yaml:4 (rule db.events))"
    )


def test_the_document_has_every_value_and_its_source() -> None:
    document = settled("profile: staging\nrules: [{match: db.*, schedule: '@daily', suspend: true}]").to_dict()
    assert set(document) == {*Options.model_fields, *ScheduleOptions.model_fields}
    assert document["schedule"] == {"value": "@daily", "source": "policy file lake.yaml:2 (rule db.*)"}
    assert document["strategy"] == {"value": "small-files", "source": "default"}
    assert document["check_interval"] == {"value": 75, "source": "profile staging"}


def test_reach_is_ordered_from_everything_to_one_table() -> None:
    assert list(Reach) == sorted(Reach) == [Reach.ALL, Reach.CATALOG, Reach.NAMESPACE, Reach.TABLE]
