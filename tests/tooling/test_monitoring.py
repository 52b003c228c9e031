"""Rules, dashboards and their pages are about metrics that there are, and are made from one table."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from wharfinger.dev.binaries import PROMTOOL, at_hand
from wharfinger.replay.archive.archiving import ArchiveMetrics
from wharfinger.telemetry import Metrics

ROOT = Path(__file__).parents[2]
DEPLOYED = ROOT / "deploy/monitoring"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load((DEPLOYED / "rules.yaml").read_text())["groups"] for rule in group["rules"]
]
CASES: list[dict[str, Any]] = yaml.safe_load((DEPLOYED / "rules_test.yaml").read_text())["tests"]
NAMED = re.compile(r"\b(?:wharfinger|scheduler|scheduling)_\w+")
LABEL = re.compile(r"\b(\w+)(?:=~|!=|=)\"")


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """`tools/documents/monitoring.py`."""
    spec = importlib.util.spec_from_file_location("documents_monitoring", ROOT / "tools/documents/monitoring.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def declared() -> dict[str, tuple[str, ...]]:
    """Every series that processes report, with its labels."""
    found = {}
    for metric in (*Metrics.declared().values(), *ArchiveMetrics.declared().values()):
        parts = ("_bucket", "_sum", "_count") if metric.kind == "histogram" else ("",)
        found |= {metric.name + part: (*metric.labels, *(["le"] * (part == "_bucket"))) for part in parts}
    return found


def test_what_is_declared_is_what_is_scraped() -> None:
    metrics = Metrics()
    metrics.contended.inc()
    scraped = {sample.name for family in metrics.registry.collect() for sample in family.samples}
    types = {family.name: family.type for family in metrics.registry.collect()}

    assert scraped <= declared().keys()
    assert "wharfinger_contended_total" in scraped
    for metric in Metrics.declared().values():
        assert types[metric.name.removesuffix("_total")] == metric.kind


def test_files_are_what_the_command_makes(tool: ModuleType) -> None:
    made = tool.written()

    for path, text in made.items():
        assert path.read_text() == text, "make monitoring"
    assert {path for path in made if path.suffix == ".json"} == set(DEPLOYED.glob("dashboards/*"))


def test_every_metric_is_in_the_table_once(tool: ModuleType) -> None:
    named = [name for board in tool.TABLE for row in board.rows for name in row.metrics]

    assert sorted(named) == sorted(tool.metrics())
    for names in (tool.LARGEST, tool.SMALLEST, tool.BY_INSTANCE, tool.SPLIT, tool.TITLES):
        assert names - tool.metrics().keys() == set() if isinstance(names, frozenset) else names.keys() <= set(named)


def expressions() -> list[str]:
    boards = [json.loads(file.read_text()) for file in DEPLOYED.glob("dashboards/*.json")]
    panels = [panel for board in boards for panel in board["panels"] if panel["type"] != "row"]
    return [target["expr"] for panel in panels for target in panel["targets"]] + [rule["expr"] for rule in RULES]


@pytest.mark.parametrize("expression", expressions())
def test_every_metric_and_label_that_is_named_is_declared(expression: str) -> None:
    names = set(NAMED.findall(expression))
    labels = {label for name in names for label in declared()[name]} | {"job", "instance", "le"}

    assert names <= declared().keys()
    assert names or re.search(r"\b(etcd|temporal)_", expression)
    assert set(LABEL.findall(expression)) <= labels
    for by in re.findall(r"\bby \(([^)]*)\)", expression):
        assert set(by.split(", ")) <= labels


def test_panels_do_not_overlap_and_have_numbers_of_their_own(tool: ModuleType) -> None:
    for board in map(tool.dashboard, tool.TABLE):
        cells = [
            (x, y)
            for at in (panel["gridPos"] for panel in board["panels"])
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        ]
        assert len(set(cells)) == len(cells)
        assert max(x for x, _ in cells) < 24
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_every_rule_says_what_it_means_and_how_severe_it_is() -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES) > 35
    for rule in RULES:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert {"summary", "description"} <= rule["annotations"].keys()
        assert re.fullmatch(r"[1-9]\d*[smh]", rule.get("for", "1m"))


def test_every_rule_has_a_case_in_which_it_fires_and_one_in_which_not() -> None:
    fires: set[str] = set()
    fed: set[str] = set()
    for case in CASES:
        asked = [sample["labels"] for test in case["promql_expr_test"] for sample in test["exp_samples"]]
        fires |= {name for labels in asked for name in re.findall(r'alertname="(\w+)"', labels)}
        if all(not test["exp_samples"] for test in case["promql_expr_test"]):
            fed |= {re.split(r"[{]", series["series"])[0] for series in case["input_series"]}

    assert fires == {rule["alert"] for rule in RULES}
    named = {
        name for rule in RULES for name in re.findall(r"\b(?:wharfinger|scheduler|scheduling|etcd)_\w+", rule["expr"])
    }
    assert named <= fed, "the quiet case has every metric"


def test_rules_pass_their_cases() -> None:
    promtool = at_hand(PROMTOOL)
    if promtool is None:
        pytest.skip("there is no promtool, which `make release-check` builds")

    for step in ("check", "rules", "rules.yaml"), ("test", "rules", "rules_test.yaml"):
        done = subprocess.run([promtool, *step], cwd=DEPLOYED, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_pages_have_every_metric_and_every_alert(tool: ModuleType) -> None:
    metrics, alerts = tool.metrics_page(), tool.alerts_page()

    for metric in tool.metrics().values():
        assert f"| `{metric.name}` | {metric.kind} |" in metrics
    for rule in RULES:
        assert f"### {rule['alert']}\n" in alerts
    assert "[LostPods](alerts.md#lostpods)" in metrics
    assert "Prometheus evaluates it" in alerts.split("### SlowPlacement")[1].split("###")[0]
    assert "Prometheus and the web page" in alerts.split("### LostPods")[1].split("###")[0]
