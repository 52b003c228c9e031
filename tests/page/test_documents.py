"""docs/ui.md has every address, and every alert of the operations guide is evaluated, or named with why it is not."""

from __future__ import annotations

import re
from pathlib import Path

from tests.page.cluster import Page
from wharfinger.kubernetes.page import view as kubernetes_alerts
from wharfinger.page.alerts import etcd_health
from wharfinger.page.alerts.evaluation import SKIPPED
from wharfinger.page.web.api import routes
from wharfinger.placement.page import hub_alerts
from wharfinger.replay.page.view import ReplayView
from wharfinger.scheduling.page import worker_alerts
from wharfinger.scheduling.page.view import SchedulingView
from wharfinger.scheduling.page.worker_alerts import SEEN_EXPRESSIONS

RULES = [rule for one in (worker_alerts, kubernetes_alerts, hub_alerts, etcd_health) for rule in one.RULES]
NOT_EVALUATED = {one.expression: one for one in (*SchedulingView.unevaluated, *ReplayView.unevaluated)}
DOCS = Path(__file__).resolve().parents[2] / "docs"


def watched() -> set[str]:
    """The first cells of the tables of the section that lists the alerts, and the SDK's metrics that it names."""
    section = (DOCS / "operations.md").read_text().split("\n## Watch\n")[1].split("\n## ")[0]
    cells = {
        re.split(r"(?<!\\)\|", line)[1].replace("\\|", "|").replace("`", "").strip()
        for line in section.splitlines()
        if line.startswith("| ") and not line.startswith(("| ---", "| expression"))
    }
    last = section.split("The Temporal SDK's own metrics")[1]
    return cells | set(re.findall(r"`(temporal_\w+)`", last))


async def test_every_address_is_documented(page: Page) -> None:
    documented = set(re.findall(r"^\| `(/api/v1/[^`?]+)", (DOCS / "ui.md").read_text(), flags=re.M))

    found = [*routes(page.parts, lambda _: ""), *page.parts.routes()]
    assert {route.path for route in found} == documented


def test_every_alert_of_the_guide_is_evaluated_or_named() -> None:
    evaluated = {rule.expression for rule in RULES} | SEEN_EXPRESSIONS

    assert len(watched()) > 35, "the tables are read"
    assert evaluated | NOT_EVALUATED.keys() == watched()
    assert not evaluated & NOT_EVALUATED.keys()


async def test_what_is_not_evaluated_is_shown_with_why(page: Page) -> None:
    shown = {one.expression: one for one in page.parts.alerts.all()}

    assert watched() <= shown.keys()
    for expression in NOT_EVALUATED:
        assert shown[expression].state == SKIPPED
        assert shown[expression].value.startswith("not evaluated, because ")
    assert sum(one.state == SKIPPED for one in shown.values()) == len(NOT_EVALUATED)


def test_alerts_say_what_the_guide_says() -> None:
    guide = " ".join((DOCS / "operations.md").read_text().split())

    for name, means in [(rule.name, rule.means) for rule in RULES] + [
        (one.name, one.means) for one in NOT_EVALUATED.values()
    ]:
        first = means.split(":")[0].split(";")[0].split(",")[0]
        assert first in guide, name


def test_names_of_alerts_are_unique() -> None:
    names = [rule.name for rule in RULES] + [one.name for one in NOT_EVALUATED.values()]

    assert len(set(names)) == len(names)
