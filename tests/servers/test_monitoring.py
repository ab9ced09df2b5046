"""What is shipped for Prometheus and Grafana, held against the metrics that there are, by Prometheus itself."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from icepact.model.effort import Effort
from icepact.model.status import Status
from icepact.policy.config import TelemetrySettings
from icepact.telemetry import metrics
from icepact.telemetry.metrics import COUNTERS, GAUGES, HISTOGRAMS, REQUEST_SECONDS, STORE_UP, Reading
from icepact.telemetry.prometheus import ServiceMetrics
from tests.acceptance.pages import ROOT
from tests.support.records import run_outcome
from tests.support.servers.metrics_port import metrics_port
from tests.support.servers.prometheus import Prometheus, prometheus, promtool

RULES = ROOT / "deploy/prometheus/icepact.rules.yml"
RULE_TESTS = ROOT / "deploy/prometheus/icepact.rules.test.yml"
DASHBOARD = json.loads((ROOT / "deploy/grafana/icepact.json").read_text())
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
METRICS = {metric.full_name: metric for metric in (*COUNTERS, *HISTOGRAMS, *GAUGES, REQUEST_SECONDS, STORE_UP)}
_VARIABLES = {"$__rate_interval": "1m", "$catalog": ".*", "$tenant": ".*"}


def expression(query: str) -> str:
    """A query as Grafana sends it, if nobody has chosen anything."""
    for name, value in _VARIABLES.items():
        query = query.replace(name, value)
    assert "$" not in query
    return query


def named(query: str) -> Iterator[tuple[str, set[str]]]:
    """Metrics of a query, and the labels that it chooses by."""
    for name, _, labels in re.findall(r"\b(icepact_[a-z_]+)(\{([^}]*)\})?", query):
        yield name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", labels))


def metric_of(series: str) -> metrics.Metric | None:
    """The metric that a series is part of."""
    histogram = METRICS.get(re.sub("_(bucket|sum|count)$", "", series))
    return METRICS.get(series) or (histogram if histogram and histogram.buckets else None)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What an API process says, with everything in it."""
    folder = tmp_path_factory.mktemp("counted")
    metrics.setup(folder)
    effort = Effort(seconds=1.5, requests=20, write_requests=3)
    for status in (Status.COMMITTED, Status.FAILED):
        outcome = run_outcome("r1", status=status, effort=effort, money=0.25, currency="USD")
        metrics.run_ended(outcome, catalog="lake", strategy="auto", file_sizes=[2**20, 2**28])
    metrics.shutdown()
    labels = {"catalog": "lake", "tenant": "default", "table": "db.a"}
    readings = [
        Reading(name=gauge.name, labels={name: labels[name] for name in gauge.labels}, value=1.0) for gauge in GAUGES
    ]
    service = ServiceMetrics(lambda: readings, workers=folder)
    service.request("GET", "/api/v1/jobs", 200, 0.004)
    return service.text()


def test_promtool_has_nothing_to_say_against_the_metrics(text: bytes) -> None:
    found = promtool("check", "metrics", given=text)
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_the_alerts_are_as_their_tests_say() -> None:
    checked = promtool("check", "rules", str(RULES))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    tested = promtool("test", "rules", str(RULE_TESTS))
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_each_alert_has_a_test_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    alerts = {rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}
    tests = [one for test in yaml.safe_load(RULE_TESTS.read_text())["tests"] for one in test["alert_rule_test"]]
    assert {one["alertname"] for one in tests if one["exp_alerts"]} == alerts
    silent = {one["alertname"] for one in tests if not one["exp_alerts"]}
    assert silent >= alerts - {"IcepactFailureRate"}  # which is silent about other catalogs


def test_an_alert_that_does_not_fire_any_more_fails_its_test(tmp_path: Path) -> None:
    (tmp_path / RULES.name).write_text(RULES.read_text().replace("> 1800", "> 1800000"))
    (tmp_path / RULE_TESTS.name).write_text(RULE_TESTS.read_text())
    assert promtool("test", "rules", str(tmp_path / RULE_TESTS.name)).returncode == 1


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel["title"]))
def test_a_panel_asks_for_what_there_is(panel: Mapping[str, Any]) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        query = expression(target["expr"])
        found = list(named(query))
        assert found
        for series, labels in found:
            metric = metric_of(series)
            assert metric is not None, series
            assert labels <= set(metric.labels), series
        legend = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
        assert all(label in query for label in legend - {"status", "instance"}), query


def test_alerts_ask_for_what_there_is() -> None:
    for rule in yaml.safe_load(RULES.read_text())["groups"][0]["rules"]:
        for series, labels in named(rule["expr"]):
            metric = metric_of(series)
            assert metric is not None, series
            assert labels <= set(metric.labels), series


def test_every_metric_is_on_the_dashboard() -> None:
    asked = {series for panel in PANELS for target in panel["targets"] for series, _ in named(target["expr"])}
    shown = {metric.full_name for metric in map(metric_of, asked) if metric is not None}
    assert METRICS.keys() - shown == set()


def test_the_dashboard_can_be_imported_as_it_is() -> None:
    assert {panel["id"] for panel in DASHBOARD["panels"]} == set(range(1, len(DASHBOARD["panels"]) + 1))
    [source, *variables] = DASHBOARD["templating"]["list"]
    assert (source["type"], source["name"]) == ("datasource", "datasource")
    uses = [part["datasource"] for panel in PANELS for part in (panel, *panel["targets"])]
    assert all(use == {"type": "prometheus", "uid": "${datasource}"} for use in uses)
    assert {one["name"] for one in variables} == {"catalog", "tenant"}
    for variable in variables:
        assert all(metric_of(name) for name, _ in named(variable["query"]["query"].replace("|", " ")))
    boxes = [panel["gridPos"] for panel in DASHBOARD["panels"]]
    assert all(box["x"] + box["w"] <= 24 for box in boxes)
    cells = [(x, y) for b in boxes for x in range(b["x"], b["x"] + b["w"]) for y in range(b["y"], b["y"] + b["h"])]
    assert len(cells) == len(set(cells)), "panels overlap"


def test_prometheus_answers_every_panel(servers_folder: Path, text: bytes) -> None:
    with metrics_port(text) as target, prometheus(servers_folder, target, RULES) as server:
        _every_panel_is_answered(server)
        rules = server.ask("rules")["groups"][0]["rules"]
        assert {rule["health"] for rule in rules} <= {"ok", "unknown"}
        assert len(rules) == 6


def _every_panel_is_answered(server: Prometheus) -> None:
    empty = [
        (panel["title"], target["expr"])
        for panel in PANELS
        for target in panel["targets"]
        if not server.query(expression(target["expr"]))
    ]
    assert empty == []


# -- the page -------------------------------------------------------------------------------------

PAGE = (ROOT / "docs/monitoring.md").read_text()


def test_the_page_lists_the_metrics_as_they_are() -> None:
    rows = [line.strip("|").split("|") for line in PAGE.split("<!-- metrics -->")[1].split("\n\n")[0].splitlines()[3:]]
    listed = {cells[0].strip(" `"): tuple(re.findall(r"`(\w+)`", cells[2])) for cells in rows}
    assert listed == {metric.name: metric.labels for metric in METRICS.values()}
    kinds = {cells[0].strip(" `"): cells[1].strip() for cells in rows}
    assert {name for name, kind in kinds.items() if kind == "counter"} == {metric.name for metric in COUNTERS}
    assert {name for name, kind in kinds.items() if kind == "histogram"} == {
        *(metric.name for metric in HISTOGRAMS),
        REQUEST_SECONDS.name,
    }


def test_the_page_lists_the_alerts_and_settings_as_they_are() -> None:
    alerts = {rule["alert"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]}
    assert set(re.findall(r"^\| `(Icepact\w+)` \|", PAGE, re.MULTILINE)) == alerts
    settings = re.findall(r"^\| `(\w+)` \|", PAGE.split("## Metrics")[0], re.MULTILINE)
    assert settings == list(TelemetrySettings.model_fields)


def test_the_configuration_of_prometheus_is_one(tmp_path: Path) -> None:
    [sample] = re.findall(r"<!-- prometheus -->\n```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / RULES.name).write_text(RULES.read_text())
    (tmp_path / "prometheus.yml").write_text(sample)
    checked = promtool("check", "config", str(tmp_path / "prometheus.yml"))
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "6 rules found" in checked.stdout


def test_the_query_on_the_page_asks_for_what_there_is(tmp_path: Path) -> None:
    [query] = re.findall(r"```promql\n(.*?)\n```", PAGE, re.DOTALL)
    rules = {"groups": [{"name": "page", "rules": [{"record": "x", "expr": query}]}]}
    (tmp_path / "rules.yml").write_text(json.dumps(rules))
    assert promtool("check", "rules", str(tmp_path / "rules.yml")).returncode == 0
    assert all(metric_of(series) for series, _ in named(query))
