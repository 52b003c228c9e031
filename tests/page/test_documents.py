"""docs/ui.md has every address, and every rule of Prometheus is evaluated, or named as Prometheus'."""

from __future__ import annotations

import re
from pathlib import Path

from tests.page.cluster import Page
from wharfinger.kubernetes.page.view import KubernetesAlerts
from wharfinger.page.alerts.etcd_health import EtcdAlerts
from wharfinger.page.alerts.evaluation import LEFT, OF_PROMETHEUS
from wharfinger.page.alerts.rules import prometheus_rules
from wharfinger.page.web.api import routes
from wharfinger.placement.page.hub_alerts import HubAlerts
from wharfinger.scheduling.page.worker_alerts import WorkerAlerts

SOURCES = (WorkerAlerts, KubernetesAlerts, HubAlerts, EtcdAlerts)
OF_RATES = re.compile(r"\b(rate|increase|delta)\(")
DOCS = Path(__file__).resolve().parents[2] / "docs"


async def test_every_address_is_documented(page: Page) -> None:
    documented = set(re.findall(r"^\| `(/api/v1/[^`?]+)", (DOCS / "ui.md").read_text(), flags=re.M))

    found = [*routes(page.parts, lambda _: ""), *page.parts.routes()]
    assert {route.path for route in found} == documented


def test_the_page_evaluates_states_and_leaves_rates_to_prometheus() -> None:
    evaluated = [name for source in SOURCES for name in source.evaluated()]
    archive = {name for name in prometheus_rules() if name.startswith("Archive")}

    assert len(set(evaluated)) == len(evaluated), "each by one source"
    of_states = {name for name, rule in prometheus_rules().items() if not OF_RATES.search(rule.expression)}
    assert set(evaluated) == of_states - archive, "the page does not scrape archives"


async def test_rules_that_prometheus_evaluates_are_named(page: Page) -> None:
    shown = {one.name: one for one in page.parts.alerts.all()}
    left = prometheus_rules().keys() - {name for source in SOURCES for name in source.evaluated()}

    assert prometheus_rules().keys() <= shown.keys()
    assert {name for name, one in shown.items() if one.state == LEFT} == left
    assert {"StartFailures", "SlowPlacement", "EtcdDiskSlow", "ArchiveBehind"} <= left
    for name in left:
        assert shown[name].value == OF_PROMETHEUS
        assert shown[name].expression == prometheus_rules()[name].expression


async def test_alerts_have_the_words_of_their_rules(page: Page) -> None:
    own = set()
    for one in page.parts.alerts.all():
        rule = prometheus_rules().get(one.name)
        if rule is None:
            own.add(one.name)
            assert one.means
        else:
            assert (one.severity, one.means, one.expression) == (rule.severity, rule.means, rule.expression)
    assert own <= {"EtcdSilent", "EtcdUnhealthy", "NoHub"}
