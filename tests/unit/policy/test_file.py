"""Policy files: every form they may have, and one line with file, line and key for whatever is wrong."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icepact.model.errors import BadInput
from icepact.model.policy import Codec, Strategy
from icepact.policy.file.parse import parse_policies
from icepact.policy.file.yaml import read_documents
from icepact.policy.layers import TablePolicy
from icepact.policy.options import Options
from tests.support.states import MB

SECRET = "hunter2"
EXAMPLE = """\
profile: production
defaults: {target_file_size: 512MB}
policies:
  streaming: {extends: time-based, target_file_size: 256MB}
rules:
  - match: "db.*"
    policy: streaming
    options: {max_files: 1000}
  - match: "db.events"
    options: {strategy: deletes, verify: off}
    schedule: "0 3 * * *"
"""
RESOURCE = """\
apiVersion: compaction.io/v1
kind: CompactionPolicy
metadata:
  name: nightly
  namespace: lake
spec:
  catalog: {type: rest, database: db}
  schedule: "0 2 * * *"
  tables:
    - name: events
      strategy: small-files
      targetFileSize: 512Mi
    - name: clicks_*
      strategy: deletes
      maxFiles: 50
  resources: {limits: {memory: 4Gi, cpu: 2}}
  costLimit: {hourly: 2.5}
  suspend: false
status: {lastRun: yesterday}
"""
ICEBERG = """\
{
\t"profile": "staging",
\t"iceberg": {
\t\t"write": {"target_file_size_mb": 256, "compression_codec": "snappy"},
\t\t"compaction": {
\t\t\t"small_file_threshold_mb": 32,
\t\t\t"max_files_per_compaction": 7
\t\t}
\t}
}
"""


def settled(text: str, table: str = "db.events", **given: Any) -> TablePolicy:
    """What holds for a table by a policy file alone."""
    return parse_policies(text, "lake.yaml").resolve(Options(), {}, "prod", tuple(table.split(".")))


def refusal(text: str) -> str:
    """Why a policy file is refused."""
    with pytest.raises(BadInput) as refused:
        parse_policies(text, "lake.yaml")
    assert "\n" not in str(refused.value)
    assert SECRET not in str(refused.value)
    return str(refused.value)


# -- what a file can say --------------------------------------------------------------------------


def test_the_example_of_the_documentation() -> None:
    events, other = settled(EXAMPLE), settled(EXAMPLE, "db.other")
    assert (events.policy.strategy, events.policy.target_file_size) == (Strategy.DELETES, 256 * MB)
    assert (events.policy.max_files, events.policy.min_input_files) == (1000, 20)
    assert events.policy.verify.value == "off"
    assert events.schedule is not None
    assert events.schedule.text == "0 3 * * *"
    assert other.schedule is not None
    assert other.schedule.text == "1h"
    told = {name: source for name, source in events.sources.items() if source != "default"}
    assert told == {
        "strategy": "policy file lake.yaml:10 (rule db.events)",
        "verify": "policy file lake.yaml:10 (rule db.events)",
        "schedule": "policy file lake.yaml:11 (rule db.events)",
        "max_files": "policy file lake.yaml:8 (rule db.*)",
        "target_file_size": "policy file lake.yaml:4 (policy streaming, rule db.*)",
        "min_input_files": "profile production",
        "check_interval": "profile production",
    }


def test_an_empty_file_says_nothing() -> None:
    for text in ("", "# nothing yet\n", "---\n---\n"):
        found = parse_policies(text, "lake.yaml")
        assert (found.rules, found.below) == ((), ())


def test_a_chain_of_policies_is_followed_to_its_end() -> None:
    text = """
policies:
  a: {extends: b, max_files: 1}
  b: {extends: c, max_files: 2, max_bytes: 2MB}
  c: {extends: size-based, max_bytes: 3MB, max_group_files: 3}
rules: [{match: db.*, policy: a}]
"""
    policy = settled(text).policy
    assert (policy.max_files, policy.max_bytes, policy.max_group_files) == (1, 2 * MB, 3)
    assert policy.sources["strategy"] == "built-in policy size-based (rule db.*)"


def test_documents_of_one_file_are_one_policy() -> None:
    text = "rules: [{match: db.*, policy: late}]\n---\npolicies: {late: {max_files: 5}}\n---\n" + RESOURCE
    found = parse_policies(text, "lake.yaml")
    assert [rule.source for rule in found.rules] == ["lake.yaml:1", "lake.yaml:14", "lake.yaml:17"]
    events = found.resolve(Options(), {}, "prod", ("db", "events")).policy
    assert (events.max_files, events.target_file_size) == (5, 512 * MB)
    assert events.sources["max_files"] == "policy file lake.yaml:3 (policy late, rule db.*)"
    assert events.sources["target_file_size"] == "policy file lake.yaml:16 (CompactionPolicy nightly)"


def test_anchors_and_merges_are_yaml_as_ever() -> None:
    text = """
defaults: &all {max_files: 3, max_bytes: 1MB}
rules:
  - match: db.*
    options:
      <<: *all
      max_files: 4
"""
    policy = settled(text).policy
    assert (policy.max_files, policy.max_bytes) == (4, MB)
    assert policy.sources["max_files"] == "policy file lake.yaml:7 (rule db.*)"


def test_a_custom_resource_is_taken_as_it_is() -> None:
    events, clicks, other = (settled(RESOURCE, f"db.{name}") for name in ("events", "clicks_eu", "other"))
    assert (events.policy.strategy, events.policy.target_file_size) == (Strategy.SMALL_FILES, 512 * MB)
    assert (clicks.policy.strategy, clicks.policy.max_files) == (Strategy.DELETES, 50)
    for found in (events, clicks):
        assert found.schedule is not None
        assert (found.schedule.text, found.policy.max_cost_per_hour) == ("0 2 * * *", 2.5)
        assert found.resources == {"limits": {"memory": "4Gi", "cpu": 2}}
        assert found.policy.enabled
        assert found.sources["max_cost_per_hour"] == "policy file lake.yaml:17 (CompactionPolicy nightly)"
    assert (other.schedule, other.policy.max_cost_per_hour, other.policy.strategy) == (None, None, Strategy.SMALL_FILES)
    assert events.sources["target_file_size"] == "policy file lake.yaml:12 (CompactionPolicy nightly)"


def test_a_suspended_resource_switches_its_tables_off() -> None:
    text = RESOURCE.replace("suspend: false", "suspend: true")
    assert not settled(text).policy.enabled
    assert settled(text).sources["enabled"] == "policy file lake.yaml:18 (CompactionPolicy nightly)"
    assert settled(text, "db.other").policy.enabled


def test_a_resource_without_tables_means_its_database() -> None:
    text = """
apiVersion: compaction.io/v1
kind: CompactionPolicy
spec: {catalog: {type: glue, name: prod, database: db}, schedule: 6h}
"""
    assert [rule.pattern.text for rule in parse_policies(text, "lake.yaml").rules] == ["prod.db.*"]
    assert settled(text).sources["schedule"] == "policy file lake.yaml:4 (CompactionPolicy)"
    assert settled(text, "shop.orders").schedule is None


def test_the_json_configuration_of_writers() -> None:
    found = settled(ICEBERG)
    policy = found.policy
    assert (policy.target_file_size, policy.codec, policy.min_file_size) == (256 * MB, Codec.SNAPPY, 32 * MB)
    assert (policy.max_files, policy.enabled) == (7, True)
    assert policy.sources["max_files"] == "policy file lake.yaml:7 (iceberg.compaction.max_files_per_compaction)"
    # the profile is over what the sections have as defaults
    assert (policy.min_input_files, found.check_interval) == (15, 75)
    assert policy.row_group_rows == 8192
    assert policy.sources["row_group_rows"] == "default of iceberg (policy file lake.yaml:3)"


def test_the_json_of_a_whole_service_says_what_was_taken_from_it() -> None:
    """Comments, and sections of others: they are left alone, and named."""
    text = """\
// the service
{
  "profile": "staging",  // or production
  "kafka": {"uri": "kafka://host//topic"},
  /* tables */
  "iceberg": {
    "catalog": {"uri": "https://host"},
    "compaction": {"min_files_to_compact": 9}  // at least
  }
}
"""
    found = parse_policies(text, "config.json")
    assert found.not_ours == ("config.json:4: kafka", "config.json:7: iceberg.catalog")
    values, sources = found.for_all()
    assert values["min_input_files"] == 9
    assert sources["min_input_files"] == "policy file config.json:8 (iceberg.compaction.min_files_to_compact)"
    slip = text.replace('"kafka"', '"profiles"')
    assert refusal(slip) == "lake.yaml:4: profiles: unknown key; did you mean profile? there is: profile, iceberg"


def test_the_sections_bring_their_own_defaults() -> None:
    found = settled('{"iceberg": {"write": {}, "compaction": {}}}')
    policy = found.policy
    assert (policy.target_file_size, policy.codec, policy.row_group_rows) == (128 * MB, Codec.ZSTD, 8192)
    assert (policy.enabled, policy.min_file_size, policy.min_input_files) == (True, 64 * MB, 3)
    assert (found.check_interval, policy.max_files) == (5, 100)
    assert settled('{"iceberg": {}}').policy == settled("").policy


def test_the_default_threshold_of_the_json_gives_way_to_its_target() -> None:
    small = settled('{"iceberg": {"write": {"target_file_size_mb": 32}, "compaction": {}}}').policy
    assert (small.target_file_size, small.min_file_size) == (32 * MB, 32 * MB)


def test_what_the_json_says_is_over_the_profile() -> None:
    text = '{"profile": "production", "iceberg": {"compaction": {"min_files_to_compact": 4, "enabled": false}}}'
    found = settled(text)
    assert (found.policy.min_input_files, found.check_interval, found.policy.enabled) == (4, 100, False)


# -- what is wrong with it ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rules: [", "lake.yaml:1: this is not YAML: "),
        (f"a: 1\n{SECRET}\nb: c\n", "lake.yaml:3: this is not YAML: "),
        (f"a: *{SECRET}", "lake.yaml:1: this is not YAML: "),
        ("defaults: {max_files: 2026-99-99}", "lake.yaml:1: this is not YAML that can be read"),
        (f"defaults: {{enabled: !!bool {SECRET}}}", "lake.yaml:1: this is not YAML that can be read"),
        (f"- {SECRET}", "lake.yaml:1: this must be a mapping with keys such as profile, defaults, policies, rules"),
        (
            f"rule: {SECRET}",
            "lake.yaml:1: rule: unknown key; did you mean rules?",
        ),
        (
            "rules:\n- match: db.*\n  options:\n    max_file: 5\n",
            "lake.yaml:4: rules[0].options.max_file: unknown option; did you mean max_files?",
        ),
        (
            "rules:\n- match: db.*\n  opts: {}\n",
            "lake.yaml:3: rules[0].opts: unknown key; did you mean options?",
        ),
        (
            "defaults:\n\n  max_file: 5\n",
            "lake.yaml:3: defaults.max_file: unknown key; did you mean max_files?",
        ),
        ("rules:\n- {options: {}}\n", "lake.yaml:2: rules[0].match: this is missing"),
        ("rules:\n- match: 5\n", "lake.yaml:2: rules[0].match: a text is wanted"),
        ("rules:\n- match: events\n", "lake.yaml:2: rules[0].match: 'events' names no namespace: "),
        ("rules:\n- match: 'db..x'\n", "lake.yaml:2: rules[0].match: 'db..x' is not a pattern: "),
        (
            "policies:\n  p: {max_files: -1}\n",
            "lake.yaml:2: policies.p.max_files: it must be at least 1",
        ),
        ("defaults: {max_bytes: -5}", "lake.yaml:1: defaults.max_bytes: -5 is not a size: it must be above zero"),
        (
            "defaults: {max_cost_per_hour: -0.01}",
            "lake.yaml:1: defaults.max_cost_per_hour: it must be above 0",
        ),
        ("defaults: {max_cost_per_hour: .nan}", "lake.yaml:1: defaults.max_cost_per_hour: a finite number is wanted"),
        ("defaults:\n  strategy: magic\n", "lake.yaml:2: defaults.strategy: unknown strategy; there is: small-files"),
        ("profile: live", "lake.yaml:1: profile: unknown profile; there is: development, staging, production"),
        (
            "rules:\n- match: db.*\n  schedule: 0 0 30 2 *\n",
            "lake.yaml:3: rules[0].schedule: '0 0 30 2 *' never fires: there is no such day in these months",
        ),
        ("rules: [{match: db.*, schedule: soon}]", "lake.yaml:1: rules[0].schedule: 'soon': write five fields"),
        ("rules: [{match: db.*, schedule: 6}]", "lake.yaml:1: rules[0].schedule: "),
        ("profile: staging\nprofile: staging\n", "lake.yaml:2: profile: given twice, first in line 1"),
        (
            "rules:\n- match: db.*\n  options:\n    max_files: 1\n    max_files: 2\n",
            "lake.yaml:5: rules[0].options.max_files: given twice, first in line 4",
        ),
        (
            "rules:\n- match: db.*\n  enabled: true\n  suspend: true\n",
            "lake.yaml:4: rules[0].suspend: it is given beside enabled: keep one of them",
        ),
        (
            "policies:\n  a: {extends: b}\n  b: {extends: a}\n",
            "lake.yaml:3: policies.b.extends: this goes in a circle: a -> b -> a",
        ),
        ("policies:\n  a: {extends: a}\n", "lake.yaml:2: policies.a.extends: this goes in a circle: a -> a"),
        (
            "policies:\n  a: {extends: nope}\n",
            "lake.yaml:2: policies.a.extends: there is no such policy; there is: a, size-based, time-based, ",
        ),
        (
            "rules:\n- match: db.*\n  policy: nope\n",
            "lake.yaml:3: rules[0].policy: there is no such policy; there is: size-based, time-based, cost-optimized",
        ),
        (
            "policies:\n  size-based: {}\n",
            "lake.yaml:2: policies.size-based: this policy is built in: give yours another name and extend it",
        ),
        ("profile: staging\n---\nprofile: staging\n", "lake.yaml:3: profile: an earlier document of this file has one"),
        (
            "defaults: {max_files: 1}\n---\n{iceberg: {}}\n",
            "lake.yaml:3: iceberg: there are defaults already: policy file lake.yaml:1 (defaults)",
        ),
        (
            "policies: {a: {}}\n---\npolicies: {a: {}}\n",
            "lake.yaml:3: policies.a: given twice, first in lake.yaml:1",
        ),
        (
            "rules:\n- {match: db.*, options: {max_files: 1}}\n- {match: db.*, options: {max_files: 2}}\n",
            "lake.yaml:3: rules[1].options.max_files: another value than in lake.yaml:2, "
            "where a rule has the same pattern db.*",
        ),
        (
            "rules:\n- {match: db.*, policy: size-based}\n- {match: db.*, policy: time-based}\n",
            "lake.yaml:3: rules[1].policy: another value than in lake.yaml:2, ",
        ),
    ],
)
def test_one_line_with_file_line_and_key(text: str, message: str) -> None:
    assert refusal(text).startswith(message)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("min_file_size: 2GB, target_file_size: 1GB", "min_file_size: 2.0 GB is above target_file_size 1.0 GB"),
        ("target_file_size: 2GB, max_file_size: 1GB", "target_file_size: 2.0 GB is above max_file_size 1.0 GB"),
        ("min_file_size: 2GB, max_file_size: 1GB", "min_file_size: 2.0 GB is above max_file_size 1.0 GB"),
    ],
)
@pytest.mark.parametrize(
    "written", ["defaults: {X}", "policies: {p: {X}}", "rules: [{match: db.*, options: {X}}]"], ids=lambda w: w[:5]
)
def test_sizes_that_can_never_fit_are_refused(written: str, options: str, message: str) -> None:
    assert refusal(written.replace("X", options)).startswith(f"lake.yaml:1: {message}")


def test_sizes_that_clash_with_the_defaults_name_both_places() -> None:
    text = "defaults:\n  target_file_size: 64MB\nrules:\n- match: db.*\n  options:\n    min_file_size: 65MB\n"
    assert refusal(text) == (
        "lake.yaml:4: min_file_size: 65.0 MB is above target_file_size 64.0 MB"
        " (min_file_size by policy file lake.yaml:6 (rule db.*),"
        " target_file_size by policy file lake.yaml:2 (defaults))"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("v1\n", "v2\n", "lake.yaml:1: apiVersion: unknown apiVersion; there is: compaction.io/v1"),
        ("kind: Comp", "kind: Decomp", "lake.yaml:2: kind: unknown kind; there is: CompactionPolicy"),
        ("targetFileSize: 512Mi", "targetFileSize: x", "lake.yaml:12: spec.tables[0].targetFileSize: 'x' is not a"),
        (
            "maxFiles: 50",
            "max_files: 50",
            "lake.yaml:15: spec.tables[1].max_files: unknown option; did you mean maxFiles?",
        ),
        ("hourly: 2.5", "hourly: -1", "lake.yaml:17: spec.costLimit.hourly: it must be above 0"),
        ("0 2 * * *", "0 0 31 2 *", "lake.yaml:8: spec.schedule: '0 0 31 2 *' never fires"),
        ("type: rest, ", "", "lake.yaml:7: spec.catalog.type: this is missing"),
        (
            "  suspend",
            "  suspended",
            "lake.yaml:18: spec.suspended: unknown key; did you mean suspend?",
        ),
        ("name: clicks_*", "name: events", "lake.yaml:14: spec.tables[1].strategy: another value than in lake.yaml:11"),
    ],
)
def test_a_wrong_resource_is_refused_in_its_own_spelling(old: str, new: str, message: str) -> None:
    assert old in RESOURCE
    assert refusal(RESOURCE.replace(old, new)).startswith(message)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("256", "0", "lake.yaml:4: iceberg.write.target_file_size_mb: it must be above 0"),
        (
            '"snappy"',
            '"lzo"',
            "lake.yaml:4: iceberg.write.compression_codec: unknown compression_codec; there is: ",
        ),
        (
            '"small_file_',
            '"tiny_file_',
            "lake.yaml:6: iceberg.compaction.tiny_file_threshold_mb: unknown key; did you mean small_file",
        ),
        (": 32", ": 300", "lake.yaml:1: min_file_size: 300 MB is above target_file_size 256 MB"),
    ],
)
def test_a_wrong_json_configuration(old: str, new: str, message: str) -> None:
    assert old in ICEBERG
    assert refusal(ICEBERG.replace(old, new)).startswith(message)


@given(st.text(alphabet="ab:{}[]-&*!#|>'\"%@`, \n\t0", max_size=40))
def test_whatever_is_in_a_file_it_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        message = f"lake.yaml: {len(parse_policies(text, 'lake.yaml').rules)} rules"
    except BadInput as refused:
        message = str(refused)
    assert message.startswith("lake.yaml:")
    assert "\n" not in message.replace(repr(text), "")


@given(
    st.recursive(
        st.booleans() | st.integers() | st.text("xyz", min_size=1),
        lambda below: st.lists(below, max_size=3) | st.dictionaries(st.text("abc", min_size=1), below, max_size=3),
        max_leaves=12,
    )
)
def test_every_part_of_a_document_knows_its_line(value: Any) -> None:
    """Written with one key or item on each line, a part is found on the line that holds it."""
    lines: list[str] = []
    places: dict[tuple[str | int, ...], int] = {}

    def write(part: Any, path: tuple[str | int, ...], before: str) -> None:
        if isinstance(part, dict | list) and part:
            lines.append(before + ("{" if isinstance(part, dict) else "["))
            for key, inner in part.items() if isinstance(part, dict) else enumerate(part):
                places[(*path, key)] = len(lines) + 1
                write(inner, (*path, key), f'"{key}": ' if isinstance(part, dict) else "")
                lines[-1] += ","
            lines.append("}" if isinstance(part, dict) else "]")
        else:
            shown = f'"{part}"' if isinstance(part, str) else str(part).lower()
            lines.append(before + shown)

    write(value, (), "")
    [document] = read_documents("\n".join(lines), "lake.yaml")
    assert document.value == value
    assert {path: document.line(path) for path in places} == places


_NINE = [f"x{n}: &x{n} {{<<: [{', '.join([f'*x{n - 1}'] * 9)}]}}" for n in range(1, 12)]
_LISTS = [f"    x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 9)}]" for n in range(1, 12)]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(["x0: &x0 {schedule: 1h}", *_NINE]),
        "\n".join(["defaults:", "  resources:", "    x0: &x0 [x]", *_LISTS]),
        "defaults: &d\n  resources: *d",
    ],
)
def test_aliases_that_unfold_without_end_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match=r"lake.yaml:1: its aliases make it too large"):
        parse_policies(text, "lake.yaml")


def test_aliases_that_spare_some_lines_are_good() -> None:
    rules = "\n".join(f"- {{<<: *often, match: 'db{n}.*'}}" for n in range(1000))
    document = f"defaults: &often {{schedule: 1h, jitter: 5m, slack: 1h, priority: 3}}\nrules:\n{rules}"
    assert len(parse_policies(document, "lake.yaml").rules) == 1000


def test_comments_without_an_end_are_read_once() -> None:
    began = time.process_time()
    with pytest.raises(BadInput):
        parse_policies("{" + "/* " * 100_000, "lake.yaml")
    assert time.process_time() - began < 2
