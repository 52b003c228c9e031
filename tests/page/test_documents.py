"""docs/ui.md has every address, every option, and the alerts are those of the operations guide."""

from __future__ import annotations

import re
from pathlib import Path

from tests.page.cluster import Page
from wharfinger.page.alerts import RULES
from wharfinger.page.api import Api

DOCS = Path(__file__).resolve().parents[2] / "docs"


async def test_every_address_is_documented(page: Page) -> None:
    documented = set(re.findall(r"^\| `(/api/v1/[^`?]+)", (DOCS / "ui.md").read_text(), flags=re.M))

    api = Api(page.parts, lambda _: "")
    assert {route.path for route in [*api.routes(), *api.acting()]} == documented


def test_alerts_say_what_the_guide_says() -> None:
    guide = " ".join((DOCS / "operations.md").read_text().split())

    for rule in RULES:
        first = rule.means.split(":")[0].split(";")[0].split(",")[0]
        assert first in guide, rule.name
