"""Configuration: flags over variables over the file, and one line for whatever is wrong with it."""

import os
from pathlib import Path
from typing import Any

import pytest

from icepact.entrypoints.wiring import catalog_of, load_config, policies_of, read_policies, spark_settings, store_of
from icepact.model.config import Config
from icepact.model.errors import BadInput
from icepact.model.policies import Policies
from icepact.model.policy import Options
from icepact.model.run import Status
from tests.support.records import run_record

SECRET = "hunter2"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings but those of the test."""
    for name in list(os.environ):
        if name.startswith(("ICEPACT_", "PYICEBERG_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def refusal(text: str | bytes) -> str:
    """Why a configuration file is refused."""
    raw = text if isinstance(text, bytes) else text.encode()
    Path("icepact.yaml").write_bytes(raw)
    with pytest.raises(BadInput) as refused:
        load_config(None, {})
    assert "\n" not in str(refused.value)
    return str(refused.value)


# -- who wins -------------------------------------------------------------------------------------


def test_flags_win_over_variables_and_variables_over_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("icepact.yaml").write_text("catalog: file\nwarehouse: /file\ncatalog_type: rest\nstate: /state\n")
    monkeypatch.setenv("ICEPACT_CATALOG", "variable")
    monkeypatch.setenv("ICEPACT_WAREHOUSE", "/variable")
    config = load_config(None, {"catalog": "flag", "warehouse": None})
    assert (config.catalog, config.warehouse, config.catalog_type, config.state) == (
        "flag",
        "/variable",
        "rest",
        Path("/state"),
    )


@pytest.mark.parametrize("name", ["catalog", "catalog_uri", "catalog_type", "warehouse", "state", "store", "policies"])
def test_every_global_setting_has_its_variable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"ICEPACT_{name.upper()}", "x")
    assert str(getattr(load_config(None, {}), name)) == "x"


def test_the_uri_of_a_flag_wins_all_the_way_to_the_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", "https://pyiceberg")
    found = [catalog_of(load_config(None, {"catalog": "prod"})).properties["uri"]]
    Path("icepact.yaml").write_text("catalogs: {prod: {uri: 'https://yaml'}}\n")
    found.append(catalog_of(load_config(None, {"catalog": "prod"})).properties["uri"])
    monkeypatch.setenv("ICEPACT_CATALOG_URI", "https://variable")
    found.append(catalog_of(load_config(None, {"catalog": "prod"})).properties["uri"])
    flags = {"catalog": "prod", "catalog_uri": "https://flag"}
    found.append(catalog_of(load_config(None, flags)).properties["uri"])
    assert found == ["https://pyiceberg", "https://yaml", "https://variable", "https://flag"]


def test_the_file_is_the_named_one_then_the_variables_then_the_one_here(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_config(None, {}) == Config()
    for name in ("icepact", "variable", "flag"):
        Path(f"{name}.yaml").write_text(f"catalog: {name}\n")
    assert load_config(None, {}).catalog == "icepact"
    monkeypatch.setenv("ICEPACT_CONFIG", "variable.yaml")
    assert load_config(None, {}).catalog == "variable"
    assert load_config("flag.yaml", {}).catalog == "flag"


def test_an_empty_file_is_no_configuration() -> None:
    Path("icepact.yaml").write_text("# nothing yet\n")
    assert load_config(None, {}) == Config()


# -- what a file can say --------------------------------------------------------------------------


def test_everything_in_a_file() -> None:
    Path("icepact.yaml").write_text(
        """
catalogs:
  prod: {uri: 'https://x', s3.path-style-access: true, pool: 5, ratio: 0.5}
spark:
  master: spark://host:7077
  conf: {spark.executor.memory: 4g, spark.executor.cores: 2, spark.ui.enabled: false}
policy:
  target_file_size: 128MB
  min_input_files: 3
"""
    )
    config = load_config(None, {})
    assert config.catalogs["prod"] == {
        "uri": "https://x",
        "s3.path-style-access": "true",
        "pool": "5",
        "ratio": "0.5",
    }
    assert spark_settings(config) == {
        "spark.master": "spark://host:7077",
        "spark.executor.memory": "4g",
        "spark.executor.cores": "2",
        "spark.ui.enabled": "false",
    }
    assert config.policy.model_dump(exclude_none=True) == {
        "target_file_size": 128 * 1024**2,
        "min_input_files": 3,
    }


def test_variables_are_filled_in_wherever_there_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", SECRET)
    Path("icepact.yaml").write_text("catalogs: {prod: {uri: 'https://x', token: 'Bearer ${TOKEN}', n: 5}}\n")
    assert load_config(None, {}).catalogs["prod"]["token"] == f"Bearer {SECRET}"
    assert refusal("catalogs: {prod: {token: '${NOPE}'}}\n") == (
        "configuration icepact.yaml: the environment variable NOPE is not set"
    )


# -- what is wrong with it ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("catalogs: [", "configuration icepact.yaml is not YAML (line 1): "),
        (f"catalog: a\n{SECRET}\nb: c\n", "configuration icepact.yaml is not YAML (line 3): "),
        ("\x00", "configuration icepact.yaml is not YAML: broken"),
        (b"\xff\xfe\xfa", "configuration icepact.yaml cannot be read: it is not UTF-8 text"),
        (f"catalogs: {{prod: {{token: *{SECRET}}}}}", "configuration icepact.yaml is not YAML (line 1): "),
        (f"catalogs: {{prod: {{token: !{SECRET} x}}}}", "configuration icepact.yaml is not YAML (line 1): "),
        (f"catalogs: {{prod: {{token: %{SECRET}}}}}", "configuration icepact.yaml is not YAML (line 1): "),
        (f'catalogs: {{prod: {{token: "\\{SECRET}"}}}}', "configuration icepact.yaml is not YAML (line 1): "),
        (
            f"- {SECRET}\n",
            "configuration icepact.yaml must be a mapping with keys such as catalogs, spark, policy",
        ),
        (f"polcy: {SECRET}\n", "icepact.yaml: polcy: unknown key; there is: catalog, catalog_uri, "),
        (f"spark: {{masters: {SECRET}}}\n", "icepact.yaml: spark.masters: unknown key; there is: master, conf"),
        ("budgets: {fleat: {}}\n", "icepact.yaml: budgets.fleat: unknown key; there is: fleet, namespaces"),
        (
            "budgets: {namespaces: {db: {max_cost: 1}}}\n",
            "icepact.yaml: budgets.namespaces.db.max_cost: unknown key; there is: max_cost_per_hour, ",
        ),
        (
            "budgets: {fleet: {max_cost_per_hour: -1}}\n",
            "icepact.yaml: budgets.fleet.max_cost_per_hour: Input should be greater than 0",
        ),
        (
            "budgets: {namespaces: {db: {max_bytes_per_hour: 0}}}\n",
            "icepact.yaml: budgets.namespaces.db.max_bytes_per_hour: 0 is not a size: it must be above zero",
        ),
        (f"catalogs: {{prod: {SECRET}}}\n", "icepact.yaml: catalogs.prod: Input should be a valid dictionary"),
        (
            f"catalogs: {{prod: {{token: [{SECRET}]}}}}\n",
            "icepact.yaml: catalogs.prod.token: Input should be a valid string",
        ),
        (f"catalogs: {SECRET}\n", "icepact.yaml: catalogs: Input should be a valid dictionary"),
        (f"catalog: [{SECRET}]\n", "icepact.yaml: catalog: Input should be a valid string"),
        ("policy: {target_file_size: huge}\n", "icepact.yaml: policy.target_file_size: 'huge' is not a size: write it"),
        ("policy: {strategy: magic}\n", "icepact.yaml: policy.strategy: unknown strategy; there is: small-files"),
        ("policy: {max_files: -1}\n", "icepact.yaml: policy.max_files: Input should be greater than or equal to 1"),
        ("policy: {target: 5}\n", "icepact.yaml: policy: unknown option 'target': it is one of strategy, "),
        ("policy: {1: 5, x: 6}\n", "icepact.yaml: policy: unknown option 1: it is one of strategy, "),
        ("1: 5\n", "icepact.yaml: "),
    ],
)
def test_one_line_without_the_secret(text: str | bytes, message: str) -> None:
    found = refusal(text)
    assert found.startswith(message)
    assert SECRET not in found


@pytest.mark.parametrize(("name", "reason"), [("absent.yaml", "No such file or directory"), (".", "Is a directory")])
def test_a_file_that_cannot_be_read(name: str, reason: str) -> None:
    with pytest.raises(BadInput) as refused:
        load_config(name, {})
    assert str(refused.value) == f"configuration {name} cannot be read: {reason}"


def test_a_configuration_does_not_show_its_secrets() -> None:
    Path("icepact.yaml").write_text(
        f"catalogs: {{prod: {{token: {SECRET}}}}}\ncatalog_uri: '{SECRET}'\nspark: {{conf: {{key: {SECRET}}}}}\n"
    )
    assert SECRET not in repr(load_config(None, {}))


# -- the policy file ------------------------------------------------------------------------------


def test_the_policy_file_stands_over_the_options_for_all_tables() -> None:
    Path("icepact.yaml").write_text("policies: lake.yaml\npolicy: {max_files: 1, max_bytes: 1MB}\n")
    Path("lake.yaml").write_text("rules: [{match: db.*, options: {max_files: 2}}]\n")
    policies = policies_of(load_config(None, {}))
    policy = policies.settle(Options(), {}, "prod", ("db", "events")).policy
    assert (policy.max_files, policy.max_bytes) == (2, 1024**2)
    assert policy.sources["max_files"] == "policy file lake.yaml:1 (rule db.*)"
    assert policy.sources["max_bytes"] == "configuration"


def test_without_a_policy_file_only_the_configuration_speaks() -> None:
    Path("icepact.yaml").write_text("policy: {max_files: 1}\n")
    assert policies_of(load_config(None, {})) == Policies(configuration=Options(max_files=1))


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "No such file or directory"), (b"\xff\xfe\xfa", "it is not UTF-8 text")]
)
def test_a_policy_file_that_cannot_be_read(content: bytes | None, reason: str) -> None:
    if content is not None:
        Path("lake.yaml").write_bytes(content)
    with pytest.raises(BadInput) as refused:
        read_policies("lake.yaml")
    assert str(refused.value) == f"policy file lake.yaml cannot be read: {reason}"


# -- where runs are recorded ----------------------------------------------------------------------


def recorded_in(folder: Path, settings: dict[str, Any]) -> bool:
    """Whether a run is recorded below this folder."""
    config = Config.model_validate(settings)
    store_of(config, catalog_of(config)).begin(run_record("r1", status=Status.RUNNING))
    return [path.name for path in folder.glob("*.db")] == ["icepact.db"]


def test_runs_are_recorded_beside_an_embedded_warehouse(tmp_path: Path) -> None:
    assert recorded_in(tmp_path / "wh", {"warehouse": str(tmp_path / "wh")})


def test_runs_on_other_catalogs_are_recorded_in_the_users_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert recorded_in(tmp_path / "home/.local/state/icepact", {"catalog_uri": "https://x"})
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert recorded_in(tmp_path / "xdg/icepact", {"catalog_uri": "https://x"})


def test_runs_are_recorded_where_the_configuration_says(tmp_path: Path) -> None:
    settings = {"warehouse": str(tmp_path / "wh"), "state": str(tmp_path / "state")}
    assert recorded_in(tmp_path / "state", settings)
    assert not (tmp_path / "wh").exists()
