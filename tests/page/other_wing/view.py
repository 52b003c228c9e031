"""A view that is registered by its name alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wharfinger.page.parts import PageParts, PageView
from wharfinger.page.views import MenuEntry
from wharfinger.page.web.routes import Route, get


class QuotasView(PageView):
    """Quotas."""

    menu = (
        MenuEntry(
            "Quotas",
            55,
            {"/quotas": "quotas.js", "/quotas/{quota}": "quotas.js"},
            "M4 20L20 4M4 4h4v4H4z",
            key="q",
            needs="quotas",
        ),
    )

    def __init__(self, page: PageParts) -> None:
        super().__init__(page)
        self.quotas: list[str] = []
        self.topics = {"quotas": lambda _: {"quotas": self.quotas}}

    def routes(self) -> Iterable[Route]:
        """All quotas."""
        return [get("quotas", lambda _: {"quotas": self.quotas})]

    def status(self, namespace: str) -> dict[str, Any]:
        """Whether there are quotas."""
        return {"quotas": bool(self.quotas)}
