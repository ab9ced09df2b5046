"""Policies that are put into the record store: read by everybody, checked before, and never about catalogs."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from icepact.model.errors import BadInput, Conflict
from icepact.policy.layers import Policies
from icepact.policy.options import options
from icepact.record.sql import SqlStore
from icepact.schedule.put_policies import CurrentPolicies, check_policies, drop_policies, in_force, put_policies

CATALOG = "lake"
RULES = "rules:\n  - match: db.*\n    options: {max_files: 7}\n"
CONFIGURED = replace(Policies(), configuration=options({"max_files": 3}), file="lake.yaml")
RESOURCE = """
apiVersion: compaction.io/v1
kind: CompactionPolicy
metadata: {name: nightly}
spec:
  catalog: {type: rest, database: db, uri: "https://elsewhere.example/api", warehouse: theirs}
  tables: [{name: events}]
"""


@pytest.fixture
def store(tmp_path: Path) -> SqlStore:
    """An empty one."""
    return SqlStore.in_file(tmp_path / "a.db")


def test_what_was_put_holds_in_every_process_until_it_is_dropped(store: SqlStore) -> None:
    elsewhere = CurrentPolicies(store, CATALOG, CONFIGURED)
    assert elsewhere() is CONFIGURED
    put = put_policies(store, CATALOG, CONFIGURED, RULES, by="me")
    assert (put.version, put.text) == (1, RULES)
    found = elsewhere()
    assert found.rules[0].layers[0].values["max_files"] == 7
    assert found.configuration == CONFIGURED.configuration
    assert elsewhere() is found  # read once
    assert in_force(store, CATALOG, CONFIGURED).policies == found
    put_policies(store, CATALOG, CONFIGURED, RULES.replace("7", "8"), by="me", version=1)
    assert elsewhere().rules[0].layers[0].values["max_files"] == 8
    assert drop_policies(store, CATALOG)
    assert elsewhere() is CONFIGURED
    assert not drop_policies(store, CATALOG)


def test_of_two_who_change_what_they_saw_one_is_told(store: SqlStore) -> None:
    put_policies(store, CATALOG, CONFIGURED, RULES, by="me", version=0)
    with pytest.raises(Conflict):
        put_policies(store, CATALOG, CONFIGURED, RULES, by="you", version=0)
    with pytest.raises(Conflict):
        drop_policies(store, CATALOG, version=7)


def test_catalogs_are_not_named_by_what_is_put(store: SqlStore) -> None:
    with pytest.raises(BadInput, match=r"policies:\d+: catalogs are named by the configuration only"):
        put_policies(store, CATALOG, CONFIGURED, RESOURCE, by="me")
    assert in_force(store, CATALOG, CONFIGURED).text is None


def test_what_costs_much_to_read_is_refused_or_does_not() -> None:
    with pytest.raises(BadInput, match="too long a pattern"):
        check_policies(f"rules: [{{match: 'db.{'*a' * 9}', options: {{max_files: 1}}}}]", CONFIGURED)
    began = time.process_time()
    check_policies("rules:\n" + "- {match: db.*, options: {max_files: 1}}\n" * 3000, CONFIGURED)
    assert time.process_time() - began < 4  # it grew with the square once
