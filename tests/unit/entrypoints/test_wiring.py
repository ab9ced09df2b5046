"""Configuration: flags over variables over the file, and one line for whatever is wrong with it."""

import os
from pathlib import Path
from typing import Any

import pytest

from icepact.entrypoints import wiring
from icepact.entrypoints.wiring import catalog_of, load_config, policies_of, read_policies, spark_settings, store_of
from icepact.model.errors import BadInput
from icepact.model.policy import Proofs
from icepact.model.status import Status
from icepact.policy.config import Catalog, Config
from icepact.policy.file.parse import parse_policies
from icepact.policy.layers import Policies
from icepact.policy.options import Options
from tests.support.records import run_record

SECRET = "hunter2"
GENERIC = ("CATALOG_TYPE", "CATALOG_URI", "CATALOG_WAREHOUSE", "REDIS_URL", "DATABASE_URL", "ETCD_ENDPOINTS")


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings but those of the test."""
    for name in list(os.environ):
        if name.startswith(("ICEPACT_", "PYICEBERG_", "XDG_")) or name in GENERIC:
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


def test_the_time_for_calls_has_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_config(None, {}).catalog_timeout == 60
    monkeypatch.setenv("ICEPACT_CATALOG_TIMEOUT", "2m")
    assert load_config(None, {}).catalog_timeout == 120
    monkeypatch.setenv("ICEPACT_CATALOG_TIMEOUT", "soon")
    with pytest.raises(BadInput, match="catalog_timeout: 'soon' is not a length of time: write it like 45s"):
        load_config(None, {})


def test_the_uri_of_a_flag_wins_all_the_way_to_the_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__URI", "https://pyiceberg")
    found = [catalog_of(load_config(None, {"catalog": "prod"}), Policies()).properties["uri"]]
    Path("icepact.yaml").write_text("catalogs: {prod: {uri: 'https://yaml'}}\n")
    found.append(catalog_of(load_config(None, {"catalog": "prod"}), Policies()).properties["uri"])
    monkeypatch.setenv("ICEPACT_CATALOG_URI", "https://variable")
    found.append(catalog_of(load_config(None, {"catalog": "prod"}), Policies()).properties["uri"])
    flags = {"catalog": "prod", "catalog_uri": "https://flag"}
    found.append(catalog_of(load_config(None, flags), Policies()).properties["uri"])
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


@pytest.mark.parametrize(
    ("spark", "python", "daemon"),
    [
        ("{}", None, "icepact.execute.rewriters.daemon"),
        ("{master: 'local[2]'}", None, "icepact.execute.rewriters.daemon"),
        ("{master: 'spark://host:7077'}", None, None),
        ("{}", "/usr/bin/python3", None),
        ("{conf: {spark.pyspark.python: /usr/bin/python3}}", None, None),
        ("{conf: {spark.python.daemon.module: mine}}", None, "mine"),
    ],
)
def test_workers_are_forked_with_the_kernel_loaded_where_they_surely_have_it(
    spark: str, python: str | None, daemon: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if python is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", python)
    Path("icepact.yaml").write_text(f"spark: {spark}\n")
    assert spark_settings(load_config(None, {})).get("spark.python.daemon.module") == daemon


def test_it_is_read_as_policy_files_are() -> None:
    """As YAML 1.2 has it: off is a word. JSON may have comments."""
    Path("icepact.yaml").write_text("policy: {verify: off, codec: zstd}\n")
    assert load_config(None, {}).policy.verify is Proofs.OFF
    Path("config.json").write_text('// ours\n{"warehouse": "file:///wh", /* later:\n*/ "policy": {"max_files": 5}}\n')
    config = load_config("config.json", {})
    assert (config.warehouse, config.policy.max_files) == ("file:///wh", 5)


def test_variables_are_filled_in_wherever_there_is_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", SECRET)
    Path("icepact.yaml").write_text("catalogs: {prod: {uri: 'https://x', token: 'Bearer ${TOKEN}', n: 5}}\n")
    assert load_config(None, {}).catalogs["prod"]["token"] == f"Bearer {SECRET}"
    assert refusal("catalogs: {prod: {token: '${NOPE}'}}\n") == (
        "icepact.yaml:1: catalogs.prod.token: the environment variable NOPE is not set"
    )


# -- what is wrong with it ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("catalogs: [", "icepact.yaml:1: this is not YAML: "),
        (f"catalog: a\n{SECRET}\nb: c\n", "icepact.yaml:3: this is not YAML: "),
        ("\x00", "icepact.yaml:1: this is not YAML: it is broken"),
        (b"\xff\xfe\xfa", "configuration icepact.yaml cannot be read: it is not UTF-8 text"),
        (f"catalogs: {{prod: {{token: *{SECRET}}}}}", "icepact.yaml:1: this is not YAML: "),
        (f"catalogs: {{prod: {{token: !{SECRET} x}}}}", "icepact.yaml:1: this is not YAML: "),
        (f"catalogs: {{prod: {{token: %{SECRET}}}}}", "icepact.yaml:1: this is not YAML: "),
        (f'catalogs: {{prod: {{token: "\\{SECRET}"}}}}', "icepact.yaml:1: this is not YAML: "),
        (
            f"- {SECRET}\n",
            "icepact.yaml:1: this must be a mapping with keys such as catalogs, spark, policy",
        ),
        (
            f"polcy: {SECRET}\n",
            "icepact.yaml:1: polcy: unknown key; did you mean policy?",
        ),
        (
            f"spark: {{masters: {SECRET}}}\n",
            "icepact.yaml:1: spark.masters: unknown key; did you mean master?",
        ),
        (
            "budgets: {fleat: {}}\n",
            "icepact.yaml:1: budgets.fleat: unknown key; did you mean fleet?",
        ),
        (
            "budgets: {namespaces: {db: {max_cost: 1}}}\n",
            "icepact.yaml:1: budgets.namespaces.db.max_cost: unknown key; did you mean max_cost_per_hour?",
        ),
        (
            "budgets: {fleet: {max_cost_per_hour: -1}}\n",
            "icepact.yaml:1: budgets.fleet.max_cost_per_hour: it must be above 0",
        ),
        (
            "budgets: {namespaces: {db: {max_bytes_per_hour: 0}}}\n",
            "icepact.yaml:1: budgets.namespaces.db.max_bytes_per_hour: 0 is not a size: it must be above zero",
        ),
        (f"catalogs: {{prod: {SECRET}}}\n", "icepact.yaml:1: catalogs.prod: a mapping is wanted"),
        (
            f"catalogs: {{prod: {{token: [{SECRET}]}}}}\n",
            "icepact.yaml:1: catalogs.prod.token: a text is wanted",
        ),
        (f"catalogs: {SECRET}\n", "icepact.yaml:1: catalogs: a mapping is wanted"),
        (f"catalog: [{SECRET}]\n", "icepact.yaml:1: catalog: a text is wanted"),
        (
            "policy: {target_file_size: huge}\n",
            "icepact.yaml:1: policy.target_file_size: 'huge' is not a size",
        ),
        ("policy: {strategy: magic}\n", "icepact.yaml:1: policy.strategy: unknown strategy; there is: small-files"),
        ("policy: {max_files: -1}\n", "icepact.yaml:1: policy.max_files: it must be at least 1"),
        (
            "policy: {target: 5}\n",
            "icepact.yaml:1: policy.target: unknown option; did you mean target_file_size?",
        ),
        ("policy: {1: 5, x: 6}\n", "icepact.yaml:1: policy.1: unknown option; there is: strategy, "),
        ("1: 5\n", "icepact.yaml:1: 1: unknown key; "),
        ("catalog: a\n---\ncatalog: b\n", "icepact.yaml:3: a configuration is one document"),
        ("catalog: a\n\ncatalog: b\n", "icepact.yaml:3: catalog: given twice, first in line 1"),
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
    policy = policies.resolve(Options(), {}, "prod", ("db", "events")).policy
    assert (policy.max_files, policy.max_bytes) == (2, 1024**2)
    assert policy.sources["max_files"] == "policy file lake.yaml:1 (rule db.*)"
    assert policy.sources["max_bytes"] == "configuration"


def test_without_a_policy_file_only_the_configuration_speaks() -> None:
    Path("icepact.yaml").write_text("policy: {max_files: 1}\n")
    assert policies_of(load_config(None, {})) == Policies(configuration=Options(max_files=1))


def resource(catalog: str, name: str = "nightly") -> str:
    """A custom resource for all tables of a database."""
    kind = f"apiVersion: compaction.io/v1\nkind: CompactionPolicy\nmetadata: {{name: {name}}}\n"
    return f"---\n{kind}spec:\n  catalog: {{database: db, {catalog}}}\n"


def catalog_for(resources: str, settings: dict[str, Any]) -> Catalog:
    """The catalog that is used for a policy file."""
    return catalog_of(Config.model_validate(settings), parse_policies(resources, "lake.yaml"))


def test_the_catalog_of_a_resource_is_used_if_no_other_is_named(tmp_path: Path) -> None:
    found = catalog_for(resource(f"type: rest, uri: 'https://{SECRET}', warehouse: lake") * 2, {})
    assert {key: found.properties[key] for key in ("type", "uri", "warehouse")} == {
        "type": "rest",
        "uri": f"https://{SECRET}",
        "warehouse": "lake",
    }
    prod = {"catalogs": {"prod": {"uri": "https://prod"}, "test": {"uri": "https://test"}}}
    assert catalog_for(resource("type: rest, name: test"), prod).name == "test"
    assert catalog_for(resource("type: glue, name: raw, warehouse: 's3://x'"), {}).properties["type"] == "glue"
    local = catalog_for(resource("type: sql, uri: 'sqlite:///wh/c.db'"), {"catalog_uri": "sqlite:///wh/c.db"})
    assert local.properties["uri"] == f"jdbc:sqlite:{tmp_path}/wh/c.db"
    assert catalog_for(resource("type: jdbc, warehouse: wh"), {"warehouse": "wh"}).embedded == tmp_path / "wh"


@pytest.mark.parametrize(
    ("resources", "settings", "message"),
    [
        (resource("type: rest"), {"warehouse": "wh"}, "lake.yaml:6: type: this resource is about another catalog than"),
        (resource(f"type: rest, uri: 'https://{SECRET}'"), {"catalog_uri": "https://b"}, "lake.yaml:6: uri: this"),
        (resource("type: jdbc, warehouse: x"), {"warehouse": "wh"}, "lake.yaml:6: warehouse: this resource is about"),
        (resource("type: rest"), {}, "lake.yaml:6: catalog 'local' of type rest has no uri"),
        (
            resource("type: rest, uri: 'https://a'") + resource("type: rest, uri: 'https://b'", "other"),
            {},
            "lake.yaml:12: another catalog than in lake.yaml:6: name one with --catalog",
        ),
    ],
)
def test_a_resource_about_another_catalog_is_refused(resources: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        catalog_for(resources, settings)
    assert str(refused.value).startswith(message)
    assert SECRET not in str(refused.value)


def test_a_resource_for_a_catalog_of_another_name_is_no_business_of_this_one() -> None:
    assert catalog_for(resource("type: rest, name: prod"), {"warehouse": "wh"}).name == "local"


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
    store_of(config, catalog_of(config, Policies())).begin(run_record("r1", status=Status.RUNNING))
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


@pytest.mark.parametrize(
    ("name", "value", "address"),
    [
        ("REDIS_URL", "redis://r:1/0", "redis://r:1/0"),
        ("DATABASE_URL", "postgres://u@h/d", "postgres://u@h/d"),
        ("ETCD_ENDPOINTS", "http://a:1,http://b:2/", "etcd://a:1,b:2"),
        ("ETCD_ENDPOINTS", "https://a:1, b:2", "etcds://a:1,b:2"),
    ],
)
def test_variables_of_platforms_name_the_store_if_nothing_else_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, value: str, address: str
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(wiring, "open_store", opened.append)
    monkeypatch.setenv(name, value)
    for settings in ({}, {"store": "memory"}, {"state": str(tmp_path)}):
        config = Config.model_validate({"warehouse": str(tmp_path / "wh"), **settings})
        store_of(config, catalog_of(config, Policies()))
    assert opened == [address, "memory", f"sqlite:///{tmp_path}/icepact.db"]


def test_two_variables_that_name_stores_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", f"redis://:{SECRET}@r:1/0")
    monkeypatch.setenv("DATABASE_URL", f"postgresql://u:{SECRET}@h/d")
    config = load_config(None, {"catalog_uri": "https://x"})
    with pytest.raises(BadInput) as refused:
        store_of(config, catalog_of(config, Policies()))
    assert str(refused.value) == (
        "REDIS_URL and DATABASE_URL are set: say with ICEPACT_STORE which of them is the record store"
    )


@pytest.mark.parametrize("address", ["my database", "mysql://h/d", "sqlite://", "sqlite:///", "redis", f"x://{SECRET}"])
def test_an_address_that_is_none_is_one_line(address: str) -> None:
    config = Config(store=address, catalog_uri="https://x")
    with pytest.raises(BadInput, match=r"^the record store's address is none: write memory, sqlite:///") as refused:
        store_of(config, catalog_of(config, Policies()))
    assert SECRET not in str(refused.value)


def test_variables_of_platforms_name_the_catalog_if_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CATALOG_TYPE", "rest")
    monkeypatch.setenv("CATALOG_URI", "https://x")
    monkeypatch.setenv("CATALOG_WAREHOUSE", "lake")
    found = load_config(None, {})
    assert (found.catalog_type, found.catalog_uri, found.warehouse) == ("rest", "https://x", "lake")
    Path("icepact.yaml").write_text("catalog_uri: https://y\n")
    found = load_config(None, {})
    assert (found.catalog_type, found.catalog_uri, found.warehouse) == (None, "https://y", None)
    Path("icepact.yaml").unlink()
    monkeypatch.setenv("ICEPACT_WAREHOUSE", "/wh")
    found = load_config(None, {})
    assert (found.catalog_type, found.catalog_uri, found.warehouse) == (None, None, "/wh")
