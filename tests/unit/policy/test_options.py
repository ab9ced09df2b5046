"""Options: where each value comes from, and what is refused."""

from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest

from icepact.model.errors import BadInput
from icepact.model.policy import (
    AgeLevel,
    AgeSince,
    CommitWhen,
    DeletesOption,
    JobOrder,
    MethodOption,
    Policy,
    PriorityWeights,
    Proofs,
    Strategy,
)
from icepact.policy.options import Options, from_properties, options
from icepact.policy.resolve import resolve
from tests.support.states import MB, make_policy


def settled(request: dict[str, Any], table: dict[str, str], configuration: dict[str, Any]) -> Policy:
    """A policy from its three levels."""
    return resolve(options(request), table, options(configuration, "configuration"))


# -- precedence -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "table", "configuration", "value", "source"),
    [
        ({"max_files": 1}, {"icepact.max-files": "2"}, {"max_files": 3}, 1, "request"),
        ({}, {"icepact.max-files": "2"}, {"max_files": 3}, 2, "table property"),
        ({}, {}, {"max_files": 3}, 3, "configuration"),
        ({}, {}, {}, None, "default"),
        ({"max_files": None}, {}, {"max_files": 3}, 3, "configuration"),
    ],
)
def test_the_nearest_wish_wins(
    request_: dict[str, Any], table: dict[str, str], configuration: dict[str, Any], value: int | None, source: str
) -> None:
    policy = settled(request_, table, configuration)
    assert policy.max_files == value
    assert policy.sources["max_files"] == source


def test_every_value_says_where_it_came_from() -> None:
    policy = settled({"max_files": 1}, {"icepact.min-input-files": "2"}, {"max_bytes": "1GB"})
    told = {"max_files": "request", "min_input_files": "table property", "max_bytes": "configuration"}
    assert policy.sources == {name: told.get(name, "default") for name in Options.model_fields}
    assert policy.to_dict()["sources"] == policy.sources


def test_a_wish_that_is_false_or_zero_is_a_wish() -> None:
    policy = settled({"rewrite_all": False, "max_delete_ratio": 0}, {"icepact.rewrite-all": "true"}, {})
    assert (policy.rewrite_all, policy.sources["rewrite_all"]) == (False, "request")
    assert (policy.max_delete_ratio, policy.sources["max_delete_ratio"]) == (0.0, "request")


def test_the_defaults() -> None:
    policy = settled({}, {}, {})
    assert replace(policy, sources={}) == Policy(
        strategy=Strategy.SMALL_FILES,
        target_file_size=512 * MB,
        min_file_size=384 * MB,
        max_file_size=int(921.6 * MB),
        min_input_files=5,
        max_file_count_per_partition=10_000,
        max_delete_ratio=0.1,
        max_fragment_ratio=0.1,
        tier=None,
        minor_trigger_files=12,
        minor_trigger_interval=3600,
        full_trigger_interval=None,
        closed_after=86400,
        time_column=None,
        scans_per_day=24,
        horizon=7 * 24 * 3600,
        reader_parallelism=8,
        max_group_size=50 * 1024 * MB,
        max_group_files=10_000,
        max_files=None,
        max_bytes=None,
        max_cost=None,
        max_duration=None,
        max_cost_per_hour=None,
        max_bytes_per_hour=None,
        job_order=JobOrder.MOST_GAIN,
        where=None,
        partition=None,
        branch="main",
        snapshot_id=None,
        enabled=True,
        rewrite_all=False,
        method=MethodOption.AUTO,
        deletes=DeletesOption.APPLY,
        erase=False,
        codec=None,
        compression_level=None,
        recode=False,
        row_group_size=None,
        row_group_rows=None,
        min_row_group_size=8 * MB,
        min_page_rows=2000,
        batch_rows=None,
        task_memory=1024 * MB,
        parallelism=None,
        expire_older_than=None,
        expire_retain_last=None,
        orphans_older_than=3 * 86400,
        statistics_stale_after=0.1,
        ttl_column=None,
        ttl_keep=None,
        ttl_level=AgeLevel.PARTITION,
        ttl_pattern=None,
        ttl_zone="UTC",
        ttl_rows=False,
        ttl_since=AgeSince.NOW,
        tag_period=None,
        tag_offset=None,
        tag_max_delay=3600,
        tag_pattern=None,
        tag_max_age=None,
        tag_zone="UTC",
        housekeeping="tags,ttl,compact,deletes,manifests,statistics,expire,orphans",
        verify=Proofs.FOOTERS,
        max_commits=1,
        commit_when=CommitWhen.NOW,
        max_commit_wait=60.0,
        may_be_rolled_back=False,
        priority_weights=PriorityWeights(files=0.3, fragments=0.3, age=0.2, small_files=0.2),
        sources={},
    )


# -- sizes that follow from others ----------------------------------------------------------------


def test_the_target_is_the_tables_own_if_nobody_wishes_another() -> None:
    own = {"write.target-file-size-bytes": str(128 * MB)}
    policy = settled({}, own, {})
    assert (policy.target_file_size, policy.sources["target_file_size"]) == (128 * MB, "table default")
    assert (policy.min_file_size, policy.max_file_size) == (96 * MB, int(230.4 * MB))
    assert settled({"target_file_size": "64MB"}, own, {}).target_file_size == 64 * MB
    assert settled({}, {**own, "icepact.target-file-size": "32MB"}, {}).target_file_size == 32 * MB
    assert settled({}, {"write.target-file-size-bytes": "lots"}, {}).target_file_size == 512 * MB


def test_thresholds_may_touch_the_target() -> None:
    policy = make_policy(target_file_size=100, min_file_size=100, max_file_size=100)
    assert (policy.min_file_size, policy.target_file_size, policy.max_file_size) == (100, 100, 100)
    assert make_policy(target_file_size=1).min_file_size == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target_file_size": "64MB", "min_file_size": "65MB"}, "min_file_size 65.0 MB is above the target 64.0 MB"),
        ({"target_file_size": "64MB", "max_file_size": "63MB"}, "max_file_size 63.0 MB is below the target 64.0 MB"),
        ({"min_file_size": "1GB"}, "min_file_size 1.0 GB is above the target 512 MB"),
    ],
)
def test_thresholds_that_contradict_the_target_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        make_policy(**given)
    assert str(refused.value) == message


def test_a_length_of_time_is_settled_in_seconds() -> None:
    assert make_policy(max_duration="1.5h").max_duration == 5400
    assert make_policy(max_duration=timedelta(minutes=2)).max_duration == 120
    assert settled({}, {"icepact.max-duration": "45s"}, {}).to_dict()["max_duration"] == 45


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"strategy": "magic"}, f"strategy: unknown strategy; there is: {', '.join(Strategy)}"),
        (
            {"strategy": "zorder"},
            "strategy: unknown strategy; there is: small-files, deletes, time-series, cost-optimized, auto",
        ),
        ({"horizon": "a week"}, "horizon: 'a week' is not a length of time: write it like 45s, 30m, 2h or 1d"),
        ({"horizon": "0s"}, "horizon: '0s' is not a length of time: it must be above zero"),
        ({"scans_per_day": 0}, "scans_per_day: it must be above 0"),
        ({"reader_parallelism": 0}, "reader_parallelism: it must be at least 1"),
        ({"max_files": -3}, "max_files: it must be at least 1"),
        ({"max_files": "many"}, "max_files: a whole number is wanted"),
        ({"max_bytes": "-5MB"}, "max_bytes: '-5MB' is not a size: write it like 512MB, 1.5GB or 1048576"),
        ({"max_bytes": -5}, "max_bytes: -5 is not a size: it must be above zero"),
        ({"max_cost": 0}, "max_cost: it must be above 0"),
        ({"max_cost": "-0.5"}, "max_cost: it must be above 0"),
        ({"max_cost": "inf"}, "max_cost: a finite number is wanted"),
        ({"max_cost": "much"}, "max_cost: a number is wanted"),
        ({"max_duration": "0s"}, "max_duration: '0s' is not a length of time: it must be above zero"),
        (
            {"max_duration": "-5m"},
            "max_duration: '-5m' is not a length of time: write it like 45s, 30m, 2h or 1d",
        ),
        ({"max_duration": 30}, "max_duration: '30' is not a length of time: write it like 45s, 30m, 2h or 1d"),
        ({"max_cost_per_hour": -1}, "max_cost_per_hour: it must be above 0"),
        ({"max_bytes_per_hour": 0}, "max_bytes_per_hour: 0 is not a size: it must be above zero"),
        (
            {"job_order": "newest"},
            "job_order: unknown job_order; there is: most-gain, most-files, most-bytes, oldest",
        ),
        ({"min_input_files": 0}, "min_input_files: it must be at least 1"),
        ({"max_group_files": 1}, "max_group_files: it must be at least 2"),
        ({"max_delete_ratio": 1.5}, "max_delete_ratio: it must be at most 1"),
        ({"where": ""}, "where: it must not be empty"),
        (
            {"target_size": 5},
            f"target_size: unknown option; did you mean target_file_size? there is: {', '.join(Options.model_fields)}",
        ),
        ({5: 5, "x": 1}, f"5: unknown option; there is: {', '.join(Options.model_fields)}"),
    ],
)
def test_bad_options_get_one_line(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        options(given)
    assert str(refused.value) == message


def test_a_bad_table_property_says_that_it_is_one() -> None:
    with pytest.raises(BadInput) as refused:
        settled({}, {"icepact.max-files": "0"}, {})
    assert str(refused.value) == "max_files: it must be at least 1 (table property)"


def test_table_properties_of_others_are_no_options() -> None:
    found = from_properties({"icepact.target-file-size": "1MB", "write.format.default": "orc"})
    assert found.model_dump(exclude_none=True) == {"target_file_size": MB}


def test_a_misspelt_table_property_is_refused() -> None:
    with pytest.raises(BadInput, match=r"did you mean target_file_size\? .*\(table property\)"):
        from_properties({"icepact.taget-file-size": "1MB"})


# -- the fingerprint ------------------------------------------------------------------------------


def test_the_fingerprint_of_the_defaults_never_changes() -> None:
    """It is written into snapshots: another value would make every table look untouched."""
    assert make_policy().fingerprint == "7a0021f84473"


@pytest.mark.parametrize(
    "given",
    [
        *({"max_files": 7}, {"max_bytes": "1GB"}, {"rewrite_all": True}, {"max_cost": 0.5}, {"max_duration": "30m"}),
        *({"max_cost_per_hour": 2}, {"max_bytes_per_hour": "1TB"}, {"job_order": "oldest"}, {"enabled": False}),
        *({"snapshot_id": 5}, {"batch_rows": 5}, {"parallelism": 5}),
    ],
)
def test_the_fingerprint_ignores_what_leaves_the_same_layout(given: dict[str, Any]) -> None:
    assert make_policy(**given).fingerprint == make_policy().fingerprint


def test_the_fingerprint_ignores_where_a_value_came_from() -> None:
    by_table = settled({}, {"icepact.min-input-files": "5"}, {})
    assert by_table.sources != make_policy().sources
    assert by_table.fingerprint == make_policy().fingerprint


LAYOUT = {
    "target_file_size": "600MB",
    "min_file_size": "1MB",
    "max_file_size": "2GB",
    "min_input_files": 9,
    "max_file_count_per_partition": 9,
    "max_delete_ratio": 0.9,
    "max_fragment_ratio": 0.9,
    "tier": "full",
    "minor_trigger_files": 9,
    "minor_trigger_interval": "2h",
    "full_trigger_interval": "2h",
    "closed_after": "2h",
    "time_column": "ts",
    "scans_per_day": 9,
    "horizon": "9d",
    "reader_parallelism": 9,
    "max_group_size": "1GB",
    "max_group_files": 9,
    "where": "id > 5",
    "partition": "day=*",
    "branch": "audit",
    "deletes": "carry",
    "erase": True,
    "codec": "snappy",
    "compression_level": 9,
    "recode": True,
    "row_group_size": "64MB",
    "row_group_rows": 1000,
    "min_row_group_size": "1MB",
    "min_page_rows": 1,
}


@pytest.mark.parametrize("name", LAYOUT)
def test_the_fingerprint_tells_wishes_apart(name: str) -> None:
    assert make_policy(**{name: LAYOUT[name]}).fingerprint != make_policy().fingerprint


def test_every_option_is_either_layout_or_not() -> None:
    """Whoever adds an option decides whether it changes the layout, and says so here."""
    assert {f.name for f in fields(Policy)} == {
        *LAYOUT,
        *("strategy", "max_files", "max_bytes", "rewrite_all", "method", "task_memory", "verify"),
        *("commit_when", "max_commit_wait", "may_be_rolled_back"),
        *("max_commits", "enabled", "priority_weights", "sources", "snapshot_id", "batch_rows", "parallelism"),
        *("max_cost", "max_duration", "max_cost_per_hour", "max_bytes_per_hour", "job_order"),
        *("expire_older_than", "expire_retain_last", "orphans_older_than", "statistics_stale_after", "housekeeping"),
        *("ttl_column", "ttl_keep", "ttl_level", "ttl_pattern", "ttl_zone", "ttl_rows", "ttl_since"),
        *("tag_period", "tag_offset", "tag_max_delay", "tag_pattern", "tag_max_age", "tag_zone"),
    }


# -- partitions -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "name", "asked"),
    [
        ("day=2026-01-01", "day=2026-01-01", True),
        ("day=2026-01-01", "day=2026-01-011", False),
        ("day=2026-01-01", "a_day=2026-01-01", False),
        ("day=2026-01-0?", "day=2026-01-01/region=eu", True),
        ("day=2026-01-0[23]", "day=2026-01-01/region=eu", False),
        ("region=eu", "day=2026-01-01/region=eu", True),
        ("region=EU", "day=2026-01-01/region=eu", False),
        ("day=2026-*/region=e*", "day=2026-01-01/region=eu", True),
        ("day=2026-*/region=e*", "day=2026-01-01/region=us", False),
        ("/day=2026-01-01/", "day=2026-01-01", True),
        ("kind=a/b", "kind=a/b", True),
        ("*", "(all)", True),
        ("day=*", "(all)", False),
    ],
)
def test_a_partition_is_asked_for_by_its_name_or_a_part_of_it(pattern: str, name: str, asked: bool) -> None:
    assert make_policy(partition=pattern).asks_for(name) is asked
    assert make_policy().asks_for(name)


@pytest.mark.parametrize("strategy", ["sort", "zorder", "dimensional"])
def test_a_strategy_that_there_is_not_is_refused_with_those_that_there_are(strategy: str) -> None:
    with pytest.raises(BadInput, match=r"^strategy: unknown strategy; there is: small-files, deletes"):
        make_policy(strategy=strategy)


@pytest.mark.parametrize("wrong", [{"parallelism": 0}, {"batch_rows": 0}, {"snapshot_id": "newest"}, {"partition": ""}])
def test_values_that_mean_nothing_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=f"^{next(iter(wrong))}: "):
        make_policy(**wrong)


def test_batches_are_those_of_icebergs_readers_too() -> None:
    told = make_policy(batch_rows=7).write_properties
    assert told["read.parquet.vectorization.batch-size"] == told["read.orc.vectorization.batch-size"] == "7"
    assert make_policy().write_properties == {}
